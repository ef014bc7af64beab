"""The language model that the settings name, and its uses besides runs."""
