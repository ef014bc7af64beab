"""What a tool is handed: services built once, and the call it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter

from knowledge.errors import KnowledgeError
from knowledge.search.reading_ledger import Reader, ReadingLedger
from knowledge.state.ports import IndexStore, StateStore
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.taint import Taints

if TYPE_CHECKING:
    from agents.engine.runner import Runner
    from knowledge.history.page_history import PageHistory
    from knowledge.merge.model import Doubt
    from knowledge.search.chunk_tier import Finder
    from knowledge.search.tiers import Tiers
    from knowledge.writing.requests import Approval
    from knowledge.writing.writer import Writer
    from mcp_server.app.factories.writer import Writing
    from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher
    from mcp_server.connectors.plane.board import Board
    from mcp_server.connectors.zulip.chat import Chat
    from mcp_server.models.language_model import ConfiguredModel
    from mcp_server.runs.supervisor import Runs
    from mcp_server.toolsets.spec import ToolSpec

MOST_WAITING = 100
"""Calls of one process that may wait for a person at once; each looks for news several times a second."""

Clock = Callable[[], datetime]


Report = Callable[[float, float | None, str], Awaitable[None]]
"""Tells the caller how far a call is: what is done, of how much (None: nobody knows), and a few words."""


async def unreported(_done: float, _total: float | None, _words: str) -> None:
    """Tell nobody."""


async def nowhere() -> str | None:
    """Return that nobody shows the review page."""
    return None


async def nothing() -> None:
    """Do nothing."""


class NotConfigured(KnowledgeError):
    """A service that the settings do not name; its tools are not listed."""

    def __init__(self, service: str) -> None:
        self.service = service
        super().__init__(f"{service} is not configured here; `knowledge-forge doctor` says how")


def no_plane() -> Board:
    """Raise that there is no Plane here."""
    raise NotConfigured("Plane")


def no_zulip() -> Chat:
    """Raise that there is no Zulip here."""
    raise NotConfigured("Zulip")


def no_dispatcher() -> OutboxDispatcher:
    """Raise that nothing is sent anywhere from here."""
    raise NotConfigured("no other service")


def no_model() -> ConfiguredModel:
    """Raise that no language model is asked from here."""
    raise NotConfigured("a language model")


def no_runs() -> Runs:
    """Raise that nothing is run here."""
    raise NotConfigured("a language model")


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls a tool, and by which way: `mcp` for a client's request, `inner` for a call made by the server itself.

    `trusted`: the caller holds the level that the tool usually needs, so that a plan need not show anybody its effect.
    `against` are texts that a person decided against, `doubts` what a model held of them then, `repeats` the sentences of somebody
    else's that the call was found to repeat when it was put to them. `approval` is what the person
    agreed to, `journey` the journey that the call belongs to, "" for none. `run` is the run of `agent_run` that makes the call,
    `key` what it can be looked up by afterwards.
    `detached`: the caller does not wait for what takes long, and asks for it later. `report` tells the caller how far it is.
    """

    principal: Principal
    origin: str = "mcp"
    trusted: bool = False
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


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that tools may use. A tool depends on these, never on a request."""

    load_circles: Callable[[], Tiers]
    load_finder: Callable[[], Finder]
    index: IndexStore
    state: StateStore
    now: Clock
    tools: Callable[[], Sequence[ToolSpec[Any, Any, Any]]]
    ledger: ReadingLedger
    load_writing: Callable[[], Writing]
    load_journeys: Callable[[], Runner]
    taints: Taints
    load_plane: Callable[[], Board] = no_plane
    load_zulip: Callable[[], Chat] = no_zulip
    load_courier: Callable[[], OutboxDispatcher] = no_dispatcher
    load_model: Callable[[], ConfiguredModel] = no_model
    load_runs: Callable[[], Runs] = no_runs
    review_address: Callable[[], Awaitable[str | None]] = nowhere
    """Where people decide, without any login; None while nobody shows it."""
    want_review: Callable[[], Awaitable[None]] = nothing
    """Have the page shown, because something waits for a person."""
    waiting: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MOST_WAITING))
    """Room for calls that wait for a person. One that finds none is answered at once."""

    @property
    def tiers(self) -> Tiers:
        """Return the first two circles; their code is loaded with the first call that needs it."""
        return self.load_circles()

    @property
    def finder(self) -> Finder:
        """Return the third circle, likewise."""
        return self.load_finder()

    @property
    def writer(self) -> Writer:
        """Return what changes pages, likewise."""
        return self.load_writing().writer

    @property
    def page_history(self) -> PageHistory:
        """Return what tells of changes, likewise."""
        return self.load_writing().page_history

    @property
    def plane(self) -> Board:
        """Return the projects and tasks of Plane, likewise.

        Raises:
            NotConfigured: the settings name none.
        """
        return self.load_plane()

    @property
    def zulip(self) -> Chat:
        """Return the channels and messages of Zulip, likewise.

        Raises:
            NotConfigured: the settings name none.
        """
        return self.load_zulip()

    @property
    def elsewhere(self) -> bool:
        """Return whether any other service is configured."""
        return self.load_plane is not no_plane or self.load_zulip is not no_zulip

    @property
    def dispatcher(self) -> OutboxDispatcher:
        """Return what does acts in other services, likewise."""
        return self.load_courier()

    @property
    def journeys(self) -> Runner:
        """Return what leads journeys, likewise."""
        return self.load_journeys()

    @property
    def model(self) -> ConfiguredModel:
        """Return the language model, likewise.

        Raises:
            NotConfigured: the settings name none.
        """
        return self.load_model()

    @property
    def runs(self) -> Runs:
        """Return what leads runs of `agent_run`, likewise.

        Raises:
            NotConfigured: the settings name no language model.
        """
        return self.load_runs()
