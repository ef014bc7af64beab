"""A host that leads cognitive agents and skills by scripts, and may lose its server after every single step."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol

from agents.engine.work.form import joined
from agents.prompts.prompt import INSTRUCTIONS
from knowledge.tokens import count_tokens
from tests.support.agents.cognitive.cast import Cast, acts
from tests.support.agents.cognitive.scripts import Act
from tests.support.hosts.writers import Refused
from tests.support.journeys.cited_pages import read_cited

NEXT, AS_BEFORE = "These phases come next.", "Next, as described before:"
SHORT = "As before in this conversation:"
AROUND_TOKENS = 400
"""The fields of an answer beside the prompt and the schema."""
MOST_VISITS = 300
"""A journey that is led back again and again ends its test here, instead of never."""
PARTS = ("static", "instructions", "digests", "ahead", "schema")
_DIGEST = re.compile(
    r"Memory of |Agent output summary|Analysis output|Research findings|Other findings|Artifact|Design\n"
)
TOKENS_IN, TOKENS_OUT, MODEL = 700, 90, "scripted"
"""The usage that the host reports with each submit."""


class Host(Protocol):
    """Anything that can call tools of a server."""

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]: ...


Connecting = Callable[[], AbstractAsyncContextManager[Host]]
"""Starts a host, with or without its own server."""


@dataclass(frozen=True)
class Played:
    """A scripted journey: the agent or skill, its brief, and its cast."""

    agent: str
    cast: Cast
    brief: str
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Course:
    """The phases, submits and waits of a scripted journey, and its last answer."""

    journey: str
    phases: list[str] = field(default_factory=list)
    visits: list[str] = field(default_factory=list)
    submits: dict[str, int] = field(default_factory=dict)
    waited: list[str] = field(default_factory=list)
    tokens: int = 0
    """Of all answers to the host that told it how to continue."""
    last: Mapping[str, Any] = field(default_factory=dict)
    costs: list[tuple[str, Mapping[str, int]]] = field(default_factory=list)
    """Each act with the tokens of its answer by part."""

    def table(self) -> str:
        """Return the costs as a Markdown table."""
        rows = [f"| act | {' | '.join(PARTS)} | sum |", f"|---{'|--:' * (len(PARTS) + 1)}|"]
        rows += [
            f"| {act} | {' | '.join(f'{cost[part]:,}' for part in PARTS)} | {sum(cost.values()):,} |"
            for act, cost in self.costs
        ]
        return "\n".join(rows)


async def lead(
    connecting: Connecting, played: Played, lose: Callable[[Host], None] | None = None, *, together: bool = False
) -> Course:
    """Lead a journey to its end. With `lose`, every act has its own host and server, which is lost after its answer.

    The next host gets from `journey_status` what the previous one got, and continues from there. `together`: it submits the phases
    that the prompt describes ahead in one call, and if it is not lost, it knows only the answers to its own acts.
    """
    course: Course | None = None
    todo: list[Act] = []
    phases: list[str] = []
    heard: dict[str, str] = {}
    while True:
        async with connecting() as host:
            if course is None:
                begun = await host.call(
                    "journey_start", agent=played.agent, brief=played.brief, inputs=dict(played.inputs)
                )
                course = Course(begun["journey_id"], last=begun, tokens=_tokens(begun))
                course.costs.append(("start", parts_of(begun)))
                lost = lose is not None
            else:
                lost = False
            while not lost:
                told: Mapping[str, Any] = await host.call("journey_status", journey_id=course.journey)
                resumes_as(course.last, told)
                if together and lose is None:
                    told = _as_heard(heard, course.last, told)
                if told["state"] in ("complete", "cancelled"):
                    return course
                if not todo:
                    here = f"{told['phase']} {told['visit']}"
                    assert here not in course.visits, (here, told["prompt"])
                    assert len(course.visits) < MOST_VISITS, (course.visits[-12:], told["prompt"])
                    course.visits.append(here)
                    todo, phases = list(acts(played.cast, told, played.inputs)), [told["phase"]]
                    if together:
                        todo, phases = _together(played, told, todo)
                    course.phases += phases
                act = todo.pop(0)
                course.last = await _make(host, course, act, told)
                if "prompt" in course.last:
                    course.tokens += _tokens(course.last)
                    done = f"{phases[0]} to {phases[-1]}" if len(phases) > 1 else phases[0]
                    course.costs.append((f"{act.kind} {done}", parts_of(course.last)))
                lost = lose is not None
            if lose is not None:
                lose(host)


def _as_heard(heard: dict[str, str], answer: Mapping[str, Any], told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the position with the prompts that the host got in its conversation, the newest last, instead of that of the status."""
    said, conversation = answer.get("prompt", ""), told["conversation"]
    if said and not heard.get(conversation, "").endswith(said):
        heard[conversation] = f"{heard.get(conversation, '')}\n\n{said}"
    return {**told, "prompt": heard[conversation]}


