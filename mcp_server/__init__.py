"""The edge: the only package that knows MCP exists."""

VERSION = "0.1.0"
"""The version of the distribution too: pyproject.toml reads it here."""
