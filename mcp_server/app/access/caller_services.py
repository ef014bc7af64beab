"""The services as the caller of the present request may use them.

Everything that hosts reach (tools, resources, prompts, completions, forms) gets these services, and the gate and the middleware bind
the caller before any of it runs. So a new tool is limited without any code of its own: for it, hidden pages do not
exist.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

import anyio
from anyio import CapacityLimiter

from knowledge.access.rules import UNRESTRICTED, NoRightThere, PathAccess
from knowledge.errors import KnowledgeError, StorageError
from mcp_server.app.dependencies import Services
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.trust.folder_rights import LoadAccess
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from agents.catalogue import Catalogue
    from agents.engine.evidence.second_judge import SubstanceJudge
    from agents.engine.runner import Runner
    from agents.loop.store.ports import RunStore
    from knowledge.contradictions.record import Contradictions
    from knowledge.contradictions.settlement import Settlements
    from knowledge.git.change_commits import ChangeCommits
    from knowledge.history.page_history import PageHistory
    from knowledge.history.timeline.comparison import Comparisons
    from knowledge.history.timeline.line_authors import LineAuthors
    from knowledge.history.timeline.timeline import Timeline
    from knowledge.search.finder import Finder
    from knowledge.search.reading_ledger import ReadingLedger
    from knowledge.search.tiers import Tiers
    from knowledge.state.ports import Event, IndexPosition, IndexStore, StateStore
    from knowledge.state.quota.bounds import Quotas
    from knowledge.writing.files.outside_changes import OutsideChanges
    from knowledge.writing.files.recovery import Recovery
    from knowledge.writing.related.followed_moves import FollowedMoves
    from knowledge.writing.undo.undo import Undo
    from knowledge.writing.writer import Writer
    from mcp_server.app.access import readable_state, seen_journeys, seen_runs
    from mcp_server.app.access.reading_views import OpenView, ReadingView
    from mcp_server.app.factories import journey_store, page_health
    from mcp_server.app.factories.writer import Writing
    from mcp_server.app.freshness import fresh_index
    from mcp_server.app.knowledge_base import KnowledgeBase
    from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher
    from mcp_server.connectors.ports import Connector
    from mcp_server.gate.caller import Clock
    from mcp_server.gate.taint import Taints
    from mcp_server.models.language_model import ConfiguredModel
    from mcp_server.ports import CountHealth, ListedTool, WholeStateCopies, WorkReviewing
    from mcp_server.presenters.index_state import IndexState
    from mcp_server.runs import locations as run_locations
    from mcp_server.runs.supervisor import Runs
    from mcp_server.web.link_graph.graphs import LinkGraphs
else:
    journey_store = LateModule("mcp_server.app.factories.journey_store")
    page_health = LateModule("mcp_server.app.factories.page_health")
    fresh_index = LateModule("mcp_server.app.freshness.fresh_index")
    readable_state = LateModule("mcp_server.app.access.readable_state")
    seen_journeys = LateModule("mcp_server.app.access.seen_journeys")
    seen_runs = LateModule("mcp_server.app.access.seen_runs")
    run_locations = LateModule("mcp_server.runs.locations")


@dataclass(frozen=True, slots=True)
class ViewBuilders:
    """Functions that build the parts of a view: what changes pages, the runner of journeys, and the count of page health.

    `lacks(view, why)` returns what the index of the view lacks; `why` says why something may be missing.
    """

    write: Callable[[ReadingView], Writing]
    lead: Callable[[ReadingView], Runner]
    count_health: Callable[[ReadingView], CountHealth]
    lacks: Callable[[ReadingView, str], Awaitable[IndexState]]


class SharedView:
    """A view with the parts that are built from it, for all callers who may read the same."""

    def __init__(
        self,
        view: ReadingView,
        access: PathAccess,
        services: Services,
        parts: ViewBuilders,
        may_see: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.view, self._services, self._parts = view, services, parts
        self.state = cast("StateStore", readable_state.ReadableState(services.state, view.ledger, access, may_see))
        self._announced: tuple[int, IndexPosition] | None = None
        self._has_news = True

    async def begin_news(self) -> None:
        """Note the state of the index when the first caller is served here. Only later changes are news."""
        if self._announced is None:
            self._announced = 0, await self.view.index.position()

    async def has_news(self, seq: int) -> bool:
        """Return whether a readable page may have changed since the last event that was asked about; `seq` is the event's number."""
        if self._announced is None or self._announced[0] != seq:
            position = await self.view.index.position()
            self._has_news = self._announced is None or self._announced[1] != position
            self._announced = seq, position
        return self._has_news

    @cached_property
    def writing(self) -> Writing:
        """The parts that change pages."""
        return self._parts.write(self.view)

    @cached_property
    def journeys(self) -> Runner:
        """The runner of journeys."""
        return self._parts.lead(self.view)

    @property
    def count_health(self) -> CountHealth:
        """Counts what may need care among the readable pages."""
        return self._parts.count_health(self.view)

    async def freshen_index(self, wait_s: float) -> IndexState:
        """Bring the whole index up to date, then that of the readable pages, and return what the second one still lacks."""
        whole = await self._services.freshen_index(wait_s)
        await self.view.follow()
        return await self._parts.lacks(self.view, whole.why)


