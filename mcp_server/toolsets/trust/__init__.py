"""Tools about trust and proposals."""
