"""The composition root: Settings in, a wired server out. The one place that chooses an adapter."""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import stat
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus

from knowledge.errors import KnowledgeError, StorageError
from knowledge.history.retention import collect
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.outbox.retention import put_away
from knowledge.search.reading_ledger import ReadingLedger
from knowledge.state.ownership import others_could_read, others_could_write
from knowledge.state.ports import Progress
from knowledge.trust.ports import Proposal
from mcp_server import VERSION
from mcp_server.app.dependencies import Services, nothing
from mcp_server.app.factories.connectors import connecting
from mcp_server.app.factories.engines import keep_up
from mcp_server.app.factories.model_runs import (
    START_DELAY_S,
    judge_of,
    keep_runs,
    make_map_lines,
    model_of,
    opinion_of,
    runs_of,
)
from mcp_server.app.knowledge_base import KnowledgeBase, open_base, utc_now
from mcp_server.app.settings.access import ZulipAccess
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.decisions import Decisions
from mcp_server.approvals.page_notice import Review
from mcp_server.approvals.proposal_executor import ProposalExecutor
from mcp_server.approvals.proposals import Proposing
from mcp_server.connectors.evidence_sources import EvidenceSources
from mcp_server.gate.dispatch import Gate
from mcp_server.gate.host_registration import TOKENLESS, Callers, Principal, digest, os_user
from mcp_server.gate.taint import Taints
from mcp_server.protocol.change_events import SessionSubscribers, follow_changes
from mcp_server.protocol.completions import add_completions
from mcp_server.protocol.prompts import add_prompts
from mcp_server.protocol.resources import add_resources
from mcp_server.protocol.server import INSTRUCTIONS, NAME, ForgeServer, GatedTool
from mcp_server.protocol.tasks.sdk_hooks import Seams
from mcp_server.toolsets.registry import chosen, declared
from mcp_server.toolsets.spec import AnySpec
from mcp_server.transport.tokens import bearer

if TYPE_CHECKING:
    from agents.catalogue import Catalogue
    from agents.engine.runner import Runner
    from knowledge.index.indexing_service import IndexingService
    from knowledge.writing.files.recovery import Recovery
    from mcp_server.app.factories.writer import Writing
    from mcp_server.app.retention import Retention
    from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher

logger = logging.getLogger("knowledge_forge")

DAMAGE_LOOK_S = 1.0
"""How often a process asks itself, for next to nothing, whether a search has met damage in the index."""
NEW_VECTORS = "%d of %d passages have their new vectors"
TIDY_S = 3600.0
SWEEP_DELAY_S = 60.0
RESUME_S = 20.0
RETENTION_DELAY_S = 90.0
KEY_FILE = "questions.key"
KEY_BYTES = 32
QUESTION_S = 3600.0
"""How long a person may take to answer a form."""


