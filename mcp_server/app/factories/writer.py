"""The composition root's part for writing: what changes pages, and what tells of changes. Loaded at the first use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from knowledge.history.page_history import PageHistory
from knowledge.history.past_states import Past
from knowledge.history.ports import Ledger
from knowledge.index.ports import KeywordIndex
from knowledge.offload import Aside
from knowledge.pages.vault import Vault
from knowledge.search.tiers import Tiers
from knowledge.state.ports import IndexStore
from knowledge.writing.acts.merge_act import Merging
from knowledge.writing.acts.move_act import Moving, rejoin
from knowledge.writing.evidence.citation_check import CitationCheck
from knowledge.writing.evidence.judge import ContradictionJudge
from knowledge.writing.evidence.sources import Sources
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.locks.page_locks import PageLocks
from knowledge.writing.related.backlinks import Linking
from knowledge.writing.related.cross_page import CrossPageClaims
from knowledge.writing.related.related_pages import Related
from knowledge.writing.related.target_page import PageLookup
from knowledge.writing.stakes import Appraiser
from knowledge.writing.transaction import Transaction
from knowledge.writing.writer import Writer

if TYPE_CHECKING:
    from knowledge.index.embed.static import StaticEmbedder


@dataclass(frozen=True, slots=True)
class Writing:
    """What changes pages and tells of it; `acts` and `elsewhere` have work in the background."""

    writer: Writer
    page_history: PageHistory
    acts: Transaction
    elsewhere: CrossPageClaims


@dataclass(frozen=True, slots=True)
class WriterBasis:
    """What writing stands on."""

    vault: Vault
    ledger: Ledger
    past: Past
    index: IndexStore
    tiers: Tiers
    keyword: Callable[[], Awaitable[KeywordIndex]]
    words: Callable[[], StaticEmbedder]
    locks: PageLocks
    now: Callable[[], datetime]
    sources: Sources
    aside: Aside
    judge: ContradictionJudge | None = None


def writing_on(ground: WriterBasis) -> Writing:
    """Return everything that writes, wired."""
    acts = Transaction(FileSet(ground.vault), ground.ledger, ground.locks, now=ground.now, rejoin=rejoin)
    pages = PageLookup(ground.vault, ground.tiers)
    related = Related(ground.index, ground.keyword)
    linking = Linking(ground.vault, ground.index)
    elsewhere = CrossPageClaims(ground.vault, related, ground.ledger, pages, ground.now, aside=ground.aside)
    writer = Writer(
        vault=ground.vault,
        past=ground.past,
        acts=acts,
        pages=pages,
        merging=Merging(ground.ledger, pages, ground.now, ground.aside),
        moving=Moving(ground.ledger, linking),
        linking=linking,
        elsewhere=elsewhere,
        related=related,
        similarity=Meaning(ground.words),
        citations=CitationCheck(ground.vault, pages, ground.sources, ground.aside),
        appraiser=Appraiser(ground.vault, ground.ledger),
        judge=ground.judge,
        aside=ground.aside,
    )
    page_history = PageHistory(ground.vault, ground.ledger, ground.tiers, ground.now)
    return Writing(writer, page_history, acts, elsewhere)


class Meaning:
    """How alike texts are in meaning, by word embeddings that need no network, loaded with the first comparison.

    In another process it is another one of the same: the weights are the same for all, and each process loads its own.
    """

    def __init__(self, words: Callable[[], StaticEmbedder]) -> None:
        self._words = words

    def __call__(self, asked: Sequence[str], told: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return for each text asked about its likeness (up to 1) to each of those told."""
        rows = self._words().embed_now([*asked, *told])
        return [[float(cosine) for cosine in row] for row in rows[: len(asked)] @ rows[len(asked) :].T]

    def __reduce__(self) -> tuple[Callable[[], Meaning], tuple[()]]:
        return _meaning_here, ()


@cache
def _meaning_here() -> Meaning:
    from knowledge.index.embed.static import StaticEmbedder

    return Meaning(cache(StaticEmbedder))
