"""The edge: the only package that knows MCP exists."""
