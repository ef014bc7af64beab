"""Pages about proposals."""
