"""Texts between Plane's HTML and Markdown."""
