"""Pictures of phase graphs."""
