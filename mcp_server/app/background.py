"""Everything a server does besides answering calls, once the host's handshake is done. Each part is loaded when it begins."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from knowledge.errors import KnowledgeError, StorageError
from knowledge.index.store.sqlite import SqliteIndexStore
from mcp_server.app.allocator import trim_regularly
from mcp_server.app.head_moves import moves_of, record_after_move
from mcp_server.app.knowledge_base import SUMMARIES, KnowledgeBase, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.late_module import LateModule
from mcp_server.ports import NoticeServices, RunServices
from mcp_server.runs.local import leads_runs

if TYPE_CHECKING:
    from knowledge.git.act_commits import ActCommits
    from knowledge.history import retention as ledger_retention
    from knowledge.outbox import retention as outbox_retention
    from knowledge.search.use import store as use_store
    from knowledge.writing.files import unwatched_writes
    from mcp_server.app import retention
    from mcp_server.app.factories import engines, index_service, journey_store, writer
    from mcp_server.app.freshness import copy_update
    from mcp_server.approvals.decisions import Decisions
    from mcp_server.approvals.proposal_executor import ProposalExecutor
    from mcp_server.approvals.zulip import notices
    from mcp_server.models import locations as model_locations
    from mcp_server.models import map_lines
    from mcp_server.models.language_model import ConfiguredModel
    from mcp_server.runs import locations as run_locations
    from mcp_server.runs import resume
else:
    use_store = LateModule("knowledge.search.use.store")
    unwatched_writes = LateModule("knowledge.writing.files.unwatched_writes")
    retention = LateModule("mcp_server.app.retention")
    copy_update = LateModule("mcp_server.app.freshness.copy_update")
    engines = LateModule("mcp_server.app.factories.engines")
    index_service = LateModule("mcp_server.app.factories.index_service")
    journey_store = LateModule("mcp_server.app.factories.journey_store")
    writer = LateModule("mcp_server.app.factories.writer")
    notices = LateModule("mcp_server.approvals.zulip.notices")
    model_locations = LateModule("mcp_server.models.locations")
    map_lines = LateModule("mcp_server.models.map_lines")
    run_locations = LateModule("mcp_server.runs.locations")
    resume = LateModule("mcp_server.runs.resume")
    ledger_retention = LateModule("knowledge.history.retention")
    outbox_retention = LateModule("knowledge.outbox.retention")

logger = logging.getLogger("knowledge_forge")

START_DELAY_S = 0.3
"""The first moments of a process belong to the host's handshake."""
DAMAGE_CHECK_S = 1.0
"""How often a process checks whether a search has found the index damaged. The check costs next to nothing."""
TIDY_S = 3600.0
"""How often unfinished acts and leftovers are looked for."""
FIRST_TIDY_S = 60.0
"""The wait before the second look for unfinished acts; the first is right after the start."""
RESUME_S = 20.0
"""How often approved proposals whose process died are looked for. The claim of a dead process ends after a minute."""
HEAD_LOOK_S = 1.0
"""How often HEAD of the repository is compared with what it was: some small files are read."""
RETENTION_DELAY_S = 90.0
"""The wait before the first pass, which is never urgent."""


