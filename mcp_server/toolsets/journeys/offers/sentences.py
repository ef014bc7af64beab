"""The texts of prompts about journeys: the answers of the journey tools, worded for a model. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_server.toolsets.journeys.schemas import Journey

KEPT = (
    "It returns journey_id, version and the instructions below, so you can start working at once. From then on the server "
    "stores the work, and any host can continue it by its journey_id."
)


ANSWERED = (
    "It returns journey_id, version and what to do first: a prompt, the tools and the schema of the work. From then on the "
    "server stores the work, and any host can continue it by its journey_id."
)


def beginning(
    first: Journey,
    title: str,
    summary: str,
    arguments: Mapping[str, Any],
    *,
    required: Mapping[str, str],
    optional: Mapping[str, str],
    by_itself: Sequence[str] = (),
) -> str:
    """Return how to start a journey, and what its first phase will ask.

    `required` and `optional` are the agent's inputs beside the brief, with their meanings. `by_itself` are the phases that the
    server does first: what comes next depends on their outcome, so this text cannot say it.
    """
    head = [
        f"Start a journey with {title}. {summary}",
        "Ask the person first, and put the answers into `inputs` of journey_start:\n" + _listed(required)
        if required
        else "",
        "Call journey_start with\n" + fenced(arguments),
        "If the person named any of these, add them to `inputs`:\n" + _listed(optional) if optional else "",
    ]
    if by_itself:
        done = (
            f"The server does the first {'phases' if len(by_itself) > 1 else 'phase'} itself: {', '.join(by_itself)}."
        )
        return "\n\n".join(part for part in (*head, ANSWERED, done) if part)
    parts = [
        *head,
        KEPT,
        f"The first phase is {first.phase}:\n\n{first.prompt}",
        _tools(first, "the journey_id"),
        _submit(first, "the journey_id and version that it returned"),
    ]
    return "\n\n".join(part for part in parts if part)


def _listed(inputs: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {meaning}" if meaning else f"- {name}" for name, meaning in inputs.items())


def continuing(here: Journey) -> str:
    """Return everything a host needs to continue a journey."""
    named = f'journey_id "{here.journey_id}"'
    parts = [
        f"Continue journey {here.journey_id}, version {here.version}. Everything you need to know about it is below.",
        here.prompt,
        _open_question(here),
        _tools(here, named),
        _submit(here, f"{named}, version {here.version}"),
        _otherwise(here, named),
    ]
    return "\n\n".join(part for part in parts if part)


def _tools(here: Journey, named: str) -> str:
    return (
        f"Tools for this phase (call each with {named}): {', '.join(here.allowed_tools)}." if here.allowed_tools else ""
    )


def _submit(here: Journey, named: str) -> str:
    if here.work_schema is None:
        return ""
    return (
        f"Submit with journey_submit: {named}, and as `work` an object that fits this JSON Schema:\n{fenced(here.work_schema)}\n"
        "The answer has the next prompt, what is missing, or a question for the person."
    )


def _open_question(here: Journey) -> str:
    """Return what the person can still be asked while the work continues."""
    if here.state != "active" or here.checkpoint is None:
        return ""
    return (
        f"The work continues. Until your next submit the person can still send it back: {here.checkpoint['question']} "
        "Tell them so, and relay their answer with journey_decide."
    )


def _otherwise(here: Journey, named: str) -> str:
    """Return what can be done in a journey that takes no work now; "" if it takes work. `named` is the argument that names it."""
    if here.state == "waiting":
        page = here.checkpoint and here.checkpoint["review_url"]
        said = (
            ""
            if here.checkpoint and here.checkpoint["verified"]
            else f"Call journey_decide with {named}, version {here.version}."
        )
        return " ".join(part for part in (said, f"The person can also decide at {page}." if page else "") if part)
    if here.state == "active":
        return ""
    return f'For the whole report, call journey_status with {named} and view "report".'


def fenced(value: Mapping[str, Any]) -> str:
    """Return the object as a block of compact JSON, whatever its texts hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    ticks = max([2, *(len(run) for run in re.findall("`+", text))]) + 1
    return f"{'`' * ticks}json\n{text}\n{'`' * ticks}"
