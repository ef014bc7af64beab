"""`journeys start`, `submit`, `status`, `resume`, `memory`: lead a journey from a terminal or a script.

Each calls the tool that a host would call, through the gate, so it has no more rights than a host.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from agents.memory_documents import document, documents
from knowledge.errors import KnowledgeError
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.journeys.view import head_of, how_to_continue, status_fields, status_lines
from mcp_server.cli.local_host import LocalHost, local_host
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.input import STANDARD, object_of, text_of
from mcp_server.cli.terminal.options import WronglyAsked, fraction, integer, nonempty
from mcp_server.cli.terminal.output import print_answer, say

DONE, WAITS, NOT_ENOUGH = 0, 3, 4
"""Exit codes: the journey continues or is complete; a person is asked; the work was recorded but does not yet meet the conditions."""
MOST_TOKENS = 10**12


def arguments(actions: Mapping[str, argparse.ArgumentParser]) -> None:
    """Add the arguments of this file's actions after the id."""
    starting, submitting, remembering = actions["start"], actions["submit"], actions["memory"]
    keeping = actions["keep"]
    keeping.add_argument(
        "page", metavar="PATH", type=nonempty, help="the page to write, or a directory to be offered places"
    )
    keeping.add_argument("--section", metavar="HEADING", type=nonempty, help="the section of an existing page")
    keeping.add_argument("--dry-run", action="store_true", help="show what would be written")
    starting.add_argument("agent_name", metavar="AGENT", type=nonempty, help="an agent or a skill, from `agents list`")
    starting.add_argument("--brief", metavar="TEXT", required=True, help="the task; - reads it from standard input")
    starting.add_argument("--input", metavar="NAME=VALUE", action="append", default=[], help="an input of the agent")
    starting.add_argument("--inputs", metavar="FILE", help="the same as a JSON object; - for standard input")
    remembering.add_argument(
        "document",
        metavar="AGENT",
        nargs="?",
        type=nonempty,
        help="the agent whose document you want, if there are several",
    )
    remembering.add_argument("--merge", metavar="PATH", type=nonempty, help="merge it into this page, as kb_merge does")
    submitting.add_argument(
        "--work", metavar="FILE", required=True, help="the work as a JSON object; - for standard input"
    )
    submitting.add_argument("--version", metavar="N", type=integer(1, 10**9), help="the version that this work is for")
    submitting.add_argument(
        "--signal", metavar="NAME", action="append", default=[], help="a hint, such as a transition back"
    )
    for name, direction in (("--tokens-in", "input"), ("--tokens-out", "output")):
        help_text = f"{direction} tokens that the step took"
        submitting.add_argument(name, metavar="N", type=integer(0, MOST_TOKENS), default=0, help=help_text)
    # Not under the name `model`, which is a setting: this model did the work, and the server's own has no part in it.
    submitting.add_argument("--model", dest="done_with", metavar="NAME", default="", help="the model that did the work")
    submitting.add_argument("--conversation", metavar="ID", default="", help="the conversation that it was done in")
    submitting.add_argument("--confidence", metavar="X", type=fraction, help="0 to 1")
    submitting.add_argument("--reasoning", metavar="TEXT", help="the reasoning behind the work")


# --- calls ------------------------------------------------------------------------------------------------------------


async def start(args: argparse.Namespace, settings: Settings) -> int:
    """Start a journey and print the first prompt."""
    if args.brief == STANDARD and args.inputs == STANDARD:
        raise WronglyAsked("--brief and --inputs cannot both be read from standard input")
    brief = await text_of(STANDARD) if args.brief == STANDARD else args.brief
    inputs = await object_of(args.inputs, "--inputs") if args.inputs else {}
    async with local_host(settings) as at:
        if args.input:
            inputs |= await _typed(at, args.agent_name, args.input)
        answer = await at.call("journey_start", agent=args.agent_name, brief=brief, inputs=inputs)
    return _printed(answer, settings, prompt_lines)


