"""`knowledge-forge run` and `runs`."""
