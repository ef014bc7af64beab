"""What evidence rests on: its sources, its citations, and the judge of contradictions."""
