"""Projects and tasks by the names that people use: what the tools and the evidence of merges speak to."""

from __future__ import annotations


class Board:
    """The projects of one workspace, as far as the settings let them be used."""
