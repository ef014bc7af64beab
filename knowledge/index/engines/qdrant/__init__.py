"""Vector search in Qdrant."""
