"""What a tool is handed: services built once, and the call it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anyio import CapacityLimiter

from knowledge.search.reading_ledger import ReadingLedger
from knowledge.state.ports import IndexStore, StateStore
from mcp_server.app.absent import no_dispatcher, no_model, no_plane, no_runs, no_zulip
from mcp_server.gate.caller import Clock
from mcp_server.gate.taint import Taints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.engine.runner import Runner
    from knowledge.history.page_history import PageHistory
    from knowledge.search.chunk_tier import Finder
    from knowledge.search.tiers import Tiers
    from knowledge.writing.writer import Writer
    from mcp_server.app.factories.writer import Writing
    from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher
    from mcp_server.connectors.plane.board import Board
    from mcp_server.connectors.zulip.chat import Chat
    from mcp_server.gate.policy import Trust
    from mcp_server.models.language_model import ConfiguredModel
    from mcp_server.runs.supervisor import Runs

MOST_WAITING = 100
"""Calls of one process that may wait for a person at once; each looks for news several times a second."""


async def nowhere() -> str | None:
    """Return that nobody shows the review page."""
    return None


async def nothing() -> None:
    """Do nothing."""


class ListedTool(Protocol):
    """What others may know of a tool that this server lists."""

    @property
    def name(self) -> str:
        """The name that hosts call."""

    @property
    def toolset(self) -> str:
        """The toolset that settings turn on or off."""

    @property
    def description(self) -> str:
        """What models read."""

    @property
    def needs(self) -> Trust:
        """The level that a call usually needs."""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that tools may use. A tool depends on these, never on a request."""

    load_circles: Callable[[], Tiers]
    load_finder: Callable[[], Finder]
    index: IndexStore
    state: StateStore
    now: Clock
    tools: Callable[[], Sequence[ListedTool]]
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
