"""Facts that people changed, rewordings, and facts that they added: each sent as evidence to the page as it was before.

A statement of the page before and the one that took its place are a fact change if a number, a word that decides (must, enabled,
beta) or a name differs; a rewording if only the forms of words, stop words or their order do. Other changes are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import SequenceMatcher
from typing import Literal

from knowledge.errors import KnowledgeError
from knowledge.merge.claims.statements import StatementReading, keeps_words, likeness, read_statement
from knowledge.merge.document.unit_origins import PageFacts
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import DEFAULT_RULES
from knowledge.merge.evidence.merge import weigh
from knowledge.merge.evidence.place.list_form import bare_text
from knowledge.merge.model import IncomingEvidence, MergePlan, Unit, section_name, unit_digest
from knowledge.merge.setting import MergeSetting
from tests.benchmarks.history.repository import RealEdit

Change = Literal["fact", "rewording", "new"]
CHANGES: tuple[Change, ...] = ("fact", "rewording", "new")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAME_STATEMENT = 0.7
"""Likeness from which a unit is the one that took another's place."""
LONGEST = 60_000


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
    """A change, and what became of it when it was sent as evidence to its section."""

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
        """Whether a word of the page before would be gone."""
        return not keeps_words(self.plan.text, self.change.before)


def changes_of(edits: Iterable[RealEdit], most: int) -> Iterator[StatementChange]:
    """Yield up to `most` changes of each kind."""
    found: Counter[str] = Counter()
    for edit in edits:
        if max(len(edit.before), len(edit.after)) > LONGEST:
            continue
        of_edit: Counter[str] = Counter()
        for change in _changes_in(edit):
            # No more than two of one kind from one edit: a renaming everywhere is one change.
            if found[change.kind] < most and of_edit[change.kind] < 2:
                found[change.kind] += 1
                of_edit[change.kind] += 1
                yield change
        if all(found[kind] == most for kind in CHANGES):
            return


def _changes_in(edit: RealEdit) -> Iterator[StatementChange]:
    old, new = (_prose(units(cut(text))) for text in (edit.before, edit.after))
    kept = {unit_digest(unit.text) for unit in old} & {unit_digest(unit.text) for unit in new}
    gone = [unit for unit in old if unit_digest(unit.text) not in kept]
    for unit in new:
        if unit_digest(unit.text) in kept:
            continue
        reading = _reading(unit)
        near = [one for one in gone if one.section == unit.section]
        nearest = max(near, key=lambda one: likeness(_reading(one), reading), default=None)
        if nearest is None or likeness(_reading(nearest), reading) < 0.3:
            if len(reading.subject) >= 5:
                yield StatementChange("new", edit.path, edit.before, unit.section, "", unit.text)
        elif likeness(_reading(nearest), reading) >= SAME_STATEMENT and (kind := _kind(_reading(nearest), reading)):
            yield StatementChange(kind, edit.path, edit.before, unit.section, nearest.text, unit.text)


def _prose(found: Iterable[Unit]) -> list[Unit]:
    return [unit for unit in found if unit.kind in ("paragraph", "item") and 5 <= len(unit.text.split()) <= 80]


def _reading(unit: Unit) -> StatementReading:
    return read_statement(bare_text(unit), "en")


def _kind(old: StatementReading, new: StatementReading) -> Change | None:
    numbers = Counter(old.numbers) != Counter(new.numbers)
    deciding = old.deciding != new.deciding
    if old.subject == new.subject and not numbers and not deciding and old.values == new.values:
        return (
            "rewording"
            if SequenceMatcher(None, old.plain, new.plain).ratio() >= 0.8 and old.folded != new.folded
            else None
        )
    # All else the same: what differs is the fact.
    same_words = old.subject == new.subject or likeness(old, new) >= 0.85
    return "fact" if (numbers or deciding) and same_words else None


def answered(change: StatementChange) -> Answered | None:
    """Send the change to its section of the page as it was, from another source than the page's; None if the name is not clear."""
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
