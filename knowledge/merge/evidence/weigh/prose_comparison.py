"""Compares the statements of the content with those of the page: duplicate, contradiction, paraphrase, question or new. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from knowledge.merge.claims.comparison import StatementRelation
from knowledge.merge.claims.contradiction import answer_differently, compare, contradictions
from knowledge.merge.claims.statements import (
    Statement,
    StatementReading,
    covers,
    curtails,
    implies,
    is_paraphrase,
    likeness,
    only_introduces,
    read_statement,
    statements_of,
    turns_limit,
)
from knowledge.merge.document.dated_log import are_entries_apart
from knowledge.merge.document.entry_keys import are_two_entries, are_two_links, is_named
from knowledge.merge.evidence.place.placement import PageSection
from knowledge.merge.evidence.weighing_state import MODEL, Dispute, UnitFindings, Weighing
from knowledge.merge.model import AnswerWord, Dismissal, Unit

MOST_PAIRS = 20_000
"""If there are at most this many pairs of units, all of them are compared for contradictions."""
MAYBE_VERSION = 0.55
"""Likeness from which a statement may be another version of the one that it is most like."""
CLEARLY_NEARER = 0.2
"""By how much a statement's likeness to the most similar statement of the section must exceed its likeness to any
other."""
SURE_VERSION = 0.8
"""Likeness from which `CLEARLY_NEARER` is not required."""
MOST_WORDS_ALONE = 3
"""Words of a statement that says something only together with the name of its entry."""
LONGEST_ANSWER = 15
"""Words of a statement that is compared as an answer to the question in its heading."""
MOST_OF_A_TEXT = 50
"""The most sentences of an incoming unit that are compared with an old statement to find out which of them may be
its new version."""

PROSE = ("paragraph", "item")

_NUMBERED = re.compile(
    r"(?:(?:the|der|die|das) )?[^\W\d_]+(?: (?:number|no\.?|nr\.?|nummer))? #?(?P<number>\d+) [^\W\d_]", re.IGNORECASE
)
_TIMED = re.compile(r"[*_`\[(]{0,3}[0-2]?\d[:.h][0-5]\d(?:[:.][0-5]\d)?\b")
"""A time of day at the beginning of an entry."""


def compare_prose(w: Weighing) -> None:
    """Compare all prose with the page before anything is decided."""
    known = {number: same for number, unit in enumerate(w.incoming) if (same := equal_unit(w, unit)) is not None}
    disputed = _disputed_units(w, [n for n, unit in enumerate(w.incoming) if n not in known and unit.kind in PROSE])
    for number, unit in enumerate(w.incoming):
        if (same := known.get(number)) is not None:
            w.repeated.update((old.unit, old.span) for old in w.index.statements(same))
            w.confirmed_by[same].add(number)
            continue
        if (elsewhere := w.index.equal(unit)) is not None:
            w.confirmed_by[elsewhere].add(number)
        if unit.kind in PROSE:
            found = w.findings[number] = UnitFindings(unit, statements_of([unit], w.language))
            for statement in found.own:
                near = disputed.get(number, ())
                if (kept := _kept(w, statement, near)) is not None:
                    found.kept.append(kept)
                else:
                    _compare_statement(w, statement, near, found)
            for old in found.duplicates:
                w.repeated.add((old.unit, old.span))
                w.confirmed_by[old.unit].add(number)


def equal_unit(w: Weighing, unit: Unit) -> int | None:
    """Return the page's unit with the same text, in the section that the content names."""
    target = w.target(unit.section)
    return w.index.equal(
        unit, lambda at: w.lies_within(at, target) and not are_entries_apart(unit.section, w.units[at].section)
    )


def _disputed_units(w: Weighing, numbers: Sequence[int]) -> dict[int, list[int]]:
    """Return, by incoming unit, the units of the page that it contradicts, surest first.

    With very many units only statements with common terms are compared, by `_compare_statement`.
    """
    found: dict[int, list[int]] = defaultdict(list)
    if len(numbers) * len(w.units) <= MOST_PAIRS:
        for one in contradictions(w.units, [w.incoming[number] for number in numbers]):
            found[numbers[one.new]].append(one.existing)
    return found


