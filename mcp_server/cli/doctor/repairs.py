"""The repairs that `doctor --fix` makes: of caches, leftovers of killed processes, and slips on pages with only one reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import anyio
import anyio.to_thread

from agents.engine.work.markdown import counted
from knowledge.errors import EngineUnavailable, KnowledgeError
from knowledge.index.indexing_service import TTL_S
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.files.recovery import ORPHANED_S
from mcp_server.app.factories.embedder import STATIC
from mcp_server.app.factories.writer import recovery_of
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease, other_process, stale, up_to_date
from mcp_server.app.knowledge_base import KnowledgeBase, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.index_coverage import engine_reports
from mcp_server.cli.doctor.page_problems import CheckedPages, PageRepair
from mcp_server.cli.local_host import LocalHost, NotDone, local_host
from mcp_server.cli.terminal.commands import command

MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that can be mended without a guess. `page` has the new text, for a repair of a page."""

    what: Literal["index", "rebuild", "acts", "files", "page"]
    sentence: str
    page: PageRepair | None = None


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """The outcome of a repair: `done`, or the reason why not. With `waits`, it is a proposal that needs approval."""

    done: bool
    outcome: str
    waits: bool = False

    @property
    def word(self) -> str:
        """The outcome in one or two words."""
        return "fixed" if self.done else "needs approval" if self.waits else "not fixed"


async def repairs_for(base: KnowledgeBase, pages: CheckedPages) -> list[Repair]:
    """Return what can be mended now, in the order in which it is done: pages last, because their checks ask the index."""
    found = [await _index_repair(base, pages), await _acts_repair(base), await _files_repair(base)]
    on_pages = [Repair("page", f"{page.path}: {'; '.join(page.changes)}", page) for page in pages.repairs]
    return [*(repair for repair in found if repair is not None), *on_pages]


async def _index_repair(base: KnowledgeBase, pages: CheckedPages) -> Repair | None:
    """Return how to complete the index; None if it is complete, or a running process does that."""
    if await base.index.check():
        wanted = base.embedding.wanted
        vectors = "" if wanted == STATIC else f"; {wanted.embedder} makes the vectors of all passages again"
        return Repair("rebuild", f"rebuild the damaged index from the pages{vectors}")
    if await other_process(base):
        return None
    late = await stale(base, besides=pages.unreadable)
    lacking = [f"index {counted(late, 'new or changed page')}"] if late else []
    if renewal := await base.index.renewal():
        lacking.append(f"make the vectors of {counted(renewal.total - renewal.done, 'passage')}")
    try:
        behind = [one.name for one in await engine_reports(base.index, await base.engines()) if one.behind]
    except EngineUnavailable:
        behind = []
    # Indexing changed pages brings the search servers up to date as well.
    if behind and not late:
        lacking.append(f"bring {', '.join(behind)} up to date")
    return Repair("index", " and ".join(lacking)) if lacking else None


async def _acts_repair(base: KnowledgeBase) -> Repair | None:
    left = [one for one in await base.state.ledger.intents() if (utc_now() - one.at).total_seconds() > ORPHANED_S]
    touched = sorted({change.path for intent in left for change in intent.entry.changes})
    acts = counted(len(left), "change")
    return (
        Repair("acts", f"finish or drop {acts} that a killed process left half done: {named(touched)}")
        if left
        else None
    )


async def _files_repair(base: KnowledgeBase) -> Repair | None:
    in_use = {change.staged for one in await base.state.ledger.intents() for change in one.entry.changes}
    before = utc_now().timestamp() - ORPHANED_S
    orphans = await anyio.to_thread.run_sync(lambda: list(FileSet(base.vault).orphans(before=before)))
    left = sorted(f"{one.folder}/{one.name}".lstrip("/") for one in orphans if one.name not in in_use)
    sentence = f"remove {counted(len(left), 'temporary file')} of interrupted writes; their text is kept in the history"
    return Repair("files", f"{sentence}: {named(left)}") if left else None


def named(paths: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return the first paths as a list that says if there are more."""
    return ", ".join(paths[:most]) + (", …" if len(paths) > most else "")


async def carried_out(settings: Settings, repairs: Sequence[Repair]) -> list[RepairOutcome]:
    """Carry the repairs out, one after the other, and return the outcome of each."""
    async with local_host(settings) as at:
        return [await _carried_out(at, repair) for repair in repairs]


async def _carried_out(at: LocalHost, repair: Repair) -> RepairOutcome:
    base = at.app.base
    try:
        if repair.page is not None:
            return await _on_page(at, repair.page)
        if repair.what in ("index", "rebuild"):
            return await _indexed(base, rebuild=repair.what == "rebuild")
        recovery = recovery_of(base.vault, base.state, base.locks, utc_now)
        count = await (recovery.finish_all() if repair.what == "acts" else recovery.sweep(older_than_s=ORPHANED_S))
    except KnowledgeError as error:
        return RepairOutcome(done=False, outcome=str(error))
    return RepairOutcome(done=count > 0, outcome="done" if count else "another process has done it, or is doing it now")


async def _indexed(base: KnowledgeBase, *, rebuild: bool) -> RepairOutcome:
    async with held_lease(base, wait_s=TTL_S + 1.0, or_once=None if rebuild else up_to_date(base)) as lease:
        if lease is None:
            keeps = await other_process(base)
            return RepairOutcome(
                done=not rebuild, outcome=f"{keeps or 'another process'} keeps the index and completes it"
            )
        update = await bring_up_to_date(base, lease, rebuild=rebuild, vectors=True)
    if update.waiting:
        return RepairOutcome(done=False, outcome=update.waiting)
    return RepairOutcome(done=True, outcome=f"{counted(update.changed, 'page')} indexed")


async def _on_page(at: LocalHost, page: PageRepair) -> RepairOutcome:
    """Save the repaired text through the gate: it is merged, recorded and can be taken back like any edit."""
    try:
        answer = await at.call(
            "kb_merge",
            path=page.path,
            content=page.text,
            section="*",
            base_revision=page.revision,
            intent="doctor --fix: " + "; ".join(page.changes)[:200],
        )
    except NotDone as error:
        return RepairOutcome(done=False, outcome=str(error).removeprefix("kb_merge: "))
    status, proposal = str(answer["status"]), answer.get("proposal") or {}
    if status == "proposed":
        how = f"knowledge-forge review --show {proposal.get('id', '')}"
        return RepairOutcome(done=False, outcome=how, waits=True)
    if status != "done":
        return RepairOutcome(done=status == "unchanged", outcome=status)
    return RepairOutcome(done=True, outcome=f"as {at.who.id}; to take it back: {command('undo', page.path)}")
