"""The pages of contradictions."""
