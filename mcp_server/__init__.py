"""The edge: the only package that knows MCP exists."""

VERSION = "0.1.0"
"""Also what the distribution is called by: pyproject.toml reads it here."""
