"""Checks by the server itself: quotes in pages, and what a journey learned."""
