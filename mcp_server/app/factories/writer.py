"""Builds the parts that change pages and recover interrupted acts. Loaded at the first use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from knowledge.contradictions.comparer import PageComparer
from knowledge.contradictions.cross_page import CrossPageClaims
from knowledge.contradictions.record import Contradictions
from knowledge.contradictions.settlement import Settlements
from knowledge.contradictions.sweep import ContradictionSweep
from knowledge.git.change_commits import ChangeCommits
from knowledge.git.commit_records import CommitRecords
from knowledge.git.working_files import WorkingFiles
from knowledge.history.page_history import PageHistory
from knowledge.history.past_states import PastStates
from knowledge.history.ports import Ledger
from knowledge.history.timeline.comparison import Comparisons
from knowledge.history.timeline.line_authors import LineAuthors
from knowledge.history.timeline.timeline import Timeline
from knowledge.index.ports import KeywordIndex
from knowledge.offload import StepRunner
from knowledge.pages.vault import Vault
from knowledge.search.tiers import Tiers
from knowledge.state.ports import IndexStore, StateStore
from knowledge.writing.acts.import_act import ImportActs
from knowledge.writing.acts.merge_act import MergeActs
from knowledge.writing.acts.move_act import MoveActs, rejoin
from knowledge.writing.acts.ports import PageActs
from knowledge.writing.evidence.citation_check import CitationCheck
from knowledge.writing.evidence.judge import ContradictionJudge
from knowledge.writing.evidence.sources import Sources
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.files.outside_changes import OutsideChanges
from knowledge.writing.files.recovery import Recovery
from knowledge.writing.locks.page_locks import PageLocks
from knowledge.writing.related.backlinks import Backlinks
from knowledge.writing.related.followed_moves import FollowedMoves
from knowledge.writing.related.related_pages import RelatedPages
from knowledge.writing.related.target_page import PageLookup
from knowledge.writing.stakes import Appraiser
from knowledge.writing.transaction import Transaction
from knowledge.writing.undo.undo import Undo
from knowledge.writing.undo.undo_acts import UndoActs
from knowledge.writing.writer import FindSections, Writer
from mcp_server.app.settings.environment import git_environment
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from knowledge.index.embed import static
    from knowledge.index.embed.static import StaticEmbedder
    from knowledge.stored_pages import acts as stored_page_acts
    from knowledge.stored_pages.copy import PagesCopy
else:
    stored_page_acts = LateModule("knowledge.stored_pages.acts")
    static = LateModule("knowledge.index.embed.static")


@dataclass(frozen=True, slots=True)
class Writing:
    """The writer, the undo, the page history, and the contradictions on record. `acts` and `elsewhere` also work in the background."""

    writer: Writer
    undo: Undo
    page_history: PageHistory
    timeline: Timeline
    comparisons: Comparisons
    line_authors: LineAuthors
    outside_changes: OutsideChanges
    change_commits: ChangeCommits
    contradictions: Contradictions
    settlements: Settlements
    followed_moves: FollowedMoves
    sweep: ContradictionSweep
    acts: PageActs
    elsewhere: CrossPageClaims


@dataclass(frozen=True, slots=True)
class WriterBasis:
    """The parts from which the writer is built."""

    vault: Vault
    ledger: Ledger
    past: PastStates
    index: IndexStore
    tiers: Tiers
    keyword: Callable[[], Awaitable[KeywordIndex]]
    words: Callable[[], StaticEmbedder]
    sections_like: FindSections
    locks: PageLocks
    now: Callable[[], datetime]
    sources: Sources
    runner: StepRunner
    commit_records: CommitRecords
    judge: ContradictionJudge | None = None
    copy: PagesCopy | None = None
    """This machine's copy of pages that are in the database."""
    excluded: Sequence[str] = ()
    """Patterns from the settings for pages that are not the person's own."""
    shown: Ledger | None = None
    """The ledger as histories show it; None if that is `ledger`."""
    acts: PageActs | None = None
    """Carries out the acts; None for acts on the files of `vault`."""
    elsewhere: CrossPageClaims | None = None
    """Looks for contradictions with other pages after a write; None for a search among the pages of these parts."""


