"""Keyword and vector indexes, and the indexer that keeps them in step with the files."""
