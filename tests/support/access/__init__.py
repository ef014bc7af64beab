"""A knowledge base with rules, and the same one without the pages that a caller may not read."""
