"""What the wire formats of providers share."""
