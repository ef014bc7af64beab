"""The rules by which two claims contradict each other, agree, or are unrelated, found without a model. Pure.

Two claims have the same subject when their words that are not figures, negations or antonyms are nearly the same. A word that
replaces another weighs against that: it may be the subject itself ("the cache holds 5 GB", "the queue holds 6 GB"). A word that
only one side has weighs little. Then values are paired by the words near them, and negations and antonyms are compared.

When in doubt, two claims count as unrelated: a false alarm costs a person's attention, and what is not flagged is still merged by its
confidence. The thresholds were chosen on half of the pairs in tests/unit/merge/claims/contradictions.jsonl and measured on the
other half (kb/decisions/0023).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import product
from typing import Literal, NamedTuple

from knowledge.merge.claims.claim import claim, most_likely_language
from knowledge.merge.claims.polarity import CLOSE_ONLY, have_contrast, names_case, opposite_by_prefix, weight
from knowledge.merge.claims.quantities import Value, compare_values
from knowledge.merge.claims.statement_reader import Claim, Polar

RelationWord = Literal["contradict", "agree", "unrelated"]
DifferenceKind = Literal["number", "unit", "date", "version", "negation", "antonym", "cell", "value"]
"""The rules, each named after what differs. kb/concepts/contradictions.md explains each of them, as a test checks."""

SAME_SUBJECT = 0.62
"""Subject similarity, 0..1, from which different figures are a contradiction."""
SWAPPED_SUBJECT = 0.74
"""Subject similarity from which different figures are a contradiction even if each side has a word that the other
lacks: "a small cluster has 2 CPUs per member", "8 GB of memory per member"."""
NEARLY_SAME = 0.78
"""Subject similarity from which a negation or an antonym is a contradiction: "caching is enabled for static files"
does not contradict "disabled for dynamic pages"."""
ALIKE = 0.5
"""Subject similarity, 0..1, from which equal figures are agreement."""
LEAST_SHARED = 0.25
"""Weight of the shared words below which claims have nothing in common but figures."""
SUBSTITUTED = 1.5
"""How much a word that replaces another weighs against the shared words."""
ADDED = 0.35
"""How much a word that only one side has weighs against the shared words."""
PART_OF = 0.7
"""How much two terms with a common stem count, where 1 is a shared word: `timeout`, `timeouts`; `Frist`, `Kündigungsfrist`."""
POLE_ALONE = 0.6
"""The weight of a word that has an opposite, if the other side has neither the word nor its opposite."""
SPELLED_ALIKE = 0.8
ALIGNED = 0.9
"""How well two values must fit each other to be compared, if a statement has several."""
TWO_NOUNS = 1.5
NEAR_BEFORE, NEAR_AFTER = 4, 3
"""The number of terms before and after a figure that show what it counts."""
MOST_VALUES = 24
"""Figures compared per statement; a statement with more is data, not prose."""
MOST_TERMS = 80
"""Terms are compared one by one only if each statement has at most this many that the other lacks."""

_PLACEHOLDERS = frozenset(
    ("-", "\u2013", "\u2014", "na", "n/a", "n. a.", "tbd", "todo", "?", "...", "none", "unknown", "unbekannt", "k. a.")
)
# Signs that answer yes or no in the cells of tables.
_ANSWERS = {**dict.fromkeys("\u2713\u2714\u2705x", "yes"), **dict.fromkeys("\u2717\u2718\u274c", "no")}
_KIND: Mapping[str, DifferenceKind] = {"date": "date", "weekday": "date", "clock": "date", "version": "version"}
"""Dimensions with their own kind of contradiction."""


@dataclass(frozen=True, slots=True)
class StatementRelation:
    """Whether two statements contradict each other, agree, or are unrelated.

    `kind` is what differs: a `DifferenceKind`, or the caller's own word if it did not compare by these rules (a model, the host);
    "" unless they contradict. `reason` is a sentence with both `values`. `strength` is how sure the verdict is, 0..1.
    """

    relation: RelationWord
    kind: str = ""
    subject: str = ""
    reason: str = ""
    strength: float = 0.0
    values: tuple[str, str] = ("", "")


UNRELATED = StatementRelation("unrelated")


class _Match(NamedTuple):
    """How far two claims share one subject: `score` 0..1, and the terms that only one side has."""

    score: float
    shared: float
    swapped: float
    only_ours: tuple[str, ...]
    only_theirs: tuple[str, ...]

    @property
    def limit(self) -> float:
        """The score from which the subject counts as the same."""
        return SAME_SUBJECT if self.swapped < 1 else SWAPPED_SUBJECT


def rank(found: StatementRelation) -> tuple[int, float]:
    """Return a sort key: contradictions rank above agreement, and of two equal relations the surer one ranks higher."""
    return ("unrelated", "agree", "contradict").index(found.relation), found.strength


def compare_claims(ours: Claim, theirs: Claim) -> StatementRelation:
    """Return the relation of two claims; both must have been read in the same language."""
    if ours.row or theirs.row:
        return compare_rows((), ours.row, theirs.row) if ours.row and theirs.row else UNRELATED
    if ours.key and theirs.key:
        return _compare_keyed(ours, theirs)
    return _compare_sentences(ours, theirs)


# Rows and keys


def compare_rows(header: Sequence[str], existing_row: Sequence[str], new_row: Sequence[str]) -> StatementRelation:
    """Return the relation of two table rows, compared cell by cell; unrelated unless their first cells are the same."""
    if not existing_row or not new_row:
        return UNRELATED
    language = most_likely_language(" ".join((*header, *existing_row, *new_row)))
    if not _same_key(existing_row[0], new_row[0], language):
        return UNRELATED
    if not header:
        # Without a header the columns may not correspond, so most of the cells must be equal.
        same = sum(a.casefold() == b.casefold() for a, b in zip(existing_row, new_row, strict=False))
        if len(existing_row) != len(new_row) or (len(existing_row) > 2 and same * 2 < len(existing_row)):
            return UNRELATED
    found = []
    for at, (ours, theirs) in enumerate(zip(existing_row[1:], new_row[1:], strict=False), 1):
        name = header[at] if at < len(header) else ""
        found.append(_compare_cells(existing_row[0], name, ours, theirs, language))
    best = max(found, key=rank, default=UNRELATED)
    return StatementRelation("agree", subject=existing_row[0], strength=0.8) if best.relation == "agree" else best


def _same_key(ours: str, theirs: str, language: str) -> bool:
    if ours.casefold() == theirs.casefold():
        return bool(ours)
    left, right = claim(ours, language), claim(theirs, language)
    return bool(left.bag) and left.bag == right.bag and [v.text for v in left.values] == [v.text for v in right.values]


def _compare_cells(row: str, column: str, ours: str, theirs: str, language: str) -> StatementRelation:
    if not ours or not theirs:
        return UNRELATED
    if ours.casefold() == theirs.casefold():
        return StatementRelation("agree", strength=0.5)
    found = compare_answers(f"{row}, {column}" if column else row, ours, theirs, language)
    return replace(found, kind="cell") if found.relation == "contradict" else found


def _compare_keyed(ours: Claim, theirs: Claim) -> StatementRelation:
    left, right = frozenset(ours.key), frozenset(theirs.key)
    names = ours.names | theirs.names
    if left.isdisjoint(right):
        return UNRELATED
    swapped, others = (
        any(weight(term, names, ours.language) >= 1 for term in side) for side in (left - right, right - left)
    )
    if swapped and others:
        return UNRELATED
    if swapped or others:
        # Not the same key; both may still be sentences with a colon in them.
        return _compare_sentences(ours, theirs)
    return compare_answers(ours.key_text, ours.answer, theirs.answer, ours.language)


def compare_answers(subject: str, ours: str, theirs: str, language: str) -> StatementRelation:
    """Compare the answers of two sides for one key, cell or question."""
    ours, theirs = (_ANSWERS.get(side, side) for side in (ours.strip("|[] "), theirs.strip("|[] ")))
    if ours.casefold() in _PLACEHOLDERS or theirs.casefold() in _PLACEHOLDERS:
        return UNRELATED
    left, right = claim(ours, language), claim(theirs, language)
    if left.values and right.values:
        return _compare_answered_figures(subject, left, right)
    opposition = _find_opposition(left, right, subject, 1.0, None)
    if opposition is not None:
        return opposition
    # "license: MIT" and "license: Apache-2.0": of two short answers one is wrong. Two long ones may both be true.
    if all(len(side.text.split()) <= 3 and "," not in side.text and not side.values for side in (left, right)):
        if _are_other_words(left.bag - right.bag, right.bag - left.bag):
            return _contradict("value", subject, ours, theirs, 0.65)
        if not left.bag or not right.bag:
            return UNRELATED
    if left.bag and left.bag == right.bag:
        return StatementRelation("agree", subject=subject, strength=0.8)
    nearly = _match(left, right).score >= NEARLY_SAME
    return StatementRelation("agree", subject=subject, strength=0.5) if nearly else UNRELATED


def _compare_answered_figures(subject: str, left: Claim, right: Claim) -> StatementRelation:
    pairs = _pair_values(left, right, alone=True)
    differing = [(v, w) for v, w in pairs if compare_values(v, w) == "differs"]
    if differing:
        # The figures decide where answers are little else ("30 s", "60 s"), or have the same words around them.
        brief = len(left.terms) <= 2 and len(right.terms) <= 2
        if brief or _match(left, right).score >= SAME_SUBJECT:
            return _differing(subject, *differing[0], 0.9)
        return UNRELATED
    return StatementRelation("agree", subject=subject, strength=0.85) if pairs else UNRELATED


def _are_other_words(ours: AbstractSet[str], theirs: AbstractSet[str]) -> bool:
    """Return whether each side has words the other lacks, and none of them is just another spelling of the other side's."""
    spelled = any(SequenceMatcher(None, a, b).ratio() >= SPELLED_ALIKE for a in ours for b in theirs)
    return bool(ours and theirs) and not spelled


