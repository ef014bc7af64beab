"""Requests as values, and what can go wrong with one."""
