"""Facts that people changed, rewordings, and facts that they added.

Each is sent as evidence to the page before the edit.

A unit and its replacement are a changed fact if a sentence of it was replaced by one in which a number or a deciding
word (must, enabled, beta) differs; a rewording if only the forms of words, stop words or their order do. A unit that
keeps every sentence and has one more is "more", and one unlike anything in its section is "new": both only if none of
its sentences replaced one that the edit removed anywhere on the page. Other changes are left out, including mere
deletions.

A block of code that replaced a similar one of its section is "changed code". One is "new code" if the edit removed none,
and is sent with the paragraph before it if that is new, too. A row of a table is "changed" if the edit changed another cell
than its first, and "new" if the edit removed no row; it is sent with the head of its table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import SequenceMatcher
from typing import Literal

from knowledge.errors import KnowledgeError
from knowledge.merge.claims.statements import StatementReading, keeps_words, likeness, read_statement, statements_of
from knowledge.merge.document.unit_origins import PageFacts
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import DEFAULT_RULES
from knowledge.merge.evidence.merge import weigh
from knowledge.merge.evidence.place.list_form import bare_text
from knowledge.merge.model import IncomingEvidence, MergePlan, Unit, section_name, unit_digest
from knowledge.merge.setting import MergeSetting
from tests.benchmarks.history.repository import RealEdit

Change = Literal["fact", "rewording", "more", "new", "changed code", "new code", "changed row", "new row"]
CHANGES: tuple[Change, ...] = ("fact", "rewording", "more", "new", "changed code", "new code", "changed row", "new row")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAME_STATEMENT = 0.7
"""Similarity from which a unit counts as another's replacement."""
SAME_SUBJECT = 0.5
"""The same for a statement, if the edit removed the other."""
SAME_CODE = 0.6
"""Similarity of their characters from which a block of code counts as another's replacement."""
MOST_AT_ONCE = 4
"""An edit with more blocks of code, or rows, is a rewriting."""
LONGEST = 60_000
_FIGURE = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class StatementChange:
    """A change of a page by its people: `old` is "" for a new fact. `before` is the page, `section` where it was."""

    kind: Change
    path: str
    before: str
    section: tuple[str, ...]
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A change, and its outcome when it was sent as evidence to its section."""

    change: StatementChange
    plan: MergePlan

    @property
    def words(self) -> set[str]:
        """The verdicts."""
        return {verdict.verdict for verdict in self.plan.verdicts}

    @property
    def outcome(self) -> str:
        """The most telling verdict."""
        if self.plan.questions:
            return "question"
        order = ("flag", "ask", "update", "retain", "integrate", "unchanged")
        return next((word for word in order if word in self.words), "nothing")

    @property
    def loses_words(self) -> bool:
        """Whether a word of the page before would be lost."""
        return not keeps_words(self.plan.text, self.change.before)


def changes_of(edits: Iterable[RealEdit], most: int) -> Iterator[StatementChange]:
    """Yield up to `most` changes of each kind; one that was made to several pages, such as each version's copy, counts once."""
    found: Counter[str] = Counter()
    seen: set[tuple[str, str, str]] = set()
    for edit in edits:
        if max(len(edit.before), len(edit.after)) > LONGEST:
            continue
        of_edit: Counter[str] = Counter()
        for change in _changes_in(edit):
            # No more than two of one kind from one edit: a renaming everywhere is one change.
            said = change.kind, change.old, change.new
            if found[change.kind] < most and of_edit[change.kind] < 2 and said not in seen:
                seen.add(said)
                found[change.kind] += 1
                of_edit[change.kind] += 1
                yield change
        if all(found[kind] == most for kind in CHANGES):
            return


def _changes_in(edit: RealEdit) -> Iterator[StatementChange]:
    before, after = (units(cut(text)) for text in (edit.before, edit.after))
    yield from _code_changes(edit, before, after)
    yield from _row_changes(edit, before, after)
    old, new = _prose(before), _prose(after)
    had, has = _said(before), _said(after)
    lost = [one for text, one in had.items() if text not in has]
    kept = {unit_digest(unit.text) for unit in old} & {unit_digest(unit.text) for unit in new}
    gone = [unit for unit in old if unit_digest(unit.text) not in kept]
    for unit in new:
        if unit_digest(unit.text) in kept:
            continue
        reading, said = _reading(unit), _said([unit])
        fresh = [one for text, one in said.items() if text not in had]
        is_new = bool(fresh) and not any(_replaced(one, lost) for one in fresh)
        near = [one for one in gone if one.section == unit.section]
        nearest = max(near, key=lambda one: likeness(_reading(one), reading), default=None)
        alike = likeness(_reading(nearest), reading) if nearest is not None else 0.0
        if nearest is None or alike < 0.3:
            if is_new and len(reading.subject) >= 5:
                yield StatementChange("new", edit.path, edit.before, unit.section, "", unit.text)
            continue
        was = _said([nearest])
        if is_new and was.keys() < said.keys():
            yield StatementChange("more", edit.path, edit.before, unit.section, nearest.text, unit.text)
        elif alike >= SAME_STATEMENT:
            gone_here = [one for text, one in was.items() if text not in said]
            if kind := _kind(_reading(nearest), reading, gone_here, fresh):
                yield StatementChange(kind, edit.path, edit.before, unit.section, nearest.text, unit.text)


