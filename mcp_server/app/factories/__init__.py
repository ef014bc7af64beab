"""What builds each part from the settings."""
