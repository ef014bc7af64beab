"""Conditions of a team's agent."""
