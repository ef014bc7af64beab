"""The gate: who is calling, how far they are trusted, and whether this call may pass."""
