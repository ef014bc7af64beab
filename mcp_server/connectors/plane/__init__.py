"""Plane: requests, replies and texts."""