# Sentences


def _compare_sentences(ours: Claim, theirs: Claim) -> StatementRelation:
    match = _match(ours, theirs)
    if match.score < ALIKE or match.shared < LEAST_SHARED:
        return UNRELATED
    subject = _subject(ours, theirs)
    # "If disabled, the client speaks plain text" and "if enabled, ...": the same outcome under opposite conditions.
    if ours.terms == theirs.terms and (opposite := _opposite_conditions(ours, theirs)):
        return _contradict("antonym", subject, *opposite, match.score)
    if _other_case(ours, theirs, match):
        return UNRELATED
    pairs = _pair_values(ours, theirs, alone=match.score >= NEARLY_SAME)
    differing = [(v, w) for v, w in pairs if compare_values(v, w) == "differs"]
    if differing:
        if match.score < match.limit or _both_can_be_true(ours, theirs, differing):
            return UNRELATED
        # "Version 2 takes 5 s", "version 3 takes 6 s": the time is what contradicts; the version only belongs to it.
        chosen = next((pair for pair in differing if pair[0].dimension not in _KIND), differing[0])
        return _differing(subject, *chosen, match.score)
    opposition = _find_opposition(ours, theirs, subject, match.score, match)
    if opposition is not None:
        return opposition
    if match.score >= match.limit or (pairs and match.swapped < 1):
        return StatementRelation("agree", subject=subject, strength=min(1.0, match.score))
    return UNRELATED


