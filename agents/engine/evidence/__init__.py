"""What the server checks itself: quotes in pages, and what a journey learned."""
