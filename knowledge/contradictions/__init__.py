"""Contradictions between pages: finding them, listing them, and a person's decisions on them."""
