"""The keyword engines in the contract suite: how each is opened, and its promises beyond the port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from knowledge.index.engines.fts5 import Fts5KeywordIndex
from knowledge.index.engines.tantivy_keywords import TantivyKeywordIndex
from knowledge.index.ports import KeywordIndex
from tests.support.index.meilisearch import double_place, index_at
from tests.support.index.meilisearch import server_place as meilisearch_place
from tests.support.index.memory_engines import MemoryKeywordIndex
from tests.support.index.split_terms import names_of, terms_of


@asynccontextmanager
async def in_folder(folder: Path) -> AsyncIterator[str]:
    """Yield the folder: the location of an embedded engine in one test."""
    yield str(folder)


@dataclass(frozen=True, slots=True)
class KeywordEngine:
    """One engine in the suite.

    `place` yields the index's location for one test with this folder (a folder, an address with a name), skips the test
    if there can be none, and cleans up. `open` opens the index there, any number of times, also in another process.
    `exact`: ranks by BM25 over exactly the terms it is given, as memory does. `shared`: what one process indexed,
    another finds. `on_disk`: keeps files in the folder that may be deleted or damaged.
    """

    open: Callable[[str], KeywordIndex]
    place: Callable[[Path], AbstractAsyncContextManager[str]] = in_folder
    exact: bool = False
    shared: bool = True
    on_disk: bool = False


ENGINES = {
    "memory": KeywordEngine(lambda _: MemoryKeywordIndex(terms_of, names_of), exact=True, shared=False),
    "tantivy": KeywordEngine(
        lambda place: TantivyKeywordIndex(Path(place) / "keyword", terms_of, names_of), exact=True, on_disk=True
    ),
    "fts5": KeywordEngine(
        lambda place: Fts5KeywordIndex(Path(place) / "keyword.db", terms_of, names_of), exact=True, on_disk=True
    ),
    "meilisearch-double": KeywordEngine(index_at, double_place),
    "meilisearch-server": KeywordEngine(index_at, meilisearch_place),
}
EXACT = [name for name, engine in ENGINES.items() if engine.exact]
SHARED = [name for name, engine in ENGINES.items() if engine.shared]
ON_DISK = [name for name, engine in ENGINES.items() if engine.on_disk]
