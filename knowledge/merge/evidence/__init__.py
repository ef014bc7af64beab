"""Merging evidence: where it belongs, what it is worth, what is written."""
