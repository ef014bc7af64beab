"""Agents that a team writes in YAML: read, checked, and built into the same graphs as the built-in ones."""
