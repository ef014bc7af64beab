"""The part of `demo` about journeys: an altered quotation is noticed, and another host continues the work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from mcp_server.cli.demo.steps import NEW_PAGE, DemoFailed, call, connected, step, timed_call

if TYPE_CHECKING:
    from mcp import Client

BRIEF = "Film the zebrafish experiment."
QUOTE, ALTERED = "The zebrafish experiment starts on Thursday", "The zebrafish experiment starts on Friday"
PLAN = {"id": "s1", "step": "Set up the camera", "done_when": "it records", "rests_on": ["c1"]}
MADE = {"id": "s1", "result": "it stands by the tank", "artefacts": ["url:camera"], "observed": "a red light"}


async def journey(console: Console, client: Client, kb: Path, state: Path) -> dict[str, Any]:
    """Show a journey of the agent `build` that two server processes lead, and work that it does not accept."""
    begun, took = await timed_call(client, "journey_start", agent="build", brief=BRIEF)
    step(console, "Journeys", "long work lives here, not in a chat", f"journey_start('build', {BRIEF!r})", took)
    console.print(f" [bold]{escape(begun['journey_id'])}[/] is in {begun['phase']}, version {begun['version']}.")
    await call(client, "kb_read", path=NEW_PAGE, journey_id=begun["journey_id"])
    stays = await _submitted(client, begun["journey_id"], begun["version"], ALTERED)
    if stays["state"] != "active" or stays["phase"] != begun["phase"]:
        raise DemoFailed("the journey continued with a quotation that is on no page; please report this")
    missing = str(stays["prompt"]).splitlines()[-1]  # the prompt ends with it
    console.print(f" Quoted with one word changed: [yellow]not done[/]. {escape(missing)}", highlight=False)
    # Version 2, because a submit that is not enough is recorded, too.
    waits = await _submitted(client, begun["journey_id"], 2, QUOTE)
    if waits["state"] != "waiting":
        raise DemoFailed(f"the journey did not wait for a person but is {waits['state']}; please report this")
    console.print(f" Quoted word for word: it continues, and a person must decide: [yellow]{waits['state']}[/].")
    done = await _continued(console, begun["journey_id"], kb, state)
    return {**begun, "missing": missing, "waited": waits["state"], "ended": done["state"], "ms": took}


async def _submitted(client: Client, journey_id: str, version: int, quote: str) -> dict[str, Any]:
    citation = {"path": NEW_PAGE, "section": "Field notes", "quote": quote}
    concept = {"id": "c1", "text": "the day on which the experiment starts", "citations": [citation]}
    work = {"goal": "A film of it.", "concepts": [concept], "plan": [PLAN]}
    return await call(client, "journey_submit", journey_id=journey_id, version=version, work=work)


async def _continued(console: Console, journey_id: str, kb: Path, state: Path) -> dict[str, Any]:
    """Complete the journey in another server process, as another host would."""
    async with connected(kb, state, "other") as other:
        found = await call(other, "journey_status", journey_id=journey_id)
        at = f"{found['phase']}, version {found['version']}"
        console.print(f" Another host, another process: journey_status finds it in {at}.")
        decision = {"decision": "approve", "note": "film it"}
        onward = await call(other, "journey_decide", journey_id=journey_id, version=found["version"], **decision)
        console.print(f" The person approves there, and work moves on to {onward['phase']}.")
        work = {"made": [MADE]}
        done = await call(other, "journey_submit", journey_id=journey_id, version=onward["version"], work=work)
    if done["state"] != "complete":
        raise DemoFailed(f"the journey did not end but is {done['state']}; please report this")
    console.print(" With the last step made and shown it is [green]complete[/]: knowledge-forge journeys")
    return done
