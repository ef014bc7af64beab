"""Texts of others, made safe and visible for HTML."""
