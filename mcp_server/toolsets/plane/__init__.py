"""Tools for tasks in Plane."""
