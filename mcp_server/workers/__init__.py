"""Processes that compute for the server, so that it can answer other callers meanwhile and can stop the work."""
