"""Tools for tasks in Plane. The names are here because `tools.py` must not import the schemas."""

TOOLSET = "plane"
