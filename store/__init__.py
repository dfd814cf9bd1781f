"""The checkpoint library: silent, and knowing no socket, no watcher and no terminal."""