def _compare_statement(w: Weighing, new: Statement, disputed: Sequence[int], found: UnitFindings) -> None:
    """Find out how a new statement of a unit relates to the page: to the section that it names, then to the others."""
    target = w.target(found.unit.section)
    near = [
        old
        for old in _candidates(w, new, found.unit)
        if w.comparable(old.unit, target, alone=new.reading.is_clear_alone)
        and old.reading.kind != "row"
        and not are_entries_apart(found.unit.section, tuple(old.section))
        and not _is_of_another_entry(w, new, found.unit, old)
        and not only_introduces(new.reading, old.reading)
    ]
    # The section that the content names decides first: `timeout: 60` may be right under Production and wrong under Staging.
    for here in (True, False):
        there = [old for old in near if w.lies_within(old.unit, target) == here]
        for old in there:
            if any(implies(reading, new.reading) for reading in _readings(w, old, new)):
                found.duplicates.append(old)
                return
        units = [at for at in disputed if w.lies_within(at, target) == here] + [old.unit for old in there]
        if (against := _contradicted(w, new, target, units)) is not None:
            _file_contradiction(w, new, *against, found)
            return
    for old, comparison in _doubts(w, new, found.unit, target):
        if w.is_rejected(old.unit):
            _file_contradiction(w, new, old, comparison, found)
            return
        if not w.is_same_source(old.unit):
            found.doubts.append(_dispute(new, old, comparison))
    if not any(doubt.new == new.reading.text for doubt in found.doubts) and _asks(w, new, near, found):
        return
    nearest = sorted(near, key=lambda old: not w.lies_within(old.unit, target))
    paraphrased = next((old for old in nearest if is_paraphrase(old.reading, new.reading)), None)
    if paraphrased is not None:
        found.paraphrases.append((new, paraphrased))
    else:
        found.new.append(new)


def _candidates(w: Weighing, new: Statement, unit: Unit) -> Iterable[Statement]:
    """Return the statements of the page that have most in common with `new`, and all of the entry of the same name.

    Among hundreds of options with a default, that of the same option has no more words in common than the others.
    """
    near = w.index.near(new)
    return dict.fromkeys((*near, *w.index.of_entry(unit)[:MOST_OF_A_TEXT]))


def _is_of_another_entry(w: Weighing, new: Statement, unit: Unit, old: Statement) -> bool:
    """Return whether an old statement is about another entry, such as another option, than a new one.

    An entry that says nearly the same under another name may be the same one, renamed.
    """
    if are_two_links(new.reading.text, old.reading.text):
        return True
    if not are_two_entries(unit, w.units[old.unit]):
        return False
    both_named = is_named(new.reading.text) and is_named(old.reading.text)
    return not both_named or likeness(old.reading, new.reading) < SURE_VERSION


def _kept(w: Weighing, new: Statement, disputed: Sequence[int]) -> tuple[Statement, Statement, Dismissal] | None:
    """Return (new, old, dismissal) if a person kept the old statement and rejected this one, else None."""
    if not w.setting.dismissals:
        return None
    for old in chain(w.index.near(new), *(w.index.statements(at) for at in disputed)):
        dismissal = w.dismissal(old.reading.text, new.reading.text)
        if dismissal is not None and dismissal.ruling == "existing":
            return new, old, dismissal
    return None


def _asks(w: Weighing, new: Statement, near: Sequence[Statement], found: UnitFindings) -> bool:
    """Settle a statement by the host's answer, or queue a question to the host; return whether either was done.

    The host is asked if the new statement may be a version of one in the section: no rule can tell a newer version from
    another fact or a rewording. It is not asked if the new statement covers the old one.
    """
    known = [
        *_other_answers(w, new, found),
        *_other_lone_words(w, new, found),
        *_possible_versions(w, new, near, found),
    ]
    for alike, old in known:
        word = w.answer(old.reading.text, new.reading.text)
        if word is not None and (alike >= MAYBE_VERSION or covers(new.reading, old.reading)):
            _settle_as_judged(w, new, old, word, found)
            return True
    if not _is_version([alike for alike, _ in known]) or covers(new.reading, known[0][1].reading):
        return False
    found.questions.append((new, known[0][1]))
    return True


