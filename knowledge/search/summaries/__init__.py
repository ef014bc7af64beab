"""One-line summaries of pages for the map."""
