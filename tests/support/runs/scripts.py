"""A model with prepared answers, and tools that record their calls, to lead runs with."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio

from agents.loop.executor import Executor
from agents.loop.limits import DayLimitReached
from agents.loop.model.ports import (
    Echo,
    JsonReply,
    ModelReply,
    ModelRequest,
    ModelUsage,
    Shape,
    ToolDefinition,
    ToolUse,
)
from agents.loop.processor import Cost, Processor, next_request, unknown_cost
from agents.loop.record.frames import Frame, Header
from agents.loop.record.run import Run, fold
from agents.loop.record.transcript import ASK, GIVE_UP
from agents.loop.store.ports import RunStore
from agents.loop.tools import CallOutcome
from knowledge.errors import NoSuchPath
from tests.support.runs.records import SECOND, header
from tests.support.state.ledgers import NOW
from tests.support.state.memory.runs import MemoryRuns

Answer = ModelReply | Exception | Callable[[ModelRequest], Awaitable[ModelReply]]
_USES = itertools.count(1)
ECHO = Echo("scripted", "small", '{"sealed":"thoughts"}')


def said(text: str = "", *uses: ToolUse, **more: Any) -> ModelReply:
    """Return an answer."""
    told = {
        "stop": "tools" if uses else "end",
        "usage": ModelUsage(100, 10),
        "model": "small-1",
        "request": "req-1",
        **more,
    }
    return ModelReply(text, uses, **told)


def use(name: str, /, **arguments: Any) -> ToolUse:
    return ToolUse(f"use-{next(_USES)}", name, arguments)


def ask(question: str) -> ToolUse:
    return use(ASK, question=question)


def give_up(reason: str) -> ToolUse:
    return use(GIVE_UP, reason=reason)


class Scripted:
    """A model that gives its answers in order. An exception among them is raised; a callable is called for the answer."""

    name, model = "scripted", "small"

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[ModelRequest] = []

    async def complete(self, asked: ModelRequest) -> ModelReply:
        self.asked.append(asked)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ModelReply) else await answer(asked)

    async def complete_json(self, asked: ModelRequest, shape: Shape) -> JsonReply:
        raise NotImplementedError(f"a run asks for no {shape.name}: {asked.conversation}")

    async def aclose(self) -> None:
        pass


TOOLS = tuple(
    ToolDefinition(name, f"Does {name}.", {"type": "object", "properties": {"text": {"type": "string"}}})
    for name in ("kb_search", "kb_read", "kb_merge", "plane_create_task")
)


class ActsOnRecord:
    """Tools that record every call with its key, in a file if there is one, and give the test's answer, or their name."""

    def __init__(
        self, file: Path | None = None, **answers: CallOutcome | Exception | Callable[[], Awaitable[CallOutcome]]
    ) -> None:
        self._file, self._answers = file, answers
        self.done: list[tuple[str, str, Mapping[str, Any]]] = []
        self.known: dict[str, CallOutcome] = {}
        self.asked_about: list[str] = []

    def definitions(self) -> Sequence[ToolDefinition]:
        return TOOLS

    async def call(self, name: str, arguments: Mapping[str, Any], key: str) -> CallOutcome:
        self.done.append((name, key, arguments))
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps([name, key]) + "\n")
        answer = self._answers.get(name, CallOutcome(success=True, text=f"{name} says so"))
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, CallOutcome) else await answer()

    async def recalled(self, name: str, key: str) -> CallOutcome | None:
        self.asked_about.append(f"{name} {key}")
        return self.known.get(key)


MISSING = NoSuchPath("guides/caps.md")


async def forever(_seconds: float) -> None:
    """Wait until cancelled: in a test no time runs out by itself."""
    await anyio.sleep_forever()


async def at_once(_seconds: float) -> None:
    """Return as if that time had passed."""
    await anyio.lowlevel.checkpoint()


async def no_publishing(_topic: str, _keys: Sequence[str]) -> None:
    pass


async def unbounded(_run: Run) -> DayLimitReached | None:
    """Let every run ask."""
    return None


@dataclass
class Led:
    """Everything that leads runs in a test. Its clock advances a second whenever it is read."""

    provider: Scripted
    tools: ActsOnRecord = field(default_factory=ActsOnRecord)
    store: RunStore = field(default_factory=lambda: MemoryRuns(no_publishing))
    cost: Cost = unknown_cost
    sleep: Callable[[float], Awaitable[None]] = forever
    step_s: float = 0.001
    seen: list[tuple[str, Frame]] = field(default_factory=list)
    _looked: int = 0
    _ids: str = "a"
    day: Callable[[Run], Awaitable[DayLimitReached | None]] = unbounded

    def now(self) -> datetime:
        self._looked += 1
        return NOW + self._looked * self.step_s * SECOND

    def chance(self) -> str:
        self._looked += 1
        return f"{self._ids}{self._looked:06x}"

    async def look(self, run: Run, frame: Frame) -> None:
        self.seen.append((run.state, frame))

    @property
    def executor(self) -> Executor:
        processor = Processor(self.provider, self.cost)
        return Executor(
            self.store,
            processor,
            self.tools,
            now=self.now,
            sleep=self.sleep,
            chance=self.chance,
            progress=self.look,
            day=self.day,
        )

    async def start(self, head: Header | None = None) -> Run:
        return await self.executor.start(head or header())

    def elsewhere(self, *answers: Any, **tools: Any) -> Led:
        """Return another process with the same store, a later clock and no memory of the first."""
        return Led(
            Scripted(*answers), ActsOnRecord(**tools), self.store, _looked=self._looked + 100_000, _ids=self._ids + "b"
        )


async def rebuilt(store: RunStore, run: str) -> list[ModelRequest]:
    """Return the request before each of a model's answers, made from the record alone."""
    there = await store.run(run)
    return [
        next_request(fold(there.header, there.frames[: frame.number]), TOOLS)
        for frame in there.frames
        if frame.TYPE == "plan"
    ]


async def sound(store: RunStore, run: str) -> Run:
    """Return the run from its record: without gaps, and each call with at most one result, which is linked to it."""
    there = await store.run(run)
    frames = await store.frames(run)
    assert fold(there.header, frames) == there
    assert [frame.number for frame in frames] == list(range(len(frames)))
    calls = [frame.id for frame in frames if frame.TYPE == "tool_call"]
    results = [getattr(frame, "call", "") for frame in frames if frame.TYPE == "tool_result"]
    assert results == calls[: len(results)]
    plans = {frame.id for frame in frames if frame.TYPE == "plan"}
    assert {getattr(frame, "plan", "") for frame in frames if frame.TYPE in ("tool_call", "response")} <= plans
    return there
