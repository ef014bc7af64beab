"""The parts of the server that each other part may use, as protocols. Only the composition root knows what implements them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from anyio import CapacityLimiter

    from agents.engine.runner import Runner
    from agents.loop.record.run import Run
    from agents.loop.store.ports import RunStore
    from knowledge.access.rules import PathAccess
    from knowledge.contradictions.record import Contradictions
    from knowledge.contradictions.settlement import Settlements
    from knowledge.git.change_commits import ChangeCommits
    from knowledge.history.page_history import PageHistory
    from knowledge.history.timeline.comparison import Comparisons
    from knowledge.history.timeline.line_authors import LineAuthors
    from knowledge.history.timeline.timeline import Timeline
    from knowledge.search.finder import Finder
    from knowledge.search.maps.page_health import PageHealth
    from knowledge.search.reading_ledger import ReadingLedger
    from knowledge.search.tiers import Tiers
    from knowledge.state.ports import Event, IndexStore, StateStore
    from knowledge.writing.files.outside_changes import OutsideChanges
    from knowledge.writing.files.recovery import Recovery
    from knowledge.writing.related.followed_moves import FollowedMoves
    from knowledge.writing.undo.undo import Undo
    from knowledge.writing.writer import Writer
    from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher
    from mcp_server.connectors.ports import Connector
    from mcp_server.gate.caller import Clock
    from mcp_server.gate.policy import Trust
    from mcp_server.gate.taint import Taints
    from mcp_server.models.language_model import ConfiguredModel
    from mcp_server.presenters.index_state import IndexState
    from mcp_server.presenters.whole_state import PlannedMove, PlannedRestore, SavedState, StateOverview
    from mcp_server.runs.supervisor import Runs
    from mcp_server.web.link_graph.graphs import LinkGraphs


class ListedTool(Protocol):
    """The facts about a listed tool that other parts may use."""

    @property
    def name(self) -> str:
        """The name that hosts call."""

    @property
    def toolset(self) -> str:
        """The toolset that settings turn on or off."""

    @property
    def description(self) -> str:
        """The description that models read."""

    @property
    def needs(self) -> Trust:
        """The level that a call usually needs."""

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing anywhere."""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""


class HasState(Protocol):
    """The state database and the clock that its records are dated by."""

    @property
    def state(self) -> StateStore:
        """Everything that the server keeps apart from pages."""

    @property
    def now(self) -> Clock:
        """The time, in UTC."""


class HasTools(Protocol):
    """The tools that this server lists."""

    @property
    def tools(self) -> Callable[[], Sequence[ListedTool]]:
        """All of them, in the order of the list."""


class HasAccess(Protocol):
    """The rights of the caller of the present request in the folders."""

    @property
    def access(self) -> PathAccess:
        """The caller's rights in folders; outside of a request, everything."""

    async def may_see_work_of(self, principal_id: str) -> bool:
        """Return whether the caller may read all that the principal may, and so see what it has done."""


class WorkReviewing(Protocol):
    """Who may decide on journeys and answer runs."""

    async def on_journey(self, journey: str, decision: str, principal: str) -> str:
        """Return why this person can't decide so on the journey, as the end of a sentence; "" if they can."""

    async def on_run(self, run: Run, principal: str) -> str:
        """Return why this person can't answer the run, as the end of a sentence; "" if they can."""


class HasWorkReviewers(Protocol):
    """The reviewers of what journeys and runs change."""

    @property
    def work_reviewers(self) -> WorkReviewing:
        """Says who may decide on journeys and answer runs."""


class HasTaints(Protocol):
    """The unverified text that each caller has read."""

    @property
    def taints(self) -> Taints:
        """The record of that reading."""


class HasPages(Protocol):
    """Reading and searching pages."""

    @property
    def tiers(self) -> Tiers:
        """The map and whole pages."""

    @property
    def finder(self) -> Finder:
        """The search in pages."""

    @property
    def index(self) -> IndexStore:
        """The index of the pages."""

    @property
    def ledger(self) -> ReadingLedger:
        """The record of which caller has read which page."""

    @property
    def catch_up_pages(self) -> Callable[[], Awaitable[None]]:
        """Brings pages that other machines wrote to this one."""


