"""What a user may set, and where things live."""
