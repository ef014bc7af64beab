"""Cognitive agents: one folder of data each, with the steps that they share around it."""
