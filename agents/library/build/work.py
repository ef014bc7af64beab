"""What each phase of building asks for. Pure."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from agents.engine.work.form import Id, Part, PhaseWork, Quoted, Said
from agents.engine.work.gaps import Items, Says

Words = Annotated[str, Field(min_length=1, max_length=1_000), Says]
_LOCATOR = re.compile(r"[a-z][a-z0-9+.-]*:\S")


def _is_locator(text: str) -> str:
    if not _LOCATOR.match(text):
        raise ValueError("must be kind:place, for example code:src/hive.py or kb:guides/hive.md")
    return text


Locator = Annotated[str, Field(max_length=1_000), AfterValidator(_is_locator)]


class Concept(Part):
    """What has to be understood before anything is made."""

    id: Id
    text: Annotated[Words, Field(description="What it says, in your words.")]
    citations: list[Quoted]


class BuildStep(Part):
    """One step of the plan."""

    id: Id
    step: Words
    done_when: Annotated[Words, Field(description="What can be seen then.")]
    rests_on: Annotated[list[Id], Field(description="Concept ids.")]


class LeftOutConcept(Part):
    """A concept that is not taken up."""

    id: Id
    why: Words


class GroundedPlan(PhaseWork):
    """Goal, concepts and plan."""

    goal: Annotated[str, Field(max_length=2_000)] = ""
    concepts: Items[Concept] = Field(default_factory=list)
    plan: Items[BuildStep] = Field(default_factory=list)
    left_out: Annotated[
        Items[LeftOutConcept], Field(description="Proposed concepts that are not needed; the person decides.")
    ] = Field(default_factory=list)


class MadeStep(Part):
    """A step that is done, and what shows it."""

    id: Annotated[Id, Field(description="The step's id.")]
    result: Annotated[Said, Says]
    shown_by: list[Quoted] = Field(default_factory=list)
    artefacts: Annotated[list[Locator], Field(description="kind:place, e.g. code:src/a.py.")] = Field(
        default_factory=list
    )
    observed: Annotated[str, Field(max_length=4_000, description="What you saw when you checked done_when.")] = ""


class ConceptGap(Part):
    """A concept without which a step cannot be made."""

    concept: Annotated[Id, Field(description="A new id.")]
    text: Annotated[Words, Field(description="What has to be understood.")]
    step: Annotated[Id, Field(description="The step that waits for it.")]


class Making(PhaseWork):
    """What was made, step by step."""

    ASKS: ClassVar[frozenset[str]] = frozenset({"gap"})

    made: Items[MadeStep] = Field(default_factory=list)
    gap: Annotated[ConceptGap | None, Field(description="Leads back to GROUNDING.")] = None
