"""Whether two statements say otherwise about the same subject, found without a model. Pure.

Statements are about the same subject when the words that are not figures, negations or antonyms are nearly the same: words
that both sides have instead of each other weigh against it, words that one side adds hardly do. Then values are laid beside
each other by the words near them. In doubt two statements are unrelated: what is not flagged is still merged as it says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain, islice, product
from typing import Literal, NamedTuple

from knowledge.merge.claims.claim import (
    UnreadStatement,
    cells_of,
    claim,
    claims_of,
    language_of,
    plain,
    said_in,
    weight,
)
from knowledge.merge.claims.polarity import contrasts, opposite_by_prefix, same_sort, sets_apart, stands_anywhere
from knowledge.merge.claims.quantities import Value, relation
from knowledge.merge.claims.statement_reader import Claim, Polar
from knowledge.merge.model import Unit

RelationWord = Literal["contradict", "agree", "unrelated"]

SAME_SUBJECT = 0.62
"""How alike the words must be for another figure to be a contradiction."""
SWAPPED_SUBJECT = 0.74
"""... where each side has a word that the other has not: it may be what they are about."""
NEARLY_SAME = 0.78
"""... for a negation or an antonym."""
ALIKE = 0.5
"""... for equal figures to be agreement."""
SUBSTITUTED = 1.5
"""How much a word that stands for another weighs against the words that both have."""
ADDED = 0.35
"""The same for a word that only one side has."""
PART_OF = 0.7
"""What words that share a stem as compounds do (`timeout`, `timeouts`; `Frist`, `Kündigungsfrist`) count as shared."""
POLE_ALONE = 0.6
LEAST_SHARED = 0.25
"""Below it statements have nothing in common but figures."""
WORTH_READING = 0.4
"""The share of their words that statements must have in common to be read at all."""
SPELLED_ALIKE = 0.8
MOST_HOLDERS = 200
"""New statements with one word that a statement of the page is held against because of it."""
MOST_NEAR = 24
"""New statements that one of the page is held against: those with most words in common."""
MOST_COMPARED = 1_000
"""Pairs of sentences of two paragraphs."""
MOST_VALUES = 24
"""Figures of one statement; one with more is no statement but data."""
MOST_TERMS = 80
"""The same of terms that the other side does not have."""
SAMPLE = 50
"""Units from the beginning of a page that tell its language."""
NEAR_BEFORE, NEAR_AFTER = 4, 3
"""Terms on each side of a figure that tell what it counts."""
ALIGNED = 0.9
TWO_NOUNS = 1.5

_PLACEHOLDERS = frozenset(
    ("-", "\u2013", "\u2014", "na", "n/a", "n. a.", "tbd", "todo", "?", "...", "none", "unknown", "unbekannt", "k. a.")
)
_ANSWERS = {
    "\u2713": "yes",
    "\u2714": "yes",
    "\u2705": "yes",
    "\u2717": "no",
    "\u2718": "no",
    "\u274c": "no",
    "x": "yes",
}
"""Signs that stand for a word in the cells of tables."""
_SAID = frozenset(("paragraph", "item", "row", "quote"))
_FAMILY = {"date": "date", "weekday": "weekday", "clock": "clock", "version": "version"}
_KIND = {"date": "date", "weekday": "date", "clock": "date", "version": "version"}


@dataclass(frozen=True, slots=True)
class StatementRelation:
    """How two statements stand to each other.

    `kind` says what differs (`number`, `unit`, `date`, `version`, `negation`, `antonym`, `cell`, `value`) and is "" unless they
    contradict. `reason` is a sentence with both values. `strength` is how sure the verdict is, 0..1.
    """

    relation: RelationWord
    kind: str = ""
    subject: str = ""
    reason: str = ""
    strength: float = 0.0


class FoundContradiction(NamedTuple):
    """A contradiction between units, by their indexes in what was compared; `said` are the two statements."""

    existing: int
    new: int
    comparison: StatementRelation
    said: tuple[str, str]


class _PlacedStatement(NamedTuple):
    """A statement, the unit that it stands in, and for rows the header of their table."""

    said: UnreadStatement
    unit: int
    section: tuple[str, ...]
    header: tuple[str, ...] = ()
    is_row: bool = False
    is_header: bool = False


class _Match(NamedTuple):
    """How far two claims are about the same: `score` 0..1, and the terms that only one side has."""

    score: float
    shared: float
    swapped: float
    ours: tuple[str, ...]
    theirs: tuple[str, ...]


UNRELATED = StatementRelation("unrelated")


def compare(
    existing: str, new: str, *, existing_section: Sequence[str] = (), new_section: Sequence[str] = ()
) -> StatementRelation:
    """Return how two statements (sentence, item, row with its header, `key: value` line, paragraph) stand to each other.

    Of paragraphs a contradicting sentence decides. The heading paths, where given, tell subjects apart that the statements
    leave out.
    """
    if plain(existing).casefold() == plain(new).casefold():
        return StatementRelation("agree", strength=1.0)
    if existing.lstrip().startswith("|") and new.lstrip().startswith("|"):
        return _compare_tables(existing, new)
    language = language_of(f"{existing} {new}")
    ours, theirs = claims_of(existing, language), claims_of(new, language)
    apart = _sections_differ(existing_section, new_section, language)
    found = [
        compare_claims(a, b) for a, b in islice(product(ours, theirs), MOST_COMPARED) if a.row or _may_be_same(a, b)
    ]
    best = max(found, key=_rank, default=UNRELATED)
    return UNRELATED if apart and best.relation == "contradict" else best


def compare_rows(header: Sequence[str], existing_row: Sequence[str], new_row: Sequence[str]) -> StatementRelation:
    """Return how two rows of tables with that header stand to each other: with the same first cell, cell by cell."""
    if not existing_row or not new_row:
        return UNRELATED
    language = language_of(" ".join((*header, *existing_row, *new_row)))
    if not _same_key(existing_row[0], new_row[0], language):
        return UNRELATED
    if not header and (len(existing_row) != len(new_row) or _mostly_differ(existing_row, new_row)):
        return UNRELATED
    found = []
    for at, (ours, theirs) in enumerate(zip(existing_row[1:], new_row[1:], strict=False), 1):
        name = header[at] if at < len(header) else ""
        found.append(_compare_cells(existing_row[0], name, ours, theirs, language))
    contradicting = [each for each in found if each.relation == "contradict"]
    if contradicting:
        return max(contradicting, key=_rank)
    agreeing = [each for each in found if each.relation == "agree"]
    return StatementRelation("agree", subject=existing_row[0], strength=0.8) if agreeing else UNRELATED


def contradictions(existing_units: Sequence[Unit], new_units: Sequence[Unit]) -> list[FoundContradiction]:
    """Return the pairs of units that contradict each other, surest first, at most one for each pair of units.

    Units without statements (headings, code, HTML, front matter) are left out. What a new statement finds said already, in
    so many words, it does not contradict elsewhere. Costs little for what `claims_of` has met before.
    """
    language = language_of(" ".join(unit.text for unit in existing_units[:SAMPLE]))
    new = list(_placed(new_units))
    having: dict[str, list[int]] = {}
    for at, placed in enumerate(new):
        for word in placed.said.rough:
            having.setdefault(word, []).append(at)
    asked = frozenset(having)
    rows = [at for at, placed in enumerate(new) if placed.is_row]
    of_rows = _Rows(new, rows)
    held: list[list[FoundContradiction]] = [[] for _ in new]
    alike = [0.0] * len(new)
    for ours in _placed(existing_units, rows_too=bool(rows)):
        for at in of_rows.like(ours) if ours.is_row else _near(ours.said.rough, new, having, asked):
            found = _compare_placed(ours, new[at], language)
            if found.relation == "contradict":
                held[at].append(FoundContradiction(ours.unit, new[at].unit, found, (ours.said.text, new[at].said.text)))
            elif found.relation == "agree":
                alike[at] = max(alike[at], found.strength)
    return _surest(pair for at, pairs in enumerate(held) for pair in pairs if pair.comparison.strength > alike[at])


def compare_claims(ours: Claim, theirs: Claim) -> StatementRelation:
    """Return how two claims stand to each other; both must have been read in the same language."""
    if ours.row or theirs.row:
        return compare_rows((), ours.row, theirs.row) if ours.row and theirs.row else UNRELATED
    if ours.key and theirs.key:
        return _compare_keyed(ours, theirs)
    return _compare_sentences(ours, theirs)


def _rank(found: StatementRelation) -> tuple[int, float]:
    return {"contradict": 2, "agree": 1, "unrelated": 0}[found.relation], found.strength


# Units


def _placed(units: Sequence[Unit], *, rows_too: bool = True) -> Iterator[_PlacedStatement]:
    """Yield the statements of `units`, each with where it stands."""
    headers: dict[int, tuple[str, ...]] = {}
    for at, unit in enumerate(units):
        if unit.kind not in _SAID:
            continue
        for each in said_in(unit.text):
            if not each.text.startswith("|"):
                yield _PlacedStatement(each, at, unit.section)
            elif rows_too:
                first = unit.piece not in headers
                header = headers.setdefault(unit.piece, cells_of(each.text))
                yield _PlacedStatement(each, at, unit.section, header, is_row=True, is_header=first)


def _near(
    rough: frozenset[str], new: Sequence[_PlacedStatement], having: Mapping[str, Sequence[int]], asked: frozenset[str]
) -> list[int]:
    """Return the places of the new statements with so many of the same words that they are worth reading."""
    holders = sorted((having[word] for word in rough & asked), key=len)
    # What very many have says nothing of what one of them is about.
    shared = Counter(chain.from_iterable(some[:MOST_HOLDERS] for some in holders))
    near = [
        at
        for at, count in shared.items()
        if not new[at].is_row and count >= WORTH_READING * min(len(rough), len(new[at].said.rough))
    ]
    return near if len(near) <= MOST_NEAR else sorted(near, key=lambda at: (-shared[at], at))[:MOST_NEAR]


class _Rows:
    """The new rows, by what their first cell may be compared with."""

    def __init__(self, new: Sequence[_PlacedStatement], rows: Sequence[int]) -> None:
        self._rows = rows
        self._by_key: dict[tuple[tuple[str, ...], str], list[int]] = {}
        if len(rows) > MOST_NEAR:
            for at in rows:
                self._by_key.setdefault(_row_key(new[at]), []).append(at)

    def like(self, ours: _PlacedStatement) -> Sequence[int]:
        """Return the new rows that one of the page is held against; of many, those with its header and first cell."""
        return self._by_key.get(_row_key(ours), ())[:MOST_NEAR] if self._by_key else self._rows


def _row_key(placed: _PlacedStatement) -> tuple[tuple[str, ...], str]:
    first = next(iter(cells_of(placed.said.text)), "").casefold()
    return tuple(cell.casefold() for cell in placed.header), first


def _compare_placed(ours: _PlacedStatement, theirs: _PlacedStatement, language: str) -> StatementRelation:
    if ours.is_row:
        return _compare_placed_rows(ours, theirs)
    left, right = claim(ours.said.text, language), claim(theirs.said.text, language)
    if not _may_be_same(left, right):
        return UNRELATED
    held = compare_claims(left, right)
    apart = held.relation == "contradict" and _sections_differ(ours.section, theirs.section, language)
    return UNRELATED if apart else held


def _surest(pairs: Iterable[FoundContradiction]) -> list[FoundContradiction]:
    """Return of each pair of units the surest contradiction, surest first."""
    best: dict[tuple[int, int], FoundContradiction] = {}
    for pair in pairs:
        known = best.get((pair.existing, pair.new))
        if known is None or known.comparison.strength < pair.comparison.strength:
            best[pair.existing, pair.new] = pair
    return sorted(best.values(), key=lambda pair: (-pair.comparison.strength, pair.existing, pair.new))


def _may_be_same(ours: Claim, theirs: Claim) -> bool:
    """Return whether enough terms are shared to look closer; costs a fraction of it."""
    return len(ours.bag & theirs.bag) * 2 >= min(len(ours.bag), len(theirs.bag))


def _compare_placed_rows(ours: _PlacedStatement, theirs: _PlacedStatement) -> StatementRelation:
    if ours.is_header or theirs.is_header:
        return UNRELATED
    if [cell.casefold() for cell in ours.header] != [cell.casefold() for cell in theirs.header]:
        return UNRELATED
    return compare_rows(ours.header, cells_of(ours.said.text), cells_of(theirs.said.text))


def _sections_differ(ours: Sequence[str], theirs: Sequence[str], language: str) -> bool:
    """Return whether headings name different subjects of one sort: `Linux`, `Windows`."""
    if not ours or not theirs or tuple(ours) == tuple(theirs):
        return False
    left = {term for name in ours for term in claim(name, language).terms}
    right = {term for name in theirs for term in claim(name, language).terms}
    return contrasts(left - right, right - left, language) is not None


# Tables


def _compare_tables(existing: str, new: str) -> StatementRelation:
    """Compare rows that may have their header and the line below it before them."""
    ours, our_header = _rows(existing)
    theirs, their_header = _rows(new)
    if our_header and their_header and [c.casefold() for c in our_header] != [c.casefold() for c in their_header]:
        return UNRELATED
    header = our_header or their_header
    found = [compare_rows(header, a, b) for a, b in islice(product(ours, theirs), MOST_COMPARED)]
    return max(found, key=_rank, default=UNRELATED)


def _rows(text: str) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    rows = [cells_of(line) for line in text.splitlines() if line.strip()]
    delimiters = [at for at, row in enumerate(rows) if row and all(cell and not cell.strip(":-") for cell in row)]
    if delimiters and delimiters[0] > 0:
        at = delimiters[0]
        return rows[at + 1 :], rows[at - 1]
    return rows, ()


def _same_key(ours: str, theirs: str, language: str) -> bool:
    if ours.casefold() == theirs.casefold():
        return bool(ours)
    left, right = claim(ours, language), claim(theirs, language)
    return bool(left.bag) and left.bag == right.bag and [v.text for v in left.values] == [v.text for v in right.values]


def _mostly_differ(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Return whether rows without a header share so few cells that their columns may be others."""
    same = sum(a.casefold() == b.casefold() for a, b in zip(ours, theirs, strict=True))
    return len(ours) > 2 and same * 2 < len(ours)


