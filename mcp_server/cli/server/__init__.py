"""Verbs about the server: serve, install, state, reference."""
