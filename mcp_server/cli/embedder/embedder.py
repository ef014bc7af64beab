"""`embedder list|use NAME`: list the models that can turn text into vectors, and change to one after its cost is shown."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from knowledge.errors import size_in_words
from knowledge.extras import install_command
from knowledge.index.embed.identity import NO_PREFIXES, Prefixes
from knowledge.index.indexing_service import TTL_S
from knowledge.state.ports import Progress
from knowledge.wire.addresses import shown_address
from mcp_server.app.freshness.embedder_state import AFTERWARDS, embedder_problem, used_meanwhile
from mcp_server.app.freshness.index_update import OnProgress, bring_up_to_date, held_lease, other_process
from mcp_server.app.knowledge_base import KnowledgeBase, models_folder, open_base
from mcp_server.app.settings.loader import key_in
from mcp_server.app.settings.settings import BY_FIELD, Settings, handbook
from mcp_server.cli.embedder.configuration import change_file
from mcp_server.cli.embedder.endpoint_choice import endpoint_values, file_for
from mcp_server.cli.embedder.estimate import EmbeddingEstimate, estimate, sample_of, texts_below
from mcp_server.cli.embedder.offers import (
    STATIC,
    EmbedderOffer,
    endpoint_offer,
    fastembed_offers,
    local_offer,
    named,
    offers_in,
)
from mcp_server.cli.search.index_update import indexing_bars
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked, add_actions, integer, nonempty
from mcp_server.cli.terminal.output import print_json, say

NOT_DONE = 1
NOTICED_S = 15.0
"""How long a running server may take to notice: it checks the file every second, unless it is in the middle of a step."""
LOOK_S = 0.2

Action = Callable[[argparse.Namespace, Settings], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """An embedder that a person chose, the settings with it, and what has to be written to the configuration file."""

    offer: EmbedderOffer
    settings: Settings
    file: Path
    values: Mapping[str, str | int | None]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = add_actions(parser, ACTIONS, default="list")
    using = actions["use"]
    using.add_argument(
        "name",
        metavar="NAME",
        type=nonempty,
        help="static, the folder or .onnx file of a model, a model of the list, or endpoint:MODEL",
    )
    using.add_argument(
        "--url", metavar="URL", type=nonempty, help="the endpoint's address, such as http://localhost:11434/v1"
    )
    using.add_argument("--key-file", metavar="FILE", type=nonempty, help="the file that holds the endpoint's key")
    using.add_argument(
        "--dimensions", metavar="N", type=integer(8, 8192), help="ask the endpoint for vectors of this length"
    )
    using.add_argument("--question-prefix", metavar="TEXT", help="the text that the model expects before a question")
    using.add_argument("--passage-prefix", metavar="TEXT", help="the text that the model expects before a passage")
    using.add_argument(
        "--multilingual",
        choices=("yes", "no"),
        help="whether the model matches a question with texts in other languages, if its files and name don't say",
    )
    using.add_argument("--later", action="store_true", help="leave the passages to a running server or to `index`")
    using.add_argument("--yes", action="store_true", help="don't ask")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; exit code 1 if nothing was changed, or if some passages still have no vectors."""
    _, action = ACTIONS[args.action]
    return anyio.run(action, args, settings)


# --- list -------------------------------------------------------------------------------------------------------------


