"""People's decisions about contradictions, and the proposals that these decisions answer."""
