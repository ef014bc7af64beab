"""Forms that ask a person through the host."""
