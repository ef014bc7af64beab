"""What conditions of a team's agents may ask of what a person answered. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agents.engine.agent import MET, ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.work.answers import listed, unanswered
from agents.spec.predicates.recorded_work import listing, unmet
from agents.spec.yaml.field_path import FieldPath


@dataclass(frozen=True, slots=True)
class EveryQuestionAnswered:
    """A person answered every question of a list, in the words in which it is asked now. Where nothing is asked nothing is open."""

    NAME: ClassVar[str] = "answered"
    BARE: ClassVar[str] = "field"
    field: FieldPath

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - answers are on record
        """Return which questions are open."""
        work: Json = self.field.work(facts)
        for part in self.field.parts[:-1]:
            work = work.get(part) if isinstance(work, Mapping) else None
        questions = listed(work, self.field.parts[-1]) if isinstance(work, Mapping) else []
        left = list(unanswered(questions, facts.answers.get(self.field.phase or facts.phase, {})))
        return unmet(f"a person has not answered {listing(left)} of {self.field}") if left else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"every question of {self.field} is answered"
