"""Shared by the connectors to other services: requests and replies as values, one careful way to send them, names, errors."""