class BadKeyFile(KnowledgeError):
    """Another account may know the key that seals questions."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        command = f"rm {shlex.quote(str(path))}"
        super().__init__(f"{path} is not used: {reason}; remove it and start again to get a new one: {command}")


@dataclass(frozen=True, slots=True)
class App:
    """The server and what it stands on."""

    load_server: Callable[[], ForgeServer]
    services: Services
    gate: Gate
    base: KnowledgeBase
    approvals: Decisions
    review: Review
    callers: Callers

    @property
    def server(self) -> ForgeServer:
        """Return the server, which is built when it is first asked for: an act at a terminal needs none."""
        return self.load_server()


def listed(settings: Settings, extra_tools: Sequence[AnySpec] = ()) -> tuple[AnySpec, ...]:
    """Return the tools that these settings list, in order.

    Raises:
        BadDeclaration: the server must not start.
    """
    access = {"plane": settings.plane, "zulip": settings.zulip}
    configured = [name for name, known in {**access, "runs": settings.provider}.items() if known is not None]
    only_reading = [name for name, known in access.items() if known is not None and known.read_only]
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
    agents: Catalogue | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
) -> AsyncIterator[App]:
    """Open everything and yield the wired server; with `indexing` this process takes its turn at keeping the index.

    With `announcing` the review page is shown as soon as something waits; without, when `review.wanted` is called.
    `extra_tools` pass the gate like all others; `extend` may add prompts and resources before anybody connects. `agents` are
    those that journeys may follow, by default this program's and the team's. `sleep` waits before another service is asked again.
    """
    specs = listed(settings, extra_tools)
    async with (
        open_base(
            settings,
            on_progress=_said("indexed %d of %d pages"),
            on_renewal=_said(NEW_VECTORS),
            indexing=indexing,
            load_opinion=lambda: opinion_of(settings.provider, model, tasks),
        ) as base,
        connecting(settings, utc_now, sleep) as connected,
        AsyncExitStack() as stack,
        anyio.create_task_group() as tasks,
    ):
        ledger = ReadingLedger(base.state, utc_now)
        review = Review(settings, base.state)
        loaded = anyio.Event()
        load_writing = cache(
            lambda: base.load_writing(
                EvidenceSources(connected.services, time.monotonic), judge_of(settings.provider, model)
            )
        )

        @cache
        def journeys() -> Runner:
            from mcp_server.app.factories.journey_store import runner_on

            return runner_on(base, services, agents, settings.quotas)

        @cache
        def dispatcher() -> OutboxDispatcher:
            from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher

            return OutboxDispatcher(base.state.outbox, base.outbox_locks, now=utc_now, sleep=sleep)

        model = model_of(settings.provider, sleep, stack)
        runs = runs_of(base, model, lambda: (gate, services), tasks, settings.quotas)
        services = Services(
            load_tiers=base.load_tiers,
            load_finder=base.load_finder,
            index=base.index,
            state=base.state,
            now=utc_now,
            tools=lambda: specs,
            ledger=ledger,
            load_writing=_telling(load_writing, loaded),
            load_journeys=journeys,
            taints=Taints(base.state, utc_now, settings.trusted_places),
            load_plane=connected.plane,
            load_zulip=connected.zulip,
            connectors=connected.services,
            load_dispatcher=dispatcher,
            load_model=model,
            load_runs=runs,
            review_address=review.address,
            want_review=review.wanted if announcing else nothing,
        )
        proposing = Proposing(services, arrived=review.wanted if announcing else _quietly, quotas=settings.quotas)
        gate = Gate(specs, services, proposing)
        proposal_executor = ProposalExecutor(
            gate, proposing, services, runner=holder_name(), recover=partial(_finish_acts, base)
        )
        approvals = Decisions(proposal_executor, proposing)
        bus = InMemorySubscriptionBus()
        callers = Callers(base.state, os_user())
        who = _identifier(settings, callers)
        security = await anyio.to_thread.run_sync(_request_state, settings, base.state_dir)
        sessions = SessionSubscribers()

        @cache
        def server() -> ForgeServer:
            built = _server(specs, Seams(gate, who, approvals, services), bus, security)
            built.named = callers.named
            if extend is not None:
                extend(built)
            sessions.serve(built)
            return built

        for work in (ledger.run, partial(_recover, base), partial(_keep_small, base, settings)):
            tasks.start_soon(work)
        tasks.start_soon(follow_changes, base.state, bus, sessions)
        tasks.start_soon(_look_after_writes, load_writing, loaded)
        tasks.start_soon(partial(_resume, base, proposal_executor, for_others=bool(connected.services)))
        tasks.start_soon(review.run, services, approvals)
        if announcing and settings.zulip is not None and settings.zulip.reviews is not None:
            tasks.start_soon(_tell_in_zulip, services, approvals, settings.zulip)
        tasks.start_soon(partial(keep_runs, services, here=announcing))
        if indexing:
            tasks.start_soon(make_map_lines, base, settings.provider, model, holder_name())
            tasks.start_soon(_index_in_turn, base)
            tasks.start_soon(_replace_when_damaged, base.index)
            if settings.qdrant_url or settings.meili_url:
                tasks.start_soon(_keep_servers_up, base)
        try:
            yield App(server, services, gate, base, approvals, review, callers)
        finally:
            tasks.cancel_scope.cancel()


async def _keep_small(base: KnowledgeBase, settings: Settings) -> None:
    """Shorten what is past its retention, in turn with other processes. What that needs is loaded when the start is long over."""
    await anyio.sleep(RETENTION_DELAY_S)
    await (await anyio.to_thread.run_sync(_retention, base, settings)).run()


def _retention(base: KnowledgeBase, settings: Settings) -> Retention:
    from mcp_server.app.factories.journey_store import journeys_in
    from mcp_server.app.retention import Retention
    from mcp_server.runs.locations import runs_in

    return Retention(base.state, journeys_in(base.state), runs_in(base.state), settings.retention, holder_name())


async def _tell_in_zulip(services: Services, approvals: Decisions, access: ZulipAccess) -> None:
    """Tell of what waits where a person wants to be told. What that needs is loaded a moment after the host's handshake, aside."""
    await anyio.sleep(START_DELAY_S)
    await (await anyio.to_thread.run_sync(_telling_in_zulip))(services, approvals, access)


