"""Text to vectors: the port and its implementations."""
