"""Where new text goes on a page, and in which form."""
