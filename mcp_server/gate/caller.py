"""Who makes the request that is being answered, for what the SDK calls without saying."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from knowledge.search.reading_ledger import Reader
from mcp_server.gate.host_registration import Principal

if TYPE_CHECKING:
    from knowledge.merge.model import Doubt
    from knowledge.writing.requests import Approval

caller: ContextVar[Principal | None] = ContextVar("caller", default=None)


Clock = Callable[[], datetime]


Report = Callable[[float, float | None, str], Awaitable[None]]
"""Tells the caller how far a call is: what is done, of how much (None: nobody knows), and a few words."""


async def unreported(_done: float, _total: float | None, _words: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls a tool, and by which way: `mcp` for a client's request, `inner` for a call made by the server itself.

    `trusted`: the caller holds the level that the tool usually needs, so that a plan need not show anybody its effect.
    `began` is when the gate began with the call, on its own clock: what was read of the caller's trust since then counts.
    `earlier` are the arguments of calls of the same caller that are planned together with this one, oldest first.
    `against` are texts that a person decided against, `doubts` what a model held of them then, `repeats` the sentences of somebody
    else's that the call was found to repeat when it was put to them. `approval` is what the person
    agreed to, `journey` the journey that the call belongs to, "" for none. `run` is the run of `agent_run` that makes the call,
    `key` what it can be looked up by afterwards.
    `detached`: the caller does not wait for what takes long, and asks for it later. `report` tells the caller how far it is.
    """

    principal: Principal
    origin: str = "mcp"
    trusted: bool = False
    began: float = math.inf
    earlier: tuple[Any, ...] = ()
    against: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    repeats: tuple[tuple[bytes, str], ...] = ()
    approval: Approval | None = None
    journey: str = ""
    run: str = ""
    key: str = ""
    detached: bool = False
    report: Report = unreported

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return in what the caller's reading is remembered: the journey and the run of the call, or "" outside of both."""
        return tuple(scope for scope in (self.journey, self.run) if scope) or ("",)

    @property
    def reader(self) -> Reader:
        """Return in whose name looks are noted."""
        return Reader(self.principal.id, self.journey)
