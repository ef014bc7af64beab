"""One page and one piece of evidence: the findings while it is weighed, and the resulting plan. Pure.

The modules in `weigh/` decide on each unit of the evidence, and those in `place/` where new text goes. All of them
record their verdicts and changes here. Whether evidence may replace text is decided in one place, `Weighing.replacing`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

from knowledge.merge.claims.comparison import StatementRelation
from knowledge.merge.claims.statements import Span, Statement, keys_in, likeness, statements_of
from knowledge.merge.document.unit_origins import presumed_origin
from knowledge.merge.evidence.confidence import confidence_in, independent, lineage_of, same_lineage
from knowledge.merge.evidence.place.list_form import bare_text, in_form_of, item_number
from knowledge.merge.evidence.place.placement import MOST_OFFERED, PageSection, Placement, Placer, offered_place
from knowledge.merge.evidence.weigh.page_index import PageIndex
from knowledge.merge.evidence.weigh.table import Table, table_of
from knowledge.merge.model import (
    AnswerWord,
    BlockVerdict,
    Confidence,
    Contradiction,
    CutDocument,
    Dismissal,
    IncomingEvidence,
    OfferedPlace,
    Origin,
    Side,
    StatementQuestion,
    Unit,
    VerdictWord,
    pair_digest,
    quoted_section,
    section_name,
)
from knowledge.merge.setting import MergeSetting
from knowledge.merge.splice import Insertion, PageSplicer, Replacement
from knowledge.merge.three_way.kinds.front_matter import key_name

LONGEST_SIDE = 500
"""Characters of each side of a contradiction that are kept."""
PARALLEL = 2
"""Keys that two sections must share to count as parallel: the same facts about different subjects."""
ONE_SUBJECT = 0.6
"""Likeness at which two statements may be about one subject. If only one unit of the page reaches it, that unit
counts as being about the same subject."""
MODEL, JUDGED = "model", "judged"
"""The kinds of a contradiction that only the server's language model found, or only the host."""
TO_A_PERSON = 'to write it anyway, ask the person and send it as their edit (source "user", with the section)'

Replacing = Literal["allowed", "older", "weaker", "differs"]
_LEADS_ON = re.compile(r"[:\uff1a](?:\*\*|__)?$|^(\*\*|__)[^*\n]+\1$")
"""A colon at the end, or a paragraph of one line in bold, which is a label of what follows."""
_REASONS = {"older": "older than the page", "weaker": "weaker than the page"}


@dataclass(slots=True, eq=False)
class PageChange:
    """One change of the page, and the numbers of the verdicts that it carries out.

    `touched` is the unit of the page that it changes; `expected` are the units that the written text must read as.
    """

    verdicts: list[int]
    insertion: Insertion | None = None
    replacement: Replacement | None = None
    touched: int | None = None
    keeps_origin: bool = False
    expected: tuple[Unit, ...] = ()


class NewText(NamedTuple):
    """A unit, or the new part of one, that still needs a place on the page; `verdict` is the number of its verdict.

    `beside` is the unit of the page that it belongs next to, None while its place is unknown. `whole` says that it is the whole
    incoming unit.
    """

    verdict: int
    unit: Unit
    beside: int | None
    whole: bool


class Dispute(NamedTuple):
    """A new statement that contradicts one of unit `there` of the page."""

    new: str
    there: int
    existing: str
    comparison: StatementRelation


@dataclass(slots=True)
class UnitFindings:
    """How the statements of an incoming unit (`own`) relate to the page; pairs are (new, old)."""

    unit: Unit
    own: Sequence[Statement]
    duplicates: list[Statement] = field(default_factory=list)
    corrections: list[tuple[Statement, Statement]] = field(default_factory=list)
    outdated: list[tuple[Statement, Statement]] = field(default_factory=list)
    kept: list[tuple[Statement, Statement, Dismissal]] = field(default_factory=list)
    disputes: list[Dispute] = field(default_factory=list)
    doubts: list[Dispute] = field(default_factory=list)
    paraphrases: list[tuple[Statement, Statement]] = field(default_factory=list)
    questions: list[tuple[Statement, Statement]] = field(default_factory=list)
    new: list[Statement] = field(default_factory=list)


