"""Contradictions: found between pages, listed, dismissed by a person."""
