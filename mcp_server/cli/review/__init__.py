"""`knowledge-forge review`."""
