"""`knowledge-forge demo`."""