def _compare_cells(row: str, column: str, ours: str, theirs: str, language: str) -> StatementRelation:
    if not ours or not theirs or ours.casefold() == theirs.casefold():
        return StatementRelation("agree", strength=0.5) if ours and ours.casefold() == theirs.casefold() else UNRELATED
    subject = f"{row}, {column}" if column else row
    held = _compare_answers(subject, ours, theirs, language)
    return replace(held, kind="cell") if held.relation == "contradict" else held


# Keys


def _compare_keyed(ours: Claim, theirs: Claim) -> StatementRelation:
    left, right = frozenset(ours.key), frozenset(theirs.key)
    extra = left ^ right
    meaning = [term for term in extra if weight(term, ours.names | theirs.names, ours.language) >= 1]
    if not left & right or meaning:
        # Both may still be sentences that hold a colon.
        swapped = any(term in left for term in meaning) and any(term in right for term in meaning)
        return UNRELATED if swapped or not left & right else _compare_sentences(ours, theirs)
    return _compare_answers(ours.key_text, ours.answer, theirs.answer, ours.language)


def _compare_answers(subject: str, ours: str, theirs: str, language: str) -> StatementRelation:
    """Compare what two sides say of one key or cell."""
    ours, theirs = (_ANSWERS.get(side, side) for side in (ours.strip("|[] "), theirs.strip("|[] ")))
    if ours.casefold() in _PLACEHOLDERS or theirs.casefold() in _PLACEHOLDERS:
        return UNRELATED
    left, right = claim(ours, language), claim(theirs, language)
    if left.values and right.values:
        pairs = _laid_together(left, right, alone=True)
        differing = [(v, w) for v, w in pairs if relation(v, w) == "differs"]
        if differing and _figures_decide(left, right):
            return _differing(subject, *differing[0], 0.9)
        if pairs and not differing:
            return StatementRelation("agree", subject=subject, strength=0.85)
        return UNRELATED
    held = _polarity(left, right, subject, 1.0)
    if held is not None:
        return held
    if _brief(left) and _brief(right) and not left.values and not right.values:
        if _other_words(left.bag - right.bag, right.bag - left.bag):
            return _contradict("value", subject, ours, theirs, 0.65)
        if not left.bag or not right.bag:
            return UNRELATED
    if left.bag and left.bag == right.bag:
        return StatementRelation("agree", subject=subject, strength=0.8)
    return (
        StatementRelation("agree", subject=subject, strength=0.5)
        if _match(left, right).score >= NEARLY_SAME
        else UNRELATED
    )


