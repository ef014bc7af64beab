"""Brings the index up to date with the pages before an answer from it, and says what it still lacks."""