def _telling_in_zulip() -> Callable[[Services, Decisions, ZulipAccess], Awaitable[None]]:
    from mcp_server.approvals.zulip.notices import run

    return run


async def _quietly(_proposal: Proposal) -> None:
    """Tell nobody of what waits: whoever asked is at the terminal."""


def _telling(load: Callable[[], Writing], loaded: anyio.Event) -> Callable[[], Writing]:
    """Return `load`, which also says that it was called."""

    def load_and_tell() -> Writing:
        writing = load()
        loaded.set()
        return writing

    return load_and_tell


async def _look_after_writes(load: Callable[[], Writing], loaded: anyio.Event) -> None:
    """Do what writing has to do in the background, once anybody writes."""
    await loaded.wait()
    writing = load()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writing.acts.watch)
        tasks.start_soon(writing.elsewhere.run)


async def _recover(base: KnowledgeBase) -> None:
    """End what a killed process left half done, put away what it left beside pages, and forget what was only seen long ago.

    The last two every hour, the first time when the start is over.
    """
    await anyio.sleep(START_DELAY_S)
    wait_s = SWEEP_DELAY_S
    while True:
        try:
            await _finish_acts(base)
            if wait_s == TIDY_S:
                await (await anyio.to_thread.run_sync(_recovery, base)).sweep()
                await collect(base.state.ledger, utc_now())
                await put_away(base.state.outbox, utc_now())
        except KnowledgeError:
            logger.warning("cannot tidy up the ledger now", exc_info=True)
        await anyio.sleep(wait_s)
        wait_s = TIDY_S


async def _finish_acts(base: KnowledgeBase) -> None:
    """End what killed processes left half done."""
    if await base.state.ledger.intents():
        await (await anyio.to_thread.run_sync(_recovery, base)).finish_all()


def _recovery(base: KnowledgeBase) -> Recovery:
    """Return what ends acts; what only a join needs is loaded with the first one."""
    from knowledge.writing.files.file_set import FileSet
    from knowledge.writing.files.recovery import Recovery

    def rejoin(before: bytes, current: bytes, after: bytes) -> bytes:
        from knowledge.writing.acts.move_act import rejoin

        return rejoin(before, current, after)

    return Recovery(FileSet(base.vault), base.state.ledger, base.locks, rejoin=rejoin, now=utc_now)


async def _resume(base: KnowledgeBase, proposal_executor: ProposalExecutor, *, for_others: bool) -> None:
    """Carry out what was approved while its process died, and end what nobody decided about in time.

    With `for_others` also, within a moment, what was approved in a process that does not reach the service.
    """
    await anyio.sleep(START_DELAY_S)
    while True:
        try:
            seen = await base.state.last_event()
            if await base.state.trust.unfinished(now=utc_now()):
                await proposal_executor.resume()
            if for_others:
                with anyio.move_on_after(RESUME_S):
                    await base.state.changed(seen)
                await anyio.sleep(START_DELAY_S)  # whoever said yes goes first
                continue
        except KnowledgeError:
            logger.warning("cannot look after proposals now", exc_info=True)
        await anyio.sleep(RESUME_S)


def _request_state(settings: Settings, state_dir: Path) -> RequestStateSecurity:
    """Return how a question that a client carries is sealed: any process of this place can open it, for its caller only."""

    def caller_of(ctx: ServerRequestContext[Any, Any]) -> str:
        if ctx.request is None:
            return digest(settings.enrolment or "").hex()
        token = bearer(ctx.request.headers)
        return TOKENLESS if token is None else digest(token).hex()

    return RequestStateSecurity(keys=[_key(state_dir / KEY_FILE)], ttl=QUESTION_S, bind_principal=caller_of)


def _key(path: Path) -> bytes:
    """Return the key at `path`; the first process makes it."""
    fresh = secrets.token_bytes(KEY_BYTES)
    staged = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    if not path.exists():
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, fresh)
        finally:
            os.close(descriptor)
        try:
            os.link(staged, path)  # whole or not at all, and of several processes one
        except FileExistsError:
            pass
        finally:
            staged.unlink()
    return _own_key(path)


