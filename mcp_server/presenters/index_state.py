"""How complete an index is. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agents.engine.work.markdown import counted


@dataclass(frozen=True, slots=True)
class IndexState:
    """Whether the index has all pages as they are in their files.

    `pages` can be found; `waiting` pages are new, changed or gone and not yet in the index, for the reason `why`; the
    command `finish` completes it. `left_out` pages can't be indexed, as `doctor` explains, and nothing waits for them.
    """

    complete: bool
    pages: int
    left_out: int = 0
    waiting: int = 0
    why: str = ""
    finish: str = ""

    @property
    def lacks(self) -> str:
        """What the index lacks, as part of a sentence."""
        if not self.waiting:
            return "the index of words is behind the pages"
        return (
            f"{counted(self.waiting, 'page')} changed and {'is' if self.waiting == 1 else 'are'} not in the index yet"
        )
