"""Acts, origins and contradictions for ledgers, and where ledgers are opened."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from knowledge.history.ports import Actor, FileChange, HistoryEntry, Intent
from knowledge.merge.model import Contradiction, Origin, Side, unit_digest
from knowledge.state.ports import StateStore
from knowledge.state.postgres.store import PostgresStateStore
from knowledge.state.sqlite.store import SqliteStateStore

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
ADA = Actor("ada@desktop", "kb_merge", "ab" * 32)


async def open_shared(where: str, name: str) -> StateStore:
    """Return the state store `name` at `where`: a folder, or the URL of a database server."""
    if where.startswith("postgresql://"):
        return await PostgresStateStore.open(where, name)
    return await SqliteStateStore.open(Path(where) / name / "state.db")


def revision(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def change(path: str, before: bytes | None, after: bytes | None, **more: Any) -> FileChange:
    """Return the change of a page from these bytes to those; None means no file."""
    old, new = (None if raw is None else revision(raw) for raw in (before, after))
    return FileChange(path, old, new, **more)


def entry(*changes: FileChange, at: datetime = NOW, **more: Any) -> HistoryEntry:
    return HistoryEntry(at=at, actor=more.pop("actor", ADA), changes=changes, **more)


def intent(id_: str, *changes: FileChange, at: datetime = NOW, **more: Any) -> Intent:
    return Intent(id_, at, entry(*changes, at=at, **more))


def origin(text: str = "It takes 5 minutes.", **more: Any) -> Origin:
    told: dict[str, Any] = {
        "section": ("Guide", "Times"),
        "source": "plane:PROJ-12",
        "authority": 0.6,
        "observed_at": NOW,
        "revision": revision(b"one"),
        "by": "ada@desktop",
    }
    return Origin(unit_digest(text), **{**told, **more})


def side(path: str, text: str, **more: Any) -> Side:
    told: dict[str, Any] = {"authority": 0.8, "observed_at": NOW, "confidence": 0.7, "revision": revision(b"one")}
    return Side(path, "Guide > Times", text, **{"source": "user", **told, **more})


def contradiction(path: str = "guides/a.md", other: str = "guides/b.md", minutes: int = 6) -> Contradiction:
    existing, new = side(path, "It takes 5 minutes."), side(other, f"It takes {minutes} minutes.", revision=None)
    return Contradiction("number", "it takes", f"5 minutes here, {minutes} minutes there", existing, new)
