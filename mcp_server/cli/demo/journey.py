"""`demo`, the part about journeys: a quote that does not stand is found out, and another host goes on with the work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from mcp_server.cli.demo.steps import NEW_PAGE, DemoFailed, call, step, timed_call

if TYPE_CHECKING:
    from mcp import Client
    from rich.console import Console

BRIEF = "Film the zebrafish experiment."
QUOTE, ALTERED = "The zebrafish experiment starts on Thursday", "The zebrafish experiment starts on Friday"
PLAN = {"id": "s1", "step": "Set up the camera", "done_when": "it records", "rests_on": ["c1"]}
MADE = {"id": "s1", "result": "it stands by the tank", "artefacts": ["url:camera"], "observed": "a red light"}


async def journey(console: Console, client: Client, kb: Path, state: Path) -> dict[str, Any]:
    """Show a journey of the agent `build` on its way through two server processes, and what it does not let pass."""
    begun, took = await timed_call(client, "journey_start", agent="build", brief=BRIEF)
    step(console, "Journeys", "long work lives here, not in a chat", f"journey_start('build', {BRIEF!r})", took)
    console.print(f" [bold]{escape(begun['journey_id'])}[/] is in {begun['phase']}, version {begun['version']}.")
    missing = await _told(client, begun, ALTERED)
    console.print(f" A quote with one word changed: [yellow]not done[/]. {escape(missing)}", highlight=False)
    waits = await _submitted(client, begun["journey_id"], 2, QUOTE)
    if waits["state"] != "waiting":
        raise DemoFailed(f"the journey did not wait for a person but is {waits['state']}; please report this")
    console.print(f" Copied word for word: it goes on. Now a person is asked: [yellow]{waits['state']}[/].")
    done = await _elsewhere(console, begun["journey_id"], kb, state)
    return {**begun, "missing": missing, "waited": waits["state"], "ended": done["state"], "ms": took}


async def _submitted(client: Client, journey_id: str, version: int, quote: str) -> dict[str, Any]:
    citation = {"path": NEW_PAGE, "section": "Field notes", "quote": quote}
    concept = {"id": "c1", "text": "when it begins", "citations": [citation]}
    work = {"goal": "A film of it.", "concepts": [concept], "plan": [PLAN]}
    return await call(client, "journey_submit", journey_id=journey_id, version=version, work=work)


async def _told(client: Client, begun: dict[str, Any], quote: str) -> str:
    """Submit a quote that does not stand there, and return what is said to be missing."""
    stays = await _submitted(client, begun["journey_id"], begun["version"], quote)
    if stays["state"] != "active" or stays["phase"] != begun["phase"]:
        raise DemoFailed("a quote that stands nowhere let the journey go on; please report this")
    return str(stays["prompt"]).splitlines()[-1]


async def _elsewhere(console: Console, journey_id: str, kb: Path, state: Path) -> dict[str, Any]:
    """Go on with the journey in another server process, as another host would, to its end."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    command = ["-m", "mcp_server", "serve", "--kb", str(kb), "--state-dir", str(state)]
    quiet = {"FORGE_OPEN_BROWSER": "0"}
    process = StdioServerParameters(command=sys.executable, args=command, cwd=Path(__file__).parents[3], env=quiet)
    with (state.parent / "other.log").open("w", encoding="utf-8") as log:
        async with Client(stdio_client(process, errlog=log)) as other:
            found = await call(other, "journey_status", journey_id=journey_id)
            console.print(
                f" Another host, another process: journey_status finds it in {found['phase']}, version {found['version']}."
            )
            said = {"decision": "approve", "note": "film it"}
            onward = await call(other, "journey_decide", journey_id=journey_id, version=found["version"], **said)
            console.print(f" The person says approve there, and the work goes on to {onward['phase']}.")
            work = {"made": [MADE]}
            done = await call(other, "journey_submit", journey_id=journey_id, version=onward["version"], work=work)
    if done["state"] != "complete":
        raise DemoFailed(f"the journey did not end but is {done['state']}; please report this")
    console.print(" With the last step made and shown it is [green]complete[/]: knowledge-forge journeys")
    return done
