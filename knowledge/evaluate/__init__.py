"""Evaluates search: measures, query sets, runs and their comparison."""
