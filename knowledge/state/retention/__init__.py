"""Shortening stored texts when their time is over."""
