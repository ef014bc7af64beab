"""The plan, its concepts and its results, from the works of both phases. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agents.engine.events import Json
from agents.engine.work.form import ids, items_in
from agents.engine.work.gaps import folded

GROUNDING, MAKING, COMPLETE = "GROUNDING", "MAKING", "COMPLETE"

Item = Mapping[str, Json]


@dataclass(frozen=True)
class BuildRecord:
    """Goal, concepts, steps and results. `works` has the newest work of each phase."""

    works: Mapping[str, Mapping[str, Json]]

    @property
    def goal(self) -> str:
        """The goal; "" if none is named yet."""
        return str(self.works.get(GROUNDING, {}).get("goal", "")).strip()

    @cached_property
    def concepts(self) -> Sequence[Item]:
        """The concepts in their order."""
        return items_in(self.works.get(GROUNDING, {}), "concepts")

    @cached_property
    def steps(self) -> Sequence[Item]:
        """The steps in their order."""
        return items_in(self.works.get(GROUNDING, {}), "plan")

    @cached_property
    def left_out(self) -> Sequence[Item]:
        """The proposed concepts that no step uses."""
        return items_in(self.works.get(GROUNDING, {}), "left_out")

    @cached_property
    def made(self) -> Mapping[str, Item]:
        """The results, by the id of the step."""
        return {item["id"]: item for item in items_in(self.works.get(MAKING, {}), "made")}

    @cached_property
    def to_make(self) -> Sequence[Item]:
        """The steps without any recorded work."""
        return [step for step in self.steps if step["id"] not in self.made]

    @cached_property
    def gap(self) -> Item | None:
        """The newest gap, open or closed, if a step that is not made yet waits for it."""
        gap = self.works.get(MAKING, {}).get("gap")
        # A gap on record stays in the work. It counts only while its step is still in the plan and not made.
        if not isinstance(gap, dict) or gap["step"] not in ids(self.to_make):
            return None
        return gap

    @cached_property
    def open_gap(self) -> Item | None:
        """The gap if no concept closes it and it was not left out."""
        gap = self.gap
        if gap is None or self.concepts_of(gap) or gap["concept"] in ids(self.left_out):
            return None
        return gap

    def concepts_of(self, gap: Item) -> Sequence[Item]:
        """Return the concepts that a gap names: by its id, or in the same words."""
        wanted = folded(gap["text"])
        return [c for c in self.concepts if c["id"] == gap["concept"] or folded(c["text"]) == wanted]
