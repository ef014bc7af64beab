"""Stores of the history."""
