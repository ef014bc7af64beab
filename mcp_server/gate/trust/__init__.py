"""Trust records: scores, grants, and how they follow decisions."""
