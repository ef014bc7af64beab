"""Examine the index and its engines: its age and coverage, which engines answer, and how far they are behind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from knowledge.errors import KnowledgeError
from knowledge.index.engines.standby import StandbyKeyword, StandbyVectors
from knowledge.index.ports import KeywordIndex, VectorIndex
from knowledge.search.ranking.ranker import Engines
from knowledge.state.ports import IndexPosition, IndexStore

ROWS = 50_000
"""Codes that are read at a time while counting."""
HERE = "in this process"
_EMBEDDED = {
    "TantivyKeywordIndex": ("tantivy", "tantivy {0}"),
    "Fts5KeywordIndex": ("apsw", "SQLite FTS5 (apsw {0})"),
    "CodesVectorIndex": ("numpy", "binary codes (numpy {0})"),
}
"""Engines in this process: the package whose version is reported, and the engine's display name."""
EngineKind = Literal["keywords", "vectors"]


@dataclass(frozen=True, slots=True)
class EngineReport:
    """An engine as it is now. `behind` counts changes in the database that it does not have yet."""

    name: str
    kind: EngineKind
    where: str
    reachable: bool = True
    behind: int = 0
    problem: str = ""

    def __str__(self) -> str:
        """Return the report as one line."""
        if not self.reachable:
            return f"{self.kind}: {self.name}, {self.where}: {self.problem or 'does not answer'}"
        late = f", behind by {self.behind} rows" if self.behind else ""
        return f"{self.kind}: {self.name}, {self.where}{late}" + (f": {self.problem}" if self.problem else "")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the knowledge base can be found. `newest`: when a page was last indexed, None if none ever was."""

    documents: int
    total: int
    chunks: int
    embedded: int
    newest: datetime | None

    def text(self, now: datetime) -> str:
        """Return the coverage as a sentence."""
        if self.newest is None:
            return "no page was ever indexed"
        some = f"{self.embedded} of {self.chunks}" if self.embedded < self.chunks else f"all {self.chunks}"
        return (
            f"{self.documents} of {self.total} pages; {some} passages have vectors; "
            f"last indexed {ago((now - self.newest).total_seconds())}"
        )


async def coverage(index: IndexStore) -> Coverage:
    """Return how much is in the index, and when a page was last indexed."""
    progress = await index.progress()
    times = [indexed_at_ns for _, _, indexed_at_ns in (await index.stamps()).values()]
    chunks, embedded = await _counted(index)
    renewal = await index.renewal()
    if (await index.space()).coming is None:
        # Exact: a text that the model does not accept has a vector of zeros, and needs no other.
        embedded = chunks - (renewal.total - renewal.done if renewal else 0)
    newest = datetime.fromtimestamp(max(times) / 1e9, UTC) if times else None
    return Coverage(progress.done, progress.total, chunks, embedded, newest)


async def engine_reports(index: IndexStore, engines: Engines) -> list[EngineReport]:
    """Return the state of the engines that answer searches here, each with its problem if it does not answer."""
    now, vectors_now = await index.position(), (await index.space()).position
    servers: list[EngineReport] = []
    if isinstance(engines.keyword, StandbyKeyword):
        servers.append(await _report(engines.keyword.primary, "keywords", now))
    if isinstance(engines.vectors, StandbyVectors):
        servers.append(await _report(engines.vectors.primary, "vectors", vectors_now))
    return [*servers, *await _embedded(engines, now, vectors_now)]


async def _embedded(engines: Engines, now: IndexPosition, vectors_now: IndexPosition) -> list[EngineReport]:
    """Return the state of the engines in this process, which answer when servers do not."""
    keyword_engine = engines.keyword.spare if isinstance(engines.keyword, StandbyKeyword) else engines.keyword
    vector_engine = engines.vectors.spare if isinstance(engines.vectors, StandbyVectors) else engines.vectors
    return [await _report(keyword_engine, "keywords", now), await _report(vector_engine, "vectors", vectors_now)]


def ago(seconds: float) -> str:
    """Return how long ago that was, in its largest unit."""
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "a moment ago"


async def _report(engine: KeywordIndex | VectorIndex, kind: EngineKind, now: IndexPosition) -> EngineReport:
    name, where = _name(type(engine).__name__)
    try:
        at = await engine.position()
    except KnowledgeError as error:
        return EngineReport(name, kind, where, reachable=False, problem=str(error))
    # An engine with rows of another generation has nothing that counts.
    behind = 0 if at is None else now.seq - (at.seq if at.generation == now.generation else 0)
    return EngineReport(name, kind, where, behind=max(behind, 0))


def _name(of_class: str) -> tuple[str, str]:
    """Return the engine's name for people, and where it runs."""
    if of_class not in _EMBEDDED:
        return of_class.removesuffix("Index").removesuffix("Keyword").removesuffix("Vector"), "on a server"
    package, name = _EMBEDDED[of_class]
    try:
        found = version(package)
    except PackageNotFoundError:
        found = "of unknown version"
    return name.format(found), HERE


async def _counted(index: IndexStore) -> tuple[int, int]:
    """Return the chunks in the index, and those that have a vector."""
    chunks = embedded = 0
    at, end = IndexPosition("", 0), await index.position()
    gone: set[int] = set()
    seen: dict[int, bool] = {}
    while at.generation != end.generation or at.seq < end.seq:
        rows = await index.delta(at, limit=ROWS, codes=True)
        # The code of a chunk without a vector has only zeros. Reading the codes is much cheaper than reading the vectors.
        seen.update({row.seq: any(row.code) for row in rows.codes})
        gone.update(rows.removed)
        if rows.upto == at:
            break
        at = rows.upto
    for seq, has_vector in seen.items():
        if seq not in gone:
            chunks += 1
            embedded += has_vector
    return chunks, embedded
