"""Keyword and vector engines behind the ports of the index."""
