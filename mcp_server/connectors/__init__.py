"""What the connectors to other services share: requests and replies as values, one careful way to send them, names, errors."""