def _other_words(ours: AbstractSet[str], theirs: AbstractSet[str]) -> bool:
    """Return whether each side has words of its own, and they are not the same ones in another spelling."""
    spelled = any(SequenceMatcher(None, a, b).ratio() >= SPELLED_ALIKE for a in ours for b in theirs)
    return bool(ours and theirs) and not spelled


def _figures_decide(ours: Claim, theirs: Claim) -> bool:
    """Return whether answers are little more than their figures, or alike beside them."""
    return (len(ours.terms) <= 2 and len(theirs.terms) <= 2) or _match(ours, theirs).score >= SAME_SUBJECT


def _brief(said: Claim) -> bool:
    return len(said.text.split()) <= 3 and "," not in said.text


# Sentences


def _compare_sentences(ours: Claim, theirs: Claim) -> StatementRelation:
    match = _match(ours, theirs)
    if match.score < ALIKE or match.shared < LEAST_SHARED:
        return UNRELATED
    subject = _subject(ours, theirs)
    if ours.terms == theirs.terms and (turned := _turned_condition(ours, theirs)):
        return _contradict("antonym", subject, *turned, match.score)
    if _other_case(ours, theirs, match):
        return UNRELATED
    pairs = _laid_together(ours, theirs, alone=match.score >= NEARLY_SAME)
    relations = [(v, w, relation(v, w)) for v, w in pairs]
    differing = [(v, w) for v, w, held in relations if held == "differs"]
    if differing:
        return _of_figures(ours, theirs, match, subject, differing)
    held = _polarity(ours, theirs, subject, match.score, match)
    if held is not None:
        return held
    if match.score >= _limit(match) or (relations and match.swapped < 1):
        return StatementRelation("agree", subject=subject, strength=min(1.0, match.score))
    return UNRELATED


