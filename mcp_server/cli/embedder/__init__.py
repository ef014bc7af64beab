"""The verb `embedder`."""
