"""The pages of history: what happened, who wrote which line, and two revisions side by side."""
