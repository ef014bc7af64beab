"""Where journeys are kept: the port and its implementations."""
