"""The report of a journey."""
