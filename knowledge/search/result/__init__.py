"""What a search returns: snippets, layout and the scent."""