def _possible_versions(
    w: Weighing, new: Statement, near: Sequence[Statement], found: UnitFindings
) -> list[tuple[float, Statement]]:
    """Return (likeness, statement) for the statements of the section that the new one may be a version of, likest first.

    A statement of the page is left out if the content repeats it, or if another sentence of the new text is more like
    it. If the new statement is an excerpt of an old one (`curtails`), however short, or turns its upper limit
    into a lower one (`turns_limit`), the old one's likeness is at least `SURE_VERSION`.
    """
    alike = [
        (max(likeness(old.reading, new.reading), SURE_VERSION if _is_surely_another_version(old, new) else 0.0), old)
        for old in near
        if w.units[old.unit].kind in PROSE
    ]
    # It takes long to find out where a text without a heading belongs, and only few statements need it.
    if not w.evidence.answers and max((one for one, _ in alike), default=0.0) < MAYBE_VERSION:
        return []
    return sorted(
        (
            (one, old)
            for one, old in alike
            if _is_open(w, new, old, found)
            and all(likeness(old.reading, other.reading) <= one for other in found.own[:MOST_OF_A_TEXT])
            and w.in_same_section(found.unit, old.unit)
        ),
        key=lambda pair: -pair[0],
    )


def _is_surely_another_version(old: Statement, new: Statement) -> bool:
    return curtails(old.reading, new.reading) or turns_limit(old.reading, new.reading)


def _other_answers(w: Weighing, new: Statement, found: UnitFindings) -> Iterator[tuple[float, Statement]]:
    """Yield (SURE_VERSION, statement) for each short statement that answers the same question, the heading above, differently."""
    target = w.target(found.unit.section)
    if target is None or not read_statement("".join(target.path[-1:]), w.language).asks:
        return
    for old in w.index.in_section(target.path):
        if (
            max(len(one.reading.plain.split()) for one in (old, new)) <= LONGEST_ANSWER
            and _is_open(w, new, old, found)
            and answer_differently(target.path[-1], old.reading.plain, new.reading.plain)
        ):
            yield SURE_VERSION, old


def _other_lone_words(w: Weighing, new: Statement, found: UnitFindings) -> Iterator[tuple[float, Statement]]:
    """Yield (SURE_VERSION, statement) for each word such as "Required." of the entry of the same name, if `new` is such a word.

    Alone, "Optional." would say nothing.
    """
    if len(new.reading.words) > MOST_WORDS_ALONE or len(found.own) == 1:
        return
    for old in w.index.of_entry(found.unit):
        if (
            len(old.reading.words) <= MOST_WORDS_ALONE
            and _is_open(w, new, old, found)
            and w.in_same_section(found.unit, old.unit)
        ):
            yield SURE_VERSION, old


def _is_open(w: Weighing, new: Statement, old: Statement, found: UnitFindings) -> bool:
    """Return whether the content does not repeat an old statement, and no person decided between it and the new one."""
    repeated = (found.unit.section, old.reading.folded) in w.said_by_content
    return not repeated and w.dismissal(old.reading.text, new.reading.text) is None


def _is_version(alike: Sequence[float]) -> bool:
    """Return whether a statement may be a version of the statement that resembles it most; `alike` are its likenesses, highest first.

    Items of a list often follow one pattern, so a new item resembles several of them about equally and is a version of none.
    """
    first, second = (*alike[:2], 0.0, 0.0)[:2]
    return first >= SURE_VERSION or (first >= MAYBE_VERSION and first - second >= CLEARLY_NEARER)


def _settle_as_judged(w: Weighing, new: Statement, old: Statement, word: AnswerWord, found: UnitFindings) -> None:
    """Settle a statement by the host's judgement of how it relates to `old`."""
    match word:
        case "same":
            found.duplicates.append(old)
        case "both":
            found.new.append(new)
        case "replaces" | "contradicts":
            _file_contradiction(w, new, old, w.judged_contradiction(old.unit), found)


def _file_contradiction(
    w: Weighing, new: Statement, old: Statement, comparison: StatementRelation, found: UnitFindings
) -> None:
    """File a contradiction as a correction by the same source, as older text from it, or as a dispute for a person."""
    word = w.answer(old.reading.text, new.reading.text)
    if w.is_elsewhere(found.unit, old.unit):
        # If one source says both in two sections, they are about two things: customers' servers and the company's own.
        found.new.append(new)
    elif _may_be_another(w, new, old, comparison, found) and word in (None, "both", "same"):
        # Only the host knows whether the number is the name of another thing or a newer value.
        if word is None:
            found.questions.append((new, old))
        elif word == "same":
            found.duplicates.append(old)
        else:
            found.new.append(new)
    elif not w.corrects(found.unit, old.unit):
        found.disputes.append(_dispute(new, old, comparison))
    elif w.is_later(old.unit):
        found.corrections.append((new, old))
    else:
        found.outdated.append((new, old))


