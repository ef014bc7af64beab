"""`knowledge-forge agents`."""
