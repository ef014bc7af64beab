"""The verb `reranker`."""
