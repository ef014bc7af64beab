"""Understand: a person learns, objective by objective, each taught from pages and passed by their own answers."""
