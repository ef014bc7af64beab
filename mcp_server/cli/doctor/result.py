"""A finding of `doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge.wire.addresses import without_secrets
from mcp_server.cli.doctor.page_problems import PageProblem


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One checked thing: `found` says how it is, `mend` how to fix it, `pages` names the pages with problems."""

    what: str
    health: Literal["ok", "note", "bad"]
    found: str
    mend: str = ""
    pages: Sequence[PageProblem] = ()

    def __post_init__(self) -> None:
        # Settings and errors may quote an address with a password, even where a folder or a name belongs.
        object.__setattr__(self, "found", without_secrets(self.found))
        object.__setattr__(self, "mend", without_secrets(self.mend))
