"""Shortens stored texts when their retention ends."""
