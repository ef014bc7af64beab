"""Bringing the index up to date with the pages before an answer from it, and what it still lacks."""
