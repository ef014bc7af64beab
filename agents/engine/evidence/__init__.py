"""Checks by the server itself: quotes in pages, and a journey's learnings."""
