"""Runs by address: `run://{run_id}` in words, `run://{run_id}/frames` as they are on record. The caller's own runs only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_server.gate.caller import caller
from mcp_server.late_module import LateModule
from mcp_server.ports import RunViewServices
from mcp_server.protocol.server import ForgeServer

if TYPE_CHECKING:
    from mcp_server.toolsets.runs import record_texts
else:
    record_texts = LateModule("mcp_server.toolsets.runs.record_texts")

RUNS = "runs"
RUN_URI = "run://"
RUN_TEMPLATE = RUN_URI + "{run_id}"
FRAMES_TEMPLATE = RUN_TEMPLATE + "/frames"
MOST_LOOKED_AT = 500
"""How many of the caller's newest runs the completion of an id searches."""


def run_addresses(run: str) -> list[str]:
    """Return the addresses whose content changes when the run moves."""
    return [RUN_URI + run, f"{RUN_URI}{run}/frames"]


def add_run_resources(server: ForgeServer, services: RunViewServices) -> None:
    """Make runs readable by their addresses, if the runs toolset is listed."""
    if all(spec.toolset != RUNS for spec in services.tools()):
        return

    async def run_of(run_id: str) -> str:
        return await record_texts.explained_run(services, run_id)

    async def frames_of(run_id: str) -> str:
        return await record_texts.run_frames(services, run_id)

    server.resource(
        RUN_TEMPLATE,
        name="run",
        title="A run",
        description="A run of agent_run explained: its goal, each step and why, how it ended, and what it cost.",
        mime_type="text/markdown",
    )(run_of)
    server.resource(
        FRAMES_TEMPLATE,
        name="run_frames",
        title="Frames of a run",
        description="The full record of a run, oldest first.",
        mime_type="application/json",
    )(frames_of)


async def run_ids(services: RunViewServices, typed: str) -> Sequence[str]:
    """Return the ids of the caller's runs that match the typed text, newest first.

    A run matches if its id begins with the text, or if each typed word begins a word of its goal.

    A caller over HTTP without a token gets none: nobody knows which runs are theirs.
    """
    who = caller.get()
    if who is None or who.by_handle or all(spec.toolset != RUNS for spec in services.tools()):
        return []
    wanted = typed.casefold().split()
    found = []
    for line in await services.runs.store.runs(principal=who.id, limit=MOST_LOOKED_AT):
        words = line.title.casefold().split()
        if line.id.startswith(typed.strip()) or all(any(word.startswith(w) for word in words) for w in wanted):
            found.append(line.id)
    return found