def _of_figures(
    ours: Claim, theirs: Claim, match: _Match, subject: str, differing: Sequence[tuple[Value, Value]]
) -> StatementRelation:
    if match.score < _limit(match) or _turned(ours, theirs, None) or len(ours.denied) != len(theirs.denied):
        return UNRELATED
    if any(v.scope or w.scope for v, w in differing):
        return UNRELATED
    families = {_FAMILY.get(v.dimension, "") for v, _ in differing}
    if len(families) > 1 and families != {"date", "weekday"} and not _are_revisions(ours, theirs):
        # Other figures at another time or in another version: both can hold.
        return UNRELATED
    if len(differing) > 1 and any(_is_year(v) and _is_year(w) for v, w in differing):
        return UNRELATED
    if _guarded(ours, theirs, differing):
        return UNRELATED
    plain_values = [(v, w) for v, w in differing if v.dimension not in _KIND]
    dated = [(v, w) for v, w in differing if v.dimension in _KIND]
    chosen = plain_values or dated
    return _differing(subject, *chosen[0], match.score)


def _guarded(ours: Claim, theirs: Claim, differing: Sequence[tuple[Value, Value]]) -> bool:
    """Return whether another value says for what the differing one holds: both sides can then be true."""
    if len(differing) > 1:
        return any(v.guard or w.guard for v, w in differing)
    (v, w) = differing[0]
    alone = len(ours.values) != len(theirs.values)
    return alone and any(value.guard and value.unit and value not in (v, w) for value in (*ours.values, *theirs.values))


