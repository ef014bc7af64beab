"""Finding: how text becomes terms, the three tiers (map, page, search), times, routing and ranking."""

RECIPE = 18
"""Raise it whenever the same page would be stored differently: an index with another recipe is rebuilt."""
