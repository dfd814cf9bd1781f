"""The always-on part, and every surface."""
