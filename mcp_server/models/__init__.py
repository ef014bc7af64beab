"""Language models: the one that the settings name, and what it helps with beside runs."""
