"""Labelled questions for the router, the fit of its weights, and the report on how often it is right."""
