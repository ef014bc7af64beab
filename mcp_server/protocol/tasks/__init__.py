"""The tasks extension of MCP."""
