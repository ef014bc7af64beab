"""Changing files of the knowledge base: atomic, recorded, recoverable, next to editors that know nothing of us."""
