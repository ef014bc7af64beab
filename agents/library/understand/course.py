"""The learner's progress: objectives, what is known of each, and the one that comes next, from the record. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agents.engine.events import Json
from agents.engine.graph import reachable
from agents.engine.work.form import ids, items_in
from agents.engine.work.gaps import folded

CALIBRATE, DIAGNOSE, TEACH, COMPLETE = "CALIBRATE", "DIAGNOSE", "TEACH", "COMPLETE"
LEAST_PROBES, LEAST_CHECKS = 2, 2
"""The fewest answers that show what the learner knows: one may be luck."""

Item = Mapping[str, Json]


@dataclass(frozen=True)
class Course:
    """The learner's knowledge, objectives and progress. `works` has the newest work of each phase."""

    works: Mapping[str, Mapping[str, Json]]

    @cached_property
    def goal(self) -> str:
        """The learner's goal in their words, or ""."""
        return str(self.works.get(CALIBRATE, {}).get("goal", "")).strip()

    @cached_property
    def knows(self) -> Mapping[str, Item]:
        """What the learner is assumed to know, by id."""
        return _by_id(self._items(CALIBRATE, "knows"))

    @cached_property
    def objectives(self) -> Mapping[str, Item]:
        """The objectives in their order, by id."""
        return _by_id(self._items(CALIBRATE, "objectives"))

    @cached_property
    def diagnoses(self) -> Mapping[str, Item]:
        """The diagnosis of each objective from before it was taught."""
        return _by_id(self._items(DIAGNOSE, "diagnoses"))

    @cached_property
    def lessons(self) -> Mapping[str, Item]:
        """The lessons, by the id of their objective."""
        return _by_id(self._items(TEACH, "lessons"))

    @cached_property
    def passed(self) -> Sequence[str]:
        """The objectives that were diagnosed and taught and that the learner's answers passed, in their order."""
        return [id_ for id_ in self.objectives if self._diagnosed(id_) and self._learned(id_)]

    @cached_property
    def left(self) -> Sequence[str]:
        """The objectives that are not passed."""
        return [id_ for id_ in self.objectives if id_ not in self.passed]

    @cached_property
    def next(self) -> str:
        """The first objective that is not passed and whose needs are all passed; "" if all are passed.

        Objectives that need each other are recorded only if a person let the work continue. They are taught in order.
        """
        return next((id_ for id_ in self.left if self.ready(id_)), next(iter(self.left), ""))

    @cached_property
    def present(self) -> str:
        """The objective that is being taught: the one that was diagnosed last."""
        diagnosed = self.works.get(DIAGNOSE, {}).get("objective")
        if diagnosed in self.objectives:
            return str(diagnosed)
        return self.next or next(iter(reversed(list(self.objectives))), "")

    def ready(self, objective: str) -> bool:
        """Return whether everything that the objective needs is passed. A dropped prerequisite blocks nothing."""
        needs = self.objectives[objective].get("needs", ())
        return all(need in self.passed for need in needs if need in self.objectives)

    def _diagnosed(self, objective: str) -> bool:
        return len(answered(items_in(self.diagnoses.get(objective, {}), "probes"))) >= LEAST_PROBES

    def _learned(self, objective: str) -> bool:
        lesson = self.lessons.get(objective, {})
        checks = items_in(lesson, "checks")
        right = [check for check in answered(checks) if check["correct"]]
        return bool(lesson.get("citations")) and len(right) == len(checks) >= LEAST_CHECKS

    def against(self, known: str) -> Iterator[str]:
        """Yield the probes that contradict the assumed level: solid, but answered wrongly; none, but answered correctly."""
        level = self.knows.get(known, {}).get("level")
        for diagnosis in self.diagnoses.values():
            for probe in answered(items_in(diagnosis, "probes")):
                if probe.get("about") == known and (level, probe["correct"]) in (("solid", False), ("none", True)):
                    yield probe["id"]

    def teaching(self, topic: str) -> Sequence[str]:
        """Return the objectives whose text contains the topic's words in a row."""
        return [id_ for id_, objective in self.objectives.items() if names(objective["text"], topic)]

    def knowing(self, topic: str) -> Sequence[str]:
        """Return the entries that show what the learner knows about the topic."""
        known = [id_ for id_, entry in self.knows.items() if names(entry["topic"], topic)]
        return [id_ for id_ in known if self.knows[id_]["level"] != "none"]

    def before(self, objective: str) -> set[str]:
        """Return all objectives that have to be passed before this one, directly or indirectly."""
        needs = {id_: one.get("needs", ()) for id_, one in self.objectives.items()}
        return reachable(needs.get(objective, ()), needs)

    @property
    def contradicted(self) -> Item | None:
        """The newest diagnosis's objection to the calibration, if it still holds."""
        asked = self.works.get(DIAGNOSE, {}).get("recalibrate")
        if isinstance(asked, dict) and asked.get("probe") in list(self.against(str(asked.get("knows")))):
            return asked
        return None

    @property
    def gap(self) -> Item | None:
        """The prerequisite that the newest lesson found missing, if nothing was done about it yet."""
        gap = self.works.get(TEACH, {}).get("gap")
        if not isinstance(gap, dict):
            return None
        topic = str(gap.get("prerequisite"))
        needed = {need for id_ in self.objectives for need in self.before(id_)}
        # An objective with the topic helps only if another one needs it: otherwise it may come after the one that failed.
        return None if self.knowing(topic) or needed & set(self.teaching(topic)) else gap

    def _items(self, phase: str, name: str) -> Sequence[Item]:
        return items_in(self.works.get(phase, {}), name)


def _by_id(items: Sequence[Item]) -> Mapping[str, Item]:
    return dict(zip(ids(items), items, strict=True))


def answered(questions: Sequence[Item]) -> list[Item]:
    """Return the questions that the learner answered."""
    return [question for question in questions if str(question.get("learner_answer", "")).strip()]


def names(text: Json, topic: str) -> bool:
    """Return whether a text contains a topic's words in a row."""
    return f" {folded(topic)} " in f" {folded(text)} "