async def _list(_args: argparse.Namespace, settings: Settings) -> int:
    async with open_base(settings) as base:
        space, renewal = await base.index.space(), await base.index.renewal()
        wanted = base.embedding.wanted
        is_behind = renewal is not None or not space.identity.same_vectors(wanted)
        problem = await embedder_problem(base, wanted) if is_behind else None
        meanwhile = await used_meanwhile(base) if problem else ""
    offers = [STATIC, *await anyio.to_thread.run_sync(_known, settings)]
    if settings.json:
        progress = None if renewal is None else asdict(renewal)
        fields = {"in_use": space.identity.embedder, "wanted": wanted.embedder, "renewal": progress}
        print_json({**fields, "problem": str(problem or ""), "embedders": [asdict(offer) for offer in offers]})
        return 0
    print(f"in use: {visible(space.identity.embedder or 'nothing yet')}")
    if is_behind:
        done = f", {renewal.done} of {renewal.total} passages have their vectors" if renewal else ""
        print(f"wanted: {visible(wanted.embedder)}{done}")
    if problem:
        print(f"{visible(str(problem))}; {visible(meanwhile)} until that is fixed; {AFTERWARDS}")
    print()
    print(f"{'name':<54} {'size':>9} {'':<8} {'dimensions':>10} {'tokens':>6}  {'licence':<12} languages")
    for offer in offers:
        print(_line(offer).rstrip())
    print()
    if importlib.util.find_spec("fastembed") is None:
        say(f"more models, fetched for you: {install_command('fastembed')}")
    say(
        f"models of your own: any folder with an .onnx file and tokenizer.json; those in {models_folder(settings)} are listed"
    )
    say("a model server or a service: knowledge-forge embedder use endpoint:MODEL --url URL")
    return 0


def _line(offer: EmbedderOffer) -> str:
    size = size_in_words(offer.size_bytes) if offer.size_bytes else ""
    fetch = "download" if offer.to_download else ""
    columns = f"{size:>9} {fetch:<8} {offer.dimensions or '':>10} {offer.max_tokens or '':>6}"
    return f"{visible(offer.name):<54} {columns}  {visible(offer.licence):<12} {visible(offer.languages)}"


def _known(settings: Settings) -> list[EmbedderOffer]:
    models = models_folder(settings)
    return [*offers_in(models), *fastembed_offers(models)]


# --- use --------------------------------------------------------------------------------------------------------------


async def _use(args: argparse.Namespace, settings: Settings) -> int:
    choice = await anyio.to_thread.run_sync(_chosen, args, settings)
    bars = _Bars()
    # Opened once: the model that was measured is the one that embeds all passages.
    async with open_base(choice.settings, on_progress=bars.on_progress, on_renewal=bars.on_renewal) as base:
        measured = None
        if choice.offer is not STATIC:
            measured = await _priced(args, choice, base)
            if measured is None:
                return NOT_DONE
        await anyio.to_thread.run_sync(change_file, choice.file, choice.values)
        with indexing_bars(shown=not settings.json) as bars.drawn:
            try:
                waiting = await _filled(base, later=args.later)
            except anyio.get_cancelled_exc_class():
                say(
                    "stopped; the choice and the vectors made so far are kept, and a server or knowledge-forge index continues"
                )
                raise
    if settings.json:
        estimated = None if measured is None else asdict(measured)
        print_json(
            {"embedder": choice.offer.setting, "file": str(choice.file), "estimate": estimated, "waiting": waiting}
        )
    else:
        print(f"{visible(choice.offer.setting)} is set in {choice.file}")
        print(waiting or "all passages have their vectors, and searches use them now")
        if (before := settings.embedder) != choice.offer.setting:
            moved = before.startswith("endpoint:") and choice.settings.embedder_url != settings.embedder_url
            words = [before, *(["--url", shown_address(settings.embedder_url or "")] if moved else [])]
            print(f"to go back: {visible(shlex.join(['knowledge-forge', 'embedder', 'use', *words]))}")
    return 0 if not waiting or args.later else NOT_DONE


