"""Finding: words, ranking, the circles and search."""

RECIPE = 2
"""Goes up whenever the same text would be stored as something else: an index made by another recipe is built anew."""
