"""The five workflows of orchestrated work, by a real client over stdio, each with its metrics report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp_types import TextContent, TextResourceContents

from agents.engine.state import restore_state
from agents.library.orchestrate.plan_rules.rules import TEAM_FILE
from knowledge.tokens import count_tokens
from mcp_server.app.settings.settings import Settings
from tests.contract.protocol.test_server import over_stdio
from tests.support.agents.agent_harness import ANSWER_TOKENS, PAGES, VARROA, WINTER
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write

Json = Any
BRIEF = (
    "Get the hive through the winter. It must have 15 kilograms of honey. Mites have to be treated. Never feed syrup."
)
TEAM_RULES = """\
rules:
  - id: owner
    kind: required
    of: steps
    fields: [details.owner]
    message: "nobody does {{ about }}: name who in details.owner"
"""
ANN = {"owner": "ann"}


def requirement(id_: str, text: str, words: str) -> dict[str, Json]:
    return {"id": id_, "text": text, "words": words}


def step(id_: str, text: str, covers: str, duration: str = "2 h", **more: Json) -> dict[str, Json]:
    return {"id": id_, "step": text, "done_when": f"one sees: {text}", "duration": duration, "covers": [covers], **more}


PLAN: dict[str, Json] = {
    "goal": "The hive lives in March.",
    "requirements": [
        requirement("r1", "Enough honey", "must have 15 kilograms of honey"),
        requirement("r2", "No mites", "Mites have to be treated"),
        requirement("r3", "No syrup", "Never feed syrup"),
    ],
    "steps": [
        step("s1", "Weigh the hive", "r1", details=ANN),
        step("s2", "Treat the mites", "r2", details=ANN, depends_on=["s1"]),
        step("s3", "Give the syrup away", "r3", details=ANN),
    ],
}
WITHOUT_OWNER = {**PLAN, "steps": [*PLAN["steps"][:2], step("s3", "Give the syrup away", "r3")]}
DONE: dict[str, Json] = {
    "done": [
        {"id": "s1", "result": "35 kilograms", "shown_by": [WINTER]},
        {"id": "s2", "result": "treated", "calls": [{"tool": "kb_read", "path": "notes/bees.md"}]},
        {"id": "s3", "result": "given to the town", "artefacts": ["code:log.txt"], "observed": "the shelf is empty"},
    ]
}


def verdict(score: int, *issues: tuple[str, str, str], met: str = "yes", treated: str = "s2") -> dict[str, Json]:
    """Return a verdict with this result for the second requirement."""
    shown = {"steps": [treated]} if met == "yes" else {}
    judged = [
        {"id": "r1", "met": "yes", "why": "I looked", "steps": ["s1"]},
        {"id": "r2", "met": met, "why": "I looked", **shown},
        {"id": "r3", "met": "yes", "why": "I looked", "steps": ["s3"]},
    ]
    found = [{"id": i, "about": "r2", "severity": severity, "text": text} for i, severity, text in issues]
    return {"judged": judged, "issues": found, "score": score, "reasons": "The hive was weighed and treated."}


SOFT = verdict(68, ("i1", "major", "nobody knows when"), met="partly")
HARD = verdict(52, ("i2", "blocking", "too warm for acid"), met="no")
GOOD = verdict(88, ("i9", "major", "the scale is old"))


@dataclass(frozen=True)
class Act:
    """A submit, its usage, and the phase of the journey after it. `says` is found in the answer to the host."""

    work: Mapping[str, Json]
    tokens: tuple[int, int]
    phase: str
    says: Sequence[str] = ()


@dataclass(frozen=True)
class Workflow:
    """A journey, whole. `visited` are the phases entered, in order; `feedback` is what was added to it, by kind."""

    name: str
    acts: Sequence[Act]
    visited: Sequence[str]
    conversations: Sequence[str]
    feedback: Sequence[tuple[str, str]] = ()
    inputs: Mapping[str, Json] = field(default_factory=dict)
    idle_s: float = 0.0


HAPPY = ("PLANNING", "VALIDATING", "IMPLEMENTING", "JUDGING")
EXHAUSTED = "The budget ended before the work was good enough: the budget is used up: "
WORKFLOWS = (
    Workflow(
        "happy path",
        (
            Act(PLAN, (900, 400), "IMPLEMENTING", ["s1: Weigh the hive"]),
            Act(DONE, (1_500, 700), "JUDGING", ["s2 (for r2): treated [kb_read notes/bees.md]"]),
            Act(GOOD, (500, 100), "SUCCEEDED", ["The work has succeeded: 88 of 100"]),
        ),
        (*HAPPY, "SUCCEEDED"),
        ("planner_iter1", "implementer_iter1", "judge_iter1"),
    ),
    Workflow(
        "validation failure: replanned in the same conversation",
        (
            Act(
                WITHOUT_OWNER,
                (2_000, 1_000),
                "PLANNING",
                ["nobody does s3: name who", "validation failure in VALIDATING: the plan breaks 1 rule: owner:s3"],
            ),
            Act({"steps": [PLAN["steps"][2]]}, (1_100, 10), "IMPLEMENTING", ["s3: Give the syrup away"]),
            Act(DONE, (1_500, 700), "JUDGING"),
            Act(GOOD, (500, 100), "SUCCEEDED"),
        ),
        ("PLANNING", "VALIDATING", *HAPPY, "SUCCEEDED"),
        ("planner_iter1", "planner_iter1", "implementer_iter2", "judge_iter2"),
        (("validation", "the plan breaks 1 rule: owner:s3"),),
    ),
    Workflow(
        "soft failure: refined in the same conversation",
        (
            Act(PLAN, (900, 400), "IMPLEMENTING"),
            Act(DONE, (1_500, 700), "JUDGING"),
            Act(SOFT, (500, 100), "IMPLEMENTING", ["i1 (major, about r2): nobody knows when", "soft failure in JUDGING"]),
            Act(
                {
                    "done": [{**DONE["done"][0], "result": "35 kilograms, weighed twice"}],
                    "answers": [{"id": "i1", "step": "s2", "how": "the date is on the page"}],
                },
                (800, 300),
                "JUDGING",
                ["It was judged before", "soft failure in JUDGING: 68 of 100"],
            ),
            Act(GOOD, (600, 100), "SUCCEEDED"),
        ),
        (*HAPPY, "IMPLEMENTING", "JUDGING", "SUCCEEDED"),
        ("planner_iter1", "implementer_iter1", "judge_iter1", "implementer_iter1", "judge_iter2"),
        (("soft_failure", "68 of 100: i1 (major, r2) nobody knows when"),),
    ),
    Workflow(
        "hard failure: planned anew in a new conversation that knows what was wrong",
        (
            Act(PLAN, (900, 400), "IMPLEMENTING"),
            Act(DONE, (1_500, 700), "JUDGING"),
            Act(
                HARD,
                (500, 9_000),
                "PLANNING",
                ["Why: hard_failure", "hard failure in JUDGING: 52 of 100: i2 (blocking, r2) too warm for acid"],
            ),
            Act(
                {
                    "drop": ["s2"],
                    "steps": [step("s4", "Treat the mites in December", "r2", details=ANN, depends_on=["s1"])],
                    "answers": [{"id": "i2", "how": "it waits for the cold"}],
                },
                (1_200, 300),
                "IMPLEMENTING",
                ["s4: Treat the mites in December", "s1 (for r1): 35 kilograms"],
            ),
            Act({"drop": ["s2"], "done": [{"id": "s4", "result": "treated", "shown_by": [VARROA]}]}, (700, 90), "JUDGING"),
            Act(verdict(100, treated="s4"), (600, 100), "SUCCEEDED"),
        ),
        (*HAPPY, *HAPPY, "SUCCEEDED"),
        ("planner_iter1", "implementer_iter1", "judge_iter1", "planner_iter2", "implementer_iter2", "judge_iter2"),
        (("hard_failure", "52 of 100: i2 (blocking, r2) too warm for acid"),),
    ),
    Workflow(
        "budget exhaustion: iterations",
        (
            Act(PLAN, (900, 400), "IMPLEMENTING"),
            Act(DONE, (1_500, 700), "JUDGING"),
            Act(SOFT, (500, 100), "BUDGET_EXHAUSTED", [f"{EXHAUSTED}1 of 1 iterations", "issue i1 (major, about r2)"]),
        ),
        (*HAPPY, "BUDGET_EXHAUSTED"),
        ("planner_iter1", "implementer_iter1", "judge_iter1"),
        (("soft_failure", "68 of 100"), ("soft_failure", "the budget is used up: 1 of 1 iterations")),
        {"budget": {"iterations": 1}},
    ),
    Workflow(
        "budget exhaustion: tokens",
        (
            Act(PLAN, (40_000, 20_000), "IMPLEMENTING"),
            Act({"done": DONE["done"][:1]}, (30_000, 20_000), "BUDGET_EXHAUSTED", [f"{EXHAUSTED}110,000 of 100,000 tokens"]),
        ),
        ("PLANNING", "VALIDATING", "IMPLEMENTING", "BUDGET_EXHAUSTED"),
        ("planner_iter1", "implementer_iter1"),
        (("hard_failure", "the budget is used up: 110,000 of 100,000 tokens"),),
        {"budget": {"tokens": 100_000}},
    ),
    Workflow(
        "budget exhaustion: seconds",
        (Act(PLAN, (900, 400), "BUDGET_EXHAUSTED", [EXHAUSTED, " of 0.05 seconds"]),),
        ("PLANNING", "BUDGET_EXHAUSTED"),
        ("planner_iter1",),
        (("hard_failure", "the budget is used up: "),),
        {"budget": {"seconds": 0.05}},
        idle_s=0.1,
    ),
)  # fmt: skip


async def call(client: Client, tool: str, **arguments: Json) -> dict[str, Json]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result.content[0], TextContent)
    assert not result.is_error, (tool, arguments, result.content[0].text)
    return dict(result.structured_content or {})


async def read(client: Client, uri: str) -> dict[str, Json]:
    content = (await client.read_resource(uri)).contents[0]
    assert isinstance(content, TextResourceContents)
    return dict(json.loads(content.text))


async def test_each_of_the_five_workflows_runs_and_its_report_has_the_cost(tmp_path: Path) -> None:
    """Each workflow of 1 with its metrics report, through a real MCP client."""
    settings = Settings(kb=write(tmp_path / "kb", {**PAGES, TEAM_FILE: TEAM_RULES}), state_dir=tmp_path / "state")
    allowed = await let_in(settings, "host", 3)
    async with over_stdio(allowed, "auto") as client:
        for workflow in WORKFLOWS:
            await lead(client, workflow)


async def lead(client: Client, workflow: Workflow) -> None:
    """Lead a journey along the workflow, then check its record and its report against it."""
    name = workflow.name
    here = await call(client, "journey_start", agent="orchestrate", brief=BRIEF, inputs=dict(workflow.inputs))
    journey, conversations, spent = str(here["journey_id"]), list[str](), dict[str, list[int]]()
    await anyio.sleep(workflow.idle_s)
    for number, act in enumerate(workflow.acts):
        if here["phase"] in ("IMPLEMENTING", "JUDGING"):
            await call(client, "kb_read", path="notes/bees.md", journey_id=journey)
        conversations.append(here["conversation"])
        submits, tokens_in, tokens_out = spent.get(here["phase"], [0, 0, 0])
        spent[here["phase"]] = [submits + 1, tokens_in + act.tokens[0], tokens_out + act.tokens[1]]
        here = await call(
            client,
            "journey_submit",
            journey_id=journey,
            version=here["version"],
            work=act.work,
            usage={"tokens_in": act.tokens[0], "tokens_out": act.tokens[1], "model": "m", "conversation": here["conversation"]},
            confidence=0.8,
            reasoning=f"because of {number}",
        )  # fmt: skip
        assert here["phase"] == act.phase, (name, number, here["prompt"])
        told = here["prompt"]
        assert all(words in told for words in act.says), (name, number, act.says, told)
        resumed = await call(client, "journey_status", journey_id=journey)
        # A host that comes back gets everything; the one that submitted is not told again what it was told before.
        new = [line for line in told.split("\n") if not line.startswith("As before in this conversation:")]
        assert set(new) <= set(resumed["prompt"].split("\n")), (name, number)
        assert count_tokens(json.dumps(resumed, ensure_ascii=False)) <= ANSWER_TOKENS
    assert here["state"] == "complete", name
    hold_conversations(workflow, conversations)
    events = (await read(client, f"journey://{journey}/events"))["events"]
    hold_record(workflow, (await read(client, f"journey://{journey}"))["state"], events)
    report = (await call(client, "journey_status", journey_id=journey, view="report"))["text"]
    hold_report(workflow, report, spent, events)


def hold_conversations(workflow: Workflow, names: Sequence[str]) -> None:
    """Each conversation has its own speaker, iteration and part.

    The same speaker continues in the same one.
    """
    parts = [re.fullmatch(r"(\w+_iter\d+)_([0-9a-f]{8})", name) for name in names]
    assert [part and part.group(1) for part in parts] == list(workflow.conversations), workflow.name
    # Steps with the same name in a workflow share one conversation, except for judges, each of which begins a new one.
    alike = {part.group(1) for part in parts if part}
    assert len(set(names)) == len(alike)


def hold_record(workflow: Workflow, form: Mapping[str, Json], events: Sequence[Mapping[str, Json]]) -> None:
    """The state has every response in full, and the feedback with its kinds."""
    state = restore_state(form)
    entered = [e["target"] for e in events if e["type"] == "phase.changed"]
    assert ["PLANNING", *entered] == list(workflow.visited), workflow.name
    assert [
        (f.kind, f.text.startswith(said)) for f, (_, said) in zip(state.feedback, workflow.feedback, strict=True)
    ] == [(kind, True) for kind, _ in workflow.feedback], (workflow.name, state.feedback)
    for phase, kept in state.work.items():
        if phase == "VALIDATING":
            assert kept.automatic
            continue
        assert (kept.confidence, kept.usage.model, kept.usage.counted) == (0.8, "m", False)
        assert kept.reasoning.startswith("because of ")
        assert re.match(r"\w+_iter\d+_", kept.conversation)
    reported = [(e["phase"], e["usage"]["tokens_in"]) for e in events if e["type"] == "work.recorded" and "usage" in e]
    assert [tokens for _, tokens in reported] == [act.tokens[0] for act in workflow.acts]


def hold_report(
    workflow: Workflow, report: str, spent: Mapping[str, Sequence[int]], events: Sequence[Mapping[str, Json]]
) -> None:
    """Visits match the events, tokens match the reported ones, and the most expensive phase is named correctly."""
    table = rows(report)
    visits = {phase: list(workflow.visited).count(phase) for phase in workflow.visited}
    assert {phase: row["Visits"] for phase, row in table.items()} == {p: str(n) for p, n in visits.items()}, (
        workflow.name
    )
    for phase in visits:
        submits, tokens_in, tokens_out = spent.get(phase, [0, 0, 0])
        row = table[phase]
        told = (row["Submissions"], row["Tokens in"], row["Tokens out"], row["Estimated tokens"])
        assert told == (f"{submits}", f"{tokens_in:,}", f"{tokens_out:,}", "0"), (workflow.name, phase)
    dearest = max(spent, key=lambda phase: sum(spent[phase][1:]))
    assert f"Most tokens went into {dearest}: {sum(spent[dearest][1:]):,}; " in report, workflow.name
    assert f"Most time went into {slowest(events)}: " in report, workflow.name
    for _, text in workflow.feedback:
        assert text in report, (workflow.name, text)


def rows(report: str) -> dict[str, dict[str, str]]:
    """Return the table of phases of a report, by phase and column."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in report.splitlines() if line.startswith("|")
    ]
    head = next(n for n, line in enumerate(lines) if line[0] == "Phase")
    body = [line for line in lines[head + 2 :] if len(line) == len(lines[head])]
    return {line[0]: dict(zip(lines[head], line, strict=True)) for line in body}


def slowest(events: Sequence[Mapping[str, Json]]) -> str:
    """Return the phase in which the most time passed between the events that entered and left it."""
    took: dict[str, float] = {}
    phase, since = "PLANNING", moment(events[0])
    for event in events:
        if event["type"] == "phase.changed":
            took[phase] = took.get(phase, 0.0) + (moment(event) - since).total_seconds()
            phase, since = event["target"], moment(event)
    return max(took, key=lambda one: took[one])


def moment(event: Mapping[str, Json]) -> datetime:
    return datetime.fromisoformat(str(event["at"]))
