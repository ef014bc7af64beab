"""The databases: what they promise (ports), plain memory (the specification), SQLite."""
