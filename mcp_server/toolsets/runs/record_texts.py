"""The texts of `run://{run_id}` and `run://{run_id}/frames`. Imported with the first read."""

from __future__ import annotations

import json
import re
from typing import Any

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from agents.loop.errors import NoSuchRun
from agents.loop.explanation import explain
from agents.loop.record.frames import frame_text, header_text
from agents.loop.record.run import Run
from knowledge.errors import KnowledgeError
from mcp_server.gate.caller import caller
from mcp_server.ports import RunViewServices
from mcp_server.presenters.run import present, status_of
from mcp_server.protocol.wire_errors import without_surrogates

MOST_FRAMES = 2_000_000
"""The most characters of frames returned at once, newest first."""
SEALED = "echo"
"""The field with the part of a message that its model wants back unchanged: nobody else can read it."""


async def explained_run(services: RunViewServices, run_id: str) -> str:
    """Return the run as Markdown: explained, with its question or its end.

    Raises:
        ResourceNotFoundError: the caller has no such run. ResourceError: it cannot be read now.
    """
    run = await _own_run(services, run_id)
    shown = present(run)
    parts = [f"# Run {run.id}", _quoted(explain(run))]
    if shown.ask:
        parts += ["## It asks", _quoted(shown.question)]
    if shown.over:
        parts += ["## Answer" if run.response else "## Why it ended", _quoted(shown.text)]
    text: str = without_surrogates("\n\n".join(parts))
    return text + "\n"


async def run_frames(services: RunViewServices, run_id: str) -> str:
    """Return the header and the frames of the run as JSON, without the oldest ones of a very long run.

    Raises:
        ResourceNotFoundError: the caller has no such run. ResourceError: it cannot be read now.
    """
    run = await _own_run(services, run_id)
    frames: list[dict[str, Any]] = []
    room = MOST_FRAMES
    for frame in reversed(run.frames):
        fields = json.loads(frame_text(frame))
        fields.pop(SEALED, None)
        room -= len(json.dumps(fields, ensure_ascii=False))
        if room < 0:
            break
        frames.insert(0, fields)
    left_out = run.count - len(frames)
    note = f"The first {left_out} frames are left out; `knowledge-forge runs show {run.id} --frames` has all of them."
    record = {
        "run_id": run.id,
        "status": status_of(run.state),
        "header": json.loads(header_text(run.header)),
        "left_out": left_out,
        "note": note if left_out else None,
        "frames": frames,
    }
    return json.dumps(without_surrogates(record), ensure_ascii=False, separators=(",", ":"))


async def _own_run(services: RunViewServices, run_id: str) -> Run:
    """Return the caller's run, and record that the caller reads what the run read."""
    who = caller.get()
    try:
        run = await services.runs.store.run(run_id)
        if who is not None and run.header.principal == who.id:
            await services.taints.note_shown(who.id, run_id)
            return run
    except NoSuchRun:
        pass
    except KnowledgeError as error:
        raise ResourceError(str(error)) from error
    # The same words for somebody else's run as for a missing one.
    raise ResourceNotFoundError(str(NoSuchRun(run_id)))


def _quoted(text: str) -> str:
    """Return the text as a Markdown block in which nothing links, loads or formats: with a fence that it cannot close."""
    ticks = "`" * (max([2, *(len(found) for found in re.findall("`+", text))]) + 1)
    return f"{ticks}text\n{text}\n{ticks}"
