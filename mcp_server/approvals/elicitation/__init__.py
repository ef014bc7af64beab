"""Asking a person through the host."""
