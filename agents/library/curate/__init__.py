"""The curate agent: from a question to a change of the knowledge base that was verified."""