class Weighing:
    """One page, one piece of evidence, and the result. Units of the page are named by their numbers."""

    def __init__(self, current: CutDocument, evidence: IncomingEvidence, setting: MergeSetting) -> None:
        self.page, self.evidence, self.setting = current, evidence, setting
        self.splicer = PageSplicer(current)
        self.units = self.splicer.units
        self.origins = [
            origin or replace(presumed_origin(unit, setting.page, setting.rules), revision=setting.revision or "")
            for unit, origin in zip(self.units, setting.origins, strict=True)
        ]
        self.is_recorded = [origin is not None for origin in setting.origins]
        # The page cannot corroborate what is merged into it.
        own = lineage_of(f"kb:{setting.page.path}")
        self.verified = tuple(one for one in dict.fromkeys(map(lineage_of, evidence.corroborated_by)) if one != own)
        self.weight = self._confidence_in(replace(evidence, corroborated_by=self.verified))
        self.placer = Placer(current, setting.similarity)
        self.language = self.placer.language
        self.index = PageIndex(self.units, self.language)
        # The incoming text: its content without date headings, the words of dropped headings, the section that was asked for.
        self.content = CutDocument("", ())
        self.incoming: tuple[Unit, ...] = ()
        self.hint = ""
        self.within: PageSection | None = None
        self._homes: dict[int, PageSection | None] = {}
        self._alike_by_text: dict[str, frozenset[int]] = {}
        # Findings, made before anything is decided.
        self.findings: dict[int, UnitFindings] = {}
        self.confirmed_by: dict[int, set[int]] = defaultdict(set)
        self.repeated: set[tuple[int, Span]] = set()
        # Decisions.
        self.verdicts: list[BlockVerdict] = []
        self.contradictions: list[Contradiction] = []
        self.changes: list[PageChange] = []
        self.new_texts: list[NewText] = []
        self.supported: set[int] = set()
        self.replaced_units: set[int] = set()
        self.matched: dict[int, int] = {}
        self.places: tuple[OfferedPlace, ...] = ()
        self.questions: list[StatementQuestion] = []
        self.note: str | None = None

    # Where things are

    def find_section(self, name: str) -> PageSection:
        """Return the section of that name.

        Raises:
            NoSuchSection, AmbiguousName: no section fits, or several do.
        """
        return self.placer.find(self.setting.page.path, name)

    def target(self, path: Sequence[str]) -> PageSection | None:
        """Return the section of the page that a unit under these headings names, or the one that was asked for."""
        named = self.placer.named(path, self.within)
        if self.within is None:
            return named
        return named if named is not None and self.lies_in(named.heading, self.within) else self.within

    @staticmethod
    def lies_in(piece: int | None, section: PageSection) -> bool:
        """Return whether a piece is in the section, or in one inside it."""
        if section.heading is None:
            return True
        return piece is not None and section.heading <= piece < section.last

    def lies_within(self, number: int, target: PageSection | None) -> bool:
        """Return whether a unit of the page is in the section that the content names; True if it names none."""
        return target is None or self.lies_in(self.units[number].piece, target)

    def comparable(self, number: int, target: PageSection | None, *, alone: bool) -> bool:
        """Return whether a unit of the page may have the subject of a new one; `alone` says that the new one needs no heading.

        Sections that share keys say the same things about different subjects (`timeout: 30` for each of two servers): there
        a short line means something only under its own heading.
        """
        if alone or self.lies_within(number, target) or target is None:
            return True
        mine, other = (self._keys_under.get(path, frozenset()) for path in (target.path, self.units[number].section))
        return len(mine & other) < PARALLEL

    @cached_property
    def tables(self) -> Sequence[Table]:
        """The tables of the page, in order."""
        tables = (number for number, piece in enumerate(self.page.pieces) if piece.kind == "table")
        return [table_of(self.page, self.units, number) for number in tables]

    @cached_property
    def _keys_under(self) -> Mapping[tuple[str, ...], frozenset[str]]:
        """The keys of the `key: value` lines directly under each heading."""
        keys: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for unit in self.units:
            if unit.kind in ("paragraph", "item"):
                keys[unit.section].update(keys_in(bare_text(unit)))
        return {section: frozenset(names) for section, names in keys.items()}

    @cached_property
    def front_keys(self) -> Mapping[str, int]:
        """The number of the unit with each front matter key; of a repeated key, the first."""
        keys = [(key_name(unit.text), number) for number, unit in enumerate(self.units) if unit.kind == "front"]
        return dict(reversed(keys))

    @cached_property
    def said_by_content(self) -> frozenset[tuple[tuple[str, ...], str]]:
        """The statements of the incoming text, folded, each with the headings above it."""
        return frozenset((one.section, one.reading.folded) for one in statements_of(self.incoming, self.language))

    @cached_property
    def incoming_keys(self) -> Counter[str]:
        """How often each key occurs in the incoming front matter."""
        return Counter(key_name(unit.text) for unit in self.incoming if unit.kind == "front")

    def home(self, unit: Unit) -> PageSection | None:
        """Return the section that an incoming unit belongs to: the one it names, else the one where it would surely be put.

        None if that would be a guess, or if the unit is under a heading that the page lacks, which makes it a new subject.
        """
        named = self.target(unit.section)
        if named is not None or unit.section:
            return named
        if unit.piece not in self._homes:
            together = [one for one in self.incoming if one.piece == unit.piece]
            self._homes[unit.piece] = self.placer.likely_section(
                "\n\n".join(one.text for one in together),
                hint=self.hint,
                is_item=all(one.kind == "item" for one in together),
            )
        return self._homes[unit.piece]

    def in_same_section(self, unit: Unit, number: int) -> bool:
        """Return whether a unit of the page is where an incoming unit belongs: in that section, or the only one of its subject.

        See `belongs_with`.
        """
        if self.belongs_with(unit, number):
            return True
        return not unit.section and self.within is None and self.home(unit) is None and self._alike(unit) == {number}

    def belongs_with(self, unit: Unit, number: int) -> bool:
        """Return whether an incoming unit names the section of a unit of the page, or would surely be put there.

        Keys of the front matter always do. So do rows without a heading: their table's columns and their key matched them.
        """
        if unit.kind == "front" or (unit.kind == "row" and not unit.section and self.within is None):
            return True
        home = self.home(unit)
        return home is not None and home.path == self.units[number].section

    def _alike(self, unit: Unit) -> frozenset[int]:
        """Return the units of the page that have the subject of one of the statements of an incoming unit."""
        if unit.text not in self._alike_by_text:
            self._alike_by_text[unit.text] = frozenset(
                old.unit
                for new in statements_of([unit], self.language)
                for old in self.index.near(new)
                if likeness(old.reading, new.reading) >= ONE_SUBJECT
            )
        return self._alike_by_text[unit.text]

    # Replacing text

    def replacing(self, unit: Unit, number: int, *, covers: bool) -> Replacing:
        """Return whether an incoming unit may take the place of one of the page, or why it may not.

        `covers` says that the new text has every word of the old one. This decides whether evidence removes words. A
        source may later correct what it is known to have said in the same section. The text of any other source must
        cover the old text there and weigh at least as much; of two that weigh the same, the newer counts. Everything
        else is added, held back, or left to a person. See kb/decisions/0026 and 0054.
        """
        if self.corrects(unit, number):
            return "allowed" if self.is_later(number) else "older"
        if not covers or self._may_be_another(unit, number):
            return "differs"
        # A longer text elsewhere may be about another thing, such as another example, unless it begins with all of the old text.
        continues = _continues(unit, self.units[number]) and self.in_same_section(unit, number)
        if not continues and not self.belongs_with(unit, number):
            return "differs"
        return "weaker" if self.is_weaker(number) else "allowed"

    def corrects(self, unit: Unit, number: int) -> bool:
        """Return whether an incoming unit is its source's own correction of a unit of the page, or a person decided for it.

        A presumed origin does not count: nobody knows who wrote that text. A similar statement in another section is not the same one.
        A caller who asked to add to a section corrects nothing.
        """
        if self.is_rejected(number):
            return True
        if self.evidence.only_adds:
            return False
        return self.is_recorded[number] and self.is_same_source(number) and self.in_same_section(unit, number)

    def _may_be_another(self, unit: Unit, number: int) -> bool:
        """Return whether a unit of the page may be about another thing, although an incoming one has all of its words.

        It is so if both are steps with different numbers, or if it leads into what follows it ("This command watches the
        key `foo`:", a label in bold) and is no field that the incoming unit fills in ("Members: 462" for "Members:").
        """
        old = self.units[number]
        if old.kind not in ("paragraph", "item"):
            return False
        mine, other = item_number(old.text), item_number(unit.text)
        leads_on = _LEADS_ON.search(old.text.strip()) is not None and not _continues(unit, old)
        return leads_on or (None not in (mine, other) and mine != other)

    def dismissal(self, existing: str, new: str) -> Dismissal | None:
        """Return a person's dismissal of the contradiction between two statements, unless a person has decided otherwise since."""
        if not self.setting.dismissals or any(one in existing for one in self.evidence.against):
            return None
        return self.setting.dismissals.get(pair_digest(_side_text(existing), _side_text(new)))

    def is_elsewhere(self, unit: Unit, number: int) -> bool:
        """Return whether a page unit is from the evidence's own source, but the evidence belongs in another section."""
        return self.is_same_source(number) and not self.is_rejected(number) and not self.in_same_section(unit, number)

    def is_weaker(self, number: int) -> bool:
        """Return whether the evidence has less confidence than a unit of the page."""
        return self.weight.confidence < self.confidence(number).confidence

    def is_same_source(self, number: int) -> bool:
        """Return whether a unit of the page comes, or presumably comes, from the lineage of the evidence."""
        return same_lineage(self.evidence.source, self.origins[number].source)

    def is_rejected(self, number: int) -> bool:
        """Return whether a person decided for the evidence and against a unit of the page."""
        text = self.units[number].text
        return any(one in text for one in self.evidence.against)

    def is_later(self, number: int) -> bool:
        """Return whether the evidence was observed no earlier than a unit of the page."""
        return self.evidence.observed_at >= self.origins[number].observed_at or self.is_rejected(number)

    # Confidence

    def _confidence_in(self, claim: IncomingEvidence | Origin) -> Confidence:
        return confidence_in(claim, now=self.setting.now, rules=self.setting.rules)

    def confidence(self, number: int, *, supported: bool = False) -> Confidence:
        """Return the confidence of a unit of the page; with `supported`, as corroborated by the evidence."""
        return self._confidence_in(self.supported_origin(number) if supported else self.origins[number])

    def supported_origin(self, number: int) -> Origin:
        """Return the origin of a unit that the evidence repeats: verified lineages corroborate it, its own source renews it."""
        origin = self.origins[number]
        lineages = independent(origin.source, (*origin.corroborated_by, *self.verified))
        seen = origin.observed_at
        if self.is_same_source(number) or self.is_rejected(number):
            seen = max(seen, self.evidence.observed_at)
        if lineages == origin.corroborated_by and seen == origin.observed_at:
            return origin
        return replace(origin, corroborated_by=lineages, observed_at=seen)

    # Verdicts

    def verdict(self, word: VerdictWord, section: Sequence[str], reason: str, there: int | None = None) -> int:
        """Record a verdict and return its number; `there` is the unit of the page that it is about."""
        existing = None if there is None else self.confidence(there, supported=word == "unchanged")
        self.verdicts.append(BlockVerdict(section_name(section), word, reason, self.weight, existing))
        return len(self.verdicts) - 1

    def unchanged(self, number: int, *there: int) -> None:
        """Report that the page says this already; verified sources count as corroboration."""
        self.supported.update(there)
        self.matched[number] = there[0]
        old = self.units[there[0]]
        witnesses = independent(self.origins[there[0]].source, self.verified)
        counts = "no verified source corroborates it"
        if self.is_same_source(there[0]):
            counts = "from the same source"
        elif witnesses:
            counts = f"{', '.join(witnesses)[:120]} corroborates it"
        weight = self.confidence(there[0], supported=True)
        where = f"line {old.line}" + (f" under {quoted_section(old.section)}" if old.section else "")
        self.verdict("unchanged", old.section, f"{where} already says this, {counts}: now {weight}", there[0])

    def retain(self, unit: Unit, there: int, why: str, new: Statement | None = None) -> None:
        """Report that the evidence is not written, and how to write it anyway.

        `why` is "older" or "weaker", or a reason in words.
        """
        old, existing, source = self.units[there], self.confidence(there), self.origins[there].name
        part = f" ({quoted(new.reading.text)})" if new is not None else ""
        weights = f"{self.weight} against {existing} of {source} in line {old.line}"
        reason = f"not written{part}: {_REASONS.get(why, why)}, {weights}; {TO_A_PERSON}"
        self.verdict("retain", old.section or unit.section, reason, there)

    def ask(self, unit: Unit, pairs: Sequence[tuple[str, str, int]]) -> None:
        """Report that a unit waits until the host says how its statements relate to those of the page; queue the questions.

        Pairs are (new statement, statement of the page, the unit that holds it).
        """
        self.questions += [
            StatementQuestion(existing, new, section_name(self.units[there].section), self.origins[there].name)
            for new, existing, there in pairs
        ]
        new, existing, there = pairs[0]
        reason = (
            f"not written: {quoted(new)} may be another version of {quoted(existing)} in line "
            f"{self.units[there].line}; answer `questions` in the next call"
        )
        self.verdict("ask", self.units[there].section or unit.section, reason, there)

    def answer(self, existing: str, new: str) -> AnswerWord | None:
        """Return the host's answer about a pair of statements, None without one."""
        return next((one.answer for one in self.evidence.answers if (one.existing, one.new) == (existing, new)), None)

    def judged_contradiction(self, there: int) -> StatementRelation:
        """Return the contradiction with unit `there` that a host's answer amounts to.

        "Replaces" is one too: the host's judgement must not remove another source's text, so a person decides.
        """
        reason = f"The host that sent {self.evidence.source} judged that it contradicts the existing text."
        return StatementRelation("contradict", JUDGED, "".join(self.units[there].section[-1:]), reason, 1.0)

    def offer(self, numbers: Sequence[int], placement: Placement) -> None:
        """Report that texts are not written because their place would be a guess, and offer places for them.

        Only places for the first such texts are offered; once these are sent again with a place, the next ones are asked about.
        """
        path = self.setting.page.path
        # The text before the first heading has no name to ask for it by.
        named = [one for one in placement.choices if one.section.path][:MOST_OFFERED]
        offered = tuple(
            offered_place(path, one.section.path, one.share, self.placer.name_of(one.section)) for one in named
        )
        self.places = self.places or offered
        likely = ", ".join(f"{quoted_section(one.section.path)} ({one.share:.2f})" for one in named)
        reason = f"new: {self.weight}; not written, because its place would be a guess: {likely or 'no section fits'}"
        for number in numbers:
            self.verdicts[number] = replace(self.verdicts[number], verdict="ask", reason=reason)

    def flag(self, unit: Unit, disputes: Sequence[Dispute]) -> None:
        """Report that a unit contradicts another lineage, and record both sides; the unit is not written.

        The verdict names the first of the disputes. A contradiction that a person dismissed is not recorded again.
        """
        for dispute in disputes:
            # Reached by a row, a key or a block only: for prose the pair is not disputed in the first place.
            if (dismissal := self.dismissal(dispute.existing, dispute.new)) is not None:
                self.retain(unit, dispute.there, dismissed(dismissal))
                return
        for dispute in disputes:
            self._record(unit, dispute)
        there, comparison = disputes[0].there, disputes[0].comparison
        reason = (
            f"{comparison.reason.rstrip('.')}; not written, a person decides between {self.evidence.source} at {self.weight} "
            f"and {self.origins[there].name} at {self.confidence(there)}"
        )
        self.verdict("flag", self.units[there].section or unit.section, reason, there)

    def _record(self, unit: Unit, dispute: Dispute) -> None:
        origin, old, comparison = self.origins[dispute.there], self.units[dispute.there], dispute.comparison
        target = self.target(unit.section)
        path = self.setting.page.path
        existing = Side(
            path,
            section_name(old.section),
            _side_text(dispute.existing),
            origin.source,
            origin.authority,
            origin.observed_at,
            self.confidence(dispute.there).confidence,
            origin.revision or self.setting.revision,
        )
        new = Side(
            path,
            section_name(target.path if target is not None else old.section),
            _side_text(dispute.new),
            self.evidence.source,
            self.weight.authority,
            self.evidence.observed_at,
            self.weight.confidence,
            None,
        )
        kind, subject, reason = comparison.kind, comparison.subject, comparison.reason
        self.contradictions.append(Contradiction(kind, subject, reason, existing, new, comparison.strength))

    # Changes

    def replace_text(
        self, there: int, text: str, verdict: int, *, part: Span | None = None, keeps_origin: bool = False
    ) -> None:
        """Change a unit of the page to `text`, or only a part of it. Call it only where `replacing` allows it."""
        begin, end = part or (0, len(self.units[there].text))
        start, old = self.splicer.span(there)[0], self.units[there]
        self.changes.append(
            PageChange(
                [verdict],
                replacement=Replacement(start + begin, start + end, text),
                touched=there,
                keeps_origin=keeps_origin,
                expected=(old._replace(text=old.text[:begin] + text + old.text[end:]),),
            )
        )
        self.replaced_units.add(there)

    def update_unit(self, number: int, unit: Unit, there: int, gone: Sequence[str] = ()) -> None:
        """Put an incoming unit in the place of unit `there` of the page, in the form of that unit.

        `gone` are words of the old unit that are lost.
        """
        text = self.splicer.with_ends(in_form_of(self.units[there], unit))
        self.replace_text(there, text, self.update_verdict(there, gone))
        self.matched[number] = there

    def update_verdict(self, there: int, gone: Sequence[str] = ()) -> int:
        """Record the verdict that the evidence replaces a unit, with the reason and figures; return its number."""
        source, line = self.origins[there].name, self.units[there].line
        if self.is_rejected(there):
            why = f"a person decided for {self.evidence.source} and against line {line}"
        elif self.is_same_source(there) and self.is_recorded[there]:
            why = f"{self.evidence.source} corrects line {line}"
            why += f", without {quoted(', '.join(gone))}" if gone else ""
        else:
            why = f"covers line {line} and adds to it"
        weights = f"{self.weight} against {self.confidence(there)} of {source}"
        return self.verdict("update", self.units[there].section, f"{why}: {weights}", there)


def dismissed(dismissal: Dismissal) -> str:
    """Return why a statement is not written after a person has dismissed its contradiction, worded for `Weighing.retain`."""
    kept = (
        "kept the existing text"
        if dismissal.ruling == "existing"
        else "you answered that both hold, but only one fits here"
    )
    why = f" ({quoted(dismissal.reason)})" if dismissal.reason else ""
    return f"{dismissal.by} {kept} on {dismissal.at:%Y-%m-%d}{why}"


def _continues(new: Unit, old: Unit) -> bool:
    """Return whether a text begins with all of another one, whose full stop does not count."""
    begins, whole = (" ".join(bare_text(one).split()) for one in (old, new))
    return whole.startswith(begins.rstrip(" .!?"))


def _side_text(text: str) -> str:
    return text.strip()[:LONGEST_SIDE]


def quoted(text: str) -> str:
    """Return the beginning of a text in quotes."""
    line = " ".join(text.split())
    return f"'{line if len(line) <= 60 else line[:57] + '...'}'"
