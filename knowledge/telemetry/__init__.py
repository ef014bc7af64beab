"""What operators can see of the server's work: spans and durations, never texts."""
