"""Chooses the statements that a language model may be asked about: similar pairs that no rule flags. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from knowledge.merge.claims.statements import Statement, likeness
from knowledge.merge.document.reference_labels import with_own_labels
from knowledge.merge.evidence.confidence import same_lineage
from knowledge.merge.evidence.merge import compare_content
from knowledge.merge.evidence.weigh.prose_comparison import may_doubt, prose_statements
from knowledge.merge.evidence.weighing_state import Weighing
from knowledge.merge.model import CutDocument, IncomingEvidence, section_name
from knowledge.merge.setting import MergeSetting

MOST_PAIRS = 20
"""The most pairs sent to the model for one piece of evidence."""
MOST_OF_ONE = 6
"""The most pairs of one new statement."""
MOST_NEW = 40
MOST_COMPARED = 600
"""Statements of a page that are compared in meaning; of a longer page, those that share most words with something new."""
LEAST_WORDS, LONGEST = 3, 400
"""Limits on a statement that is sent to the model, in words and characters."""
MOST_CHARACTERS = 12_000
"""The most characters sent to the model at once."""
LEAST_LIKENESS = 0.3
"""Share of common words plus likeness in meaning; below this, two statements have different subjects."""


class Pair(NamedTuple):
    """Two statements, word for word, and the headings above them."""

    existing: str
    new: str
    existing_section: str
    new_section: str


def undecided(
    current: CutDocument,
    content: CutDocument,
    evidence: IncomingEvidence,
    setting: MergeSetting,
    *,
    section: str | None = None,
) -> tuple[Pair, ...]:
    """Return the pairs of similar statements that may contradict each other although no rule says so, most similar first.

    Duplicates, contradictions by the rules, and text of the page from the evidence's own lineage are already decided.
    The arguments are those of `weigh`.

    Raises:
        NoSuchSection, AmbiguousName: `section` does not name one section of the page.
    """
    w = Weighing(current, evidence, setting)
    content, _ = with_own_labels(content, current)
    compare_content(w, content, w.find_section(section) if section is not None else None)
    new = _left_by_rules(w)[:MOST_NEW]
    # The evidence's own lineage may contradict what it said before: that is a correction.
    there = [
        old
        for old in prose_statements(w)
        if _may_be_asked(old) and not same_lineage(evidence.source, w.origins[old.unit].source)
    ]
    targets = {one.section: w.target(one.section) for one in new}
    chosen: dict[tuple[str, str], Pair] = {}
    asked: dict[str, int] = defaultdict(int)
    room = MOST_CHARACTERS
    for _, old, said in sorted(_scored(w, there, new), key=lambda scored: -scored[0]):
        pair = Pair(old.reading.text, said.reading.text, section_name(old.section), section_name(said.section))
        if pair[:2] in chosen or asked[pair.new] == MOST_OF_ONE or not may_doubt(w, old, said, targets[said.section]):
            continue
        # All pairs go into one question to the model.
        room -= sum(map(len, pair))
        if room < 0 or len(chosen) == MOST_PAIRS:
            break
        chosen[pair.existing, pair.new] = pair
        asked[pair.new] += 1
    return tuple(chosen.values())


def _left_by_rules(w: Weighing) -> list[Statement]:
    """Return the new statements that the rules leave open; units in which a rule flags a contradiction are left out."""
    left: list[Statement] = []
    for number in sorted(w.findings):
        found = w.findings[number]
        if not found.disputes and w.index.equal(w.incoming[number]) is None:
            left += filter(_may_be_asked, (*found.new, *(new for new, _ in (*found.paraphrases, *found.questions))))
    return left


def _may_be_asked(one: Statement) -> bool:
    is_row = one.reading.kind == "row" or one.reading.text.startswith("|")
    return not is_row and len(one.reading.text) <= LONGEST and len(one.reading.plain.split()) >= LEAST_WORDS


def _scored(
    w: Weighing, there: Sequence[Statement], new: Sequence[Statement]
) -> Iterable[tuple[float, Statement, Statement]]:
    """Yield (score, old, new) for each similar pair; the score adds their share of common words and likeness in meaning."""
    if not there or not new:
        return
    if len(there) > MOST_COMPARED:
        near = {(one.unit, one.span) for said in new for one in w.index.near(said)}
        there = [old for old in there if (old.unit, old.span) in near]
    similarity = w.setting.similarity
    meant = similarity([one.reading.plain for one in new], [one.reading.plain for one in there]) if similarity else None
    for row, said in enumerate(new):
        for column, old in enumerate(there):
            score = likeness(old.reading, said.reading) + (meant[row][column] if meant is not None else 0.0)
            if score >= LEAST_LIKENESS:
                yield score, old, said
