"""The verbs about contradictions."""
