"""Evidence: its sources, its citations, and the judge of contradictions."""
