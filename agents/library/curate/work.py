"""What each phase of curating asks for. Pure."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from agents.engine.work.form import Id, Part, PhaseWork, Quoted
from agents.engine.work.gaps import Items, Says

Path = Annotated[str, Field(max_length=1_000)]
Line = Annotated[str, Field(min_length=1, max_length=600), Says]
"""A sentence or two."""
Kind = Literal["answer", "merge", "move", "delete", "revert", "task", "message"]
Writer = Literal[
    "kb_merge",
    "kb_move",
    "kb_delete",
    "kb_revert",
    "plane_create_task",
    "plane_update_task",
    "plane_comment_task",
    "zulip_send_message",
    "zulip_react",
]


class Routed(PhaseWork):
    """What is asked, and whether its place is known."""

    question: Annotated[str, Field(min_length=1, max_length=2_000), Says]
    mode: Literal["navigation", "discovery"]
    place: Annotated[Path | None, Field(description="Page or directory that is asked about.")] = None


class Candidate(Part):
    """A place that may have it."""

    id: Id
    path: Path
    why: Line


class Oriented(PhaseWork):
    """Where to look, by the map."""

    candidates: Items[Candidate] = Field(default_factory=list)


class Targeted(PhaseWork):
    """Which pages to look into, having read what they are."""

    pages: Items[Candidate] = Field(default_factory=list)


class PassageEvidence(Part):
    """What a passage says."""

    id: Id
    says: Line
    citation: Quoted


class Dived(PhaseWork):
    """Passages that bear on the question."""

    ASKS: ClassVar[frozenset[str]] = frozenset({"missing"})

    evidence: Items[PassageEvidence] = Field(default_factory=list)
    missing: Annotated[str, Field(max_length=600, description="What is not found here; leads back to ORIENT.")] = ""


class Chosen(Part):
    """What is to be done."""

    kind: Kind
    path: Annotated[Path | None, Field(description="Page, or directory to merge into.")] = None
    why: Line


class Reasoned(PhaseWork):
    """What follows from the evidence."""

    conclusion: Annotated[str, Field(max_length=8_000)] = ""
    rests_on: Annotated[list[Id], Field(description="Ids of evidence.")] = Field(default_factory=list)
    act: Chosen | None = None


class Deed(Part):
    """An act that was carried out, or proposed."""

    id: Id
    tool: Writer
    path: Annotated[Path | None, Field(description="As the tool answered.")] = None
    proposal: Annotated[Id | None, Field(description="Its id, if one was made.")] = None


class Acted(PhaseWork):
    """What was done."""

    acts: Items[Deed] = Field(default_factory=list)
    said: Annotated[str, Field(max_length=8_000, description="The answer, as the person got it.")] = ""


class Now(Part):
    """What a page that was changed is now."""

    id: Id
    path: Path
    revision: Annotated[str, Field(max_length=200, description="'' if the page is gone.")]
    says: Annotated[Quoted | None, Field(description="After a merge: what it says now.")] = None


class Verified(PhaseWork):
    """Every page that was changed, as it is now."""

    pages: Items[Now] = Field(default_factory=list)
