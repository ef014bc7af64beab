"""The question tree with its answers and insights, from the works of all phases. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agents.engine.events import Json
from agents.engine.work.form import ids, items_in
from agents.engine.work.gaps import folded

DECOMPOSE, ANSWER, RISE_ABOVE, EXPAND, COMPLETE = "DECOMPOSE", "ANSWER", "RISE_ABOVE", "EXPAND", "COMPLETE"

Item = Mapping[str, Json]


@dataclass(frozen=True)
class Tree:
    """Categories, the questions below them, and their answers. `works` has the newest work of each phase."""

    works: Mapping[str, Mapping[str, Json]]

    @cached_property
    def categories(self) -> Sequence[Item]:
        """The categories in their order."""
        return self.items(DECOMPOSE, "categories")

    @cached_property
    def questions(self) -> Sequence[Item]:
        """The questions to answer: those of the tree, then those that the synthesis asked for, each id once.

        Questions that the synthesis added to a category that is gone are dropped.
        """
        of_tree = self.items(DECOMPOSE, "questions")
        there, categories = set(ids(of_tree)), set(ids(self.categories))
        more = [q for q in self.items(RISE_ABOVE, "more_questions") if q["id"] not in there]
        return [*of_tree, *(question for question in more if question["category"] in categories)]

    @cached_property
    def answers(self) -> Mapping[str, Item]:
        """The recorded answers, including open ones, by the id of their question."""
        return {answer["id"]: answer for answer in self.items(ANSWER, "answers")}

    @cached_property
    def answered(self) -> Sequence[Item]:
        """The questions whose recorded answer is not open."""
        return [q for q in self.questions if q["id"] in self.answers and not self.is_open(q["id"])]

    @cached_property
    def left_open(self) -> Sequence[Item]:
        """The questions that were left open."""
        return [q for q in self.questions if self.is_open(q["id"])]

    @cached_property
    def unanswered(self) -> Sequence[Item]:
        """The questions without any recorded answer."""
        return [q for q in self.questions if q["id"] not in self.answers]

    @cached_property
    def insights(self) -> Mapping[str, Item]:
        """The insights by the id of their category."""
        return {insight["id"]: insight for insight in self.items(RISE_ABOVE, "insights")}

    def items(self, phase: str, name: str) -> Sequence[Item]:
        """Return one of the lists in a phase's newest work."""
        return items_in(self.works.get(phase, {}), name)

    def is_open(self, question: str) -> bool:
        """Return whether that question was left open."""
        return bool(self.answers.get(question, {}).get("open"))

    def has_category(self, id_: str, title: str) -> bool:
        """Return whether a category, in the tree or left out, has that id or title; case is ignored."""
        wanted = {folded(id_), folded(title)}
        known = [name for category in self.categories for name in (category["id"], category["title"])]
        known += ids(self.items(DECOMPOSE, "left_out"))
        return any(folded(name) in wanted for name in known)

    def new_in(self, proposed: Sequence[Item]) -> Sequence[Item]:
        """Return the proposed categories that are neither in the tree nor left out."""
        return [category for category in proposed if not self.has_category(category["id"], category["title"])]

    @cached_property
    def pending(self) -> Sequence[Item]:
        """The categories that later phases proposed and that are neither in the tree nor left out, each once."""
        proposed = [*self.items(ANSWER, "new_categories"), *self.items(RISE_ABOVE, "missing_categories")]
        # Two phases may propose one category under different ids; the newer proposal counts.
        return list({folded(category["title"]): category for category in self.new_in(proposed)}.values())
