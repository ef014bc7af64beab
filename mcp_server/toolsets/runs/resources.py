"""Runs by address: `run://{run_id}` in words, `run://{run_id}/frames` as they are on record. Of the caller's own runs only."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from knowledge.errors import KnowledgeError
from mcp_server.gate.caller import caller
from mcp_server.ports import RunViewServices
from mcp_server.protocol.server import ForgeServer
from mcp_server.protocol.wire_errors import without_surrogates
from mcp_server.toolsets.journeys.offers.prompts import note_reading

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from agents.loop.store.ports import RunLine

RUNS = "runs"
RUN_URI = "run://"
RUN_TEMPLATE = RUN_URI + "{run_id}"
FRAMES_TEMPLATE = RUN_TEMPLATE + "/frames"
MOST_FRAMES = 2_000_000
"""Characters of frames that are told at once, the newest."""
MOST_LOOKED_AT = 500
"""So many of the caller's newest runs are looked at where an id is completed."""
SEALED = "echo"
"""What a model wants back with an answer, word for word: nobody else can read it."""
T = TypeVar("T")


def run_addresses(run: str) -> list[str]:
    """Return the addresses under which something else is read once the run has moved."""
    return [RUN_URI + run, f"{RUN_URI}{run}/frames"]


def add_run_resources(server: ForgeServer, services: RunViewServices) -> None:
    """Make runs readable by their addresses, where the runs toolset is listed."""
    if all(spec.toolset != RUNS for spec in services.tools()):
        return

    async def run_of(run_id: str) -> str:
        return await _found(_explained(services, run_id))

    async def frames_of(run_id: str) -> str:
        return await _found(_frames(services, run_id))

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
    """Return the ids of the caller's runs that begin with what was typed, or whose goal has words that do, newest first.

    A caller over HTTP without a token gets none: nobody knows which of them is whose.
    """
    who = caller.get()
    if who is None or who.by_handle or all(spec.toolset != RUNS for spec in services.tools()):
        return []
    lines = await services.runs.store.runs(principal=who.id, limit=MOST_LOOKED_AT)
    return [line.id for line in lines if _fits(line, typed)]


def _fits(line: RunLine, typed: str) -> bool:
    wanted, words = typed.casefold().split(), line.title.casefold().split()
    return line.id.startswith(typed.strip()) or all(any(word.startswith(w) for word in words) for w in wanted)


async def _explained(services: RunViewServices, run_id: str) -> str:
    from agents.loop.explanation import explain
    from mcp_server.toolsets.runs.sentences import ended_with

    run = await _own(services, run_id)
    parts = [f"# Run {run.id}", _inert(explain(run))]
    if run.ask is not None:
        parts += ["## It asks", _inert(run.ask.question)]
    if run.over:
        parts += ["## Answer" if run.response else "## Why it ended", _inert(ended_with(run))]
    text: str = without_surrogates("\n\n".join(parts))
    return text + "\n"


async def _frames(services: RunViewServices, run_id: str) -> str:
    from agents.loop.record.frames import frame_text, header_text
    from mcp_server.toolsets.runs.sentences import status_of

    run = await _own(services, run_id)
    frames: list[dict[str, Any]] = []
    room = MOST_FRAMES
    for frame in reversed(run.frames):
        told = json.loads(frame_text(frame))
        told.pop(SEALED, None)
        room -= len(json.dumps(told, ensure_ascii=False))
        if room < 0:
            break
        frames.insert(0, told)
    left_out = run.count - len(frames)
    note = f"The first {left_out} frames are left out; `knowledge-forge runs show {run.id} --frames` has all of them."
    told = {
        "run_id": run.id,
        "status": status_of(run),
        "header": json.loads(header_text(run.header)),
        "left_out": left_out,
        "note": note if left_out else None,
        "frames": frames,
    }
    return json.dumps(without_surrogates(told), ensure_ascii=False, separators=(",", ":"))


async def _own(services: RunViewServices, run_id: str) -> Run:
    """Return the run, and remember that the caller is shown what it read.

    Raises:
        NoSuchRun: the caller has none with that id.
    """
    from agents.loop.errors import NoSuchRun

    run, who = await services.runs.store.run(run_id), caller.get()
    if who is None or run.header.principal != who.id:
        raise NoSuchRun(run_id)
    await note_reading(services, run_id)
    return run


def _inert(text: str) -> str:
    """Return the text as a block of Markdown in which nothing links, loads or formats."""
    ticks = "`" * (max([2, *(len(found) for found in re.findall("`+", text))]) + 1)
    return f"{ticks}text\n{text}\n{ticks}"


async def _found(reading: Awaitable[T]) -> T:
    """Return what is read.

    Raises:
        ResourceNotFoundError: it is not there; ResourceError: it cannot be read now. Both say why.
    """
    from agents.loop.errors import NoSuchRun

    try:
        return await reading
    except NoSuchRun as error:
        raise ResourceNotFoundError(str(error)) from error
    except KnowledgeError as error:
        raise ResourceError(str(error)) from error