@dataclass(frozen=True, slots=True)
class Background:
    """The background work of one server. `announcing`: this process tells people what needs approval."""

    base: KnowledgeBase
    settings: Settings
    services: RunServices
    notices: NoticeServices
    load_approvals: Callable[[], Decisions]
    load_executor: Callable[[], ProposalExecutor]
    model: Callable[[], ConfiguredModel]
    holder: str
    reaches_services: bool
    indexing: bool
    announcing: bool
    commits: ActCommits | None = None

    def start(self, tasks: TaskGroup) -> None:
        """Start everything in `tasks`. It ends when `tasks` is cancelled."""
        settings, model = self.settings, self.settings.provider
        tasks.start_soon(trim_regularly)
        tasks.start_soon(self.shorten_old_texts)
        tasks.start_soon(self.tidy)
        if self.base.copy is None:
            tasks.start_soon(self.record_git_moves)
        else:
            tasks.start_soon(self.keep_copy)
        tasks.start_soon(self.execute_approved)
        if self.commits is not None:
            tasks.start_soon(self.commit_acts, self.commits)
        # Not in a command at a terminal: it ends long before a run does.
        if self.announcing:
            tasks.start_soon(load_for_calls)
        if self.announcing and leads_runs(self.services):
            tasks.start_soon(self.resume_runs)
        if self.announcing and settings.zulip is not None and settings.zulip.reviews is not None:
            tasks.start_soon(self.announce_in_zulip)
        if self.indexing:
            tasks.start_soon(self.index_in_turn)
            tasks.start_soon(replace_when_damaged, self.base.index)
            if model is not None and SUMMARIES in model.helps:
                tasks.start_soon(write_map_lines, self.base, self.model, self.holder)
            if settings.qdrant_url or settings.meili_url:
                tasks.start_soon(self.fill_search_servers)

    async def shorten_old_texts(self) -> None:
        """Shorten texts that are older than the retention. The processes of a knowledge base take turns."""
        await anyio.sleep(RETENTION_DELAY_S)
        await _load("mcp_server.app.retention", "mcp_server.app.factories.journey_store")
        state = self.base.state
        journeys, runs = journey_store.journeys_in(state), run_locations.runs_in(state)
        await retention.Retention(state, journeys, runs, self.settings.retention, self.holder).run()

    async def tidy(self) -> None:
        """Finish acts that killed processes left half done, at the start and every hour.

        Every hour, also remove files that these processes left beside pages, old readings, old outbox entries, and old questions.
        """
        await anyio.sleep(START_DELAY_S)
        await _load("knowledge.history.sql")
        wait_s = FIRST_TIDY_S
        while True:
            try:
                await finish_acts(self.base)
                if wait_s == FIRST_TIDY_S:
                    await self.look_again()
                if wait_s == TIDY_S:
                    await _load("mcp_server.app.factories.writer")
                    await writer.recovery_of(self.base.vault, self.base.state, self.base.locks, utc_now).sweep()
                    await ledger_retention.collect(self.base.state.ledger, utc_now())
                    await outbox_retention.put_away(self.base.state.outbox, utc_now())
                    await _load("knowledge.search.use.store")
                    kept = self.settings.questions_kept
                    await use_store.delete_old_events(self.base.state_dir, kept=kept, now=utc_now())
            except KnowledgeError:
                logger.warning("cannot tidy up the ledger now", exc_info=True)
            await anyio.sleep(wait_s)
            wait_s = TIDY_S

    async def look_again(self) -> None:
        """Restore what editors saved over unknowingly while nobody watched the pages, because their writer was killed."""
        base = self.base
        if base.copy is not None:
            return
        await _load("knowledge.writing.files.unwatched_writes")
        overwritten = await unwatched_writes.saved_over(base.vault, base.state.ledger, utc_now())
        if overwritten or await unwatched_writes.written_lately(base.state.ledger, utc_now()):
            await _load("mcp_server.app.factories.writer")
            # With these parts, the watch of pages begins.
            await self.services.outside_changes.note(overwritten)

    async def keep_copy(self) -> None:
        """Keep this machine's copy of pages in the database up to date, and take edits from it."""
        await anyio.sleep(START_DELAY_S)
        await _load("mcp_server.app.freshness.copy_update")
        await copy_update.keep_copy(self.base)

    async def record_git_moves(self) -> None:
        """Record changes that Git made to pages, soon after HEAD has moved."""
        await anyio.sleep(START_DELAY_S)
        moves = moves_of(self.base)
        while True:
            try:
                if await anyio.to_thread.run_sync(moves.moved):
                    await _load("mcp_server.app.factories.writer")
                    await record_after_move(self.base, lambda: self.services.outside_changes)
            except (KnowledgeError, OSError):
                logger.warning("cannot bring changes by Git on record now", exc_info=True)
            await anyio.sleep(HEAD_LOOK_S)

    async def execute_approved(self) -> None:
        """Execute approved proposals whose process died, and close those that nobody decided on in time.

        A process that reaches a service also executes, within a moment, proposals that were approved in a process that doesn't.
        """
        state = self.base.state
        await anyio.sleep(START_DELAY_S)
        await _load("knowledge.trust.sql")
        while True:
            try:
                # Taken first, so a decision during the look ends the wait below at once.
                seen = await state.last_event()
                if await state.trust.unfinished(now=utc_now()):
                    await _load("mcp_server.approvals.proposal_executor")
                    await self.load_executor().resume()
                if self.reaches_services:
                    with anyio.move_on_after(RESUME_S):
                        await state.changed(seen)
                    # The process in which a proposal was approved goes first.
                    await anyio.sleep(START_DELAY_S)
                    continue
            except KnowledgeError:
                logger.warning("cannot look after proposals now", exc_info=True)
            await anyio.sleep(RESUME_S)

    async def commit_acts(self, commits: ActCommits) -> None:
        """Commit changes of pages to Git. The processes of a knowledge base take turns."""
        await anyio.sleep(START_DELAY_S)
        await commits.run()

    async def resume_runs(self) -> None:
        """Continue runs that a person decided on, or whose process died."""
        await anyio.sleep(START_DELAY_S)
        await _load("mcp_server.runs.resume")
        await resume.keep_runs(self.services, self.services.runs)

    async def announce_in_zulip(self) -> None:
        """Announce pending proposals in Zulip and count the reactions."""
        await anyio.sleep(START_DELAY_S)
        await _load("mcp_server.approvals.zulip.notices")
        if self.settings.zulip is not None:
            await notices.run(self.notices, self.load_approvals(), self.settings.zulip)

    async def index_in_turn(self) -> None:
        """Index whenever this process holds the indexing lease."""
        with anyio.move_on_after(START_DELAY_S):
            # A search shows that the handshake is over.
            await self.base.first_search_waits.wait()
        service = await anyio.to_thread.run_sync(lambda: index_service.indexing_service(self.base, self.holder))
        await service.run()

    async def fill_search_servers(self) -> None:
        """Keep search servers up to date with the index.

        All processes try; the first one does the work, and the others find it done.
        """
        await anyio.sleep(START_DELAY_S)
        async with anyio.create_task_group() as tasks:
            for follower in await self.base.followers():
                tasks.start_soon(engines.keep_up, follower, self.base.index)


