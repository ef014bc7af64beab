"""The gate: identifies callers, knows how far they are trusted, and decides whether a call may pass."""
