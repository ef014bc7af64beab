"""Opens a knowledge base as one caller may read it. Loaded with the first caller who may not read everything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from knowledge.access.rules import PathAccess
from knowledge.access.view.index_copy import IndexCopy
from knowledge.access.view.readable_acts import ReadableActs
from knowledge.access.view.readable_ledger import NumberedLedger, ReadableLedger
from knowledge.access.view.readable_vault import ReadableVault
from knowledge.history.past_states import PastStates
from knowledge.history.ports import Ledger
from knowledge.index.embed.ports import EmbedderOf
from knowledge.index.ports import KeywordIndex
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.offload import StepRunner
from knowledge.pages.vault import Vault
from knowledge.private_files import private_folder
from knowledge.search.finder import Finder
from knowledge.search.ranking.ranker import Engines
from knowledge.search.tiers import Tiers
from knowledge.writing.evidence.judge import ContradictionJudge
from knowledge.writing.evidence.sources import Sources
from knowledge.writing.locks.page_locks import Locks
from mcp_server.app.factories.finder import own_engines, vector_engine
from mcp_server.app.factories.keywords import keyword_engine
from mcp_server.app.factories.once import Once, awaited_once
from mcp_server.app.factories.writer import WriterBasis, Writing, writing_on
from mcp_server.late_module import LateModule
from mcp_server.workers.index_steps import linked_documents_in

if TYPE_CHECKING:
    from mcp_server.web.link_graph import graphs
    from mcp_server.web.link_graph.graphs import LinkGraphs
else:
    # Only for people who look at the graph.
    graphs = LateModule("mcp_server.web.link_graph.graphs")

NAME_DIGITS = 24
PATIENCE_S = 600.0
"""How long a copy waits while another process makes the same one. The first copy of a large index takes minutes."""

Find: TypeAlias = Callable[[], Awaitable[Engines]]


@dataclass(frozen=True, slots=True)
class ViewParts:
    """The parts of the whole knowledge base that views are made from."""

    vault: Vault
    ledger: Ledger
    index: SqliteIndexStore
    folder: Path
    now: Callable[[], datetime]
    runner: StepRunner
    questions: EmbedderOf
    finder_on: Callable[[Vault, SqliteIndexStore, Find], Finder]
    basis: Callable[[Sources, ContradictionJudge | None], WriterBasis]
    lean: bool


@dataclass(frozen=True, slots=True)
class ReadingView:
    """A knowledge base with readable pages alone. Callers who may read the same folders share one."""

    vault: ReadableVault
    ledger: ReadableLedger
    index: SqliteIndexStore
    tiers: Tiers
    load_finder: Callable[[], Finder]
    follow: Callable[[], Awaitable[None]]
    """Brings the index up to date with that of all pages."""
    load_writing: Callable[[Sources, ContradictionJudge | None, Writing], Writing]
    """Builds what changes the readable pages. The last argument is the same for all pages."""
    load_link_graphs: Callable[[], Awaitable[LinkGraphs]]
    """Returns what computes the graph of links between readable pages."""


OpenView: TypeAlias = Callable[[PathAccess], Awaitable[ReadingView]]


async def open_view(parts: ViewParts, access: PathAccess, stack: AsyncExitStack) -> ReadingView:
    """Open the view. Its parts are closed with `stack`.

    Search servers hold the index of all pages, so a view is searched with the engines of this machine.

    Raises:
        StorageError: its index can't be opened.
    """
    folder = parts.folder / name_of(access)
    private_folder(parts.folder)
    private_folder(folder)
    index = await SqliteIndexStore.open(folder / "index.db")
    keyword: Once[KeywordIndex] = Once(lambda: keyword_engine(folder / "keyword"))
    vectors = Once(lambda: vector_engine(lean=parts.lean))
    link_graphs = Once(
        lambda: graphs.LinkGraphs(
            index,
            index.path,
            linked_documents_in,
            folder / "graph",
            links_by_name=lambda: tiers.links_by_name,
        )
    )
    for part in (index, keyword, vectors, link_graphs):
        stack.push_async_callback(part.close)
    locks = Locks(folder / "locks", longest_wait_s=PATIENCE_S)
    copied = IndexCopy(
        *(parts.index, index, access),
        keyword=keyword.get,
        turn=lambda: locks.held(["index"]),
        made_from=folder / "made-from",
    )

    @awaited_once
    async def engines() -> Engines:
        return own_engines(await keyword.get(), await vectors.get(), parts.questions)

    vault, ledger = ReadableVault(parts.vault, access), ReadableLedger(parts.ledger, access)
    past = PastStates(lambda: ledger, parts.now)
    tiers = Tiers(vault, index, past=past, runner=parts.runner)
    finder = cache(lambda: parts.finder_on(vault, index, engines))

    def writing(sources: Sources, judge: ContradictionJudge | None, whole: Writing) -> Writing:
        basis = replace(
            parts.basis(sources, judge),
            vault=vault,
            ledger=ledger,
            past=past,
            index=index,
            tiers=tiers,
            keyword=keyword.get,
            sections_like=lambda text, directory: finder().sections_like(text, directory),
            shown=NumberedLedger(parts.ledger, access),
            acts=ReadableActs(whole.acts, vault),
            elsewhere=whole.elsewhere,
        )
        return writing_on(basis)

    return ReadingView(vault, ledger, index, tiers, finder, copied.follow, writing, link_graphs.get)


def name_of(access: PathAccess) -> str:
    """Return the name of the folder of the view. Callers who may read the same pages share it."""
    return hashlib.sha256(json.dumps(access.reading).encode()).hexdigest()[:NAME_DIGITS]
