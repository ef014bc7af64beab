"""The seven cognitive agents, read from the folders beside this file."""
