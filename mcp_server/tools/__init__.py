"""Tools: one declaration each, one module a toolset."""