async def _typed(at: LocalHost, name: str, pairs: Sequence[str]) -> dict[str, Any]:
    """Return the inputs that were typed, each converted to the type that the agent expects."""
    # Loads the SDK, 0.3 s, which a list need not wait for.
    from mcp_server.toolsets.journeys.offers.prompt_texts import as_input

    agent = await at.app.services.journeys.catalogue.agent(name)
    forms, found = agent.inputs.get("properties", {}), {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise WronglyAsked(f"--input {pair[:60]!r} is not NAME=VALUE")
        found[key] = as_input(value, forms.get(key, {}))
    return found


async def submit(args: argparse.Namespace, settings: Settings) -> int:
    """Submit work, by default for the journey's current version."""
    work = await object_of(args.work, "--work")
    async with local_host(settings) as at:
        version = args.version
        if version is None:
            version = (await at.app.services.journeys.store.journey(args.id)).version
        optional = {name: getattr(args, name) for name in ("confidence", "reasoning")}
        answer = await at.call(
            "journey_submit",
            journey_id=args.id,
            version=version,
            work=work,
            signals=args.signal,
            usage={
                "tokens_in": args.tokens_in,
                "tokens_out": args.tokens_out,
                "model": args.done_with,
                "conversation": args.conversation,
            },
            **{name: value for name, value in optional.items() if value is not None},
        )
        before = await at.app.services.journeys.store.journey(args.id, version=version)
    code = _printed(answer, settings, prompt_lines)
    stayed = answer["state"] == "active" and (answer["phase"], answer["visit"]) == (before.phase, before.visit)
    return NOT_ENOUGH if stayed else code


async def resume(args: argparse.Namespace, settings: Settings) -> int:
    """Print everything needed to continue the journey."""
    async with local_host(settings) as at:
        answer = await at.call("journey_status", journey_id=args.id)
    return _printed(answer, settings, prompt_lines)


async def status(args: argparse.Namespace, settings: Settings) -> int:
    """Print the journey's status in a few lines."""
    async with local_host(settings) as at:
        answer = await at.call("journey_status", journey_id=args.id)
        state = await at.app.services.journeys.store.journey(args.id)
    return _printed(status_fields(answer, state), settings, status_lines)


async def memory(args: argparse.Namespace, settings: Settings) -> int:
    """Print a memory document, or the names of several; or merge one into a page."""
    async with local_host(settings) as at:
        here = await at.app.services.journeys.position(args.id)
        there = documents(here.agent, here.state)
        if args.document is None and len(set(there.values())) != 1 and (there or args.merge):
            return _several(args, settings, there)
        name = args.document or next(iter(there), here.agent.name)
        text = document(here.agent, here.state, args.id, name)
        taints = at.app.services.taints
        # The document may repeat untrusted text that was read in the journey.
        await taints.note(at.who.id, "", tuple(await taints.of_journey(args.id)))
        if args.merge:
            return await _merged(at, args, settings, text)
    lines = map(visible, text.removesuffix("\n").split("\n"))
    print_answer({"journey_id": args.id, "documents": {name: text}}, lines, as_json=settings.json)
    return DONE


def _several(args: argparse.Namespace, settings: Settings, there: Mapping[str, str]) -> int:
    if args.merge:
        raise WronglyAsked(f"name the agent whose document to merge: {', '.join(there) or 'no agent has one yet'}")
    print_answer({"journey_id": args.id, "documents": dict(there)}, map(visible, there), as_json=settings.json)
    if not settings.json:
        say(f"to print one: knowledge-forge journeys memory {args.id} AGENT")
    return DONE


async def keep(args: argparse.Namespace, settings: Settings) -> int:
    """Merge the journey's result into a page, and print the outcome, which can be a proposal."""
    async with local_host(settings) as at:
        known: dict[str, Any] = {"section": args.section} if args.section else {}
        with suppress(KnowledgeError):  # a page that is new has no revision
            known["base_revision"] = await at.app.services.tiers.revision(args.page)
        answer = await at.call(
            "kb_merge",
            path=args.page,
            source=f"journey:{args.id}",
            intent=f"result of {args.id}",
            dry_run=args.dry_run,
            **known,
        )
        if args.dry_run and not settings.json:
            print("\n".join(map(visible, answer["diff"].splitlines())))
    return _merge_printed(answer, settings)


async def _merged(at: LocalHost, args: argparse.Namespace, settings: Settings, text: str) -> int:
    """Merge the document into the page and print the outcome, which can be a proposal."""
    answer = await at.call(
        "kb_merge", path=args.merge, content=text, source=f"journey:{args.id}", intent=f"memory of {args.id}"
    )
    return _merge_printed(answer, settings)


def _merge_printed(answer: Mapping[str, Any], settings: Settings) -> int:
    proposal = answer.get("proposal") or {}
    waits = f", it needs approval: knowledge-forge review --show {proposal['id']}" if proposal.get("id") else ""
    print_answer(answer, [visible(f"{answer['status']}: {answer['path']}{waits}")], as_json=settings.json)
    return WAITS if answer["status"] == "proposed" else DONE


# --- answers ----------------------------------------------------------------------------------------------------------


def _printed(answer: Mapping[str, Any], settings: Settings, lines: Callable[[Mapping[str, Any]], Sequence[str]]) -> int:
    """Print the answer and return the exit code, which says whether a person is asked."""
    print_answer(answer, lines(answer), as_json=settings.json)
    return WAITS if answer["state"] == "waiting" else DONE


def prompt_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the prompt, the tools and the schema of the current phase as lines."""
    lines = [head_of(answer), "", *answer["prompt"].splitlines()]
    if answer["allowed_tools"]:
        lines += ["", f"tools of this phase: {', '.join(answer['allowed_tools'])}"]
    if answer["work_schema"] is not None:
        lines += ["", "submit an object that fits this JSON Schema:"]
        lines += json.dumps(answer["work_schema"], ensure_ascii=False, indent=2).splitlines()
    return [visible(line) for line in (*lines, *how_to_continue(answer))]
