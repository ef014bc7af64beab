"""The cost of the gate: `python -m tests.benchmarks.gate [--write-doc]`.

The same server answers the same calls, once through the gate and once by a path that only parses, runs and prints. Both
alternate in one process, so that the difference is the gate's: identifying the caller, reading its level, deciding.
Prints processor time.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import CallToolRequestParams

from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallAnswered
from mcp_server.gate.host_registration import Principal, enrol, os_user
from mcp_server.gate.trust.scores import grant
from mcp_server.protocol.calls.results import as_result
from mcp_server.protocol.gate_extension import GateExtension
from tests.benchmarks.handbook import write_section
from tests.support.knowledge_bases.folders import write

CALLS = 200
ROUNDS = 15
BOUND_MS = 0.3
TOOL, ARGUMENTS = "kb_map", {"path": ""}


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of processor time for one call, each the median of the rounds."""

    with_gate_ms: float
    without_ms: float

    @property
    def gate_ms(self) -> float:
        """Return what the gate adds."""
        return self.with_gate_ms - self.without_ms


def ungated(app: App) -> Any:
    """Return an interceptor that runs the tool without a gate."""
    me = Principal(os_user(), "bench")

    async def intercept(
        params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        del ctx, call_next
        spec = app.gate.spec(params.name)
        assert spec is not None
        assert spec.answer is not None
        asked = spec.parse(params.arguments or {})
        return as_result(CallAnswered(spec.as_json(await spec.answer(app.services, Call(me), asked))))

    return intercept


async def measured(rounds: int = ROUNDS) -> Cost:
    """Return the cost of a call, with the gate and without."""
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(kb=write(Path(home) / "kb"), state_dir=Path(home) / "state")
        async with open_state(settings) as state:
            secret = await enrol(state, "bench", now=utc_now())
            await grant(state, Principal(os_user(), "bench").id, 3, by="bench", now=utc_now())
        settings = Settings(kb=settings.kb, state_dir=settings.state_dir, enrolment=secret)
        async with open_app(settings, indexing=False) as app, Client(app.server) as client:
            gated = GateExtension.intercept_tool_call
            ways = {"with": gated, "without": lambda _self, *args: ungated(app)(*args)}
            times: dict[str, list[float]] = {"with": [], "without": []}
            for _ in range(rounds):
                for name, way in ways.items():
                    GateExtension.intercept_tool_call = way  # type: ignore[method-assign]  # to measure without
                    times[name].append(await _round(client))
            GateExtension.intercept_tool_call = gated  # type: ignore[method-assign]  # as it was
    return Cost(*(statistics.median(times[name]) for name in ("with", "without")))


async def _round(client: Client) -> float:
    await client.call_tool(TOOL, ARGUMENTS)
    began = time.process_time()
    for _ in range(CALLS):
        await client.call_tool(TOOL, ARGUMENTS)
    return (time.process_time() - began) * 1000 / CALLS


def lines(cost: Cost, *, load: float) -> list[str]:
    """Return the section of the handbook."""
    when, cores = datetime.now(UTC).date().isoformat(), len(os.sched_getaffinity(0))
    return [
        "## The gate",
        "",
        f"The processor time that the gate adds to an allowed call of `{TOOL}` (`python -m tests.benchmarks.gate --write-doc`;",
        f"{when}, {cores} cores, load {load:.1f} before): **{cost.gate_ms:.2f} ms** (promised: at most {BOUND_MS} ms). With the gate,",
        f"a call costs {cost.with_gate_ms:.2f} ms, client included; without it {cost.without_ms:.2f} ms. Both take turns in",
        f"one process, {ROUNDS} times {CALLS} calls each, and the medians are compared.",
    ]


def main() -> None:
    """Measure and tell."""
    load = os.getloadavg()[0]
    cost = anyio.run(measured)
    print("\n".join(lines(cost, load=load)))
    if "--write-doc" in sys.argv[1:]:
        write_section("gate", lines(cost, load=load))


if __name__ == "__main__":
    main()