@dataclass(frozen=True, slots=True)
class BoundCaller:
    """The caller of the present request. Without a view it may read everything."""

    principal: Principal
    access: PathAccess
    shared: SharedView | None


_bound: ContextVar[BoundCaller | None] = ContextVar("bound_caller", default=None)


class CallerServices:
    """Satisfies `AllServices` and `SiteServices`. Outside of a request, as in the background work of the server, nothing is hidden.

    Each property is either made from the caller's view or holds nothing that a caller could read; a test compares the list with the
    protocol, so that nothing new is passed on unseen.
    """

    def __init__(
        self,
        services: Services,
        load_access: LoadAccess,
        open_view: OpenView,
        build: Callable[[CallerServices], ViewBuilders],
    ) -> None:
        self._services, self._load_access, self._open_view = services, load_access, open_view
        self._builders = build(self)
        self._fixed: BoundCaller | None = None
        self._told: IndexPosition | None = None
        """The position of the index of readable pages when the person was last told of changes."""
        self._views: dict[tuple[tuple[str, bool], ...], SharedView] = {}
        self._opening = anyio.Lock()

    @asynccontextmanager
    async def as_caller(self, principal: Principal) -> AsyncIterator[PathAccess]:
        """Show only what the principal may read, while the block runs; yield its access.

        The rules are read each time, also within such a block: work that a request began may continue for hours after
        it.

        Raises:
            StorageError: the rules, or the view, can't be read now. Nothing may be answered then.
        """
        access = await self._load_access(principal.id)
        async with self._bound_to(principal, access):
            yield access

    @asynccontextmanager
    async def _bound_to(self, principal: Principal, access: PathAccess) -> AsyncIterator[None]:
        shared = None
        if not access.reads_all:
            shared = await self._shared(access)
            await shared.begin_news()
        token = _bound.set(BoundCaller(principal, access, shared))
        try:
            yield
        finally:
            _bound.reset(token)

    @asynccontextmanager
    async def as_person(self, principal_id: str) -> AsyncIterator[CallerServices]:
        """Show only what this person may read on the site, while the block runs.

        The services that it yields are limited to the person's rights in any task or thread.

        Raises:
            StorageError: as `as_caller`.
        """
        user, _, host = principal_id.rpartition("@")
        async with self.as_caller(Principal(user, host)):
            fixed = copy.copy(self)
            fixed._fixed = _bound.get()  # noqa: SLF001 - of this class
            if (shown := fixed._shown) is not None:  # noqa: SLF001 - of this class
                fixed._told = await shown.view.index.position()  # noqa: SLF001 - as above
            yield fixed

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show only what these services show, while the block runs. They have the rights of the person at the time of `as_person`."""
        token = _bound.set(self._fixed)
        try:
            yield
        finally:
            _bound.reset(token)

    async def is_current(self) -> bool:
        """Return whether the caller still has the rights by which it is served."""
        bound = self._caller
        return bound is None or await self._load_access(bound.principal.id) == bound.access

    @asynccontextmanager
    async def as_beginner(self, principal_id: str) -> AsyncIterator[PathAccess]:
        """Show only what the principal that began a journey may read, while the block runs; yield that access.

        Within a request, everything that is hidden from its caller stays hidden, too. Text that is read in a journey is
        recorded there, and shown to the principal that began it.
        """
        bound = _bound.get()
        if bound is None:
            user, _, host = principal_id.rpartition("@")
            async with self.as_caller(Principal(user, host)) as access:
                yield access
        elif bound.principal.id == principal_id:
            yield bound.access
        else:
            access = bound.access.where_readable_for(await self._load_access(principal_id))
            async with self._bound_to(bound.principal, access):
                yield access

    async def may_see_work_of(self, principal_id: str) -> bool:
        """Return whether the caller may see the work of this principal.

        That is the caller's own work, and the work of a principal that may read no more than the caller.
        """
        bound = self._caller
        if bound is None or bound.principal.id == principal_id:
            return True
        return bound.access.reads_what(await self._load_access(principal_id))

    async def may_hear(self, principal_id: str, changes: Sequence[Event]) -> bool:
        """Return whether the principal may learn that one of these changes happened."""
        access = await self._load_access(principal_id)
        if access.reads_all:
            return True
        for change in changes:
            if change.topic == "journey":
                state = await self._services.journeys.store.journey(change.key)
                if state.principal == principal_id or access.reads_what(await self._load_access(state.principal)):
                    return True
            elif change.topic not in ("doc", "map"):
                return True  # only its maker knows the id of a proposal, a run or a task
            else:
                # Very many changes are one event about the whole map, and may all be of hidden pages.
                of_all = change.topic == "map" and not change.key
                if await (await self._shared(access)).has_news(change.seq) if of_all else access.may_read(change.key):
                    return True
        return False

    async def readable_changes(self, changes: Collection[Event]) -> Collection[Event]:
        """Return those of the changes that the caller may learn of."""
        if self._shown is None:
            return changes
        return [change for change in changes if await self._may_learn_of(change)]

    async def _may_learn_of(self, change: Event) -> bool:
        try:
            match change.topic:
                case "doc":
                    return self.access.may_read(change.key)
                case "map" if not change.key:
                    return await self._has_news()
                case "proposal":
                    return await self.state.trust.proposal(change.key) is not None
                case "journey":
                    return bool(await self.journeys.store.journey(change.key))
                case "run":
                    return bool(await self.run_records.run(change.key))
        except StorageError:
            raise
        except KnowledgeError:  # there is none for this caller
            return False
        # Folders change with their pages. Other changes are about people, hosts and the server itself.
        return False

    async def _has_news(self) -> bool:
        """Return whether a readable page has changed. Very many changes are one event about the whole map."""
        if (shown := self._shown) is None:
            return True
        await shown.view.follow()
        before, self._told = self._told, await shown.view.index.position()
        return self._told != before

    async def _shared(self, access: PathAccess) -> SharedView:
        key = access.reading
        if key not in self._views:
            async with self._opening:
                if key not in self._views:
                    view = await self._open_view(access)
                    self._views[key] = SharedView(view, access, self._services, self._builders, self.may_see_work_of)
        shared = self._views[key]
        await shared.view.follow()
        return shared

    @property
    def _caller(self) -> BoundCaller | None:
        return self._fixed or _bound.get()

    @property
    def _shown(self) -> SharedView | None:
        bound = self._caller
        return None if bound is None else bound.shared

    @property
    def _writing(self) -> Writing:
        shown = self._shown
        return shown.writing if shown else self._services.load_writing()

    @property
    def access(self) -> PathAccess:
        """The caller's rights in folders."""
        bound = self._caller
        return UNRESTRICTED if bound is None else bound.access

    # --- pages, as the caller may read them ---------------------------------------------------------------------------

    @property
    def tiers(self) -> Tiers:
        """The map and whole pages."""
        return shown.view.tiers if (shown := self._shown) else self._services.tiers

    @property
    def finder(self) -> Finder:
        """The search in pages."""
        return shown.view.load_finder() if (shown := self._shown) else self._services.finder

    @property
    def index(self) -> IndexStore:
        """The index of the pages."""
        return shown.view.index if (shown := self._shown) else self._services.index

    @property
    def state(self) -> StateStore:
        """The state database."""
        return shown.state if (shown := self._shown) else self._services.state

    @property
    def journeys(self) -> Runner:
        """The runner of journeys."""
        return shown.journeys if (shown := self._shown) else self._services.journeys

    @property
    def writer(self) -> Writer:
        """The writer of pages."""
        return self._writing.writer

    @property
    def undo(self) -> Undo:
        """Takes changes of pages back."""
        return self._writing.undo

    @property
    def recovery(self) -> Recovery:
        """The recovery of changes that a process left half done, whoever made them."""
        return self._writing.acts.recovery

    @property
    def page_history(self) -> PageHistory:
        """The history of pages."""
        return self._writing.page_history

    @property
    def timeline(self) -> Timeline:
        """The changes of pages."""
        return self._writing.timeline

    @property
    def comparisons(self) -> Comparisons:
        """Any two states of a page."""
        return self._writing.comparisons

    @property
    def line_authors(self) -> LineAuthors:
        """Finds who wrote each line of a page, and why."""
        return self._writing.line_authors

    @property
    def outside_changes(self) -> OutsideChanges:
        """Records changes that editors made."""
        return self._writing.outside_changes

    @property
    def change_commits(self) -> ChangeCommits:
        """Finds the Git commits of changes."""
        return self._writing.change_commits

    @property
    def contradictions(self) -> Contradictions:
        """The contradictions on record."""
        return self._writing.contradictions

    @property
    def followed_moves(self) -> FollowedMoves:
        """Offers to rewrite links to pages that somebody moved outside the server."""
        return self._writing.followed_moves

    @property
    def settlements(self) -> Settlements:
        """Settles contradictions."""
        return self._writing.settlements

    @property
    def run_records(self) -> RunStore:
        """The recorded runs, which can be shown without a language model."""
        whole = self._services.runs.store if self.has_runs else run_locations.runs_in(self._services.state)
        return seen_runs.SeenRuns(whole, self.may_see_work_of) if self._shown else whole

    @property
    def freshen_index(self) -> Callable[[float], Awaitable[IndexState]]:
        """Brings the index up to date, and says what it lacks."""
        return shown.freshen_index if (shown := self._shown) else self._services.freshen_index

    @property
    def load_link_graphs(self) -> Callable[[], Awaitable[LinkGraphs]]:
        """The graph of links between pages, and its computation."""
        return shown.view.load_link_graphs if (shown := self._shown) else self._services.load_link_graphs

    @property
    def page_health(self) -> CountHealth:
        """Counts what may need care among the pages."""
        return shown.count_health if (shown := self._shown) else self._services.page_health

    @property
    def load_state_copies(self) -> Callable[[], WholeStateCopies]:
        """The copies of the whole state.

        Raises:
            NoRightThere: the caller may not read everything.
        """
        if self._shown:
            raise NoRightThere("the whole state")
        return self._services.load_state_copies

    # --- what is the same for everybody -------------------------------------------------------------------------------

    @property
    def now(self) -> Clock:
        """The time, in UTC."""
        return self._services.now

    @property
    def tools(self) -> Callable[[], Sequence[ListedTool]]:
        """The tools that this server lists."""
        return self._services.tools

    @property
    def ledger(self) -> ReadingLedger:
        """The record of which caller has read which page. For a caller, only its own reading is looked up."""
        return self._services.ledger

    @property
    def catch_up_pages(self) -> Callable[[], Awaitable[None]]:
        """Brings pages that other machines wrote to this one, whoever may read them."""
        return self._services.catch_up_pages

    @property
    def taints(self) -> Taints:
        """The record of the unverified text that each caller has read."""
        return self._services.taints

    @property
    def work_reviewers(self) -> WorkReviewing:
        """Says who may decide on journeys and answer runs, by the records of the server itself."""
        return self._services.work_reviewers

    @property
    def connectors(self) -> Mapping[str, Callable[[], Connector]]:
        """The services besides the knowledge base."""
        return self._services.connectors

    @property
    def dispatcher(self) -> OutboxDispatcher:
        """The dispatcher of acts in other services."""
        return self._services.dispatcher

    @property
    def model(self) -> ConfiguredModel:
        """The language model."""
        return self._services.model

    @property
    def has_runs(self) -> bool:
        """Whether a language model is configured."""
        return self._services.has_runs

    @property
    def runs(self) -> Runs:
        """The supervisor of runs. The tools show each caller only its own runs."""
        return self._services.runs

    @property
    def review_address(self) -> Callable[[], Awaitable[str | None]]:
        """The address of the review page."""
        return self._services.review_address

    @property
    def want_review(self) -> Callable[[], Awaitable[None]]:
        """Show the review page."""
        return self._services.want_review

    @property
    def waiting(self) -> CapacityLimiter:
        """The limit of calls that wait at once."""
        return self._services.waiting