def _match(ours: Claim, theirs: Claim) -> _Match:
    """Return how similar the subjects of two claims are."""
    names, language = ours.names | theirs.names, ours.language
    # Summed exactly: set order differs between processes, and a worker process must reach the same plan (kb/decisions/0047).
    shared = math.fsum(weight(term, names, language) for term in ours.bag & theirs.bag)
    # "Enabled" and "disabled" count as one word of the subject: whether they contradict each other is decided later.
    axes = {pole.axis for pole in ours.poles} & {pole.axis for pole in theirs.poles}
    shared += len(axes - CLOSE_ONLY)
    left = [term for term in dict.fromkeys(ours.terms) if term not in theirs.bag]
    right = [term for term in dict.fromkeys(theirs.terms) if term not in ours.bag]
    opposite: set[str] = set()
    # Data, which has very many terms of its own, is not worth comparing term by term.
    if len(left) <= MOST_TERMS and len(right) <= MOST_TERMS:
        for term in tuple(left):
            parts = (one for one in right if _is_part(term, one) and not have_contrast((term,), (one,), language))
            if (other := next(parts, None)) is not None:
                left.remove(term)
                right.remove(other)
                shared += PART_OF
        # So are "reversible" and "irreversible".
        opposite = {term for a, b in product(left, right) if opposite_by_prefix(a, b) for term in (a, b)}
        shared += len(opposite) / 2
    lost, gained = (
        sum(weight(term, names, language) for term in side if term not in opposite) for side in (left, right)
    )
    lost, gained = lost + _poles_alone(ours, theirs), gained + _poles_alone(theirs, ours)
    # A lost word and a gained one count as a replacement; only the surplus of one side counts as added.
    swapped, added = min(lost, gained), abs(lost - gained)
    whole = shared + SUBSTITUTED * swapped + ADDED * added
    return _Match(shared / whole if whole else 0.0, shared, swapped, tuple(left), tuple(right))


