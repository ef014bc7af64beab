"""Finding: words, ranking, the circles and search."""
