"""Settings: from flags, environment and configuration file to values."""
