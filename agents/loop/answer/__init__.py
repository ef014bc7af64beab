"""Whether a run's answer addresses its goal."""
