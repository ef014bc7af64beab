"""A configured model leads an agent over a knowledge base, beside the same model with the search tools alone."""
