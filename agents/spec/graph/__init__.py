"""Phases and transitions of a team's agent."""