def _begin_and_end(ours: Value, theirs: Value) -> bool:
    """Return whether one side speaks of what lies below a figure and the other of what lies above one."""
    return (ours.dimension, ours.noun, {ours.bound, theirs.bound}) == (theirs.dimension, theirs.noun, {"least", "most"})


def _is_year(value: Value) -> bool:
    return not value.dimension and len(value.figure) == 4 and value.figure[:2] in ("19", "20")


def _limit(match: _Match) -> float:
    return SAME_SUBJECT if match.swapped < 1 else SWAPPED_SUBJECT


def _are_revisions(ours: Claim, theirs: Claim) -> bool:
    """Return whether both speak of what is newest, so that date and figure change together."""
    return any("latest" in said.bag or "current" in said.bag or "aktuell" in said.bag for said in (ours, theirs))


def _match(ours: Claim, theirs: Claim) -> _Match:
    names, language = ours.names | theirs.names, ours.language
    shared = sum(weight(term, names, language) for term in ours.bag & theirs.bag)
    shared += sum(
        1.0 for name in {p.axis for p in ours.poles} & {p.axis for p in theirs.poles} if not stands_anywhere(name)
    )
    left = [term for term in dict.fromkeys(ours.terms) if term not in theirs.bag]
    right = [term for term in dict.fromkeys(theirs.terms) if term not in ours.bag]
    few = len(left) <= MOST_TERMS and len(right) <= MOST_TERMS
    for term in tuple(left) if few else ():
        other = next((each for each in right if _part_of(term, each) and not same_sort(term, each, language)), None)
        if other is not None:
            left.remove(term)
            right.remove(other)
            shared += PART_OF
    pairs = product(left, right) if few else ()
    opposite = {term for a, b in pairs if opposite_by_prefix(a, b) for term in (a, b)}
    shared += len(opposite) / 2
    lost, gained = (
        sum(weight(term, names, language) for term in side if term not in opposite) for side in (left, right)
    )
    lost, gained = lost + _poles_alone(ours, theirs), gained + _poles_alone(theirs, ours)
    swapped, added = min(lost, gained), abs(lost - gained)
    whole = shared + SUBSTITUTED * swapped + ADDED * added
    return _Match(shared / whole if whole else 0.0, shared, swapped, tuple(left), tuple(right))


