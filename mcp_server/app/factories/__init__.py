"""Builds each part from the settings."""
