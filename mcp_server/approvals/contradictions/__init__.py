"""What people decide about contradictions, and the proposals that it answers."""
