"""Task handles: a call that takes long, or waits for a person, is answered with a handle that any process can be asked about."""
