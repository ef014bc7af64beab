"""Embedders: words in, vectors out."""
