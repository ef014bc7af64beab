"""Curate: from a question to an act that is on record and verified, by map, page, passages and a conclusion."""
