"""What is asked for, planned, done and judged, out of the works of all phases. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agents.engine.agent import SubmitFacts
from agents.engine.events import Json
from agents.engine.state import JourneyState
from agents.engine.work.form import ids, listed
from agents.library.orchestrate.plan_rules.durations import seconds_of

PLANNING, VALIDATING, IMPLEMENTING, JUDGING = "PLANNING", "VALIDATING", "IMPLEMENTING", "JUDGING"
SUCCEEDED, FAILED, BUDGET_EXHAUSTED = "SUCCEEDED", "FAILED", "BUDGET_EXHAUSTED"
PASS_SCORE, SOFT_SCORE = 80, 60
SAME_FAILURES = 3
"""So many validations in a row that fail in the same way end the work: it gets no further."""

Item = Mapping[str, Json]
Works = Mapping[str, Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class DurationLimit:
    """How long all of it may take. `seconds` is None where the words for it are no duration; `of` says who set it."""

    told: str
    seconds: float | None
    of: str


@dataclass(frozen=True)
class Undertaking:
    """One brief, and all that became of it. `works` has the newest work of each phase."""

    brief: str
    inputs: Mapping[str, Json]
    works: Works = field(default_factory=dict)

    @property
    def plan(self) -> Item:
        """Return the work of planning."""
        return self.works.get(PLANNING, {})

    @cached_property
    def given_requirements(self) -> Sequence[Item]:
        """Return the requirements that came with the brief: if there are any, there are no others."""
        return listed(self.inputs, "requirements")

    @cached_property
    def requirements(self) -> Sequence[Item]:
        """Return what has to be met."""
        return self.given_requirements or listed(self.plan, "requirements")

    @cached_property
    def steps(self) -> Sequence[Item]:
        """Return the steps of the plan in their order."""
        return listed(self.plan, "steps")

    @cached_property
    def left_out(self) -> Sequence[Item]:
        """Return the words of the brief that no requirement takes up, with why."""
        return listed(self.plan, "left_out")

    @property
    def limit(self) -> DurationLimit | None:
        """Return how long all of it may take; None if nothing says so."""
        given, planned = self.inputs.get("limit"), self.plan.get("limit")
        if isinstance(given, str) and given.strip():
            return DurationLimit(given.strip(), seconds_of(given), "the inputs")
        if isinstance(planned, Mapping):
            return DurationLimit(str(planned["duration"]).strip(), seconds_of(str(planned["duration"])), "the brief")
        return None

    @cached_property
    def done(self) -> Mapping[str, Item]:
        """Return what was done, by the id of its step."""
        return {item["id"]: item for item in listed(self.works.get(IMPLEMENTING, {}), "done")}

    @cached_property
    def undone(self) -> Mapping[str, Item]:
        """Return what could not be done, by the id of its step."""
        return {item["id"]: item for item in listed(self.works.get(IMPLEMENTING, {}), "undone")}

    @property
    def left_undone(self) -> Sequence[str]:
        """Return the steps of the plan that could not be done."""
        return [step["id"] for step in self.steps if step["id"] in self.undone]

    @cached_property
    def to_do(self) -> Sequence[Item]:
        """Return the steps of which nothing is on record."""
        return [step for step in self.steps if step["id"] not in self.done and step["id"] not in self.undone]

    @property
    def errors(self) -> Sequence[Item]:
        """Return what the newest validation found that has to be mended."""
        return listed(self.works.get(VALIDATING, {}), "errors")

    @property
    def broken(self) -> Sequence[str]:
        """Return which rules are broken, each once for what it is about: of one item it may have more to say than one thing."""
        return list(dict.fromkeys(ids(self.errors)))

    @property
    def warnings(self) -> Sequence[Item]:
        """Return what the newest validation found that may stay."""
        return listed(self.works.get(VALIDATING, {}), "warnings")

    @property
    def rule_mistakes(self) -> Sequence[str]:
        """Return which rules the newest validation could not read."""
        return [str(text) for text in self.works.get(VALIDATING, {}).get("rules_not_read", ())]

    @property
    def same_failures(self) -> int:
        """Return how many validations in a row failed in the same way."""
        return int(self.works.get(VALIDATING, {}).get("in_a_row", 0))

    @property
    def verdict(self) -> Item:
        """Return the newest verdict, empty if there is none."""
        return self.works.get(JUDGING, {})

    @property
    def score(self) -> int | None:
        """Return the score of the newest verdict."""
        score = self.verdict.get("score")
        return score if isinstance(score, int) else None

    @property
    def issues(self) -> Sequence[Item]:
        """Return what the newest verdict found wrong."""
        return listed(self.verdict, "issues")

    @property
    def pass_score(self) -> int:
        """Return the score from which on the work has succeeded."""
        return int(self.inputs.get("pass_score", PASS_SCORE))

    @property
    def soft_score(self) -> int:
        """Return the score from which on the implementation is refined; below it the work is planned anew."""
        return min(int(self.inputs.get("soft_score", SOFT_SCORE)), self.pass_score)

    @property
    def answers_to_judge(self) -> Sequence[str]:
        """Return the ids of all issues that were answered, in planning or implementing."""
        return [*ids(listed(self.plan, "answers")), *ids(listed(self.works.get(IMPLEMENTING, {}), "answers"))]

    def open_issues(self, phase: str) -> Sequence[Item]:
        """Return the issues of the newest verdict that this phase has to answer and did not answer yet.

        A verdict that is nearly good enough is answered by implementing, any other that does not pass by planning.
        """
        score = self.score
        if score is None or score >= self.pass_score:
            return ()
        answering = IMPLEMENTING if score >= self.soft_score else PLANNING
        if phase != answering:
            return ()
        answered = set(ids(listed(self.works.get(phase, {}), "answers")))
        return [issue for issue in self.issues if issue["id"] not in answered]


def said_in(item: Item, name: str) -> str:
    """Return the text of a field that may be missing, without white space around it."""
    return str(item.get(name) or "").strip()


def all_in(item: Item, name: str) -> Sequence[Json]:
    """Return what a list of an item has that may be missing."""
    return item.get(name) or ()


def of_facts(facts: SubmitFacts) -> Undertaking:
    """Return the undertaking as it is with a submit."""
    return Undertaking(facts.brief, facts.inputs, facts.works)


def of_state(state: JourneyState) -> Undertaking:
    """Return the undertaking as it is on record."""
    contents = {phase: work.content for phase, work in state.work.items()}
    works = {phase: content for phase, content in contents.items() if isinstance(content, dict)}
    return Undertaking(state.brief, state.inputs, works)
