"""Acts on tasks: planned, shown, done once, and read back; one by one, or several as one act."""
