"""The caller of the current request, and the facts about the call."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from knowledge.access.rules import UNRESTRICTED, PathAccess
from knowledge.search.reading_ledger import Reader
from mcp_server.gate.host_registration import Principal

if TYPE_CHECKING:
    from knowledge.merge.model import Doubt
    from knowledge.writing.requests import Approval

# The SDK calls resources, prompts and completions without naming the caller, so the middleware stores the principal here.
caller: ContextVar[Principal | None] = ContextVar("caller", default=None)

Clock = Callable[[], datetime]
Report = Callable[[float, float | None, str], Awaitable[None]]
"""Reports progress to the caller: the amount done, the total (None if unknown), and a few words."""


async def unreported(_done: float, _total: float | None, _words: str) -> None:
    """Report to nobody."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call's caller and context: `origin` is `mcp` for a client's request, `inner` for a call by the server itself.

    Attributes:
        trusted: The caller has the tool's usual level, so the plan needs no preview.
        began: When the gate began with the call, on the gate's clock. A trust record read after it is valid for this call.
        earlier: Arguments of the same caller's earlier calls that are planned together with this one, oldest first.
        against: Texts that a person decided against in an earlier proposal.
        doubts: A language model's remarks on the texts in `against`.
        repeats: Digests of sentences from elsewhere that the call repeats, each with its source.
        approval: The approval under which the call is carried out.
        journey: The journey that the call belongs to, or "".
        run: The run of `agent_run` that makes the call, or "".
        key: The key under which the call can be looked up later.
        detached: The caller won't wait for slow work; it asks for the result later.
        report: Reports progress to the caller.
        access: What the caller may do in which folder.
    """

    principal: Principal
    origin: str = "mcp"
    trusted: bool = False
    began: float = math.inf  # no record is newer, so it is read again
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
    access: PathAccess = UNRESTRICTED

    @property
    def scopes(self) -> tuple[str, ...]:
        """Where untrusted reading is recorded for this call: its journey and its run, or "" outside both."""
        return tuple(scope for scope in (self.journey, self.run) if scope) or ("",)

    @property
    def reader(self) -> Reader:
        """The reader to record for a page: the principal, with the call's journey.

        Outside journeys the client takes the place of the journey, if the caller sends no token.
        """
        return Reader(
            self.principal.id, self.journey or (f"client:{self.principal.client}" if self.principal.client else "")
        )
