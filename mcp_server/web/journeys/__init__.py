"""Pages about journeys."""
