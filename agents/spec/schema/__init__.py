"""The schema of the work of a phase."""
