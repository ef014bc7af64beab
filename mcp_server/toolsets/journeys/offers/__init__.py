"""Prompts, resources and completions for journeys."""
