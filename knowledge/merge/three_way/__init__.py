"""The three-way merge."""
