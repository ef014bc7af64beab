"""`knowledge-forge doctor`."""
