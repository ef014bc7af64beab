"""`knowledge-forge journeys`."""
