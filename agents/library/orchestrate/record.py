"""The requirements, plan, results and verdicts, from the works of all phases. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agents.engine.agent import SubmitFacts
from agents.engine.events import Json
from agents.engine.state import JourneyState
from agents.engine.work.form import ids, items_in
from agents.library.orchestrate.plan_rules.durations import seconds_of

PLANNING, VALIDATING, IMPLEMENTING, JUDGING = "PLANNING", "VALIDATING", "IMPLEMENTING", "JUDGING"
SUCCEEDED, FAILED, BUDGET_EXHAUSTED = "SUCCEEDED", "FAILED", "BUDGET_EXHAUSTED"
PASS_SCORE, SOFT_SCORE = 80, 60
TOKENS, ITERATIONS, SECONDS = 500_000, 6, 86_400
SAME_FAILURES = 3
"""After this many validations in a row that fail in the same way, the work ends: planning makes no progress."""

Item = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class DurationLimit:
    """How long everything may take. `seconds` is None if `text` is not a duration; `source` says who set it."""

    text: str
    seconds: float | None
    source: str


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """The most that may be spent before the work ends. An iteration is an attempt: each move back begins another."""

    tokens: int = TOKENS
    iterations: int = ITERATIONS
    seconds: float = SECONDS


@dataclass(frozen=True)
class Undertaking:
    """One brief and everything that followed from it. `works` has the newest work of each phase."""

    brief: str
    inputs: Mapping[str, Json]
    works: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)

    @property
    def plan(self) -> Item:
        """The work of planning."""
        return self.works.get(PLANNING, {})

    @cached_property
    def given_requirements(self) -> Sequence[Item]:
        """The requirements that came with the brief. If there are any, the plan adds none."""
        return items_in(self.inputs, "requirements")

    @cached_property
    def requirements(self) -> Sequence[Item]:
        """The requirements."""
        return self.given_requirements or items_in(self.plan, "requirements")

    @cached_property
    def steps(self) -> Sequence[Item]:
        """The steps of the plan in their order."""
        return items_in(self.plan, "steps")

    @cached_property
    def left_out(self) -> Sequence[Item]:
        """The words of the brief that no requirement covers, with the reason."""
        return items_in(self.plan, "left_out")

    @property
    def limit(self) -> DurationLimit | None:
        """The time limit for everything, or None."""
        given, planned = self.inputs.get("limit"), self.plan.get("limit")
        if isinstance(given, str) and given.strip():
            return DurationLimit(given.strip(), seconds_of(given), "the inputs")
        if isinstance(planned, Mapping):
            return DurationLimit(str(planned["duration"]).strip(), seconds_of(str(planned["duration"])), "the brief")
        return None

    @property
    def limits(self) -> WorkLimits:
        """The budget from the inputs, with defaults for the rest."""
        given = self.inputs.get("budget")
        named = given if isinstance(given, Mapping) else {}
        return WorkLimits(
            int(named.get("tokens", TOKENS)),
            int(named.get("iterations", ITERATIONS)),
            float(named.get("seconds", SECONDS)),
        )

    @cached_property
    def done(self) -> Mapping[str, Item]:
        """The results, by the id of their step."""
        return {item["id"]: item for item in items_in(self.works.get(IMPLEMENTING, {}), "done")}

    @cached_property
    def undone(self) -> Mapping[str, Item]:
        """The steps that could not be done, by id."""
        return {item["id"]: item for item in items_in(self.works.get(IMPLEMENTING, {}), "undone")}

    @property
    def left_undone(self) -> Sequence[str]:
        """The steps of the plan that could not be done."""
        return [step["id"] for step in self.steps if step["id"] in self.undone]

    @cached_property
    def to_do(self) -> Sequence[Item]:
        """The steps that are neither done nor undone."""
        return [step for step in self.steps if step["id"] not in self.done and step["id"] not in self.undone]

    @property
    def errors(self) -> Sequence[Item]:
        """The findings of the newest validation that have to be fixed."""
        return items_in(self.works.get(VALIDATING, {}), "errors")

    @property
    def broken(self) -> Sequence[str]:
        """The rules that the plan breaks, once for each item that breaks them."""
        return list(dict.fromkeys(ids(self.errors)))

    @property
    def warnings(self) -> Sequence[Item]:
        """The findings of the newest validation that may stay."""
        return items_in(self.works.get(VALIDATING, {}), "warnings")

    @property
    def rule_mistakes(self) -> Sequence[str]:
        """The rules that the newest validation could not read."""
        return [str(text) for text in self.works.get(VALIDATING, {}).get("rules_not_read", ())]

    @property
    def same_failures(self) -> int:
        """How many validations in a row failed in the same way."""
        return int(self.works.get(VALIDATING, {}).get("in_a_row", 0))

    @property
    def verdict(self) -> Item:
        """The newest verdict, or an empty one."""
        return self.works.get(JUDGING, {})

    @property
    def score(self) -> int | None:
        """The score of the newest verdict."""
        score = self.verdict.get("score")
        return score if isinstance(score, int) else None

    @property
    def issues(self) -> Sequence[Item]:
        """The faults that the newest verdict found."""
        return items_in(self.verdict, "issues")

    @property
    def pass_score(self) -> int:
        """The score at which the work has succeeded."""
        return int(self.inputs.get("pass_score", PASS_SCORE))

    @property
    def soft_score(self) -> int:
        """The score at which the implementation is refined; below it the work is planned again."""
        # A person may lower the pass score alone. Failures are tried first, so a passing score must never count as one.
        return min(int(self.inputs.get("soft_score", SOFT_SCORE)), self.pass_score)

    @property
    def answered_issues(self) -> Sequence[str]:
        """The ids of all issues that planning or implementing answered."""
        return [*ids(items_in(self.plan, "answers")), *ids(items_in(self.works.get(IMPLEMENTING, {}), "answers"))]

    def open_issues(self, phase: str) -> Sequence[Item]:
        """Return the issues of the newest verdict that this phase has to answer and has not answered yet.

        Implementing answers a verdict that is nearly good enough, planning any other that does not pass.
        """
        score = self.score
        if score is None or score >= self.pass_score:
            return ()
        answering = IMPLEMENTING if score >= self.soft_score else PLANNING
        if phase != answering:
            return ()
        answered = set(ids(items_in(self.works.get(phase, {}), "answers")))
        return [issue for issue in self.issues if issue["id"] not in answered]


def text_in(item: Item, name: str) -> str:
    """Return the text of an optional field, without white space around it."""
    return str(item.get(name) or "").strip()


def list_in(item: Item, name: str) -> Sequence[Json]:
    """Return the entries of an optional list."""
    return item.get(name) or ()


def only_said(item: Item) -> bool:
    """Return whether a claim is the only proof that a step is done."""
    seen = list_in(item, "artefacts") and text_in(item, "observed")
    return not (list_in(item, "shown_by") or list_in(item, "calls") or seen)


def of_facts(facts: SubmitFacts) -> Undertaking:
    """Return the undertaking including the present submit."""
    return Undertaking(facts.brief, facts.inputs, facts.works)


def of_state(state: JourneyState) -> Undertaking:
    """Return the undertaking on record."""
    return Undertaking(state.brief, state.inputs, state.works)
