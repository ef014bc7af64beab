"""The graph of links: around one page, and of the whole knowledge base."""