def writing_on(parts: WriterBasis) -> Writing:
    """Build the writer."""
    files = WorkingFiles(parts.vault.root, git_environment())
    acts = parts.acts or _acts_on(parts, files)
    pages = PageLookup(parts.vault, parts.tiers)
    related = RelatedPages(parts.index, parts.keyword)
    backlinks = Backlinks(parts.vault, parts.index)
    comparer = PageComparer(parts.vault, parts.ledger, pages, parts.now, parts.runner, excluded=parts.excluded)
    elsewhere = parts.elsewhere or CrossPageClaims(comparer, related, parts.ledger, parts.now)
    undoing = UndoActs(parts.ledger, backlinks)
    merging = MergeActs(parts.ledger, pages, parts.now, parts.runner, in_conflict=files.in_conflict)
    writer = Writer(
        vault=parts.vault,
        past=parts.past,
        acts=acts,
        pages=pages,
        merging=merging,
        moving=MoveActs(parts.ledger, backlinks, undoing),
        importing=ImportActs(parts.ledger, merging),
        undoing=undoing,
        backlinks=backlinks,
        elsewhere=elsewhere,
        sections_like=parts.sections_like,
        similarity=Meaning(parts.words),
        citations=CitationCheck(parts.vault, pages, parts.sources, parts.runner),
        appraiser=Appraiser(parts.vault, parts.ledger),
        judge=parts.judge,
        runner=parts.runner,
    )
    page_history = PageHistory(parts.vault, parts.shown or parts.ledger, parts.tiers, parts.now)
    contradictions = Contradictions(parts.vault, parts.ledger, parts.now)
    sweep = ContradictionSweep(parts.vault, comparer, related, parts.ledger, parts.now)
    outside = OutsideChanges(parts.vault, parts.ledger, acts.note_outside, acts.follow_move)
    timeline = Timeline(parts.ledger, parts.tiers)
    comparisons = Comparisons(parts.vault, parts.ledger, timeline)
    authors = LineAuthors(parts.ledger, page_history)
    undo = Undo(parts.vault, parts.ledger, parts.tiers, writer, parts.now)
    settlements = Settlements(
        vault=parts.vault,
        ledger=parts.ledger,
        contradictions=contradictions,
        writer=writer,
        undo=undo,
        now=parts.now,
    )
    return Writing(
        writer,
        undo,
        page_history,
        timeline,
        comparisons,
        authors,
        outside,
        ChangeCommits(files, parts.commit_records, parts.ledger),
        contradictions,
        settlements,
        FollowedMoves(parts.vault, parts.ledger, writer, parts.now),
        sweep,
        acts,
        elsewhere,
    )


def _acts_on(parts: WriterBasis, files: WorkingFiles) -> PageActs:
    if parts.copy is not None:
        return stored_acts(parts.copy, parts.ledger, parts.locks, parts.now)
    return Transaction(
        *(FileSet(parts.vault), parts.ledger, parts.locks),
        now=parts.now,
        rejoin=rejoin,
        left_by_git=files.left_by_git,
    )


def stored_acts(
    copy: PagesCopy, ledger: Ledger, locks: PageLocks, now: Callable[[], datetime]
) -> stored_page_acts.StoredPageActs:
    """Return what carries out acts on the pages in the database."""
    return stored_page_acts.StoredPageActs(copy, ledger, locks, now=now, rejoin=rejoin)


def recovery_of(vault: Vault, state: StateStore, locks: PageLocks, now: Callable[[], datetime]) -> Recovery:
    """Return the recovery of acts that a killed process left half done."""
    return Recovery(FileSet(vault), state.ledger, locks, rejoin=rejoin, now=now)


class Meaning:
    """Compares texts by meaning with the embedded word vectors, which are loaded with the first comparison.

    Sent to a worker process, it loads the same weights there.
    """

    def __init__(self, words: Callable[[], StaticEmbedder]) -> None:
        self._words = words

    def __call__(self, asked: Sequence[str], told: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the cosine similarity of each text in `asked` to each text in `told`."""
        rows = self._words().embed_now([*asked, *told])
        return [[float(cosine) for cosine in row] for row in rows[: len(asked)] @ rows[len(asked) :].T]

    def __reduce__(self) -> tuple[Callable[[], Meaning], tuple[()]]:
        return _meaning_here, ()


@cache
def _meaning_here() -> Meaning:
    return Meaning(static.shared_embedder)
