"""Servers that stand in for real ones in tests."""
