"""A finding of `doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from knowledge.wire.addresses import without_secrets
from mcp_server.app.settings.values import LOOPBACK
from mcp_server.cli.doctor.page_problems import PageProblem


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One checked thing: its state, how to fix it, and the pages with problems."""

    what: str
    health: Literal["ok", "note", "bad"]
    found: str
    mend: str = ""
    pages: Sequence[PageProblem] = ()
    unused: bool = False
    """Nobody has set this up, which is no problem."""

    def __post_init__(self) -> None:
        # Settings and errors may quote an address with a password, even where a folder or a name belongs.
        object.__setattr__(self, "found", without_secrets(self.found))
        object.__setattr__(self, "mend", without_secrets(self.mend))


def ok(what: str, found: str, mend: str = "") -> DoctorFinding:
    """Return a finding that something is in order."""
    return DoctorFinding(what, "ok", found, mend)


def note(what: str, found: str, mend: str = "", pages: Sequence[PageProblem] = ()) -> DoctorFinding:
    """Return something that a person should know."""
    return DoctorFinding(what, "note", found, mend, pages)


def bad(what: str, found: str, mend: str = "") -> DoctorFinding:
    """Return something that must be fixed."""
    return DoctorFinding(what, "bad", found, mend)


def unencrypted(what: str, address: str, setting: str) -> Iterator[DoctorFinding]:
    """Yield a note if requests to the address cross a network unencrypted."""
    url = urlsplit(address)
    if url.scheme == "http" and url.hostname not in LOOPBACK:
        yield note(what, f"{setting} begins with http: others can read the key and all texts on their way", "use https")
