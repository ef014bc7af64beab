"""Check the ranking weights of search, and what is recorded about its use."""

from __future__ import annotations

import json
from dataclasses import asdict

import anyio.to_thread

from agents.engine.work.markdown import counted
from knowledge.errors import StorageError
from knowledge.history.timestamps import EARLIEST
from knowledge.search.use.store import USE_FILE, UseStore
from knowledge.search.use.stored_weights import WEIGHTS_FILE, stored_record
from mcp_server.app.knowledge_base import KnowledgeBase
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.result import DoctorFinding, note, ok

RESET = "knowledge-forge eval --from-use --reset returns to the default weights"


async def ranking(base: KnowledgeBase) -> DoctorFinding:
    """Say which weights search has, and since when if a person stored them."""
    record = stored_record(base.state_dir)
    if record is not None:
        weights = ", ".join(f"{name} {value:g}" for name, value in asdict(record.weights).items())
        return ok("ranking", f"{weights}; stored by {record.by} on {record.at[:10]} because of {record.reason}", RESET)
    file = base.state_dir / WEIGHTS_FILE
    if await anyio.to_thread.run_sync(file.exists):
        try:
            was_reset = json.loads(await anyio.to_thread.run_sync(file.read_bytes))["weights"] is None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            was_reset = False
        if not was_reset:
            return note("ranking", f"{file} cannot be read, so search uses the default weights", "delete the file")
    return ok("ranking", "search uses the default weights")


async def use(base: KnowledgeBase, settings: Settings) -> DoctorFinding:
    """Say how many questions are recorded, and how long they are kept."""
    kept = settings.questions_kept
    how = "none are recorded (FORGE_QUESTIONS_KEPT)" if kept is None else f"kept for {kept.days} days"
    if not await anyio.to_thread.run_sync((base.state_dir / USE_FILE).exists):
        return ok("use", f"no questions yet; {how}")
    try:
        store = await anyio.to_thread.run_sync(UseStore.open, base.state_dir)
        try:
            counts = await store.counts(EARLIEST)
        finally:
            store.close()
    except StorageError as error:
        mend = f"nothing else needs it: delete {base.state_dir / USE_FILE}, and recording starts again"
        return note("use", f"questions cannot be recorded: {error}", mend)
    found = f"{counted(counts.questions, 'question')} of hosts and {counted(counts.uses, 'use')} of pages after them"
    return ok("use", f"{found}, on this machine only; {how}")
