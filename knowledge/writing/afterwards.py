"""What is left to do after an act."""

from __future__ import annotations

from contextlib import ExitStack

from knowledge.writing.files import Save


class Afterwards(ExitStack):
    """What lies beside the pages is removed, and what the act displaced is looked after."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[Save] = []

    def met_at(self, path: str) -> list[bytes]:
        """Return once what acts met at the page and took back or wrote over, the oldest first."""
        met = [save.raw for save in self.met if save.path == path]
        self.met = [save for save in self.met if save.path != path]
        return met
