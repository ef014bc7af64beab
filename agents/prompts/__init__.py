"""The prompt that a host is given for a phase."""
