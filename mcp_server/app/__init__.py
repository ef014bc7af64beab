"""The composition root and the settings."""
