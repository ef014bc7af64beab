"""The outer layer: the only package that uses MCP."""

VERSION = "0.1.0"
"""The version of the distribution too: pyproject.toml reads it here."""
