"""The composition root: builds a server from the settings. Only this package chooses adapters."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from knowledge.search.reading_ledger import ReadingLedger
from knowledge.state.ports import Progress, StateStore
from mcp_server.app.access.caller_services import CallerServices, callers_services
from mcp_server.app.background import Background, finish_acts
from mcp_server.app.dependencies import Services, nothing
from mcp_server.app.factories.approvals import approval_parts
from mcp_server.app.factories.model_runs import judge_of, model_of, opinion_of, runs_of, substance_of
from mcp_server.app.head_moves import record_after_move
from mcp_server.app.knowledge_base import KnowledgeBase, caught_up, holder_name, open_base, utc_now
from mcp_server.app.sealing_key import sealing_key
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.page_notice import Review
from mcp_server.connectors.evidence_sources import EvidenceSources
from mcp_server.fair_use.admission import FairUse
from mcp_server.fair_use.limits import CallLimits
from mcp_server.gate.dispatch import Gate
from mcp_server.gate.host_registration import os_user
from mcp_server.gate.taint import Taints
from mcp_server.gate.trust.callers import Callers
from mcp_server.gate.trust.folder_rights import LoadAccess
from mcp_server.late_module import LateModule
from mcp_server.toolsets.registry import chosen, declared
from mcp_server.toolsets.spec import AnySpec

if TYPE_CHECKING:
    from agents.catalogue import Catalogue
    from agents.engine.runner import Runner
    from knowledge.search.use.recorder import UseRecorder
    from knowledge.trust.ports import Proposal
    from mcp_server.app.factories import act_commits, journey_store, protocol_server, shared_folder, sign_in
    from mcp_server.app.factories import connectors as connector_factory
    from mcp_server.app.factories import finder as finders
    from mcp_server.app.factories import page_health as page_healths
    from mcp_server.app.factories.protocol_server import ServedProtocol
    from mcp_server.app.factories.writer import Writing
    from mcp_server.app.freshness import fresh_index
    from mcp_server.app.state_copies import copies
    from mcp_server.approvals.decisions import Decisions
    from mcp_server.connectors import outbox_dispatcher
    from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher
    from mcp_server.connectors.ports import Connector
    from mcp_server.fair_use import counts as call_counts
    from mcp_server.protocol.server import ForgeServer
else:
    # httpx loads rich and pygments, if they are there.
    sign_in = LateModule("mcp_server.app.factories.sign_in")
    # The SDK takes 29 MB and half a second, which a site or an act in a terminal does not need.
    protocol_server = LateModule("mcp_server.app.factories.protocol_server")
    # Only where FORGE_GIT says so.
    act_commits = LateModule("mcp_server.app.factories.act_commits")
    page_healths = LateModule("mcp_server.app.factories.page_health")
    # Only with the state in PostgreSQL.
    shared_folder = LateModule("mcp_server.app.factories.shared_folder")
    fresh_index = LateModule("mcp_server.app.freshness.fresh_index")
    finders = LateModule("mcp_server.app.factories.finder")
    # A server without services does not load their clients.
    connector_factory = LateModule("mcp_server.app.factories.connectors")
    copies = LateModule("mcp_server.app.state_copies.copies")
    journey_store = LateModule("mcp_server.app.factories.journey_store")
    outbox_dispatcher = LateModule("mcp_server.connectors.outbox_dispatcher")
    call_counts = LateModule("mcp_server.fair_use.counts")

logger = logging.getLogger("knowledge_forge")

PROGRESS_S = 2.0  # between two lines of progress in the log


@dataclass(frozen=True, slots=True)
class App:
    """A wired server and its parts."""

    load_server: Callable[[], ForgeServer]
    services: Services
    site_services: CallerServices
    """The services of the site, which shows each person what they may read."""
    gate: Gate
    base: KnowledgeBase
    load_approvals: Callable[[], Decisions]
    review: Review
    callers: Callers

    @property
    def server(self) -> ForgeServer:
        """The server, which is built on first use: an act in a terminal needs none."""
        return self.load_server()

    @property
    def approvals(self) -> Decisions:
        """The way in which people decide, made on first use: most servers are never asked."""
        return self.load_approvals()

    async def record_git_moves(self) -> None:
        """Record changes that Git made to pages if HEAD has moved, as the background work does within a second."""
        await record_after_move(self.base, lambda: self.services.outside_changes)


def listed(settings: Settings, extra_tools: Sequence[AnySpec] = ()) -> tuple[AnySpec, ...]:
    """Return the tools that these settings list, in order.

    Raises:
        BadDeclaration: a tool's declaration is incomplete; the server must not start.
    """
    configured = [*settings.services, *(["runs"] if settings.provider else [])]
    only_reading = [toolset for toolset, access in settings.services.items() if access.read_only]
    return chosen(
        [*declared(configured), *extra_tools],
        toolsets=settings.toolsets,
        read_only=settings.read_only or only_reading,
        configured=configured,
    )


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    extra_tools: Sequence[AnySpec] = (),
    extend: Callable[[ForgeServer], None] | None = None,
    indexing: bool = True,
    announcing: bool = True,
    lean: bool = False,
    agents: Catalogue | None = None,
    load_access: LoadAccess | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
) -> AsyncIterator[App]:
    """Open everything and yield the wired server.

    Args:
        settings: What to serve.
        extra_tools: Tools besides those of the program. They pass the gate like all others.
        extend: Adds prompts and resources before a client connects.
        indexing: This process takes its turn at keeping the index.
        announcing: Show the review page as soon as something needs approval, not only when `review.wanted` is called.
        lean: Keep little in memory, at some cost to each search.
        agents: The agents that journeys may follow; by default this program's and the team's.
        load_access: Returns the rights of each principal in each folder; by default, the rules on folders give them.
        sleep: Waits before a service is asked again.
    """
    specs = listed(settings, extra_tools)
    async with (
        open_base(
            settings,
            on_progress=_progress("indexed %d of %d pages"),
            on_renewal=_progress("%d of %d passages have their new vectors"),
            indexing=indexing,
            lean=lean,
            # A lambda, because `model` and `tasks` exist only below; the first search calls it.
            load_opinion=lambda: opinion_of(settings.provider, model, tasks),
        ) as base,
        AsyncExitStack() as stack,
        anyio.create_task_group() as tasks,
    ):
        await _take_place(settings, base, tasks)
        connectors: Mapping[str, Callable[[], Connector]] = {
            name: cache(partial(connector_factory.connector, access, stack, base.state, utc_now, sleep))
            for name, access in settings.services.items()
        }
        ledger = ReadingLedger(base.state, utc_now, load_use=_use_recorder_of(base, settings.questions_kept))
        review = Review(settings, base.state)
        writing_loaded = anyio.Event()

        @cache
        def writing() -> Writing:
            sources = EvidenceSources(connectors, time.monotonic)
            loaded = base.load_writing(sources, judge_of(settings.provider, model))
            writing_loaded.set()
            return loaded

        async def watch_after_writes() -> None:
            # Writing has background work, but only in a process that writes.
            await writing_loaded.wait()
            tasks.start_soon(writing().acts.watch)
            tasks.start_soon(writing().elsewhere.run)

        @cache
        def journeys() -> Runner:
            substance = substance_of(settings.provider, model)
            return journey_store.runner_on(
                base, for_callers, agents, settings.quotas, substance, as_beginner=for_callers.as_beginner
            )

        @cache
        def dispatcher() -> OutboxDispatcher:
            return outbox_dispatcher.OutboxDispatcher(base.state.outbox, base.outbox_locks, now=utc_now, sleep=sleep)

        model = model_of(settings.provider, sleep, stack)
        services = Services(
            load_tiers=base.load_tiers,
            load_finder=base.load_finder,
            index=base.index,
            state=base.state,
            now=utc_now,
            tools=lambda: specs,
            ledger=ledger,
            load_writing=writing,
            load_journeys=journeys,
            load_link_graphs=base.load_link_graphs,
            taints=Taints(base.state, utc_now, settings.trusted_places, shared=settings.http is not None),
            freshen_index=lambda wait_s: fresh_index.freshened(base, wait_s, by_words=True),
            page_health=partial(page_healths.health_of, base, settings.exclude),
            load_state_copies=lambda: copies.StateCopies(settings, base.state),
            connectors=connectors,
            load_dispatcher=dispatcher,
            load_model=model,
            # A lambda, because runs call tools through the gate, which is built from these services.
            load_runs=runs_of(base, model, lambda: (gate, services), tasks, settings.quotas),
            catch_up_pages=partial(caught_up, base.copy),
            review_address=review.address_for_hosts,
            want_review=review.wanted if announcing else nothing,
            prevent_self_review=settings.prevent_self_review,
        )

        for_callers = callers_services(
            base,
            services,
            load_access,
            write=lambda view: view.load_writing(
                EvidenceSources(connectors, time.monotonic), judge_of(settings.provider, model), writing()
            ),
            quotas=settings.quotas,
            agents=agents,
            load_substance=lambda: substance_of(settings.provider, model),
            excluded=settings.exclude,
        )

        approvals = approval_parts(
            settings,
            services,
            for_callers,
            lambda: gate,
            arrived=review.wanted if announcing else _announce_nothing,
            recover=partial(finish_acts, base),
            runner=holder_name(),
        )
        gate = Gate(
            specs,
            for_callers,
            approvals.load_proposing,
            as_caller=for_callers.as_caller,
            as_beginner=for_callers.as_beginner,
            fair_use=_fair_use(settings.call_limits, base.state, tasks),
        )
        callers = Callers(
            base.state,
            os_user(),
            utc_now,
            sign_in=sign_in.sign_in_of(settings, stack) if settings.http_access.issuers else None,
        )
        key = await sealing_key(base.state_dir, base.state.tables, shared=settings.database_url is not None)
        server_loaded = anyio.Event()

        @cache
        def served() -> ServedProtocol:
            loaded: ServedProtocol = protocol_server.served_protocol(
                settings,
                specs,
                gate=gate,
                load_approvals=approvals.load_decisions,
                services=for_callers,
                callers=callers,
                key=key,
                extend=extend,
                may_hear=for_callers.may_hear,
            )
            server_loaded.set()
            return loaded

        async def announce_changes() -> None:
            await server_loaded.wait()
            await served().follow_changes()

        commits = act_commits.commits_of(base) if settings.git == "commit" else None
        if commits is not None:
            await commits.begin()
        tasks.start_soon(ledger.run)
        tasks.start_soon(announce_changes)
        tasks.start_soon(watch_after_writes)
        tasks.start_soon(review.run, for_callers, approvals.load_decisions)
        Background(
            base=base,
            settings=settings,
            services=services,
            notices=services,
            load_approvals=approvals.load_decisions,
            load_executor=approvals.load_executor,
            model=model,
            holder=holder_name(),
            reaches_services=bool(connectors),
            indexing=indexing,
            announcing=announcing,
            commits=commits,
        ).start(tasks)
        try:
            yield App(
                lambda: served().server, services, for_callers, gate, base, approvals.load_decisions, review, callers
            )
        finally:
            if commits is not None:
                await commits.last()
            # Background work never ends by itself.
            tasks.cancel_scope.cancel()


def _fair_use(limits: CallLimits, state: StateStore, tasks: TaskGroup) -> FairUse:
    """Return the admission of calls, whose counts the processes of a service exchange in the background."""
    counts = call_counts.CallCounts(limits.bounds, state.tables, utc_now) if limits.bounds else None
    if counts is not None:
        tasks.start_soon(counts.run)
    return FairUse(counts, limits.at_once)


def _use_recorder_of(base: KnowledgeBase, kept: timedelta | None) -> Callable[[], UseRecorder] | None:
    """Return a function that creates the recorder of questions at the first question; None if questions are not recorded."""
    return None if kept is None else lambda: finders.use_recorder(base.state_dir, kept)


async def _take_place(settings: Settings, base: KnowledgeBase, tasks: TaskGroup) -> None:
    """Take this machine's place among those that share the state and a folder, and keep it.

    With the state in a file there is only this machine, and with pages in the database each machine has a folder of its own.
    """
    if settings.database_url is not None and base.copy is None:
        place = await shared_folder.place_of(base.state, base.vault.root, base.state_dir, utc_now)
        await place.take()
        tasks.start_soon(place.keep)


async def _announce_nothing(_proposal: Proposal) -> None:
    """Tell nobody about a proposal: the person is at the terminal."""


def _progress(sentence: str) -> Callable[[Progress], None]:
    """Return a progress callback that logs the sentence every two seconds; shorter work logs nothing."""
    last: float | None = None

    def log(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if progress.done >= progress.total:
            last = None
        elif last is None:
            last = now
        elif now - last >= PROGRESS_S:
            last = now
            logger.info(sentence, progress.done, progress.total)

    return log
