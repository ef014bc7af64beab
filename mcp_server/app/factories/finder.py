"""Builds search: the finder, its router, and the engines of this machine. Loaded with the first search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio

from knowledge.errors import KnowledgeError
from knowledge.index.embed.ports import EmbedderOf
from knowledge.index.engines.codes import CodesVectorIndex
from knowledge.index.ports import KeywordIndex, VectorIndex
from knowledge.pages.document import head
from knowledge.pages.paths import INDEX_NAME
from knowledge.pages.vault import Vault
from knowledge.search.canvas_search import CanvasSearch
from knowledge.search.finder import Finder
from knowledge.search.query.corrections import Vocabularies
from knowledge.search.ranking.ranker import Engines
from knowledge.search.ranking.weights import WeightsOf
from knowledge.search.rerank.order import Reranking
from knowledge.search.rerank.ports import RerankerChoice
from knowledge.search.route.router import Router
from knowledge.search.route.second_opinion import RouteAdviser
from knowledge.search.use.recorder import UseRecorder
from knowledge.search.use.store import UseStore
from knowledge.search.use.stored_weights import StoredWeights
from knowledge.state.ports import IndexStore


def finder_of(
    vault: Vault,
    index: IndexStore,
    engines: Callable[[], Awaitable[Engines]],
    *,
    adviser: RouteAdviser | None,
    is_usual_word: Callable[[str], bool],
    answer_tokens: int,
    patience_s: float,
    on_wait: Callable[[], None],
    weights: WeightsOf,
    reranker: RerankerChoice,
    index_note: Callable[[], Awaitable[str]],
) -> Finder:
    """Return the search of a knowledge base, with the weights that `weights` returns at each search.

    A search that finds an empty index calls `on_wait` and waits `patience_s` for its first pages.
    """
    router = Router(index, partial(_root_front_matter, vault), adviser)
    vocabulary = Vocabularies(is_usual_word).near
    return Finder(
        index,
        engines,
        vocabulary,
        router=router,
        answer_tokens=answer_tokens,
        patience_s=patience_s,
        on_wait=on_wait,
        weights=weights,
        reranking=Reranking(reranker),
        canvases=CanvasSearch(vault),
        index_note=index_note,
        has_pages=partial(anyio.to_thread.run_sync, _has_pages, vault),
    )


def _has_pages(vault: Vault) -> bool:
    return next(vault.scan(), None) is not None


def stored_weights(folder: Path) -> WeightsOf:
    """Return the weights that a person stored in the state folder; those of the program until one does."""
    return StoredWeights(folder).now


def own_engines(keyword: KeywordIndex, vectors: VectorIndex, questions: EmbedderOf) -> Engines:
    """Return the engines of this machine."""
    return Engines(keyword, vectors, questions)


def vector_engine(*, lean: bool = False) -> VectorIndex:
    """Return the embedded vector search; a `lean` one reads vectors from the store instead of keeping them in memory."""
    return CodesVectorIndex(memory_bytes=0) if lean else CodesVectorIndex()


def use_recorder(folder: Path, kept: timedelta) -> UseRecorder:
    """Return the recorder of questions and of the pages used after them, kept in the state folder for the configured time."""
    return UseRecorder(partial(UseStore.open, folder), kept)


async def _root_front_matter(vault: Vault) -> Mapping[str, object]:
    """Return the front matter of the root page, which may have examples for the router. If the page is a link, it is not followed."""
    try:
        return head((await anyio.to_thread.run_sync(partial(vault.read, INDEX_NAME, plain=True))).raw).metadata
    except KnowledgeError:
        return {}
