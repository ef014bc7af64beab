"""Locks on pages."""
