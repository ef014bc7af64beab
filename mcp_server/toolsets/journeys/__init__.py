"""Tools, prompts and resources of journeys."""
