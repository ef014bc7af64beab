"""Plane: projects and tasks. `wire` knows its words, `client` sends them, `board` speaks of tasks."""
