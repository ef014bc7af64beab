"""What the doctor has to say about one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge.wire.addresses import without_secrets
from mcp_server.cli.doctor.page_problems import PageProblem


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing looked at; `mend` says what to do where it is not well, `pages` names all the pages it is about."""

    what: str
    health: Literal["ok", "note", "bad"]
    found: str
    mend: str = ""
    pages: Sequence[PageProblem] = ()

    def __post_init__(self) -> None:
        # A person may have written an address with a password where a folder or a name belongs.
        object.__setattr__(self, "found", without_secrets(self.found))
        object.__setattr__(self, "mend", without_secrets(self.mend))
