"""What each phase of orchestrating asks for. Pure.

A plan may lack anything but its ids: what is missing in it is for the rules to say, and they can say it better.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from agents.engine.work.form import Id, Locator, Part, PhaseWork, Quoted, Said
from agents.engine.work.gaps import Items, Says

Words = Annotated[str, Field(min_length=1, max_length=1_000), Says]
Maybe = Annotated[str, Field(max_length=1_000)]
Severity = Literal["blocking", "major", "minor"]
Met = Literal["yes", "partly", "no"]


class Requirement(Part):
    """Something that the brief asks for."""

    id: Id
    text: Maybe = ""
    words: Annotated[str, Field(max_length=1_000, description="Copied from the brief.")] = ""


class LeftOutWords(Part):
    """Words of the brief that ask for nothing, or for something else."""

    id: Id
    words: Maybe = ""
    why: Maybe = ""


class StatedLimit(Part):
    """How long all of it may take."""

    duration: Annotated[str, Field(max_length=60)]
    words: Annotated[str, Field(max_length=1_000, description="Copied from the brief.")]


def _few(details: dict[str, str]) -> dict[str, str]:
    if len(details) > 20 or any(len(name) > 60 or len(text) > 1_000 for name, text in details.items()):
        raise ValueError("must be at most 20 names of up to 60 characters, each with up to 1000")
    return details


class OrchestrationStep(Part):
    """One step of the plan."""

    id: Id
    step: Maybe = ""
    done_when: Annotated[str, Field(max_length=1_000, description="What can be seen then.")] = ""
    duration: Annotated[str, Field(max_length=60, description="E.g. 90 min.")] = ""
    depends_on: Annotated[list[Id], Field(description="Step ids.")] = Field(default_factory=list)
    covers: Annotated[list[Id], Field(description="Requirement ids.")] = Field(default_factory=list)
    details: Annotated[dict[str, str], AfterValidator(_few)] = Field(default_factory=dict)


class IssueResponse(Part):
    """What is different because of an issue of the judge."""

    id: Annotated[Id, Field(description="The issue's id.")]
    how: Words


class Cannot(Part):
    """A requirement that nobody can meet."""

    requirement: Id
    why: Words
    shown_by: list[Quoted] = Field(default_factory=list)
    tried: list[Words] = Field(default_factory=list)


class OrchestrationPlan(PhaseWork):
    """Goal, requirements and steps."""

    ASKS: ClassVar[frozenset[str]] = frozenset({"cannot", "draft"})

    goal: Annotated[str, Field(max_length=2_000)] = ""
    requirements: Annotated[Items[Requirement], Field(max_length=200)] = Field(default_factory=list)
    left_out: Annotated[Items[LeftOutWords], Field(max_length=200)] = Field(default_factory=list)
    limit: StatedLimit | None = None
    steps: Annotated[Items[OrchestrationStep], Field(max_length=500)] = Field(default_factory=list)
    answers: Annotated[Items[IssueResponse], Field(max_length=400)] = Field(default_factory=list)
    cannot: Annotated[Cannot | None, Field(description="Ends the work, if the person agrees.")] = None
    draft: Annotated[bool, Field(description="More is to come: do not validate yet.")] = False


class AnsweredToolCall(Part):
    """A call that a tool answered in this journey."""

    tool: Annotated[str, Field(min_length=1, max_length=100)]
    path: Annotated[str, Field(max_length=1_000)] = ""


class DoneStep(Part):
    """A step that is done, and what shows it."""

    id: Annotated[Id, Field(description="The step's id.")]
    result: Annotated[Said, Says]
    shown_by: list[Quoted] = Field(default_factory=list)
    artefacts: Annotated[list[Locator], Field(description="kind:place, e.g. code:src/a.py.")] = Field(
        default_factory=list
    )
    observed: Annotated[str, Field(max_length=4_000, description="What you saw when you checked.")] = ""
    calls: Annotated[list[AnsweredToolCall], Field(description="Calls with this journey_id.")] = Field(
        default_factory=list
    )
    said: Annotated[str, Field(max_length=1_000, description="Who said so, where nothing else shows it.")] = ""


class UndoneStep(Part):
    """A step that could not be done."""

    id: Annotated[Id, Field(description="The step's id.")]
    why: Words


class StepResponse(Part):
    """What is different because of an issue of the judge, and in which step."""

    id: Annotated[Id, Field(description="The issue's id.")]
    step: Id
    how: Words


class Implementation(PhaseWork):
    """What was done, step by step."""

    done: Annotated[Items[DoneStep], Field(max_length=500)] = Field(default_factory=list)
    undone: Annotated[Items[UndoneStep], Field(max_length=500)] = Field(default_factory=list)
    answers: Annotated[Items[StepResponse], Field(max_length=400)] = Field(default_factory=list)


class RequirementJudgement(Part):
    """Whether a requirement is met, and by what."""

    id: Annotated[Id, Field(description="The requirement's id.")]
    met: Met
    why: Words
    steps: Annotated[list[Id], Field(description="Steps that show it.")] = Field(default_factory=list)
    shown_by: list[Quoted] = Field(default_factory=list)
    observed: Annotated[str, Field(max_length=2_000, description="What you saw when you checked.")] = ""


class Issue(Part):
    """Something that is wrong."""

    id: Id
    about: Annotated[Id, Field(description="A requirement or step.")]
    severity: Severity
    text: Words


class OrchestrationVerdict(PhaseWork):
    """A verdict, whole: of the one before it nothing is inherited."""

    ASKS: ClassVar[frozenset[str]] = frozenset({"judged", "issues", "score", "reasons"})

    judged: Annotated[Items[RequirementJudgement], Field(max_length=200)] = Field(default_factory=list)
    issues: Annotated[Items[Issue], Field(max_length=200)] = Field(default_factory=list)
    score: Annotated[int | None, Field(ge=0, le=100)] = None
    reasons: Annotated[str, Field(max_length=4_000)] = ""