def _own_key(path: Path) -> bytes:
    """Return the key, if no other account could have written or read it.

    Raises:
        BadKeyFile: it is a link, another account can write or read it, or it has the wrong length.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise BadKeyFile(path, error.strerror or type(error).__name__) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadKeyFile(path, "it is not a file")
        if exposed := others_could_write(path, descriptor) or others_could_read(path, descriptor):
            raise BadKeyFile(path, exposed.problem)
        key = os.read(descriptor, KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(key) != KEY_BYTES:
        raise BadKeyFile(path, f"it does not hold {KEY_BYTES} bytes")
    return key


async def _replace_when_damaged(index: SqliteIndexStore) -> None:
    """Put an empty index in the place of one in which a search met damage; whoever indexes notices and fills it.

    The indexing process may not look at the damaged part for hours.
    """
    while True:
        await anyio.sleep(DAMAGE_LOOK_S)
        if index.damaged:
            logger.warning("a search met damage in the index; it is built anew")
            try:
                await index.rebuild("a search met damage")
            except StorageError:
                logger.warning("the damaged index cannot be replaced now", exc_info=True)


def _said(sentence: str, every_s: float = 2.0) -> Callable[[Progress], None]:
    """Return a progress callback that logs how far a long run is; a run that is over at once says nothing."""
    last: float | None = None

    def say(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if progress.done >= progress.total:
            last = None
        elif last is None:
            last = now
        elif now - last >= every_s:
            last = now
            logger.info(sentence, progress.done, progress.total)

    return say


async def _index_in_turn(base: KnowledgeBase) -> None:
    """Index whenever it is this process's turn. What that needs is loaded a moment after the host's handshake, aside."""
    await anyio.sleep(START_DELAY_S)
    await (await anyio.to_thread.run_sync(indexing_service, base)).run()


async def _keep_servers_up(base: KnowledgeBase) -> None:
    """Bring search servers up with the index. Every process may: the first at it does, the others see that it is done."""
    await anyio.sleep(START_DELAY_S)
    async with anyio.create_task_group() as tasks:
        for follower in await base.followers():
            tasks.start_soon(keep_up, follower, base.index)


def indexing_service(base: KnowledgeBase) -> IndexingService:
    """Return the service that indexes `base` while this process holds the lease."""
    from knowledge.index.indexing_service import IndexingService

    return IndexingService(
        base.state,
        base.indexer,
        identity=base.embedding.wanted,
        at_once=base.embedding.at_once,
        holder=holder_name(),
        lease=base.lease,
        now=utc_now,
        rebuild=base.index.rebuild,
    )


def holder_name() -> str:
    """Return a name for this process among all that share a knowledge base: its number, its version and some chance."""
    return f"{os.getpid()}-{version()}-{secrets.token_hex(4)}"


def _server(
    specs: Sequence[AnySpec], seams: Seams, bus: InMemorySubscriptionBus, security: RequestStateSecurity
) -> ForgeServer:
    with _without_rich():
        server = ForgeServer(
            name=NAME,
            title="Knowledge Forge",
            version=version(),
            instructions=INSTRUCTIONS,
            tools=[GatedTool.of(spec) for spec in specs],
            extensions=seams.extensions,
            middleware=seams.middleware,
            subscriptions=bus,
            request_state_security=security,
            log_level="WARNING",
        )
    seams.listen(server, bus)
    add_resources(server, seams.services)
    add_prompts(server, seams.services)
    add_completions(server, seams.services)
    return server


@contextmanager
def _without_rich() -> Iterator[None]:
    """Keep the SDK from loading rich, 30 ms and 5 MB, for log lines whose form `serve` has chosen already."""
    loaded = sys.modules.get("rich.console")
    sys.modules["rich.console"] = None  # type: ignore[assignment]  # how Python marks a module as not to be had
    try:
        yield
    finally:
        if loaded is None:
            del sys.modules["rich.console"]
        else:
            sys.modules["rich.console"] = loaded


def _identifier(
    settings: Settings, callers: Callers
) -> Callable[[ServerRequestContext[Any, Any]], Awaitable[Principal]]:
    """Return how a caller is known: on stdio by this process's secret, over HTTP by the request's bearer token.

    Both are asked of the database each time, so a host whose secret was replaced is refused at once.
    """

    async def who(ctx: ServerRequestContext[Any, Any]) -> Principal:
        if ctx.request is None:
            return await callers.named(settings.enrolment)
        return await callers.named(bearer(ctx.request.headers), without=TOKENLESS)

    return who


def version() -> str:
    """Return this program's version."""
    return VERSION