async def _priced(args: argparse.Namespace, choice: EmbedderChoice, base: KnowledgeBase) -> EmbeddingEstimate | None:
    """Show the embedder and its cost, and return the cost; None if the person does not agree."""
    offer = choice.offer
    if not choice.settings.json:
        _print_offer(offer)
    if offer.to_download and not await keyboard.agrees("Download it now, to measure what it takes here?", yes=args.yes):
        return None
    passages, texts = await sample_of(base.index)
    if offer.sends_to or not texts:
        # None of the person's texts are sent before they agree.
        texts = await anyio.to_thread.run_sync(texts_below, handbook())
    measured = await estimate(await base.embedding.passages(base.embedding.wanted), texts, passages)
    if not choice.settings.json:
        _print_estimate(measured)
    sending = f" Every passage and every question will be sent to {visible(offer.sends_to)}." if offer.sends_to else ""
    return measured if await keyboard.agrees(f"Use it?{sending}", yes=args.yes) else None


@dataclass
class _Bars:
    """Progress bars that appear only after the person has answered."""

    drawn: tuple[OnProgress, OnProgress] = (lambda _: None, lambda _: None)

    def on_progress(self, progress: Progress) -> None:
        self.drawn[0](progress)

    def on_renewal(self, progress: Progress) -> None:
        self.drawn[1](progress)


def _chosen(args: argparse.Namespace, settings: Settings) -> EmbedderChoice:
    """Return the embedder that the person named.

    Raises:
        WronglyAsked: no embedder has that name, or the environment overrides the configuration file.
    """
    offer = _offer(args, settings)
    if args.multilingual:
        offer = replace(offer, multilingual=args.multilingual == "yes")
    given = Prefixes(args.question_prefix or "", args.passage_prefix or "")
    prefixes = given if (args.question_prefix, args.passage_prefix) != (None, None) else offer.prefixes
    values: dict[str, str | int | None] = {
        "embedder": offer.setting,
        "embedder_dimensions": args.dimensions if offer.sends_to else None,
        # Prefixes of another model would spoil every vector, so they are removed if this model has none.
        "embedder_question_prefix": prefixes.question or None,
        "embedder_passage_prefix": prefixes.passage or None,
        # Settings for another model do not apply to this one.
        "embedder_multilingual": args.multilingual == "yes" if args.multilingual else None,
    }
    values |= endpoint_values("embedder", args, settings)
    file = file_for(values, settings)
    fields = {key: _read(key, value) for key, value in values.items()}
    if args.key_file:
        fields["embedder_key"] = key_in(fields["embedder_key_file"], "--key-file")
    new = replace(settings, **fields)  # type: ignore[arg-type]  # every value was made by its variable's reader
    # While the new embedder is tried, the file still names the old one, which must not come back in between.
    return EmbedderChoice(offer, replace(new, file_place=None), file, values)


def _read(key: str, value: str | int | None) -> object:
    """Return the value as the setting `key` reads it from the file; the setting's default for None."""
    if value is None:
        return getattr(Settings(kb=Path()), key)
    try:
        return BY_FIELD[key].read(str(value))
    except ValueError as error:
        raise WronglyAsked(f"{key.removeprefix('embedder_') or key} cannot be used: {error}") from error


def _offer(args: argparse.Namespace, settings: Settings) -> EmbedderOffer:
    name: str = args.name
    kind, _, model = name.partition(":")
    if kind == "endpoint":
        if not model:
            raise WronglyAsked(f"{name} needs the name of a model, such as endpoint:nomic-embed-text")
        url = args.url or settings.embedder_url
        if not url:
            raise WronglyAsked(f"{name} needs the address of the endpoint: --url URL")
        return endpoint_offer(model, str(_read("embedder_url", url)))
    for option, value in (("--url", args.url), ("--key-file", args.key_file), ("--dimensions", args.dimensions)):
        if value is not None:
            raise WronglyAsked(f"{option} is for endpoint:MODEL only")
    if name == STATIC.name:
        return STATIC
    path = Path(model if kind == "onnx" and model else name).expanduser()
    if kind == "onnx" or path.is_absolute() or name.startswith(".") or path.suffix == ".onnx" or path.is_dir():
        return local_offer(path.absolute())
    known = _known(settings)
    found = named(name, known) or next((o for o in known if Path(o.name).name == name), None)
    if found is None:
        hint = "" if importlib.util.find_spec("fastembed") else f"; more with: {install_command('fastembed')}"
        raise WronglyAsked(f"no embedder is called {name!r}: knowledge-forge embedder list shows them{hint}")
    return found


