"""The build agent: from a goal to a finished change, phase by phase."""
