"""Predicates that combine others, and the condition that they form. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agents.engine.agent import MET, ConditionFinding, Look, QuotedStatement, SubmitFacts
from agents.engine.graph import FeedbackKind
from agents.spec.predicates.leaf import DETAIL_CHARS, Predicate, met_unless, unmet
from agents.spec.predicates.recorded_work import Signal
from agents.spec.yaml.field_path import FieldPath


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds."""

    parts: tuple[Predicate, ...]

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return everything that is missing. Unless all signals were given, nothing else is evaluated."""
        # Signals first: without them the transition is not meant, and the other parts may search or read pages.
        hints = [await part.judge(facts, look) for part in self.parts if isinstance(part, Signal)]
        if not all(hint.met for hint in hints):
            return unmet(*(text for hint in hints for text in hint.missing))
        found = [await part.judge(facts, look) for part in self.parts if not isinstance(part, Signal)]
        if not all(one.met for one in found):
            return unmet(*(text for one in found for text in one.missing if not one.met))
        detail = "; ".join(one.detail for one in found if one.detail)[:DETAIL_CHARS]
        return ConditionFinding(
            met=True, detail=detail, statements=tuple(text for one in found for text in one.statements)
        )

    def text(self) -> str:
        """Return the demand."""
        return " and ".join(part.text() for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of the parts holds."""

    parts: tuple[Predicate, ...]

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return the first part that holds, or what each part lacks."""
        missing = []
        for part in self.parts:
            found = await part.judge(facts, look)
            if found.met:
                return found
            missing.append(" and ".join(found.missing))
        return unmet("one of these is needed: " + "; or ".join(missing))

    def text(self) -> str:
        """Return the demand."""
        return " or ".join(part.text() for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Predicate

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return whether the part fails, as it must."""
        found = await self.part.judge(facts, look)
        return unmet(f"this must not be true: {self.part.text()}") if found.met else MET

    def text(self) -> str:
        """Return the demand."""
        return f"it is not true that {self.part.text()}"


@dataclass(frozen=True, slots=True)
class Each:
    """The part holds for every item of a list, with the item's fields in place of the work's. An empty list meets it."""

    path: FieldPath
    part: Predicate

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return what is missing, by item."""
        missing, statements = list[str](), list[QuotedStatement]()
        for loc, item in self.path.items(facts):
            work = item if isinstance(item, Mapping) else {}
            found = await self.part.judge(replace(facts, given=work, work=work), look)
            place = self.path.place(facts, loc)
            if not found.met:
                missing += [f"{place}: {text}" for text in found.missing]
            statements += [replace(one, place=f"{place}: {one.place}") for one in found.statements]
        return met_unless(missing, statements)

    def text(self) -> str:
        """Return the demand."""
        return f"for each of {self.path} {self.part.text()}"


@dataclass(frozen=True, slots=True)
class InOtherWords:
    """A part with the author's own sentence about what is missing."""

    part: Predicate
    say: str

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return that sentence if the part does not hold."""
        found = await self.part.judge(facts, look)
        return found if found.met else unmet(self.say)

    def text(self) -> str:
        """Return the demand."""
        return self.part.text()


@dataclass(frozen=True, slots=True)
class TeamCondition:
    """A condition of a team's agent.

    `detail` is the field whose text explains a backward transition. The texts of the field `feedback` are recorded as feedback
    of the kind `kind` when the condition is met.
    """

    predicate: Predicate
    detail: FieldPath | None = None
    feedback: FieldPath | None = None
    kind: FeedbackKind = "validation"

    async def __call__(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return whether it is met."""
        found = await self.predicate.judge(facts, look)
        if not found.met:
            return found
        detail = "; ".join(self.detail.texts(facts) if self.detail else ())[:DETAIL_CHARS] or found.detail
        feedback = tuple(text[:DETAIL_CHARS] for text in (self.feedback.texts(facts) if self.feedback else ()))
        return replace(found, detail=detail, feedback=feedback, kind=self.kind)
