"""Keyword and vector indexes, and what keeps them equal to the files."""