_ACROSS = {
    True: "finds pages by questions in other languages",
    False: "finds pages by questions in their own language only",
    None: "nothing says whether it works across languages; if it does, use --multilingual yes",
}


def _print_offer(offer: EmbedderOffer) -> None:
    print(visible(offer.name))
    size = size_in_words(offer.size_bytes) if offer.size_bytes else ""
    shape = [
        f"{offer.dimensions} dimensions" if offer.dimensions else "",
        f"texts up to {offer.max_tokens} tokens" if offer.max_tokens else "",
    ]
    prefixes = offer.prefixes
    rows = [
        ("size", f"{size}{', to download' if offer.to_download else ''}"),
        ("licence", offer.licence or ("" if offer.sends_to else "not in its files")),
        ("languages", offer.languages or ("" if offer.sends_to else "not in its files")),
        ("vectors", "; ".join(part for part in shape if part)),
        (
            "prefixes",
            f"{prefixes.question!r} before a question, {prefixes.passage!r} before a passage"
            if prefixes != NO_PREFIXES
            else "",
        ),
        ("across", _ACROSS[offer.multilingual]),
        *(("", note) for note in offer.notes),
        ("sends", f"every passage and every question to {offer.sends_to}" if offer.sends_to else ""),
    ]
    for label, text in rows:
        if text:
            print(f"  {label:<10} {visible(text)}")


def _print_estimate(found: EmbeddingEstimate) -> None:
    speed = f"{found.passages_per_s:g} a second as measured here"
    takes = f"{_duration(found.seconds)} for {found.passages:,} passages, at {speed}"
    if not found.passages:
        takes = f"the knowledge base is not indexed yet, so the time is not known; {speed}"
    memory = f"; {size_in_words(found.memory_bytes)} of memory" if found.memory_bytes > 0 else ""
    print(f"  {'takes':<10} {takes}{memory}")
    if found.passages:
        print(
            f"  {'disk':<10} {size_in_words(found.disk_bytes)} for the vectors, beside the old ones until all are made"
        )
    print(f"  {'meanwhile':<10} searches use the earlier vectors; if you stop this, the vectors made so far are kept")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {minutes / 60:.1f} hours"


async def _filled(base: KnowledgeBase, *, later: bool) -> str:
    """Make the vectors of all passages, here or in a running server. Return why some vectors are still missing, "" if none is."""
    # Long enough for the lease of a process that was killed to expire.
    async with held_lease(base, wait_s=TTL_S + 1.0) as lease:
        if lease is None:
            return await _noticed(base)
        if later:
            return "passages get their vectors from the next server, or now with: knowledge-forge index"
        done = await bring_up_to_date(base, lease, vectors=True)
        return done.waiting


async def _noticed(base: KnowledgeBase) -> str:
    """Return what the running server that keeps the index does about the new embedder; "" if it has made all vectors."""
    server = await other_process(base) or "another process"
    with anyio.move_on_after(NOTICED_S):
        while not (await base.index.space()).wanted.same_vectors(base.embedding.wanted):  # noqa: ASYNC110  the database tells nobody
            await anyio.sleep(LOOK_S)
        if await base.index.renewal() is None:
            return ""
        return f"{server} makes the vectors in the background; knowledge-forge doctor shows how far it is"
    return (
        f"{server} keeps this index and has not taken the new embedder yet. It may be busy with many changed pages; if "
        "knowledge-forge doctor still says so in a minute, restart it: its environment may set FORGE_EMBEDDER, which wins "
        "over the file"
    )


ACTIONS: Mapping[str, tuple[str, Action]] = {
    "list": ("list the embedders that can be used, with size, licence and languages", _list),
    "use": ("change to another embedder; `static` returns to the default", _use),
}
