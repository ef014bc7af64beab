"""Positions for the pages of a graph of links."""