def _together(played: Played, told: Mapping[str, Any], first: list[Act]) -> tuple[list[Act], list[str]]:
    """Return the calls for the present phase and those ahead, one submit of their works, and the answers; and these phases.

    It ends before an act, which is made in its own phase, and with a phase that asks the person.
    """
    calls, works, answers = list[Act](), dict[str, Any](), list[Act]()
    for name in (told["phase"], *_ahead(told["prompt"])):
        own = first if name == told["phase"] else list(acts(played.cast, {**told, "phase": name}, played.inputs))
        called = [act for act in own if act.kind == "call"]
        if any(act.content["tool"] not in told["allowed_tools"] for act in called):
            break
        calls += called
        # What a script submits bit by bit is one work.
        submitted: list[Mapping[str, Any]] = [act.content for act in own if act.kind == "submit"]
        works[name] = reduce(lambda before, given: joined(before, given, frozenset()), submitted)
        answers = [act for act in own if act.kind == "answer"]
        if answers:
            break
    work = works if len(works) > 1 else works[told["phase"]]
    return [*calls, Act("submit", work), *answers], list(works)


def _ahead(prompt: str) -> list[str]:
    """Return the phases that the newest prompt names or describes as those to come."""
    named = prompt.rpartition(AS_BEFORE)[2].partition(". Submit")[0].split(",") if AS_BEFORE in prompt else []
    described = (
        re.findall(r"^## ([\w.-]+)(?:: .*)?$", prompt.rpartition(NEXT)[2], re.MULTILINE) if NEXT in prompt else []
    )
    newest = named if prompt.rfind(AS_BEFORE) > prompt.rfind(NEXT) else described
    return [name.strip() for name in newest]


def _own(prompt: str) -> str:
    """Return a prompt without what it says about the phases ahead, which a host is told in full only once."""
    for begins in (NEXT, AS_BEFORE):
        prompt = prompt.partition(f"\n\n{begins}")[0]
    return prompt


def resumes_as(before: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    """Check that a resuming host gets the same as the previous one."""
    for name in ("version", "phase", "visit", "state", "conversation", "allowed_tools"):
        if name in before:
            assert told[name] == before[name], name
    if SHORT in before.get("prompt", ""):
        # What a short answer has is in the full one; what it lacks was sent before in the conversation. The instructions of a phase to
        # which the work comes back are cut less where there is less beside them.
        sections = _own(before["prompt"].partition(SHORT)[0]).split("\n\n## ")[1:]
        lines = [line for section in sections if not section.startswith(INSTRUCTIONS) for line in section.splitlines()]
        assert set(lines[1:]) <= {
            *told["prompt"].splitlines(),
            *(line.removeprefix("## ") for line in told["prompt"].splitlines()),
        }
    elif before.get("work_schema") is not None:  # else the work was not enough, and the answer is a short one
        # The outcome of a submit for several phases comes before the instructions.
        assert _own(before["prompt"]).endswith(_own(told["prompt"])), "\n".join(
            difflib.unified_diff(before["prompt"].splitlines(), told["prompt"].splitlines())
        )
        assert told["work_schema"] == before["work_schema"]


async def _make(host: Host, course: Course, act: Act, told: Mapping[str, Any]) -> Mapping[str, Any]:
    here = {"journey_id": course.journey}
    if act.kind == "call":
        rest = {name: value for name, value in act.content.items() if name != "tool"}
        if act.content["tool"] == "kb_merge":
            rest |= await _base(host, rest["path"])
        await host.call(act.content["tool"], **here, **rest)
        return {}
    if act.kind == "answer":
        assert told["state"] == "waiting"
        course.waited.append(told["phase"])
        return await host.call(
            "journey_decide", **here, version=told["version"], decision="answer", changes=dict(act.content)
        )
    assert told["state"] == "active", told
    await read_cited(host.call, told, act.content)
    course.submits[told["phase"]] = course.submits.get(told["phase"], 0) + 1
    return await host.call(
        "journey_submit",
        **here,
        version=told["version"],
        work=dict(act.content),
        usage={
            "tokens_in": TOKENS_IN,
            "tokens_out": TOKENS_OUT,
            "model": MODEL,
            "conversation": told["conversation"],
        },
        confidence=0.8,
        reasoning=f"as the script of {told['phase']} says",
    )


async def _base(host: Host, path: str) -> dict[str, str]:
    """Return the revision to merge into: that of the page as read now, none if it doesn't exist."""
    try:
        return {"base_revision": (await host.call("kb_read", path=path))["revision"]}
    except Refused:
        return {}


def costs(told: Mapping[str, Any]) -> int:
    """Return the tokens of the prompt of the present phase and its schema, without the phases ahead, which have their own budgets."""
    return _tokens({**told, "prompt": _own(told["prompt"])})


def parts_of(told: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the tokens of an answer by part: its schema, the phases ahead, its own instructions, digests, and the rest."""
    own = _own(told["prompt"])
    cost = dict.fromkeys(PARTS, 0)
    cost["schema"] = count_tokens(json.dumps(told["work_schema"], ensure_ascii=False)) if told["work_schema"] else 0
    cost["ahead"] = count_tokens(told["prompt"]) - count_tokens(own)
    for section in re.split(r"^## ", own, flags=re.MULTILINE)[1:]:
        part = "instructions" if section.startswith(INSTRUCTIONS) else "digests" if _DIGEST.match(section) else "static"
        cost[part] += count_tokens(section)
    cost["static"] += max(0, _tokens(told) - sum(cost.values()))
    return cost


def _tokens(told: Mapping[str, Any]) -> int:
    return count_tokens(told["prompt"]) + count_tokens(json.dumps(told["work_schema"], ensure_ascii=False))
