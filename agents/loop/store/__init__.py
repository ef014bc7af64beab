"""Where runs are kept: the port and its implementations."""
