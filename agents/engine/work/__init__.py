"""The work of a phase: its form, its fields, and what is missing in it."""
