"""`journeys export` and `journeys import`: a journey as one file, to keep or to continue elsewhere."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread

from agents.engine.events import Logged
from agents.engine.runner import Runner
from agents.errors import BadJourneyFile, JourneyExists, NoSuchJourney
from agents.store.codec import new_id
from agents.store.export_file import exported, imported
from knowledge.errors import KnowledgeError
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.journeys.records import head, stored
from mcp_server.cli.journeys.view import state_fields
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.input import STANDARD
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import print_answer, print_ascii, say
from mcp_server.gate.host_registration import os_user
from mcp_server.hosts.files import ConfigurationRefused, rewrite


class AnotherIsHere(KnowledgeError):
    """A journey has that id already and differs from the one in the file. Nothing was imported."""


async def export(args: argparse.Namespace, settings: Settings) -> int:
    """Write the journey's file, whole or not at all."""
    async with stored(settings) as store:
        log = await store.events(args.id)
    text = "".join(exported(args.id, log))
    if args.file == STANDARD:
        print(text, end="")
        return 0
    await anyio.to_thread.run_sync(_write, Path(args.file), text)
    if settings.json:
        print_ascii({"journey_id": args.id, "version": log[-1].version, "events": len(log), "file": args.file})
    else:
        say(f"wrote {len(log)} events of {args.id} to {args.file}")
    return 0


def _write(path: Path, text: str) -> None:
    """Write the text to `path`, where there may be no file or an earlier export.

    Raises:
        ConfigurationRefused: another file is there, or it can't be written.
    """

    def replaced(before: str) -> str:
        if before:
            try:
                imported(before)
            except BadJourneyFile as error:
                raise ConfigurationRefused(path, "it is not an exported journey; name another file") from error
        return text

    rewrite(path, replaced, backup=False)


async def take_over(args: argparse.Namespace, settings: Settings) -> int:
    """Import the journey in the file; importing the same file again changes nothing."""
    own, log = imported(await anyio.to_thread.run_sync(_read, args.file))
    journey = _id(args.as_id or own, given=args.as_id is not None)
    async with opened_app(settings) as app:
        runner = app.services.journeys
        try:
            await runner.store.events(journey, limit=1)
        except NoSuchJourney:
            # Nobody here knows what was read where the journey was recorded, so it counts as text from outside. That is noted
            # before the import, so that the journey is never here without it.
            await app.services.taints.note(os_user(), journey, (f"import:{journey}",))
        repeated = await _adopted(runner, journey, log)
        agent, state = await head(runner, journey)
    what = "was already here; nothing was added" if repeated else f"was imported with {len(log)} events"
    line = visible(f"{journey} {what}; version {state.version}, in {state.phase}")
    print_answer(state_fields(journey, agent, state), [line], as_json=settings.json)
    return 0


def _read(name: str) -> str:
    raw = sys.stdin.buffer.read() if name == STANDARD else Path(name).read_bytes()
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise BadJourneyFile(1, "it is not UTF-8 text") from error


def _id(journey: str, *, given: bool) -> str:
    """Return the id under which the journey is imported. Raises: WronglyAsked, BadJourneyFile: no journey can have that id."""
    try:
        return new_id(journey)
    except ValueError as error:
        if given:
            raise WronglyAsked(f"--as: {error}") from error
        raise BadJourneyFile(1, str(error)) from error


async def _adopted(runner: Runner, journey: str, log: Sequence[Logged]) -> bool:
    """Record the journey and return whether it was already here.

    Raises:
        BadLog, BadStart, AnotherIsHere: nothing was imported.
    """
    try:
        return (await runner.adopt(journey, log)).repeated
    except JourneyExists:
        here = await runner.store.events(journey)
    common = min(len(here), len(log))
    if list(here[:common]) != list(log[:common]):
        how = "with different contents"
    elif len(here) > len(log):
        how = f"at a later version: {here[-1].version}; the file ends at version {log[-1].version}"
    else:
        how = f"only up to version {here[-1].version}; the file has version {log[-1].version}"
    raise AnotherIsHere(
        f"{journey} already exists here, {how}; nothing was imported (--as ID imports it under another id)"
    )
