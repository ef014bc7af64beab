"""Keyword search in Meilisearch."""
