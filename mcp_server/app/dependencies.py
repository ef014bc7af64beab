"""The parts that the composition root builds once.

They satisfy every protocol of `mcp_server/ports.py`; other packages know only those protocols.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio import CapacityLimiter

from knowledge.access.rules import UNRESTRICTED, PathAccess
from knowledge.search.reading_ledger import ReadingLedger
from knowledge.state.ports import IndexStore, StateStore
from mcp_server.absent import no_dispatcher, no_model, no_runs
from mcp_server.gate.caller import Clock
from mcp_server.gate.taint import Taints
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from agents.engine.runner import Runner
    from knowledge.contradictions.record import Contradictions
    from knowledge.contradictions.settlement import Settlements
    from knowledge.git.change_commits import ChangeCommits
    from knowledge.history.page_history import PageHistory
    from knowledge.history.timeline.comparison import Comparisons
    from knowledge.history.timeline.line_authors import LineAuthors
    from knowledge.history.timeline.timeline import Timeline
    from knowledge.search.finder import Finder
    from knowledge.search.tiers import Tiers
    from knowledge.writing.files.outside_changes import OutsideChanges
    from knowledge.writing.files.recovery import Recovery
    from knowledge.writing.related.followed_moves import FollowedMoves
    from knowledge.writing.undo.undo import Undo
    from knowledge.writing.writer import Writer
    from mcp_server.app.factories.writer import Writing
    from mcp_server.approvals.reviewers import work_deciders
    from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher
    from mcp_server.connectors.ports import Connector
    from mcp_server.models.language_model import ConfiguredModel
    from mcp_server.ports import CountHealth, ListedTool, WholeStateCopies, WorkReviewing
    from mcp_server.presenters.index_state import IndexState
    from mcp_server.runs.supervisor import Runs
    from mcp_server.web.link_graph.graphs import LinkGraphs
else:
    # Only where a person decides on a journey or answers a run.
    work_deciders = LateModule("mcp_server.approvals.reviewers.work_deciders")

MOST_WAITING = 100
"""The most calls of one process that may wait for a person at the same time; each polls several times a second."""


async def nowhere() -> str | None:
    """Return None: no process shows the review page."""
    return None


async def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Services:
    """Every part that tools may use. `load_…` import a part's code with the first call that needs it."""

    load_tiers: Callable[[], Tiers]
    load_finder: Callable[[], Finder]
    index: IndexStore
    state: StateStore
    now: Clock
    tools: Callable[[], Sequence[ListedTool]]
    ledger: ReadingLedger
    load_writing: Callable[[], Writing]
    load_journeys: Callable[[], Runner]
    load_link_graphs: Callable[[], Awaitable[LinkGraphs]]
    taints: Taints
    freshen_index: Callable[[float], Awaitable[IndexState]]
    page_health: CountHealth
    load_state_copies: Callable[[], WholeStateCopies]
    connectors: Mapping[str, Callable[[], Connector]] = field(default_factory=dict)
    load_dispatcher: Callable[[], OutboxDispatcher] = no_dispatcher
    load_model: Callable[[], ConfiguredModel] = no_model
    load_runs: Callable[[], Runs] = no_runs
    review_address: Callable[[], Awaitable[str | None]] = nowhere
    """Returns the address of the review page, without a login; None while no process shows it."""
    catch_up_pages: Callable[[], Awaitable[None]] = nothing
    """Brings pages that other machines wrote to this one. Called before every answer; cheap if there are none."""
    want_review: Callable[[], Awaitable[None]] = nothing
    """Shows the page because something is waiting for a person."""
    waiting: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MOST_WAITING))
    """Places for calls that wait for a person. Without a free place, a call is answered at once."""

    prevent_self_review: bool = False

    @property
    def work_reviewers(self) -> WorkReviewing:
        """Says who may decide on journeys and answer runs."""
        return work_deciders.WorkReviewers(
            self.state, lambda: self.journeys.store, prevent_self_review=self.prevent_self_review
        )

    @property
    def access(self) -> PathAccess:
        """The rights of the server itself and its owner: all."""
        return UNRESTRICTED

    async def may_see_work_of(self, principal_id: str) -> bool:
        """Return True: the server itself and its owner may see everything."""
        del principal_id
        return True

    @property
    def tiers(self) -> Tiers:
        """The map and whole pages."""
        return self.load_tiers()

    @property
    def finder(self) -> Finder:
        """The search in pages."""
        return self.load_finder()

    @property
    def writer(self) -> Writer:
        """The writer of pages."""
        return self.load_writing().writer

    @property
    def undo(self) -> Undo:
        """Takes changes of pages back."""
        return self.load_writing().undo

    @property
    def recovery(self) -> Recovery:
        """The recovery of changes that a process left half done."""
        return self.load_writing().acts.recovery

    @property
    def page_history(self) -> PageHistory:
        """The history of pages."""
        return self.load_writing().page_history

    @property
    def timeline(self) -> Timeline:
        """The changes of all pages, for people."""
        return self.load_writing().timeline

    @property
    def comparisons(self) -> Comparisons:
        """Any two states of a page."""
        return self.load_writing().comparisons

    @property
    def line_authors(self) -> LineAuthors:
        """Finds who wrote each line of a page, and why."""
        return self.load_writing().line_authors

    @property
    def outside_changes(self) -> OutsideChanges:
        """Records changes that editors made."""
        return self.load_writing().outside_changes

    @property
    def change_commits(self) -> ChangeCommits:
        """Finds the Git commits of changes."""
        return self.load_writing().change_commits

    @property
    def contradictions(self) -> Contradictions:
        """The contradictions on record."""
        return self.load_writing().contradictions

    @property
    def followed_moves(self) -> FollowedMoves:
        """Offers to rewrite links to pages that somebody moved outside the server."""
        return self.load_writing().followed_moves

    @property
    def settlements(self) -> Settlements:
        """Settles contradictions."""
        return self.load_writing().settlements

    @property
    def dispatcher(self) -> OutboxDispatcher:
        """The dispatcher of acts in other services."""
        return self.load_dispatcher()

    @property
    def journeys(self) -> Runner:
        """The runner of journeys."""
        return self.load_journeys()

    @property
    def model(self) -> ConfiguredModel:
        """The language model.

        Raises:
            NotConfigured: the settings name none.
        """
        return self.load_model()

    @property
    def has_runs(self) -> bool:
        """Whether a language model is configured."""
        return self.load_runs is not no_runs

    @property
    def runs(self) -> Runs:
        """The supervisor of `agent_run` runs.

        Raises:
            NotConfigured: the settings name no language model.
        """
        return self.load_runs()