def _poles_alone(ours: Claim, theirs: Claim) -> float:
    """Return the weight of our words that have an opposite, if the other side has neither such a word nor its opposite."""
    own = {pole.axis for pole in ours.poles} - {pole.axis for pole in theirs.poles}
    return POLE_ALONE * len(own - CLOSE_ONLY)


def _is_part(ours: str, theirs: str) -> bool:
    """Return whether one term is the beginning or the end of the other, or both begin alike for most of their length."""
    short, long = (ours, theirs) if len(ours) <= len(theirs) else (theirs, ours)
    if len(short) < 4 or len(short) * 2 < len(long):
        return False
    # A German compound ends in its main word: Frist, Kündigungsfrist. The length keeps short endings out.
    if short[:4] != long[:4]:
        return len(short) > 5 and long.endswith(short) and long.isalpha() and not opposite_by_prefix(short, long)
    if not short.isalpha() or not long.isalpha():
        return False
    alike = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return alike == len(short) or (alike >= 5 and alike * 3 >= len(long) * 2)


def _subject(ours: Claim, theirs: Claim) -> str:
    """Return the words that both statements share, as the existing one writes them."""
    if ours.key_text:
        return ours.key_text
    shared = [word for word, term in zip(ours.words, ours.terms, strict=True) if term in theirs.bag]
    return " ".join(dict.fromkeys(shared[:6]))


def _other_case(ours: Claim, theirs: Claim, match: _Match) -> bool:
    """Return whether the statements apply to different cases: another platform, condition or name."""
    # A word with an opposite may also be the name of a case: the free plan, the pro plan.
    left, right = ({pole.word.casefold() for pole in side.poles} for side in (ours, theirs))
    if have_contrast((*match.only_ours, *(left - right)), (*match.only_theirs, *(right - left)), ours.language):
        return True
    if ours.conditions != theirs.conditions or names_case((*match.only_ours, *match.only_theirs), ours.language):
        return True
    # "Fewer than 50 employees pay 2%" and "more than 50 employees pay 4%" speak of two groups.
    for v, w in product(ours.values[:MOST_VALUES], theirs.values[:MOST_VALUES]):
        if (v.dimension, v.noun, {v.bound, w.bound}) == (w.dimension, w.noun, {"least", "most"}):
            return True
    # A different name is a different subject, unless so much is equal that the name is a detail.
    own, others = ours.names.intersection(match.only_ours), theirs.names.intersection(match.only_theirs)
    return bool(own and others) and match.shared < 5 * min(len(own), len(others))


def _opposite_conditions(ours: Claim, theirs: Claim) -> tuple[str, str] | None:
    """Return the condition of each side if the two are opposites and nothing else differs."""
    left, right = ours.conditions - theirs.conditions, theirs.conditions - ours.conditions
    if len(left) != 1 or len(right) != 1 or [v.text for v in ours.values] != [v.text for v in theirs.values]:
        return None
    (a,), (b,) = left, right
    axis = a.rpartition(":")[0]
    return (f"if {a}", f"if {b}") if axis and axis == b.rpartition(":")[0] and "not:" not in a else None


# Values


def _pair_values(ours: Claim, theirs: Claim, *, alone: bool) -> list[tuple[Value, Value]]:
    """Return pairs of values, one of each side, that belong to each other; pairs of equal values come first.

    Values belong to each other by what they measure and by the words near them. With `alone`, the only value of one
    side always belongs to the only value of the other.
    """
    left, right = ours.values[:MOST_VALUES], theirs.values[:MOST_VALUES]
    if not left or not right:
        return []
    scored: list[tuple[float, int, int]] = []
    for (i, v), (j, w) in product(enumerate(left), enumerate(right)):
        relation = compare_values(v, w)
        if relation != "incomparable":
            # Values that agree are paired first; otherwise two lists in another order would differ in every value.
            scored.append((_fit(v, w, ours, theirs) + (relation != "differs"), -i, -j))
    alone = alone and len(left) == len(right) == 1
    pairs: dict[int, int] = {}
    for score, i, j in sorted(scored, reverse=True):
        if -i not in pairs and -j not in pairs.values() and (score >= ALIGNED or alone):
            pairs[-i] = -j
    return [(left[i], right[j]) for i, j in pairs.items()]


