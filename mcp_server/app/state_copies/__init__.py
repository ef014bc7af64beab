"""Saving, replacing and moving the whole state, for the verbs of `state` and for the site."""