def _poles_alone(said: Claim, other: Claim) -> float:
    """Return what the words weigh that have an opposite, and of which the other side has neither."""
    axes = {pole.axis for pole in other.poles}
    return POLE_ALONE * len(
        {pole.axis for pole in said.poles if pole.axis not in axes and not stands_anywhere(pole.axis)}
    )


def _part_of(ours: str, theirs: str) -> bool:
    """Return whether one term is the beginning or the end of the other, or both begin alike for most of their length."""
    short, long = (ours, theirs) if len(ours) <= len(theirs) else (theirs, ours)
    if len(short) < 4 or len(short) * 2 < len(long):
        return False
    if short[:4] != long[:4]:
        return len(short) > 5 and long.endswith(short) and long.isalpha() and not opposite_by_prefix(short, long)
    if not short.isalpha() or not long.isalpha():
        return False
    alike = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return alike == len(short) or (alike >= 5 and alike * 3 >= len(long) * 2)


def _other_case(ours: Claim, theirs: Claim, match: _Match) -> bool:
    """Return whether the statements hold in different cases: other platform, other condition, other name."""
    # A word with an opposite may also be the name of a case: the free plan, the pro plan.
    said = [{pole.word.casefold() for pole in side.poles} for side in (ours, theirs)]
    left_words, right_words = (*match.ours, *(said[0] - said[1])), (*match.theirs, *(said[1] - said[0]))
    if contrasts(left_words, right_words, ours.language) or sets_apart(match.ours, match.theirs, ours.language):
        return True
    if any(_begin_and_end(v, w) for v in ours.values[:MOST_VALUES] for w in theirs.values[:MOST_VALUES]):
        return True
    if ours.conditions != theirs.conditions:
        return True
    left, right = ours.names & set(match.ours), theirs.names & set(match.theirs)
    return bool(left and right) and match.shared < 5 * min(len(left), len(right))


