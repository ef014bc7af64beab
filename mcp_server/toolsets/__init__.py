"""The tools, one folder for each toolset."""
