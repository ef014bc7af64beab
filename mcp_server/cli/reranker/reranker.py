"""`reranker show|use NAME`: show the cross-encoder that reranks the first passages, and change it after its cost is shown."""

from __future__ import annotations

import argparse
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from knowledge.errors import RerankerUnavailable
from knowledge.wire.addresses import shown_address
from mcp_server.app.factories.reranker import ChosenReranker
from mcp_server.app.knowledge_base import models_folder, open_base
from mcp_server.app.settings.loader import key_in
from mcp_server.app.settings.settings import BY_FIELD, Settings, handbook
from mcp_server.cli.embedder.configuration import change_file
from mcp_server.cli.embedder.endpoint_choice import endpoint_values, file_for
from mcp_server.cli.embedder.estimate import sample_of, texts_below
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked, add_actions, nonempty
from mcp_server.cli.terminal.output import print_json

NOT_DONE = 1
MEASURED = 30
"""Passages that are reranked to measure the model: as many as in a search."""
QUESTION = "how is this set up, and what happens when it fails?"
OFF = "off"
AT_ENDPOINT = ("reranker_url", "reranker_key", "reranker_key_file")
"""Settings that only an endpoint needs."""

Action = Callable[[argparse.Namespace, Settings], Awaitable[int]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = add_actions(parser, ACTIONS, default="show")
    using = actions["use"]
    using.add_argument(
        "name",
        metavar="NAME",
        type=nonempty,
        help="off, the folder or .onnx file of a cross-encoder, fastembed:MODEL, or endpoint:MODEL",
    )
    using.add_argument(
        "--url", metavar="URL", type=nonempty, help="the endpoint's address, such as http://localhost:8080"
    )
    using.add_argument("--key-file", metavar="FILE", type=nonempty, help="the file that holds the endpoint's key")
    using.add_argument("--yes", action="store_true", help="don't ask")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; exit code 1 if nothing was changed."""
    _, action = ACTIONS[args.action]
    return anyio.run(action, args, settings)


async def _show(_args: argparse.Namespace, settings: Settings) -> int:
    if settings.json:
        print_json({"reranker": settings.reranker or OFF, "limit_ms": settings.reranker_ms})
        return 0
    print(f"in use: {visible(settings.reranker or OFF)}")
    if settings.reranker:
        print(f"a search waits at most {settings.reranker_ms} ms for it (reranker_ms in forge.toml)")
    return 0


async def _use(args: argparse.Namespace, settings: Settings) -> int:
    file, values, new = await anyio.to_thread.run_sync(_chosen, args, settings)
    measured_ms = None
    if new.reranker is not None:
        if not settings.json:
            print(visible(new.reranker))
            if new.reranker.startswith("endpoint:"):
                print(
                    f"  sends      every question and {MEASURED} passages to {visible(shown_address(new.reranker_url or ''))}"
                )
        measured_ms = await _measured_ms(new)
        if not settings.json:
            print(f"  takes      {measured_ms} ms for {MEASURED} passages, as measured here, for every search")
            if measured_ms > new.reranker_ms:
                print(f"  too slow: a search waits only {new.reranker_ms} ms for it; set reranker_ms higher in {file}")
        if not await keyboard.agrees("Use it?", yes=args.yes):
            return NOT_DONE
    await anyio.to_thread.run_sync(change_file, file, values)
    if settings.json:
        print_json({"reranker": new.reranker or OFF, "file": str(file), "measured_ms": measured_ms})
        return 0
    print(f"{visible(new.reranker or OFF)} is set in {file}")
    if settings.reranker_url and values.get("reranker_url", "") is None:
        print("the address of the endpoint, and its key if there was one, are no longer in that file")
    if new.reranker:
        print("to measure its effect: knowledge-forge eval, with it and without")
        print("to search without one again: knowledge-forge reranker use off")
    return 0


def _chosen(args: argparse.Namespace, settings: Settings) -> tuple[Path, Mapping[str, str | int | None], Settings]:
    """Return the configuration file, the values to write to it, and the settings with those values.

    Raises: WronglyAsked: no reranker has that name, or the environment overrides the file.
    """
    name: str = args.name
    chosen = _setting_of(name)
    at_endpoint = chosen is not None and chosen.startswith("endpoint:")
    if (args.url or args.key_file) and not at_endpoint:
        raise WronglyAsked("--url and --key-file are for endpoint:MODEL only")
    values = _values(args, settings, chosen, at_endpoint=at_endpoint)
    file = file_for(values, settings)
    fields: dict[str, object] = {}
    for key, value in values.items():
        try:
            fields[key] = None if value is None else BY_FIELD[key].read(str(value))
        except ValueError as error:
            raise WronglyAsked(f"{key} cannot be used: {error}") from error
    if args.key_file:
        fields["reranker_key"] = key_in(fields["reranker_key_file"], "--key-file")
    # While the new reranker is tried, the file still names the old one, which must not come back in between.
    new = replace(settings, **fields, file_place=None)  # type: ignore[arg-type]  # every value was made by its variable's reader
    if at_endpoint and not new.reranker_url:
        raise WronglyAsked(f"{name} needs the address of the endpoint: --url URL")
    return file, values, new


def _values(
    args: argparse.Namespace, settings: Settings, chosen: str | None, *, at_endpoint: bool
) -> dict[str, str | int | None]:
    """Return the values to write to the configuration file, None for those to remove."""
    values: dict[str, str | int | None] = {"reranker": chosen}
    if not at_endpoint:
        # Otherwise the file would still name the endpoint, and its key would be sent to the next one.
        values |= {key: None for key in AT_ENDPOINT if f"FORGE_{key.upper()}" not in settings.in_environment}
    return values | endpoint_values("reranker", args, settings)


def _setting_of(name: str) -> str | None:
    """Return the setting for what a person named, None for `off`.

    Raises:
        WronglyAsked: nothing has that name.
    """
    if name == OFF:
        return None
    kind, _, model = name.partition(":")
    if kind in ("fastembed", "endpoint") and model:
        return name
    path = Path(model if kind == "onnx" and model else name).expanduser()
    if not path.exists():
        raise WronglyAsked(
            f"no reranker is called {name!r}: give the folder or .onnx file of one, fastembed:MODEL, endpoint:MODEL, or off"
        )
    return f"onnx:{path.absolute()}"


async def _measured_ms(settings: Settings) -> int:
    """Return how many milliseconds the model takes for as many passages as a search gives it.

    Raises:
        WronglyAsked: it cannot be used.
    """
    texts: list[str] = []
    if not (settings.reranker or "").startswith("endpoint:"):
        async with open_base(replace(settings, reranker=None)) as base:
            texts = list((await sample_of(base.index))[1])
    # None of the person's texts are sent before they agree.
    texts = texts or list(await anyio.to_thread.run_sync(texts_below, handbook()))
    choice = ChosenReranker(settings, models_folder(settings))
    try:
        reranker = choice.load()
        await reranker.scores(QUESTION, texts[:1])  # loads it
        began = time.perf_counter()
        await reranker.scores(QUESTION, (texts * MEASURED)[:MEASURED])
        return round((time.perf_counter() - began) * 1_000)
    except RerankerUnavailable as error:
        raise WronglyAsked(str(error)) from error
    finally:
        await choice.close()


ACTIONS: Mapping[str, tuple[str, Action]] = {
    "show": ("show the reranker in use", _show),
    "use": ("change to another reranker; `off` searches without one", _use),
}