# Values


def _laid_together(ours: Claim, theirs: Claim, *, alone: bool) -> list[tuple[Value, Value]]:
    """Return the values of both sides that stand for each other; equal ones first, then by the words near them.

    `alone` says that the only value on each side needs no words near it.
    """
    left, right = list(ours.values[:MOST_VALUES]), list(theirs.values[:MOST_VALUES])
    pairs: list[tuple[Value, Value]] = []
    scored = sorted(
        (
            (_beside(v, w, ours, theirs) + (1.0 if relation(v, w) in ("same", "compatible") else 0.0), -i, -j)
            for i, v in enumerate(left)
            for j, w in enumerate(right)
            if relation(v, w) != "incomparable"
        ),
        reverse=True,
    )
    only = len(left) == 1 and len(right) == 1
    used: tuple[set[int], set[int]] = (set(), set())
    for score, i, j in scored:
        if -i in used[0] or -j in used[1] or (score < ALIGNED and not (alone and only)):
            continue
        used[0].add(-i)
        used[1].add(-j)
        pairs.append((left[-i], right[-j]))
    return pairs


def _beside(ours: Value, theirs: Value, left: Claim, right: Claim) -> float:
    """Return how well two values fit each other by what they measure and the terms near them."""
    score = 0.0
    if ours.dimension == theirs.dimension and ours.dimension:
        score += 0.5
    if ours.noun and theirs.noun and not (ours.dimension and theirs.dimension):
        score += 0.8 if ours.noun == theirs.noun or _part_of(ours.noun, theirs.noun) else 0.0
        if ours.noun != theirs.noun and ours.noun not in right.bag and theirs.noun not in left.bag:
            score -= TWO_NOUNS
    here = set(left.terms[max(0, ours.position - NEAR_BEFORE) : ours.position + NEAR_AFTER])
    there = set(right.terms[max(0, theirs.position - NEAR_BEFORE) : theirs.position + NEAR_AFTER])
    if here and there:
        score += 1.2 * len(here & there) / min(len(here), len(there))
    if len(left.values) == len(right.values) and left.values.index(ours) == right.values.index(theirs):
        score += 0.4
    return score


def _differing(subject: str, ours: Value, theirs: Value, strength: float) -> StatementRelation:
    kind = _KIND.get(ours.dimension) or _KIND.get(theirs.dimension) or "number"
    if kind == "number" and ours.figure and ours.figure == theirs.figure and ours.unit != theirs.unit:
        kind = "unit"
    return _contradict(kind, subject, ours.text, theirs.text, strength)


def _contradict(kind: str, subject: str, ours: str, theirs: str, strength: float) -> StatementRelation:
    about = f"About {_short(subject)} the" if subject else "The"
    reason = f"{about} existing text says {_short(ours)}, the new one {_short(theirs)}."
    return StatementRelation("contradict", kind, subject, reason, round(max(0.0, min(1.0, strength)), 3))


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _subject(ours: Claim, theirs: Claim) -> str:
    """Return the words of the existing statement that both have, as written."""
    if ours.key_text:
        return ours.key_text
    shared = [word for word, term in zip(ours.words, ours.terms, strict=True) if term in theirs.bag]
    return " ".join(dict.fromkeys(shared[:6]))


# Negation and antonyms


def _polarity(
    ours: Claim, theirs: Claim, subject: str, score: float, match: _Match | None = None
) -> StatementRelation | None:
    """Return the contradiction that lies in a negation or in a pair of opposites, or None."""
    if match is not None and (score < NEARLY_SAME or _swaps(match, ours, theirs)):
        return None
    turned = _turned(ours, theirs, match)
    if turned is not None:
        return _opposed(subject, *turned, score)
    if match is not None:
        for ours_only in match.ours:
            for theirs_only in match.theirs:
                if opposite_by_prefix(ours_only, theirs_only):
                    return _contradict("antonym", subject, ours_only, theirs_only, score)
    denied = _denied(ours, theirs)
    if denied is None or (match is not None and not _nearly_one(match, ours, theirs)):
        return None
    said = (
        ("not " + denied, denied)
        if denied in ours.denied or len(ours.denied) > len(theirs.denied)
        else (denied, "not " + denied)
    )
    return _contradict("negation", subject, *said, score)


