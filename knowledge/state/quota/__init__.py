"""Quotas: how much each principal may store and start."""