def callers_services(
    base: KnowledgeBase,
    services: Services,
    load_access: LoadAccess | None,
    *,
    write: Callable[[ReadingView], Writing],
    quotas: Quotas,
    agents: Catalogue | None,
    load_substance: Callable[[], SubstanceJudge | None],
    excluded: Sequence[str],
) -> CallerServices:
    """Return the services for callers on this knowledge base.

    `load_access` returns their rights; None for the rules on folders. `write` builds what changes pages from a view.
    `excluded` are patterns of pages that are not the person's own. The other arguments are those of the runner of
    journeys.
    """

    async def by_rules(principal_id: str) -> PathAccess:
        return (await base.state.people.directory()).access_of(principal_id)

    def build(found: CallerServices) -> ViewBuilders:
        def lead(view: ReadingView) -> Runner:
            runner: Runner = journey_store.runner_on(
                *(base, found, agents, quotas, load_substance()),
                vault=view.vault,
                seen=lambda journeys: seen_journeys.SeenJourneys(journeys, found.may_see_work_of),
                as_beginner=found.as_beginner,
            )
            return runner

        return ViewBuilders(
            write,
            lead,
            count_health=lambda view: partial(page_health.health_of, _readable(base, view), excluded),
            lacks=lambda view, why: fresh_index.lacking(_readable(base, view), why),
        )

    return CallerServices(services, load_access or by_rules, base.open_view, build)


def _readable(base: KnowledgeBase, view: ReadingView) -> KnowledgeBase:
    """Return the knowledge base with the files and the index of the view in place of its own."""
    return replace(base, vault=view.vault, index=view.index, load_tiers=lambda: view.tiers)
