"""The knowledge base as a caller whose rights are limited may read it."""