def _fit(ours: Value, theirs: Value, left: Claim, right: Claim) -> float:
    """Return how well two values fit each other by what they measure and the terms near them."""
    score = 0.0
    if ours.dimension == theirs.dimension and ours.dimension:
        score += 0.5
    if ours.noun and theirs.noun and not (ours.dimension and theirs.dimension):
        score += 0.8 if ours.noun == theirs.noun or _is_part(ours.noun, theirs.noun) else 0.0
        # "5 retries" and "3 nodes" count different things.
        if ours.noun != theirs.noun and ours.noun not in right.bag and theirs.noun not in left.bag:
            score -= TWO_NOUNS
    here = set(left.terms[max(0, ours.position - NEAR_BEFORE) : ours.position + NEAR_AFTER])
    there = set(right.terms[max(0, theirs.position - NEAR_BEFORE) : theirs.position + NEAR_AFTER])
    if here and there:
        score += 1.2 * len(here & there) / min(len(here), len(there))
    # Statements that are written alike name their values in the same order.
    if len(left.values) == len(right.values) and left.values.index(ours) == right.values.index(theirs):
        score += 0.4
    return score


def _both_can_be_true(ours: Claim, theirs: Claim, differing: Sequence[tuple[Value, Value]]) -> bool:
    """Return whether the statements can both be true though these values differ."""
    # "Mit Lizenz sind 50 Nutzer erlaubt", "ohne Lizenz sind 5 Nutzer erlaubt": the opposite explains the other figure.
    if _opposite_poles(ours, theirs, None) or len(ours.denied) != len(theirs.denied):
        return True
    # "In v2 the limit is 5 requests", "in v3 the limit is 6 requests"
    if any(v.scope or w.scope for v, w in differing):
        return True
    # The figure changes together with a date or version, so both can be true: "3.16 development begins: 2026-05-07" and
    # "3.17 development begins: 2027-05-06". But if one of them names the latest, the whole statement is a revision.
    dated = {v.dimension if v.dimension in _KIND else "" for v, _ in differing}
    revised = not {"latest", "current", "aktuell"}.isdisjoint(ours.bag | theirs.bag)
    if len(dated) > 1 and dated != {"date", "weekday"} and not revised:
        return True
    if len(differing) == 1:
        # "At 100 °C", "at 90 °C at 3,000 m": only one side says under which condition it holds.
        (v, w) = differing[0]
        return len(ours.values) != len(theirs.values) and any(
            value.guard and value.unit and value not in (v, w) for value in (*ours.values, *theirs.values)
        )
    # "Employees with 5 years of service get 25 days", "with 10 years of service 30 days"; or figures of two years.
    return any(v.guard or w.guard or (_is_year(v) and _is_year(w)) for v, w in differing)


def _is_year(value: Value) -> bool:
    return not value.dimension and len(value.figure) == 4 and value.figure[:2] in ("19", "20")


def _differing(subject: str, ours: Value, theirs: Value, strength: float) -> StatementRelation:
    kind = _KIND.get(ours.dimension) or _KIND.get(theirs.dimension) or "number"
    if kind == "number" and ours.figure and ours.figure == theirs.figure and ours.unit != theirs.unit:
        kind = "unit"
    return _contradict(kind, subject, ours.text, theirs.text, strength)


def _contradict(kind: DifferenceKind, subject: str, ours: str, theirs: str, strength: float) -> StatementRelation:
    about, ours, theirs = (repr(text if len(text) <= 60 else text[:57] + "...") for text in (subject, ours, theirs))
    about = f"About {about}, the" if subject else "The"
    reason = f"{about} existing text says {ours}, the new text {theirs}."
    sure = round(max(0.0, min(1.0, strength)), 3)
    return StatementRelation("contradict", kind, subject, reason, sure, (ours, theirs))


# Negation and antonyms


