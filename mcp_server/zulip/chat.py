"""Channels, topics and people by the names that they have: what the tools, the notices and the evidence of merges speak to."""

from __future__ import annotations


class Chat:
    """One organisation's chat, as far as the settings let it be used."""
