"""The page that searches the knowledge base, as `kb_search` does for hosts."""