def _find_opposition(
    ours: Claim, theirs: Claim, subject: str, score: float, match: _Match | None
) -> StatementRelation | None:
    """Return the contradiction by a negation or a pair of opposites, or None. `match` is None for short answers."""
    if match is not None and (score < NEARLY_SAME or _swaps(match, ours, theirs)):
        return None
    poles = _opposite_poles(ours, theirs, match)
    if poles is not None:
        # "Not enabled" against "enabled" is a negation, "disabled" against "enabled" an antonym.
        kind: DifferenceKind = "negation" if poles[0].negated != poles[1].negated else "antonym"
        left, right = (f"not {pole.word}" if pole.negated else pole.word for pole in poles)
        return _contradict(kind, subject, left, right, score)
    if match is not None:
        for pair in product(match.only_ours, match.only_theirs):
            if opposite_by_prefix(*pair):
                return _contradict("antonym", subject, *pair, score)
    denied = _denied_by_one(ours, theirs)
    if denied is None or (match is not None and not _little_differs(match, ours, theirs)):
        return None
    by_ours = denied in ours.denied or len(ours.denied) > len(theirs.denied)
    left, right = (f"not {denied}", denied) if by_ours else (denied, f"not {denied}")
    return _contradict("negation", subject, left, right, score)


def _swaps(match: _Match, ours: Claim, theirs: Claim) -> bool:
    """Return whether each side replaces a significant word of the other with something other than its opposite."""
    left = [term for term in match.only_ours if weight(term, ours.names, ours.language) >= 1]
    right = [term for term in match.only_theirs if weight(term, theirs.names, theirs.language) >= 1]
    left = [a for a in left if not any(opposite_by_prefix(a, b) for b in right)]
    return bool(left and right) and match.shared < 6


def _little_differs(match: _Match, ours: Claim, theirs: Claim) -> bool:
    """Return whether little differs besides the negation, and no word replaces another."""
    left = sum(weight(term, ours.names, ours.language) for term in match.only_ours)
    right = sum(weight(term, theirs.names, theirs.language) for term in match.only_theirs)
    return min(left, right) < 1 and max(left, right) <= max(1.5, 0.25 * match.shared)


def _opposite_poles(ours: Claim, theirs: Claim, match: _Match | None) -> tuple[Polar, Polar] | None:
    """Return the words of both sides that are opposites; None unless the sides are opposite on an odd number of axes."""
    left, right = _ends(ours), _ends(theirs)
    opposite = [axis for axis in left if axis in right and left[axis].sign != right[axis].sign]
    # Two differences cancel each other: "disabling it is prohibited", "enabling it is permitted".
    if len(opposite) % 2 == 0 or len(ours.denied) != len(theirs.denied):
        return None
    close = match is None or (
        match.score >= 0.9
        and abs(len(match.only_ours) - len(match.only_theirs)) <= 1
        and not _poles_alone(ours, theirs) + _poles_alone(theirs, ours)
    )
    axis = next((axis for axis in opposite if close or axis not in CLOSE_ONLY), None)
    return None if axis is None else (left[axis], right[axis])


def _ends(side: Claim) -> dict[str, Polar]:
    """Return the statement's word on each axis of opposites.

    An axis is left out if the statement names both of its ends.
    """
    found: dict[str, Polar] = {}
    both: set[str] = set()
    for pole in side.poles:
        if found.setdefault(pole.axis, pole).sign != pole.sign:
            both.add(pole.axis)
    return {axis: pole for axis, pole in found.items() if axis not in both}


def _denied_by_one(ours: Claim, theirs: Claim) -> str | None:
    """Return the term that one side denies and the other affirms, or None."""
    more, fewer = (ours, theirs) if len(ours.denied) > len(theirs.denied) else (theirs, ours)
    # Two more negations cancel each other.
    if (len(more.denied) - len(fewer.denied)) % 2 == 0:
        return None
    left, right = _ends(ours), _ends(theirs)
    if any(left[axis].sign != right[axis].sign for axis in left if axis in right):
        return None
    # "The job does not run" and "the job is disabled" agree: a word at the negative end denies as well.
    if any(pole.sign < 0 and pole.axis not in CLOSE_ONLY and pole.axis not in _ends(more) for pole in fewer.poles):
        return None
    return next((term for term in more.denied if term not in fewer.denied and term in fewer.bag), None)
