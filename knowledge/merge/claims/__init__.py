"""Claims in texts, and which of them contradict each other."""
