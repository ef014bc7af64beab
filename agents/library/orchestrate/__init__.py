"""The orchestrate agent: a plan of tasks, checked by rules and scored."""
