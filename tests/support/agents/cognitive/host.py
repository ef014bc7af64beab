"""A host that leads cognitive agents and skills by scripts, and may lose its server after every single step."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from knowledge.tokens import count_tokens
from tests.support.agents.cognitive.cast import Cast, acts
from tests.support.agents.cognitive.scripts import Act
from tests.support.hosts.writers import Refused

AROUND_TOKENS = 400
"""The fields of an answer beside the prompt and the schema."""
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
    last: Mapping[str, Any] = field(default_factory=dict)


async def lead(connecting: Connecting, played: Played, lose: Callable[[Host], None] | None = None) -> Course:
    """Lead a journey to its end. With `lose`, every act has its own host and server, which is lost after its answer.

    The next host gets from `journey_status` what the previous one got, and continues from there.
    """
    course: Course | None = None
    todo: list[Act] = []
    while True:
        async with connecting() as host:
            if course is None:
                begun = await host.call(
                    "journey_start", agent=played.agent, brief=played.brief, inputs=dict(played.inputs)
                )
                course = Course(begun["journey_id"], last=begun)
                lost = lose is not None
            else:
                lost = False
            while not lost:
                told = await host.call("journey_status", journey_id=course.journey)
                resumes_as(course.last, told)
                if told["state"] in ("complete", "cancelled"):
                    return course
                if not todo:
                    here = f"{told['phase']} {told['visit']}"
                    assert here not in course.visits, (here, told["prompt"])
                    course.visits.append(here)
                    course.phases.append(told["phase"])
                    todo = list(acts(played.cast, told, played.inputs))
                course.last = await _make(host, course, todo.pop(0), told)
                lost = lose is not None
            if lose is not None:
                lose(host)


def resumes_as(before: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    """Check that a resuming host gets the same as the previous one."""
    for name in ("version", "phase", "visit", "state", "conversation", "allowed_tools"):
        if name in before:
            assert told[name] == before[name], name
    if before.get("work_schema") is not None:  # else the work was not enough, and the answer is a short one
        assert told["prompt"] == before["prompt"], "\n".join(
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
    """Return the tokens of the prompt and schema with which a host continues."""
    return count_tokens(told["prompt"]) + count_tokens(json.dumps(told["work_schema"], ensure_ascii=False))