def _code_changes(edit: RealEdit, before: Sequence[Unit], after: Sequence[Unit]) -> Iterator[StatementChange]:
    had, has = ({unit_digest(unit.text) for unit in page} for page in (before, after))
    gone = [unit for unit in before if unit.kind == "fence" and unit_digest(unit.text) not in has]
    come = [at for at, unit in enumerate(after) if unit.kind == "fence" and unit_digest(unit.text) not in had]
    for at in come if len(come) <= MOST_AT_ONCE else ():
        unit = after[at]
        was = [one.text for one in gone if one.section == unit.section]
        if not gone:
            lead = after[at - 1] if at else unit
            is_led = lead.kind == "paragraph" and lead.section == unit.section and unit_digest(lead.text) not in had
            text = f"{lead.text.rstrip()}\n\n{unit.text}" if is_led else unit.text
            yield StatementChange("new code", edit.path, edit.before, unit.section, "", text)
        elif len(was) == 1 and SequenceMatcher(None, was[0], unit.text).ratio() >= SAME_CODE:
            yield StatementChange("changed code", edit.path, edit.before, unit.section, was[0], unit.text)


def _row_changes(edit: RealEdit, before: Sequence[Unit], after: Sequence[Unit]) -> Iterator[StatementChange]:
    had, has = ({_cells(unit) for unit in page if unit.kind == "row"} for page in (before, after))
    gone = [unit for unit in before if unit.kind == "row" and _cells(unit) not in has]
    come = [unit for unit in after if unit.kind == "row" and _cells(unit) not in had]
    for row in come if len(come) <= MOST_AT_ONCE else ():
        head = next(unit for unit in after if unit.piece == row.piece)
        if _cells(head) not in had:
            continue
        text = f"{head.text.rstrip()}\n|{'---|' * len(_cells(head))}\n{row.text}"
        was = [one.text for one in gone if one.section == row.section and _cells(one)[0] == _cells(row)[0]]
        if not gone:
            yield StatementChange("new row", edit.path, edit.before, row.section, "", text)
        elif len(was) == 1:
            yield StatementChange("changed row", edit.path, edit.before, row.section, was[0], text)


def _cells(row: Unit) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in row.text.strip().strip("|").split("|"))


def _prose(found: Iterable[Unit]) -> list[Unit]:
    return [unit for unit in found if unit.kind in ("paragraph", "item") and 5 <= len(unit.text.split()) <= 80]


def _reading(unit: Unit) -> StatementReading:
    return read_statement(bare_text(unit), "en")


def _statements(found: Sequence[Unit]) -> list[StatementReading]:
    return [one.reading for one in statements_of(found, "en")]


def _said(page: Sequence[Unit]) -> dict[str, StatementReading]:
    return {one.folded: one for one in _statements(page)}


def _replaced(new: StatementReading, lost: Iterable[StatementReading]) -> StatementReading | None:
    """Return the removed statement that this one replaced, None if there is none."""
    nearest = max(lost, key=lambda one: likeness(one, new), default=None)
    return nearest if nearest is not None and likeness(nearest, new) >= SAME_SUBJECT else None


def _kind(
    old: StatementReading, new: StatementReading, lost: Sequence[StatementReading], fresh: Sequence[StatementReading]
) -> Change | None:
    """Return the kind of change of a unit that lost some statements and got `fresh` ones."""
    if old.subject == new.subject and old.values == new.values and not _differ_in_fact(old, new):
        return (
            "rewording"
            if SequenceMatcher(None, old.plain, new.plain).ratio() >= 0.8 and old.folded != new.folded
            else None
        )
    # Everything else is equal, so the difference is the fact.
    if old.subject != new.subject and likeness(old, new) < 0.85:
        return None
    versions = [(was, one) for one in fresh if (was := _replaced(one, lost)) is not None]
    return "fact" if any(_differ_in_fact(was, one) for was, one in versions) else None


def _differ_in_fact(old: StatementReading, new: StatementReading) -> bool:
    figures = Counter(_FIGURE.findall(old.plain)) != Counter(_FIGURE.findall(new.plain))
    return figures or old.numbers != new.numbers or old.deciding != new.deciding


def answered(change: StatementChange) -> Answered | None:
    """Send the change to its section of the page before, from another source than the page's.

    None if the heading is ambiguous.
    """
    page = cut(change.before)
    setting = MergeSetting(
        PageFacts(change.path, "wiki:page", NOW, tracked=False), [None] * len(units(page)), DEFAULT_RULES, NOW, "r", "p"
    )
    try:
        section = section_name(change.section) or None
        plan = weigh(page, cut(change.new), IncomingEvidence("code:src/a.py@1", NOW), setting, section=section)
    except KnowledgeError:
        return None
    return Answered(change, plan)


HEAD = (
    "| repository | change | sent | flagged | asked | update | beside | said already | no place | other | words removed |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def table(name: str, answers: Iterable[Answered]) -> str:
    """Return a row for each kind of change."""
    rows = []
    answers = list(answers)
    for kind in CHANGES:
        of = [one for one in answers if one.change.kind == kind]
        counts = Counter(one.outcome for one in of)
        cells = [counts[word] for word in ("flag", "question", "update", "integrate", "unchanged", "ask")]
        other = len(of) - sum(cells)
        lost = sum(one.loses_words for one in of)
        rows.append(f"| {name} | {kind} | {len(of)} | {' | '.join(map(str, cells))} | {other} | {lost} |")
    return "\n".join(rows)