def _may_be_another(
    w: Weighing, new: Statement, old: Statement, comparison: StatementRelation, found: UnitFindings
) -> bool:
    """Return whether a statement with another number may be about another thing than the old one.

    It may if the section already counts up to it, such as "Entry 1" and "Entry 2" to "Entry 3", and if the numbers are
    the times of day at the beginning.
    """
    if w.is_rejected(old.unit):
        return False
    if w.index.is_next_of(new, old) or _begin_with_times(new, old):
        return True
    return w.corrects(found.unit, old.unit) and _may_name_another(new, comparison)


def _begin_with_times(new: Statement, old: Statement) -> bool:
    """Return whether both begin with a time of day: it may be a moved entry of a plan, or the next one of a timeline."""
    return all(_TIMED.match(one.reading.text) for one in (new, old))


def _may_name_another(new: Statement, comparison: StatementRelation) -> bool:
    """Return whether the number that differs may be a name, as in "Ticket 4711 is done": it is right behind the first word."""
    named = _NUMBERED.match(new.reading.text)
    return comparison.kind == "number" and named is not None and repr(named["number"]) in comparison.values


def _dispute(new: Statement, old: Statement, comparison: StatementRelation) -> Dispute:
    return Dispute(new.reading.text, old.unit, old.reading.text, comparison)


def _contradicted(
    w: Weighing, new: Statement, target: PageSection | None, units: Iterable[int]
) -> tuple[Statement, StatementRelation] | None:
    """Return the statement of these units that `new` contradicts most clearly; rows are compared as rows of their table."""
    best: tuple[Statement, StatementRelation] | None = None
    for number in dict.fromkeys(units):
        if w.units[number].kind not in (*PROSE, "quote"):
            continue
        if not w.comparable(number, target, alone=new.reading.is_clear_alone):
            continue
        for old in w.index.statements(number):
            if new.reading.subject and old.reading.subject.isdisjoint(new.reading.subject):
                continue
            if w.dismissal(old.reading.text, new.reading.text) is not None:
                continue
            for reading in _readings(w, old, new):
                found = compare(reading.plain, new.reading.plain, existing_section=old.section, new_section=new.section)
                if found.relation == "contradict" and (best is None or found.strength > best[1].strength):
                    best = (old, found)
    return best


def _readings(w: Weighing, old: Statement, new: Statement) -> list[StatementReading]:
    """Return the reading of an old statement and, if the heading above it is its subject, the reading with that heading.

    Under "Recency" a page says "Halves every 180 days", which "recency halves every 90 days" contradicts.
    """
    if not old.section or w.units[old.unit].kind not in PROSE:
        return [old.reading]
    heading = read_statement(old.section[-1], w.language).subject
    if not heading or not heading <= new.reading.subject or not heading.isdisjoint(old.reading.subject):
        return [old.reading]
    begin, rest = old.reading.text[:1], old.reading.text[1:]
    return [old.reading, read_statement(f"{old.section[-1]} {begin.lower()}{rest}", w.language)]


def _doubts(
    w: Weighing, new: Statement, unit: Unit, target: PageSection | None
) -> Iterator[tuple[Statement, StatementRelation]]:
    """Yield the statements of the page that contradict this one according to a model, but not by the rules."""
    for doubt in w.evidence.doubts:
        if doubt.new == new.reading.text:
            for old in prose_statements(w):
                if are_two_entries(unit, w.units[old.unit]):
                    continue
                dismissed = w.dismissal(old.reading.text, new.reading.text) is not None
                if old.reading.text == doubt.existing and not dismissed and may_doubt(w, old, new, target):
                    reason = f"according to {doubt.by}, both cannot be true: they differ in {doubt.about} ({doubt.sure:.2f} sure)"
                    yield old, StatementRelation("contradict", MODEL, "".join(old.section[-1:]), reason, doubt.sure)


def prose_statements(w: Weighing) -> Iterator[Statement]:
    """Yield the statements of the page's prose and quotes."""
    for number, unit in enumerate(w.units):
        if unit.kind in (*PROSE, "quote"):
            yield from w.index.statements(number)


def may_doubt(w: Weighing, old: Statement, new: Statement, target: PageSection | None) -> bool:
    """Return whether a model's opinion counts for this pair: no rule calls it a contradiction, and both may have the same subject."""
    if not w.comparable(old.unit, target, alone=new.reading.is_clear_alone):
        return False
    return all(compare(reading.plain, new.reading.plain).relation != "contradict" for reading in _readings(w, old, new))
