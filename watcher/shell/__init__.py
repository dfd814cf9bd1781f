"""Which files a shell command may change, read from its text by a parser of the shell's language."""
