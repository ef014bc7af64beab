"""What prompts say about journeys: the same as the journey tools answer, put as text for a model. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_server.toolsets.journeys.answers import Journey

KEPT = (
    "It answers with journey_id and version, and with what follows here, so that you can work at once. From then on the work "
    "lies on the server: any host goes on with it by its journey_id."
)


ANSWERED = (
    "It answers with journey_id and version, and with what to do first: words, tools and the schema of the work. From then on the "
    "work lies on the server: any host goes on with it by its journey_id."
)


def beginning(
    first: Journey,
    title: str,
    summary: str,
    arguments: Mapping[str, Any],
    missing: Mapping[str, str],
    *,
    by_itself: Sequence[str] = (),
) -> str:
    """Return how a journey is begun, and what its first phase will ask.

    `missing`: inputs nobody gave yet, and what they are. `by_itself`: phases that the server does first, whose outcome what is
    asked then depends on, so that it cannot be told before.
    """
    ask = [f"- {name}: {meaning}" if meaning else f"- {name}" for name, meaning in missing.items()]
    head = [
        f"Begin a journey with {title}. {summary}",
        "Ask the person first, and put the answers into `inputs`:\n" + "\n".join(ask) if ask else "",
        "Call journey_start with\n" + fenced(arguments),
    ]
    if by_itself:
        done = (
            f"The server itself does the first {'phases' if len(by_itself) > 1 else 'phase'}: {', '.join(by_itself)}."
        )
        return "\n\n".join(part for part in (*head, ANSWERED, done) if part)
    parts = [
        *head,
        KEPT,
        f"The journey begins in {first.phase}:\n\n{first.prompt}",
        _tools(first, "the journey_id"),
        _submit(first, "the journey_id and version of that answer"),
    ]
    return "\n\n".join(part for part in parts if part)


def continuing(here: Journey) -> str:
    """Return all that a host needs to go on with a journey from where it stands."""
    named = f'journey_id "{here.journey_id}"'
    parts = [
        f"Go on with journey {here.journey_id}, version {here.version}. All that counts of it is on the server and told here.",
        here.prompt,
        _open_question(here),
        _tools(here, named),
        _submit(here, f"{named}, version {here.version}"),
        _otherwise(here, named),
    ]
    return "\n\n".join(part for part in parts if part)


def _tools(here: Journey, named: str) -> str:
    return (
        f"Tools of this phase, each called with {named}: {', '.join(here.allowed_tools)}." if here.allowed_tools else ""
    )


def _submit(here: Journey, named: str) -> str:
    if here.work_schema is None:
        return ""
    return (
        f"Submit with journey_submit: {named}, and as `work` an object of this JSON Schema:\n{fenced(here.work_schema)}\n"
        "The answer says what comes next, what is missing, or what to ask the person."
    )


def _open_question(here: Journey) -> str:
    """Return what the person may still be asked while the work goes on."""
    if here.state != "active" or here.checkpoint is None:
        return ""
    return (
        f"The work goes on, and until your next submit the person may send it back: {here.checkpoint['question']} "
        "Tell them, and relay what they say with journey_decide."
    )


def _otherwise(here: Journey, named: str) -> str:
    """Return what can be done where nothing can be submitted."""
    if here.state == "waiting":
        page = here.checkpoint and here.checkpoint["review_url"]
        said = (
            ""
            if here.checkpoint and here.checkpoint["verified"]
            else f"journey_decide takes {named}, version {here.version}."
        )
        return " ".join(part for part in (said, f"The person can also decide at {page}." if page else "") if part)
    if here.state == "active":
        return ""
    return f'journey_status with {named} and view "report" has all of it.'


def fenced(value: Mapping[str, Any]) -> str:
    """Return the object as a block of compact JSON, whatever its texts hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    ticks = max([2, *(len(run) for run in re.findall("`+", text))]) + 1
    return f"{'`' * ticks}json\n{text}\n{'`' * ticks}"
