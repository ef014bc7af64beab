"""The limits on the calls of one caller, from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from knowledge.state.quota.bounds import Bound, Kind

Lane = Literal["read", "change", "none"]
"""Calls that read and calls that change pages take turns separately: a long merge keeps nobody from reading. Calls that only wait
for a person, a service or a run need no turn."""
WINDOW, SLOT = timedelta(minutes=1), timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The most calls of one principal in a minute, of searches and changes among them, and of calls at once. None: no limit."""

    calls: int | None = None
    heavy: int | None = None
    at_once: int | None = None

    @property
    def open(self) -> int | None:
        """The most open requests over HTTP. They include streams of events, which are not calls: each client may have one."""
        return None if self.at_once is None else 2 * self.at_once

    @property
    def bounds(self) -> Sequence[Bound]:
        """The limits on calls in a window of time."""
        named: Sequence[tuple[Kind, int | None, str]] = (
            ("called", self.calls, "FORGE_LIMIT_CALLS"),
            ("worked", self.heavy, "FORGE_LIMIT_HEAVY"),
        )
        return [Bound(kind, most, WINDOW, SLOT, setting) for kind, most, setting in named if most is not None]


FOR_A_TEAM = CallLimits(calls=1_200, heavy=600, at_once=64)
"""The limits over HTTP with sign-in, about ten times what a person with several hosts needs."""
