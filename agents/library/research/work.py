"""What each phase of research asks for. Pure."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from agents.engine.work.form import Id, Part, PhaseWork, Quoted, Said
from agents.engine.work.gaps import Items, Says

Title = Annotated[str, Field(min_length=1, max_length=200), Says]
Asked = Annotated[str, Field(min_length=1, max_length=600), Says]
"""A question in words."""
Why = Annotated[str, Field(min_length=1, max_length=600), Says]
MOST_SEARCHED = 5


class Category(Part):
    """A part of the brief."""

    id: Id
    title: Title
    why: Why


class ResearchQuestion(Part):
    """One question of a category."""

    id: Id
    category: Annotated[Id, Field(description="Its category's id.")]
    text: Asked
    why: Why


class LeftOutProposal(Part):
    """A proposal that is not taken up."""

    id: Annotated[Id, Field(description="Id of the proposed category.")]
    why: Why


class Decomposed(PhaseWork):
    """The question tree."""

    categories: Items[Category] = Field(default_factory=list)
    questions: Items[ResearchQuestion] = Field(default_factory=list)
    left_out: Annotated[
        Items[LeftOutProposal], Field(description="Proposed categories that do not belong; the person decides.")
    ] = Field(default_factory=list)


class Asking(Part):
    """A question of the new category."""

    id: Id
    text: Asked


class NewCategory(Part):
    """A part of the brief that the tree lacks."""

    id: Id
    title: Title
    why: Why
    questions: Annotated[Items[Asking], Field(min_length=1)]


class Open(Part):
    """Why nothing was found."""

    why: Why
    searched: Annotated[list[Asked], Field(max_length=MOST_SEARCHED, description="Queries, 2 or more.")]


class CitedAnswer(Part):
    """Text with citations; or open."""

    id: Annotated[Id, Field(description="The question's id.")]
    text: Annotated[str, Field(max_length=8_000)] = ""
    citations: list[Quoted] = Field(default_factory=list)
    open: Open | None = None


class AnsweredQuestions(PhaseWork):
    """Answers, each with what it rests on."""

    ASKS: ClassVar[frozenset[str]] = frozenset({"new_categories"})

    answers: Items[CitedAnswer] = Field(default_factory=list)
    new_categories: Annotated[Items[NewCategory], Field(description="Leads back to DECOMPOSE.")] = Field(
        default_factory=list
    )


class Insight(Part):
    """What the answers of a category come to."""

    id: Annotated[Id, Field(description="The category's id.")]
    text: Annotated[Said, Says]
    rests_on: Annotated[list[Id], Field(description="AnsweredQuestions questions.")]


class RisenAbove(PhaseWork):
    """What the answers come to, category by category."""

    ASKS: ClassVar[frozenset[str]] = frozenset({"missing_categories"})

    insights: Items[Insight] = Field(default_factory=list)
    more_questions: Annotated[Items[ResearchQuestion], Field(description="Leads back to ANSWER.")] = Field(
        default_factory=list
    )
    missing_categories: Annotated[Items[NewCategory], Field(description="Leads back to DECOMPOSE.")] = Field(
        default_factory=list
    )


class Adjacent(Part):
    """A question that nobody asked yet."""

    id: Id
    text: Asked
    why: Why
    near: Annotated[Id, Field(description="Id of a category or question.")]


class Expanded(PhaseWork):
    """Questions beyond this one."""

    adjacent_questions: Items[Adjacent] = Field(default_factory=list)
