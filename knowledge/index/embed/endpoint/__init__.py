"""Embeddings from an OpenAI-compatible endpoint."""
