"""Processes that compute for the server, so that it can answer others meanwhile, and stop them."""
