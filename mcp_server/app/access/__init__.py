"""What a caller whose rights are limited is served: the knowledge base as they may read it."""
