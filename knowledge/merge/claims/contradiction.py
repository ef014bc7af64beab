"""Finds the statements of two texts that contradict each other. Pure.

Texts are compared statement by statement, by the rules in `comparison`. In a whole page, only pairs that share enough words to be
about the same subject are compared.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, product
from typing import NamedTuple

from knowledge.merge.claims.claim import (
    UnreadStatement,
    cells_of,
    claim,
    claims_of,
    most_likely_language,
    plain_text,
    unread_statements,
)
from knowledge.merge.claims.comparison import (
    UNRELATED,
    StatementRelation,
    compare_answers,
    compare_claims,
    compare_rows,
    rank,
)
from knowledge.merge.claims.polarity import have_contrast
from knowledge.merge.claims.statement_reader import Claim
from knowledge.merge.document.dated_log import are_entries_apart, day_of
from knowledge.merge.document.entry_keys import are_two_entries
from knowledge.merge.model import Unit

WORTH_READING = 0.4
"""Share of their words that two statements must have in common to be parsed and compared."""
MOST_HOLDERS = 200
"""The most new statements that a statement of the page is compared with because they share one word."""
MOST_NEAR = 24
"""New statements that each statement of the page is compared with: those that share the most words."""
MOST_COMPARED = 1_000
"""The most pairs of sentences of two paragraphs that are compared."""
SAMPLE = 50
"""Units from the beginning of a page that tell its language."""

_FIRST_WORD = re.compile(r"[^\W\d_]+(?=[\s,.;:!\u2013\u2014-]|$)")
_YES_NO = {
    **dict.fromkeys(("yes", "ja", "oui", "si", "s\u00ed", "sim", "\u0434\u0430"), "yes"),
    **dict.fromkeys(("no", "nein", "non", "nee", "n\u00e3o", "nej", "\u043d\u0435\u0442"), "no"),
}

STATING = frozenset(("paragraph", "item", "row", "quote"))


class FoundContradiction(NamedTuple):
    """A contradiction between two units, given by their indexes in the compared sequences; `said` holds both statements."""

    existing: int
    new: int
    comparison: StatementRelation
    said: tuple[str, str]


class _PlacedStatement(NamedTuple):
    """A statement, its unit, and for rows the header of their table."""

    statement: UnreadStatement
    unit: int
    section: tuple[str, ...]
    header: tuple[str, ...] = ()
    is_row: bool = False
    is_header: bool = False


def compare(
    existing: str, new: str, *, existing_section: Sequence[str] = (), new_section: Sequence[str] = ()
) -> StatementRelation:
    """Return the relation of two statements (sentence, item, row with its header, `key: value` line, paragraph).

    In paragraphs, a contradicting sentence decides. If heading paths are given, statements under headings of different
    subjects count as unrelated.
    """
    if plain_text(existing).casefold() == plain_text(new).casefold():
        return StatementRelation("agree", strength=1.0)
    if existing.lstrip().startswith("|") and new.lstrip().startswith("|"):
        return _compare_tables(existing, new)
    language = most_likely_language(f"{existing} {new}")
    pairs = product(claims_of(existing, language), claims_of(new, language))
    found = [compare_claims(a, b) for a, b in islice(pairs, MOST_COMPARED) if a.row or _share_terms(a, b)]
    best = max(found, key=rank, default=UNRELATED)
    apart = best.relation == "contradict" and _sections_differ(existing_section, new_section, language)
    return UNRELATED if apart else best


def answer_differently(question: str, existing: str, new: str) -> bool:
    """Return whether two statements give different answers to one question, whatever their words: "14 days", "It lasts 30"."""
    begins = [_FIRST_WORD.match(plain_text(one).casefold()) for one in (existing, new)]
    said = [_YES_NO.get(found[0]) for found in begins if found]
    if len(said) == 2 and all(said):
        return said[0] != said[1]
    language = most_likely_language(f"{question} {existing} {new}")
    return compare_answers(question, plain_text(existing), plain_text(new), language).relation == "contradict"


def contradictions(existing_units: Sequence[Unit], new_units: Sequence[Unit]) -> list[FoundContradiction]:
    """Return the pairs of units that contradict each other, surest first, at most one for each pair of units.

    Units without statements (headings, code, HTML, front matter) are left out. A new statement that the page already
    has in one place does not contradict another place of the page. This is cheap for texts that `claims_of` has read
    before.
    """
    # One language for all: single sentences are too short to tell theirs, and stems of two languages never match.
    language = most_likely_language(" ".join(unit.text for unit in existing_units[:SAMPLE]))
    new = list(_place_statements(new_units))
    holders: dict[str, list[int]] = defaultdict(list)
    for at, theirs in enumerate(new):
        for word in theirs.statement.rough:
            holders[word].append(at)
    rows = [at for at, theirs in enumerate(new) if theirs.is_row]
    # In large tables, only rows with the same header and first cell are compared.
    by_key: dict[tuple[tuple[str, ...], str], list[int]] = defaultdict(list)
    for at in rows if len(rows) > MOST_NEAR else ():
        by_key[_row_key(new[at])].append(at)
    disputes: list[tuple[int, FoundContradiction]] = []
    agreement = [0.0] * len(new)
    for ours in _place_statements(existing_units, with_rows=bool(rows)):
        if ours.is_row:
            near: Iterable[int] = by_key.get(_row_key(ours), ())[:MOST_NEAR] if by_key else rows
        else:
            near = _near(ours.statement.rough, new, holders)
        for at in near:
            if are_two_entries(existing_units[ours.unit], new_units[new[at].unit]):
                continue
            found = _compare_placed(ours, new[at], language)
            if found.relation == "contradict":
                said = ours.statement.text, new[at].statement.text
                disputes.append((at, FoundContradiction(ours.unit, new[at].unit, found, said)))
            elif found.relation == "agree":
                agreement[at] = max(agreement[at], found.strength)
    return _surest(disputes, agreement)


def _surest(disputes: Iterable[tuple[int, FoundContradiction]], agreement: Sequence[float]) -> list[FoundContradiction]:
    """Return the surest contradiction of each pair of units.

    `disputes` holds contradictions, each after the index of its new statement. `agreement` holds, at that index, how
    strongly the statement agrees with the page at best.
    """
    found: dict[tuple[int, int], FoundContradiction] = {}
    surest_first = sorted(disputes, key=lambda one: (-one[1].comparison.strength, one[1].existing, one[1].new, one[0]))
    for at, pair in surest_first:
        # If the page contradicts itself, new text that agrees with either place is not in dispute.
        if pair.comparison.strength > agreement[at]:
            found.setdefault((pair.existing, pair.new), pair)
    return list(found.values())


def _place_statements(units: Sequence[Unit], *, with_rows: bool = True) -> Iterator[_PlacedStatement]:
    """Yield the statements of `units`, each with its unit and section."""
    headers: dict[int, tuple[str, ...]] = {}
    for at, unit in enumerate(units):
        if unit.kind not in STATING:
            continue
        for statement in unread_statements(unit.text):
            if not statement.text.startswith("|"):
                yield _PlacedStatement(statement, at, unit.section)
            elif with_rows:
                first = unit.piece not in headers
                header = headers.setdefault(unit.piece, cells_of(statement.text))
                yield _PlacedStatement(statement, at, unit.section, header, is_row=True, is_header=first)


def _near(
    rough: frozenset[str], new: Sequence[_PlacedStatement], holders: Mapping[str, Sequence[int]]
) -> Iterable[int]:
    """Return the indexes of the new statements that share enough words to be worth comparing."""
    # Rare words first: a word that very many statements share says little about any one subject.
    holding = sorted((holders[word] for word in rough if word in holders), key=len)
    shared = Counter(chain.from_iterable(some[:MOST_HOLDERS] for some in holding))
    near = [
        at
        for at, count in shared.items()
        if not new[at].is_row and count >= WORTH_READING * min(len(rough), len(new[at].statement.rough))
    ]
    return near if len(near) <= MOST_NEAR else sorted(near, key=lambda at: (-shared[at], at))[:MOST_NEAR]


def _row_key(row: _PlacedStatement) -> tuple[tuple[str, ...], str]:
    first = next(iter(cells_of(row.statement.text)), "").casefold()
    return tuple(cell.casefold() for cell in row.header), first


def _compare_placed(ours: _PlacedStatement, theirs: _PlacedStatement, language: str) -> StatementRelation:
    if ours.is_row:
        same_table = [cell.casefold() for cell in ours.header] == [cell.casefold() for cell in theirs.header]
        if ours.is_header or theirs.is_header or not same_table:
            return UNRELATED
        return compare_rows(ours.header, cells_of(ours.statement.text), cells_of(theirs.statement.text))
    left, right = claim(ours.statement.text, language), claim(theirs.statement.text, language)
    if not _share_terms(left, right):
        return UNRELATED
    found = compare_claims(left, right)
    apart = found.relation == "contradict" and _sections_differ(ours.section, theirs.section, language)
    return UNRELATED if apart else found


def _share_terms(ours: Claim, theirs: Claim) -> bool:
    """Return whether two claims share enough terms to be worth comparing, which costs far more than this test."""
    return len(ours.bag & theirs.bag) * 2 >= min(len(ours.bag), len(theirs.bag))


def _sections_differ(ours: Sequence[str], theirs: Sequence[str], language: str) -> bool:
    """Return whether headings name different subjects of one sort (`Linux`, `Windows`), or two entries of a series."""
    if not ours or not theirs or tuple(ours) == tuple(theirs):
        return False
    if (any(map(day_of, ours)) and any(map(day_of, theirs))) or are_entries_apart(tuple(ours), tuple(theirs)):
        return True
    left = {term for name in ours for term in claim(name, language).terms}
    right = {term for name in theirs for term in claim(name, language).terms}
    return have_contrast(left - right, right - left, language)


def _compare_tables(existing: str, new: str) -> StatementRelation:
    """Compare table rows; either text may begin with the header and the line of dashes of its table."""
    ours, our_header = _rows(existing)
    theirs, their_header = _rows(new)
    if our_header and their_header and [c.casefold() for c in our_header] != [c.casefold() for c in their_header]:
        return UNRELATED
    header = our_header or their_header
    found = [compare_rows(header, a, b) for a, b in islice(product(ours, theirs), MOST_COMPARED)]
    return max(found, key=rank, default=UNRELATED)


def _rows(text: str) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the rows of a table, and its header, () without any."""
    rows = [cells_of(line) for line in text.splitlines() if line.strip()]
    for at, row in enumerate(rows):
        if row and all(cell and not cell.strip(":-") for cell in row):
            return (rows[at + 1 :], rows[at - 1]) if at else (rows, ())
    return rows, ()
