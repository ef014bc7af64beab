"""What is known while evidence is weighed against a page, and the plan that comes of it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from knowledge.merge.claims.comparison import StatementRelation
from knowledge.merge.claims.statements import (
    Span,
    Statement,
    keys_in,
    stemming_language,
)
from knowledge.merge.document.page_index import PageIndex
from knowledge.merge.document.unit_origins import presumed
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import confidence, independent, lineage_of, same_lineage
from knowledge.merge.evidence.placement import PageSection, Placement, Placer
from knowledge.merge.evidence.rephrase import bare_text, in_form_of
from knowledge.merge.model import (
    BlockVerdict,
    Confidence,
    Contradiction,
    CutDocument,
    IncomingEvidence,
    MergePlan,
    Origin,
    Side,
    Unit,
    VerdictWord,
    section_name,
    unit_digest,
)
from knowledge.merge.setting import MergeSetting
from knowledge.merge.splice import Insertion, Replacement, Spliced, SplicedPage
from knowledge.merge.three_way.kinds.front_matter import key_name
from knowledge.pages.document import find_section, parse

LONGEST_SIDE = 500
"""Characters of what a side of a contradiction says that are kept."""


PARALLEL = 2
"""Keys that two sections have in common if they say the same things of different subjects."""


TO_A_PERSON = 'to have it all the same, ask the person and send it as their edit (source "user", with the section)'


MOST_VERDICTS = 80


@dataclass(slots=True, eq=False)
class Op:
    """One change of the page, and the verdicts that it carries out."""

    orders: list[int]
    put: Insertion | None = None
    replaced: Replacement | None = None
    touched: int | None = None
    keeps_origin: bool = False
    expected: tuple[Unit, ...] = ()


class New(NamedTuple):
    """A unit, or what of one is new, that is to be put into the page; `order` is that of its verdict.

    `beside` is the unit of the page that it belongs next to, None when its place is still to be found.
    """

    order: int
    unit: Unit
    beside: int | None
    whole: bool


@dataclass(slots=True)
class FoundStatements:
    """How the statements of one incoming unit stand to the page."""

    said: list[Statement] = field(default_factory=list)
    corrected: list[tuple[Statement, Statement]] = field(default_factory=list)
    outdated: list[tuple[Statement, Statement]] = field(default_factory=list)
    disputed: list[tuple[Statement, Statement, StatementRelation]] = field(default_factory=list)
    doubted: list[tuple[Statement, Statement, StatementRelation]] = field(default_factory=list)
    reworded: list[tuple[Statement, Statement]] = field(default_factory=list)
    fresh: list[Statement] = field(default_factory=list)


class Weighing:
    """One page, one piece of evidence, and what comes of it."""

    def __init__(self, current: CutDocument, evidence: IncomingEvidence, setting: MergeSetting) -> None:
        self.page, self.facts, self.evidence, self.rules, self.now = (
            current,
            setting.page,
            evidence,
            setting.rules,
            setting.now,
        )
        self.revision, self.similarity = setting.revision or "", setting.similarity
        page, rules, revision, similarity, origins = (
            self.facts,
            self.rules,
            self.revision,
            setting.similarity,
            setting.origins,
        )
        self.ground = SplicedPage(current)
        self.origins = [
            origin or replace(presumed(unit, page, rules), revision=revision)
            for unit, origin in zip(self.ground.units, origins, strict=True)
        ]
        self.known = [origin is not None for origin in origins]
        self.placer = Placer(current, similarity)
        self.weight = self.confidence_of_evidence()
        self.verified = tuple(
            lineage
            for lineage in dict.fromkeys(map(lineage_of, evidence.corroborated_by))
            if lineage != lineage_of(f"kb:{page.path}")
        )
        self.language = self.placer.language or stemming_language(current.text)
        self.index = PageIndex(self.ground.units, self.language)
        self.verdicts: list[BlockVerdict] = []
        self.contradictions: list[Contradiction] = []
        self.ops: list[Op] = []
        self.news: list[New] = []
        self.stands: dict[int, FoundStatements] = {}
        self.confirmed_by: dict[int, set[int]] = defaultdict(set)
        self.repeated: set[tuple[int, Span]] = set()
        self.supported: set[int] = set()
        self.replaced_units: set[int] = set()
        self.matched: dict[int, int] = {}
        self.note: str | None = None
        self.within: PageSection | None = None
        self.content = CutDocument("", ())
        self.incoming: tuple[Unit, ...] = ()
        self.hint = ""
        self.seen: set[tuple[str, bytes, tuple[str, ...]]] = set()
        self.keys_of: dict[tuple[str, ...], frozenset[str]] | None = None
        self._coming: tuple[tuple[Unit, ...], Counter[str]] | None = None

    def asked_for(self, section: str) -> PageSection:
        """Return the section of that name.

        Raises:
            NoSuchSection, AmbiguousName: there is none, or more than one.
        """
        document = parse(self.facts.path, self.page.text.removeprefix("\ufeff").encode("utf-8", "replace"))
        line = find_section(document, section).line
        return next(
            one
            for one in self.placer.sections
            if one.heading is not None
            and self.page.pieces[one.heading].line
            <= line
            < self.page.pieces[one.heading].line + max(1, self.page.pieces[one.heading].text.count("\n") + 1)
        )

    def target(self, path: Sequence[str]) -> PageSection | None:
        """Return the section of the page that a unit under these headings names, or the one that was asked for."""
        named = self.placer.named(path)
        if self.within is None:
            return named
        return named if named is not None and self.lies_in(named.heading, self.within) else self.within

    @staticmethod
    def lies_in(piece: int | None, section: PageSection) -> bool:
        """Return whether a piece lies in the section, or in one inside it."""
        if section.heading is None:
            return True
        return piece is not None and section.heading <= piece < section.last

    def comparable(self, number: int, target: PageSection | None, *, alone: bool) -> bool:
        """Return whether unit `number` of the page may be what a new one is about.

        Where the section that a new unit names has keys in common with that of the other (`timeout: 30` for each of two
        servers), short lines mean what they say there only; `alone` says that it is plain without its heading what is meant.
        """
        if alone or target is None or self.lies_within(number, target):
            return True
        mine, other = self.keys(target.path), self.keys(self.ground.units[number].section)
        return len(mine & other) < PARALLEL

    def keys(self, section: tuple[str, ...]) -> frozenset[str]:
        """Return the keys of the `key: value` lines that stand in a section."""
        if self.keys_of is None:
            keys: dict[tuple[str, ...], set[str]] = defaultdict(set)
            for unit in self.ground.units:
                if unit.kind in ("paragraph", "item"):
                    keys[unit.section].update(keys_in(bare_text(unit)))
            self.keys_of = {under: frozenset(names) for under, names in keys.items()}
        return self.keys_of.get(section, frozenset())

    @property
    def keys_coming(self) -> Counter[str]:
        """Return how often each key of the front matter comes."""
        if self._coming is None or self._coming[0] is not self.incoming:
            self._coming = self.incoming, Counter(key_name(unit.text) for unit in self.incoming if unit.kind == "front")
        return self._coming[1]

    @cached_property
    def keys_there(self) -> Mapping[str, int]:
        """Return which unit of the page each key of its front matter is, the first of several."""
        found: dict[str, int] = {}
        for number, unit in enumerate(self.ground.units):
            if unit.kind == "front":
                found.setdefault(key_name(unit.text), number)
        return found

    def lies_within(self, number: int, target: PageSection | None) -> bool:
        """Return whether a unit of the page lies where the content says; anywhere will do if it says nothing."""
        return target is None or self.lies_in(self.ground.units[number].piece, target)

    def same_voice(self, number: int) -> bool:
        """Return whether unit `number` of the page comes from the lineage of the evidence, or has to give way to it."""
        return same_lineage(self.evidence.source, self.origins[number].source) or self.given_up(number)

    def given_up(self, number: int) -> bool:
        """Return whether a person decided for the evidence and against unit `number` of the page."""
        text = self.ground.units[number].text
        return any(one in text for one in self.evidence.against)

    def is_later(self, number: int) -> bool:
        """Return whether the evidence was observed no earlier than what the page says there."""
        return self.evidence.observed_at >= self.origins[number].observed_at or self.given_up(number)

    def update_unit(self, number: int, unit: Unit, old_number: int, gone: Sequence[str] = ()) -> None:
        """Put the new unit in the place of an old one, in its form; `gone` are words that are lost with it."""
        old = self.ground.units[old_number]
        text = self.ground.with_ends(in_form_of(old, unit))
        start, end = self.ground.span(old_number)
        expected = unit._replace(text=text)
        order = self.verdict("update", old.section, self.update_reason(old_number, gone), old_number)
        self.ops.append(Op([order], replaced=Replacement(start, end, text), touched=old_number, expected=(expected,)))
        self.replaced_units.add(old_number)
        self.matched[number] = old_number

    def unchanged(self, number: int, *there: int) -> None:
        """Say that the page says this already; what the server verified counts for it."""
        self.supported.update(there)
        self.matched[number] = there[0]
        old = self.ground.units[there[0]]
        counted = independent(self.origins[there[0]].source, self.verified)
        counts = (
            f"{', '.join(counted)[:120]} corroborates it"
            if counted
            else "nothing the server has verified corroborates it"
        )
        if self.same_voice(there[0]):
            counts = "by the same source"
        weight = self.confidence(there[0], supported=True)
        where = f"line {old.line}" + (f" under {named_section(old.section)}" if old.section else "")
        self.verdict("unchanged", old.section, f"{where} says this already, {counts}: now {shown(weight)}", there[0])

    def retain(self, unit: Unit, there: int, relation: str, new: Statement | None = None) -> None:
        """Say that what came is not written, how it relates to what stands there, and how to have it all the same."""
        existing = self.confidence(there)
        source = self.origins[there].source
        old = self.ground.units[there]
        what = f" ({quoted(new.reading.text)})" if new is not None else ""
        reason = (
            f"not written{what}: {shown(self.weight)} {relation} {shown(existing)} of {source} in line {old.line}; "
            f"{TO_A_PERSON}"
        )
        self.verdict("retain", old.section or unit.section, reason, there)

    def flag_units(self, unit: Unit, there: int, comparison: StatementRelation) -> None:
        """Put on record that a unit says otherwise than one of the page."""
        self.contradiction(unit, unit.text, there, self.ground.units[there].text, comparison)
        self.flag_verdict(unit, there, comparison)

    def flag_verdict(self, unit: Unit, there: int, comparison: StatementRelation) -> None:
        """Say that a unit contradicts another lineage; nothing of it is written."""
        existing, source = self.confidence(there), self.origins[there].source
        said = comparison.reason.rstrip(".")
        reason = (
            f"{said}; not written, a person decides between {self.evidence.source} at {shown(self.weight)} "
            f"and {source} at {shown(existing)}"
        )
        self.verdict("flag", self.ground.units[there].section or unit.section, reason, there)

    def contradiction(self, unit: Unit, said: str, there: int, says_now: str, comparison: StatementRelation) -> None:
        """Put both sides of a contradiction on record."""
        origin, old = self.origins[there], self.ground.units[there]
        existing = Side(
            self.facts.path,
            section_name(old.section),
            says_now.strip()[:LONGEST_SIDE],
            origin.source,
            origin.authority,
            origin.observed_at,
            self.confidence(there).confidence,
            origin.revision or self.revision or None,
        )
        target = self.target(unit.section)
        new = Side(
            self.facts.path,
            section_name(target.path if target is not None else old.section),
            said.strip()[:LONGEST_SIDE],
            self.evidence.source,
            self.weight.authority,
            self.evidence.observed_at,
            self.weight.confidence,
            None,
        )
        self.contradictions.append(Contradiction(comparison.kind, comparison.subject, comparison.reason, existing, new))

    def update_reason(self, there: int, gone: Sequence[str] = ()) -> str:
        """Return why what came takes the place of a unit, with the numbers."""
        source, existing = self.origins[there].source, self.confidence(there)
        line = self.ground.units[there].line
        weights = f"{shown(self.weight)} against {shown(existing)} of {source}"
        if self.given_up(there):
            return f"a person decided for {self.evidence.source} and against line {line}: {weights}"
        if self.same_voice(there):
            without = f", without {quoted(', '.join(gone))}" if gone else ""
            return f"{self.evidence.source} says otherwise now than in line {line}{without}: {weights}"
        if gone:
            return f"another wording of line {line}, without {quoted(', '.join(gone))}: {weights}"
        return f"says what line {line} says and more: {weights}"

    def verdict(self, word: VerdictWord, section: Sequence[str], reason: str, there: int | None = None) -> int:
        """Give a verdict and return its number."""
        existing = None if there is None else self.confidence(there, supported=word == "unchanged")
        self.verdicts.append(BlockVerdict(section_name(section), word, reason, self.weight, existing))
        return len(self.verdicts) - 1

    def confidence_of_evidence(self) -> Confidence:
        """Return how far the evidence itself is to be believed; the page is no witness of what comes to it."""
        return confidence(
            self.evidence.source,
            self.evidence.observed_at,
            now=self.now,
            rules=self.rules,
            authority=self.evidence.authority,
            corroborated_by=[
                one for one in self.evidence.corroborated_by if lineage_of(one) != lineage_of(f"kb:{self.facts.path}")
            ],
        )

    def confidence(self, number: int, *, supported: bool = False) -> Confidence:
        """Return how far a unit of the page is to be believed, with what the evidence adds to it if asked."""
        origin = self.supported_origin(number) if supported else self.origins[number]
        return confidence(
            origin.source,
            origin.observed_at,
            now=self.now,
            rules=self.rules,
            authority=origin.authority,
            corroborated_by=origin.corroborated_by,
        )

    def supported_origin(self, number: int) -> Origin:
        """Return the origin of a unit that the evidence says too: verified lineages count, the same voice renews it."""
        origin = self.origins[number]
        lineages = independent(origin.source, (*origin.corroborated_by, *self.verified))
        seen = max(origin.observed_at, self.evidence.observed_at) if self.same_voice(number) else origin.observed_at
        if lineages == origin.corroborated_by and seen == origin.observed_at:
            return origin
        return replace(origin, corroborated_by=lineages, observed_at=seen)

    def section_at(self, placement: Placement) -> PageSection:
        """Return the section that the line of a placement lies in."""
        found = self.placer.sections[0]
        for section in self.placer.sections:
            if section.heading is not None and self.page.pieces[section.heading].line <= placement.after_line:
                found = section
        return found

    def plan(self, form: str) -> MergePlan:
        """Return the plan: everything carried out that can be, and where each unit then comes from."""
        spliced = self.carried_out()
        after = units(cut(spliced.text))
        touched = {op.touched: op for op in self.ops if op.touched is not None}
        return MergePlan(
            text=spliced.text,
            form="append" if form == "append" else "section" if form == "section" else "snippet",
            verdicts=told(self.verdicts),
            contradictions=tuple(self.contradictions),
            origins=[self.origin_after(unit, spliced, touched) for unit in after],
            note=self.note,
        )

    def carried_out(self) -> Spliced:
        """Write everything; what would change how the page reads around it is not written, and its verdict says so."""
        spliced = self.written(self.ops)
        if spliced is not None:
            return spliced
        kept: list[Op] = []
        self._accept(self.ops, kept)
        for op in self.ops:
            if op not in kept:
                self._refuse(op)
        self.ops = kept
        return self.written(kept) or Spliced(self.page.text, {unit.line: n for n, unit in enumerate(self.ground.units)})

    def _accept(self, ops: Sequence[Op], kept: list[Op]) -> None:
        """Add to `kept` what of `ops` can be written with it, found by halves: mostly it is one in many that cannot."""
        if not ops:
            return
        if self.written([*kept, *ops]) is not None:
            kept.extend(ops)
        elif len(ops) > 1:
            middle = len(ops) // 2
            self._accept(ops[:middle], kept)
            self._accept(ops[middle:], kept)

    def _refuse(self, op: Op) -> None:
        why = f"not written, since the text around it would read otherwise with it; {TO_A_PERSON}"
        for order in op.orders:
            self.verdicts[order] = replace(
                self.verdicts[order], verdict="retain", reason=f"{shown(self.weight)}; {why}"
            )

    def written(self, ops: Sequence[Op]) -> Spliced | None:
        """Return the page with these changes; None if anything on it would read otherwise than meant."""
        spliced = self.ground.written(
            [op.put for op in ops if op.put is not None], [op.replaced for op in ops if op.replaced is not None]
        )
        touched = frozenset(op.touched for op in ops if op.touched is not None)
        expected = [unit for op in ops for unit in op.expected]
        return spliced if self.ground.is_kept(spliced, touched, expected) else None

    def origin_after(self, unit: Unit, spliced: Spliced, touched: dict[int, Op]) -> Origin:
        """Return where a unit of the page comes from when all is carried out."""
        number = spliced.unit_of.get(unit.line)
        if number is None or (number in touched and not touched[number].keeps_origin):
            origin = Origin(
                b"",
                (),
                self.evidence.source,
                self.weight.authority,
                self.evidence.observed_at,
                "",
                corroborated_by=independent(self.evidence.source, self.verified),
            )
        else:
            origin = self.supported_origin(number) if number in self.supported else self.origins[number]
        return replace(origin, digest=unit_digest(unit.text), section=unit.section)


def shown(weight: Confidence) -> str:
    """Return a confidence with its parts, as sentences hold it."""
    return (
        f"{weight.confidence:.2f} (recency {weight.recency:.2f}, authority {weight.authority:.2f}, "
        f"corroboration {weight.corroboration:.2f})"
    )


def named_section(section: Sequence[str]) -> str:
    """Return the name of a section as sentences hold it."""
    return f'"{section_name(section)}"' if section else "the beginning of the page"


def quoted(text: str) -> str:
    """Return the beginning of a text in quotes."""
    line = " ".join(text.split())
    return f"'{line if len(line) <= 60 else line[:57] + '...'}'"


def told(verdicts: Sequence[BlockVerdict]) -> list[BlockVerdict]:
    """Return the verdicts; of very many that change nothing only how many there are."""
    if len(verdicts) <= MOST_VERDICTS:
        return list(verdicts)
    telling = [verdict for verdict in verdicts if verdict.verdict != "unchanged"]
    same = len(verdicts) - len(telling)
    if not same:
        return telling
    return [*telling, BlockVerdict("", "unchanged", f"{same} blocks say what the page says already")]
