"""Joining knowledge without losing any: blocks, three-way merge, confidence, contradictions. Pure."""
