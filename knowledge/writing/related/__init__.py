"""Other pages that an act concerns: backlinks, targets, contradictions."""