class HasWriting(Protocol):
    """Changes to pages, and their history."""

    @property
    def writer(self) -> Writer:
        """Plans and makes changes to pages."""

    @property
    def undo(self) -> Undo:
        """Takes changes of pages back for a person."""

    @property
    def recovery(self) -> Recovery:
        """Finishes changes that a process left half done."""

    @property
    def page_history(self) -> PageHistory:
        """The changes that were made."""

    @property
    def timeline(self) -> Timeline:
        """The changes of all pages, for people."""

    @property
    def comparisons(self) -> Comparisons:
        """Any two states of a page."""

    @property
    def line_authors(self) -> LineAuthors:
        """Who wrote each line of a page, and why."""

    @property
    def outside_changes(self) -> OutsideChanges:
        """Brings changes that editors made on record, before histories are shown."""

    @property
    def change_commits(self) -> ChangeCommits:
        """Finds the Git commits of changes."""

    @property
    def contradictions(self) -> Contradictions:
        """The contradictions on record."""

    @property
    def followed_moves(self) -> FollowedMoves:
        """Offers to rewrite links to pages that somebody moved outside the server."""

    @property
    def settlements(self) -> Settlements:
        """Settles contradictions for a person."""


class HasReviewPage(Protocol):
    """The page on which people decide."""

    @property
    def review_address(self) -> Callable[[], Awaitable[str | None]]:
        """Its address, without any login; None while nobody shows it."""

    @property
    def want_review(self) -> Callable[[], Awaitable[None]]:
        """Show the page, because something waits for a person."""


class HasWaits(Protocol):
    """Places for calls that wait for a person."""

    @property
    def waiting(self) -> CapacityLimiter:
        """The limit of calls that wait at once. A call above it is answered at once."""


class HasJourneys(Protocol):
    """Journeys through the phases of agents."""

    @property
    def journeys(self) -> Runner:
        """Starts and continues journeys."""


class HasRuns(Protocol):
    """Runs in which the server itself asks a language model."""

    @property
    def has_runs(self) -> bool:
        """Whether a language model is configured."""

    @property
    def runs(self) -> Runs:
        """Starts and continues runs.

        Raises:
            NotConfigured: the settings name no language model.
        """


class HasModel(Protocol):
    """The language model that the settings name."""

    @property
    def model(self) -> ConfiguredModel:
        """The model.

        Raises:
            NotConfigured: the settings name none.
        """


class HasOutbox(Protocol):
    """Acts in other services, each done once."""

    @property
    def dispatcher(self) -> OutboxDispatcher:
        """The dispatcher that does them."""


class HasConnectors(Protocol):
    """The services besides the knowledge base."""

    @property
    def connectors(self) -> Mapping[str, Callable[[], Connector]]:
        """Those that are configured, by the name that their sources begin with (`plane:KB-12`); each is loaded when called.

        A toolset reads its own with `connectors.ports.connector_of`.
        """


class WaitServices(HasState, HasWaits, Protocol):
    """Used by calls that wait until a person has decided."""


class DecidingServices(HasJourneys, HasWorkReviewers, Protocol):
    """To record people's decisions on journeys and their answers to runs."""


class ElicitationServices(DecidingServices, HasState, HasReviewPage, HasTaints, HasWaits, HasRuns, Protocol):
    """To ask a person a question in a form of their host."""


class GateServices(
    DecidingServices, HasState, HasReviewPage, HasTaints, HasTools, HasRuns, HasPages, HasAccess, Protocol
):
    """To decide on calls and to record them in the journey they belong to."""


class ProtocolServices(GateServices, HasWaits, Protocol):
    """For what the protocol offers besides tools: resources, prompts, completions, tasks, forms."""


class MentionServices(HasState, HasPages, HasConnectors, Protocol):
    """To find the tasks and messages that mention a page."""


class NoticeServices(HasState, HasReviewPage, HasPages, HasOutbox, HasConnectors, Protocol):
    """To tell people in Zulip that something waits for them, and to act there."""


class TrustServices(HasState, HasReviewPage, HasTaints, HasTools, HasWaits, Protocol):
    """For the tools about trust and proposals."""


