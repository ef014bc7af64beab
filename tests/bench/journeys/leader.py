"""Leads a model through questions with the tools of a real server, which a real MCP client calls."""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
from mcp import Client
from mcp_types import TextContent

from agents.loop.executor import Executor
from agents.loop.model.ports import Provider, ToolDefinition
from agents.loop.processor import Processor
from agents.loop.record.frames import Control, Header, PlanFrame, RunLimits, ToolResult
from agents.loop.record.run import Run
from agents.loop.tools import CallOutcome
from tests.bench.journeys.labels import LabelledQuestion
from tests.support.state.memory.runs import MemoryRuns

SEARCH_TOOLS = ("kb_map", "kb_search", "kb_read")
JOURNEY_TOOLS = (*SEARCH_TOOLS, "journey_start", "journey_submit", "journey_status")
ALONE = "search tools alone"
ANSWER = "Answer this question from the knowledge base: {question}\n\n"
GOAL_ALONE = ANSWER + "Use kb_search and kb_read. Name the pages that the answer rests on, with their paths."
GOAL_LED = ANSWER + (
    "Lead a journey for it: call journey_start with the agent {agent!r} and the question as the brief, then journey_submit for "
    "each phase, until the journey is complete. Then answer, and name the pages that the answer rests on, with their paths."
)
MOST_REASON = 90


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """What became of one question: the answer and its score, and what it took.

    `complete` says whether the journey was led to its end, None without one. `refusals` counts refused calls and answers by reason.
    """

    way: str
    question: str
    state: str
    answered: bool
    right: bool
    cited: bool
    complete: bool | None
    iterations: int
    calls: int
    tokens_in: int
    tokens_out: int
    seconds: float
    answer: str
    why: str
    refusals: Mapping[str, int] = field(default_factory=dict)


class ClientTools:
    """The tools of a server behind an MCP client, as a run calls them."""

    def __init__(self, client: Client, listed: Sequence[ToolDefinition]) -> None:
        self._client, self._listed = client, listed

    @classmethod
    async def of(cls, client: Client, names: Sequence[str]) -> ClientTools:
        """Return those of the server's tools that have these names."""
        tools = (await client.list_tools()).tools
        return cls(
            client,
            [ToolDefinition(one.name, one.description or "", one.input_schema) for one in tools if one.name in names],
        )

    def definitions(self) -> Sequence[ToolDefinition]:
        """Return the tools."""
        return self._listed

    async def call(self, name: str, arguments: Mapping[str, Any], key: str) -> CallOutcome:
        """Call a tool and return the text that a host would show to its model."""
        del key
        result = await self._client.call_tool(name, dict(arguments))
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        return CallOutcome(success=not result.is_error, text=text, structured=result.structured_content)

    async def recalled(self, name: str, key: str) -> CallOutcome | None:
        """Return None: no process dies here."""
        del name, key
        return None


async def lead(
    client: Client, provider: Provider, question: LabelledQuestion, agent: str, limits: RunLimits
) -> QuestionOutcome:
    """Return what becomes of a question that the model answers by leading a journey of `agent`; "" is with the search tools alone."""
    tools = await ClientTools.of(client, JOURNEY_TOOLS if agent else SEARCH_TOOLS)
    goal = (GOAL_LED if agent else GOAL_ALONE).format(question=question.question, agent=agent)
    store = MemoryRuns(_unpublished)
    executor = Executor(
        store,
        Processor(provider),
        tools,
        now=lambda: datetime.now(UTC),
        sleep=anyio.sleep,
        chance=lambda: secrets.token_hex(8),
    )
    began = time.perf_counter()
    run = await executor.start(
        Header(
            id=f"r-{secrets.token_hex(8)}",
            goal=goal,
            principal="bench@bench",
            begun_at=datetime.now(UTC),
            model=provider.model,
            limits=limits,
        )
    )
    return await _outcome(client, run, question, agent, time.perf_counter() - began)


async def _outcome(client: Client, run: Run, question: LabelledQuestion, agent: str, seconds: float) -> QuestionOutcome:
    answer = run.response.text if run.response else ""
    achieved = bool(run.response and run.response.goal_achieved)
    return QuestionOutcome(
        way=agent or ALONE,
        question=question.id,
        state=run.state,
        answered=achieved,
        right=question.is_right(answer, achieved=achieved),
        cited=achieved and question.cites(answer),
        complete=await _complete(client, run) if agent else None,
        iterations=run.iterations,
        calls=sum(isinstance(frame, ToolResult) and frame.called for frame in run.frames),
        tokens_in=run.spent.tokens_in,
        tokens_out=run.spent.tokens_out,
        seconds=round(seconds, 2),
        answer=answer,
        why=run.why,
        refusals=dict(refusals(run)),
    )


async def _complete(client: Client, run: Run) -> bool:
    """Return whether the newest journey that the run began is complete."""
    begun = [
        frame.structured["journey_id"]
        for frame in run.frames
        if isinstance(frame, ToolResult) and frame.tool == "journey_start" and isinstance(frame.structured, dict)
    ]
    if not begun:
        return False
    status = (await client.call_tool("journey_status", {"journey_id": begun[-1]})).structured_content or {}
    return bool(status.get("status") == "complete")


def refusals(run: Run) -> Counter[str]:
    """Return how often calls and answers of the model were refused, by tool and reason, with the numbers left out."""
    found = Counter[str]()
    for frame in run.frames:
        if isinstance(frame, ToolResult) and not frame.success:
            found[f"{frame.tool if frame.called else 'not called'}: {_reason(frame.error)}"] += 1
        elif isinstance(frame, PlanFrame) and frame.problem:
            found[f"answer: {_reason(frame.problem)}"] += 1
        elif isinstance(frame, Control) and frame.signal in ("limit_reached", "provider_failed", "failed", "shortened"):
            found[f"{frame.signal.replace('_', ' ')}: {_reason(frame.detail)}"] += 1
    return found


def _reason(text: str) -> str:
    line = re.sub(r"\d[\d,.]*", "N", " ".join(text.split()))
    return line if len(line) <= MOST_REASON else line[: MOST_REASON - 3] + "..."


async def _unpublished(_topic: str, _keys: Sequence[str]) -> None:
    pass
