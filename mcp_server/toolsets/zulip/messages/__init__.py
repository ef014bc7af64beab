"""Messages and reactions: planned, shown, and sent once."""
