"""Paths for what comes in, and links that follow them."""