async def load_for_calls() -> None:
    """Load what the first call needs besides its own toolset, so that neither the start nor the call waits for it."""
    await anyio.sleep(START_DELAY_S)
    await _load("knowledge.trust.sql", "knowledge.access.sql", "mcp_server.gate.trust.scores")


async def write_map_lines(base: KnowledgeBase, model: Callable[[], ConfiguredModel], holder: str) -> None:
    """Have the language model write lines for maps."""
    await anyio.sleep(START_DELAY_S)
    await _load("mcp_server.models.map_lines")
    kept = model_locations.summaries_in(base.state)
    lines = map_lines.MapLines(
        *(base.state, base.index, base.load_tiers, kept, model().provider),
        name=model().name,
        holder=holder,
        now=utc_now,
    )
    await lines.run()


async def finish_acts(base: KnowledgeBase) -> None:
    """Finish acts on pages that killed processes left half done."""
    if await base.state.ledger.intents():
        await _load("mcp_server.app.factories.writer")
        await writer.recovery_of(base.vault, base.state, base.locks, utc_now).finish_all()


async def replace_when_damaged(index: SqliteIndexStore) -> None:
    """If a search found the index damaged, replace it with an empty one, which the indexing process notices and fills.

    The indexing process itself may not read the damaged part for hours.
    """
    while True:
        await anyio.sleep(DAMAGE_CHECK_S)
        if index.damaged:
            logger.warning("a search found the index damaged; it is being rebuilt")
            try:
                await index.rebuild("a search met damage")
            except StorageError:
                logger.warning("the damaged index cannot be replaced now", exc_info=True)


async def _load(*modules: str) -> None:
    """Import modules in a thread, because importing on the event loop would hold up calls."""
    for module in modules:
        await anyio.to_thread.run_sync(import_module, module)
