"""Orchestrate: a plan that rules validate, an implementation that shows itself, and a judge whose score is held to its reasons."""
