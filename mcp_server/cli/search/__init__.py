"""Verbs that find and measure: search, map, read, index, eval."""
