"""Phases that all cognitive agents share."""
