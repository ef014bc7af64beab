"""What each phase of understanding asks for. Pure."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from agents.engine.work.form import Id, Part, PhaseWork, Quoted, Said
from agents.engine.work.gaps import Items, Says

Line = Annotated[str, Field(min_length=1, max_length=600), Says]
"""A sentence or two."""
Words = Annotated[str, Field(max_length=4_000, description="The learner's own words.")]
Level = Literal["none", "some", "solid"]


class Known(Part):
    """How well the learner knows something, by what they said."""

    id: Id
    topic: Annotated[str, Field(min_length=1, max_length=200), Says]
    level: Level
    learner_said: Words = ""


class Objective(Part):
    """Something that the learner will be able to do, and the passage that it comes from."""

    id: Id
    text: Annotated[Line, Field(description="What the learner will do that can be seen.")]
    needs: Annotated[list[Id], Field(description="Objectives to pass before.")] = Field(default_factory=list)
    source: Quoted


class Calibrated(PhaseWork):
    """What the learner knows, and what they are to learn."""

    goal: Annotated[str, Field(max_length=2_000)] = ""
    knows: Items[Known] = Field(default_factory=list)
    objectives: Items[Objective] = Field(default_factory=list)


class LearnerCheck(Part):
    """A question to the learner, and how they answered it."""

    id: Id
    question: Line
    learner_answer: Words = ""
    correct: bool


class Probe(LearnerCheck):
    """A question that shows what the learner knows already."""

    about: Annotated[Id | None, Field(description="Id in knows.")] = None


class Diagnosis(Part):
    """What the learner knows and mistakes of one objective, before it is taught."""

    id: Annotated[Id, Field(description="The objective's id.")]
    probes: Items[Probe] = Field(default_factory=list)
    misconceptions: list[Line] = Field(default_factory=list)


class Recalibrate(Part):
    """A level that a probe contradicts."""

    knows: Id
    probe: Id
    why: Line


class Diagnosed(PhaseWork):
    """What the learner knows of the objective that comes next."""

    ASKS: ClassVar[frozenset[str]] = frozenset({"objective", "recalibrate"})

    objective: Annotated[Id, Field(description="The one you diagnose now.")]
    diagnoses: Items[Diagnosis] = Field(default_factory=list)
    recalibrate: Annotated[Recalibrate | None, Field(description="Leads back to CALIBRATE.")] = None


class Lesson(Part):
    """What was taught of one objective, from which passages, and how the learner did then."""

    id: Annotated[Id, Field(description="The objective's id.")]
    taught: Annotated[Said, Says]
    citations: list[Quoted] = Field(default_factory=list)
    checks: Items[LearnerCheck] = Field(default_factory=list)


class LearningGap(Part):
    """Something that the learner lacks and that no objective teaches."""

    prerequisite: Annotated[str, Field(min_length=1, max_length=200, description="In a few words."), Says]
    check: Annotated[Id, Field(description="The failed check that shows it.")]
    why: Line


class Taught(PhaseWork):
    """Lessons, one for each objective."""

    ASKS: ClassVar[frozenset[str]] = frozenset({"gap"})

    lessons: Items[Lesson] = Field(default_factory=list)
    gap: Annotated[LearningGap | None, Field(description="Leads back to CALIBRATE.")] = None
