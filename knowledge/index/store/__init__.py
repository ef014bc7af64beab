"""The database of the index."""