def _opposed(subject: str, ours: Polar, theirs: Polar, score: float) -> StatementRelation:
    kind = "negation" if ours.negated != theirs.negated else "antonym"
    said = [f"not {pole.word}" if pole.negated else pole.word for pole in (ours, theirs)]
    return _contradict(kind, subject, said[0], said[1], score)


def _swaps(match: _Match, ours: Claim, theirs: Claim) -> bool:
    """Return whether both sides have a telling word instead of each other, that is not the opposite."""
    left = [term for term in match.ours if weight(term, ours.names, ours.language) >= 1]
    right = [term for term in match.theirs if weight(term, theirs.names, theirs.language) >= 1]
    left = [a for a in left if not any(opposite_by_prefix(a, b) for b in right)]
    return bool(left and right) and match.shared < 6


def _turned_condition(ours: Claim, theirs: Claim) -> tuple[str, str] | None:
    """Return the condition of each side if all they differ in is that it is the opposite of the other's."""
    left, right = ours.conditions - theirs.conditions, theirs.conditions - ours.conditions
    if len(left) != 1 or len(right) != 1 or [v.text for v in ours.values] != [v.text for v in theirs.values]:
        return None
    (a,), (b,) = left, right
    if a.rpartition(":")[0] != b.rpartition(":")[0] or not a.rpartition(":")[0] or "not:" in a:
        return None
    return f"if {a}", f"if {b}"


def _nearly_one(match: _Match, ours: Claim, theirs: Claim) -> bool:
    """Return whether beside the negation little differs, and nothing stands for something else."""
    left, right = (
        sum(weight(term, said.names, said.language) for term in side)
        for side, said in ((match.ours, ours), (match.theirs, theirs))
    )
    return min(left, right) < 1 and max(left, right) <= max(1.5, 0.25 * match.shared)


def _turned(ours: Claim, theirs: Claim, match: _Match | None) -> tuple[Polar, Polar] | None:
    """Return words at opposite ends of one axis where the sides differ in an odd number of axes."""
    left, right = _ends(ours), _ends(theirs)
    both = [name for name in left if name in right]
    turned = [name for name in both if left[name].sign != right[name].sign]
    if len(turned) % 2 == 0 or len(ours.denied) != len(theirs.denied):
        return None
    close = match is None or (
        match.score >= 0.9
        and abs(len(match.ours) - len(match.theirs)) <= 1
        and not _poles_alone(ours, theirs) + _poles_alone(theirs, ours)
    )
    for name in turned:
        if not stands_anywhere(name) or close:
            return left[name], right[name]
    return None


def _ends(said: Claim) -> dict[str, Polar]:
    """Return where the statement stands on each axis; axes of which it names both ends are left out."""
    found: dict[str, Polar] = {}
    both: set[str] = set()
    for pole in said.poles:
        if pole.axis in found and found[pole.axis].sign != pole.sign:
            both.add(pole.axis)
        found.setdefault(pole.axis, pole)
    return {name: pole for name, pole in found.items() if name not in both}


def _denied(ours: Claim, theirs: Claim) -> str | None:
    """Return the term that one side denies and the other affirms, or None."""
    if len(ours.denied) == len(theirs.denied):
        return None
    more, fewer = (ours, theirs) if len(ours.denied) > len(theirs.denied) else (theirs, ours)
    if (len(more.denied) - len(fewer.denied)) % 2 == 0:
        return None
    left, right = _ends(ours), _ends(theirs)
    if any(left[name].sign != right[name].sign for name in left if name in right):
        return None
    if any(pole.sign < 0 and not stands_anywhere(pole.axis) and pole.axis not in _ends(more) for pole in fewer.poles):
        return None
    for term in more.denied:
        if term not in fewer.denied and term in fewer.bag:
            return term
    return None
