"""`journeys export` and `journeys import`: a journey as one file, to keep or to go on with elsewhere."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from agents.errors import BadJourneyFile, JourneyExists, NoSuchJourney
from agents.store.export_file import exported, imported
from agents.store.forms import new_id
from knowledge.errors import KnowledgeError
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.journeys.records import head, stored
from mcp_server.cli.journeys.view import state_fields
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import print_ascii, say
from mcp_server.gate.host_registration import os_user
from mcp_server.hosts.files import ConfigurationRefused, rewrite

if TYPE_CHECKING:
    from agents.engine.events import Logged
    from agents.engine.runner import Runner
    from agents.store.ports import JourneyStore

STANDARD = "-"
"""Stands for standard input or output in the place of a file."""


class AnotherIsHere(KnowledgeError):
    """A journey has that id already and is not the one in the file; `how` says what they have in common. Nothing was taken over."""

    def __init__(self, journey: str, how: str) -> None:
        self.journey = journey
        super().__init__(
            f"{journey} already exists here, {how}; nothing was imported (--as ID imports it under another id)"
        )


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
    """Put the text there, in the place of an earlier export and of nothing else.

    Raises:
        ConfigurationRefused: something else is there, or nothing can be written.
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
    """Take over the journey in the file; the same file again changes nothing.

    What it says counts as read from outside: nobody here knows what was read where it was written.
    """
    from mcp_server.app.composition import open_app

    own, log = imported(await anyio.to_thread.run_sync(_read, args.file))
    journey = _id(args.as_id or own, given=args.as_id is not None)
    async with open_app(settings, indexing=False, announcing=False) as app:
        runner = app.services.journeys
        if await _new(runner.store, journey):
            await app.services.taints.note(os_user(), journey, (f"import:{journey}",))
        done = await _adopted(runner, journey, log)
        agent, state = await head(runner, journey)
    if settings.json:
        print_ascii(state_fields(journey, agent, state))
    else:
        what = "was already here; nothing was added" if done else f"was imported with {len(log)} events"
        print(visible(f"{journey} {what}; version {state.version}, in {state.phase}"))
    return 0


def _read(name: str) -> str:
    raw = sys.stdin.buffer.read() if name == STANDARD else Path(name).read_bytes()
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise BadJourneyFile(1, "it is not UTF-8 text") from error


def _id(journey: str, *, given: bool) -> str:
    """Return the id.

    Raises:
        WronglyAsked, BadJourneyFile: no journey can have it.
    """
    try:
        return new_id(journey)
    except ValueError as error:
        if given:
            raise WronglyAsked(f"--as: {error}") from error
        raise BadJourneyFile(1, str(error)) from error


async def _new(store: JourneyStore, journey: str) -> bool:
    try:
        await store.events(journey, limit=1)
    except NoSuchJourney:
        return True
    return False


async def _adopted(runner: Runner, journey: str, log: Sequence[Logged]) -> bool:
    """Return whether it was here already.

    Raises:
        BadLog, BadStart, AnotherIsHere: nothing was taken over.
    """
    try:
        return (await runner.adopt(journey, log)).repeated
    except JourneyExists:
        raise AnotherIsHere(journey, _compared(await runner.store.events(journey), log)) from None


def _compared(here: Sequence[Logged], there: Sequence[Logged]) -> str:
    common = min(len(here), len(there))
    if list(here[:common]) != list(there[:common]):
        return "with different contents"
    if len(here) > len(there):
        return f"at a later version: {here[-1].version}; the file ends at version {there[-1].version}"
    return f"only up to version {here[-1].version}; the file has version {there[-1].version}"
