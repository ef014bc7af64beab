"""Formats shared by several packages: cursors, compressed texts, schemas, validation errors."""