class KnowledgeServices(
    HasState, HasTaints, HasTools, HasPages, HasWriting, HasModel, HasConnectors, HasJourneys, HasAccess, Protocol
):
    """For the tools on pages."""


class JourneyServices(DecidingServices, HasState, HasReviewPage, HasTaints, HasTools, HasPages, Protocol):
    """For the tools on journeys."""


class AskingServices(JourneyServices, HasOutbox, HasConnectors, Protocol):
    """To ask the question of a journey's checkpoint in Zulip, and to find the answer there."""


class RunViewServices(DecidingServices, HasState, HasReviewPage, HasTaints, HasTools, HasRuns, Protocol):
    """To show a run and to answer its question."""


class RunServices(RunViewServices, HasWriting, HasModel, HasOutbox, Protocol):
    """For the tools on runs."""


class ActServices(HasState, HasReviewPage, HasTaints, HasPages, HasOutbox, HasConnectors, Protocol):
    """For the tools on tasks and messages in other services."""


class HasFreshness(Protocol):
    """The index, compared with the pages."""

    @property
    def freshen_index(self) -> Callable[[float], Awaitable[IndexState]]:
        """Bring the index up to date for at most so many seconds, and return what it still lacks."""


class HasLinkGraph(Protocol):
    """The graph of links between pages."""

    @property
    def load_link_graphs(self) -> Callable[[], Awaitable[LinkGraphs]]:
        """The graph, and its computation."""


class HasPageHealth(Protocol):
    """What may need care among the pages."""

    @property
    def page_health(self) -> CountHealth:
        """Counts it."""


class WholeStateCopies(Protocol):
    """The whole state while it is in use: where it is, backups of it, and rehearsals of replacing or moving it."""

    async def overview(self) -> StateOverview:
        """Return where the state is and which backups are known."""

    async def save(self, folder: str) -> SavedState:
        """Save the state in a new file in that folder, "" for the one for backups.

        Raises:
            MoveRefused: it can't be saved there.
        """

    async def rehearse_restore(self, path: str, backup: str = "") -> PlannedRestore:
        """Return what restoring would do from the file at `path`, or from the known backup with that id.

        Raises:
            MoveRefused, StorageError: it is no backup.
        """

    async def rehearse_move(self, url: str, schema: str = "") -> PlannedMove:
        """Return what moving the state to that database would do, "" to the file in the state folder.

        Raises:
            MoveRefused, StorageError: it can't be reached, or the move is not possible.
        """


class HasStateCopies(Protocol):
    """The whole state, for a person who saves, replaces or moves it."""

    @property
    def load_state_copies(self) -> Callable[[], WholeStateCopies]:
        """The copies of the state."""


class CountHealth(Protocol):
    """Counts what may need care among all pages."""

    async def __call__(self, now_ns: int, *, apart: bool) -> PageHealth:
        """Return it; `apart`: counted in another process, which keeps this one small."""


class WebServices(GateServices, HasWriting, HasFreshness, HasLinkGraph, HasPageHealth, HasStateCopies, Protocol):
    """For the pages that people look at."""


class SiteServices(WebServices, HasAccess, Protocol):
    """For the site: the services of its owner, and the same ones as each person may use them."""

    @property
    def run_records(self) -> RunStore:
        """The recorded runs, which can be shown without a language model."""

    def as_person(self, principal_id: str) -> AbstractAsyncContextManager[SiteServices]:
        """Show only what the person may read while the block runs, also in these services; yield those that always do."""

    def shown(self) -> AbstractContextManager[None]:
        """Show only what these services show, also in those that they were made from, while the block runs."""

    async def is_current(self) -> bool:
        """Return whether the person still has the rights by which these services show pages."""

    async def readable_changes(self, changes: Collection[Event]) -> Collection[Event]:
        """Return those of the changes that the person may learn of."""


class AllServices(
    HasState,
    HasReviewPage,
    HasTaints,
    HasTools,
    HasWaits,
    HasRuns,
    HasPages,
    HasWriting,
    HasModel,
    HasOutbox,
    HasConnectors,
    DecidingServices,
    HasAccess,
    Protocol,
):
    """Everything: to execute whichever tool a person has approved."""
