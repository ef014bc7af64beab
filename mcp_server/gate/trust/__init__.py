"""Trust records: scores, grants, and how decisions change them."""
