"""Measuring how well a knowledge base is found: measures, query sets, runs and their comparison."""
