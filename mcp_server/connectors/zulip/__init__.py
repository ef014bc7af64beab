"""Zulip: requests, replies and texts."""
