"""`demo`: watch a real client talk to a real server with a copy of the knowledge base."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text
from rich.tree import Tree

from agents.engine.work.markdown import counted
from knowledge.errors import KnowledgeError
from knowledge.pages.vault import Vault
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.demo.journey import journey
from mcp_server.cli.demo.merge import merge
from mcp_server.cli.demo.steps import NEW_PAGE, DemoFailed, call, connected, step, timed, timed_call
from mcp_server.cli.demo.trust import trust
from mcp_server.cli.terminal.console import stdout_console, tidy
from mcp_server.cli.terminal.options import nonempty
from mcp_server.cli.terminal.output import print_json
from mcp_server.hosts.catalogue import HOSTS

if TYPE_CHECKING:
    from mcp import Client

QUESTION = "why is the search index only a cache?"
NEW_TEXT = "# Field notes\n\nThe zebrafish experiment starts on Thursday; Noor brings the camera.\n"
NEW_QUESTION = "who brings the camera to the zebrafish experiment?"
FOLDER_LIMIT = 500
PATIENCE_S = 60
SHOWN_PER_FOLDER = 3
SNIPPET_CHARACTERS = 150
PAGE_CHARACTERS = 700


@dataclass(slots=True)
class DemoFacts:
    """The demo's results for `--json`: answers as the server gave them, times in milliseconds."""

    started_ms: float = 0.0
    protocol: str = ""
    tools: list[str] = field(default_factory=list)
    indexed: dict[str, Any] = field(default_factory=dict)
    map: dict[str, Any] = field(default_factory=dict)
    search: dict[str, Any] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)
    live: dict[str, Any] = field(default_factory=dict)
    merge: dict[str, Any] = field(default_factory=dict)
    journey: dict[str, Any] = field(default_factory=dict)
    trust: dict[str, Any] = field(default_factory=dict)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "question", nargs="?", type=nonempty, metavar="QUESTION", help=f"what to ask (default: {QUESTION})"
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the demo on a temporary copy, so that its changes leave your pages alone."""
    console = stdout_console()
    console.quiet = settings.json
    with tempfile.TemporaryDirectory(prefix="knowledge-forge-demo-") as scratch:
        copy = Path(scratch) / (settings.kb.name or "kb")
        if not _copy(settings.kb, copy):
            raise DemoFailed(f"{settings.kb} holds no Markdown to show; name another folder with --kb")
        facts = anyio.run(_show, console, copy, Path(scratch) / "state", args.question or QUESTION)
    if settings.json:
        print_json(asdict(facts))
    return 0


def _copy(source: Path, target: Path) -> int:
    """Copy up to `FOLDER_LIMIT` readable pages of `source`, and return how many were copied."""
    vault = Vault.open(source)
    target.mkdir(parents=True)
    copied = 0
    for found in vault.scan():
        if copied >= FOLDER_LIMIT:
            break
        with suppress(KnowledgeError):  # a page that cannot be read is left out
            raw = vault.read(found.path).raw
            file = target / found.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(raw)
            copied += 1
    return copied


async def _show(console: Console, kb: Path, state: Path, question: str) -> DemoFacts:
    facts = DemoFacts()
    console.print(Rule("[bold]Knowledge Forge[/]: a server process, an MCP client, one knowledge base"))
    with timed() as started:
        async with connected(kb, state, "server") as client:
            facts.tools = [tool.name for tool in (await client.list_tools()).tools]
            facts.started_ms, facts.protocol = started(), client.protocol_version
            console.print(
                f"\n[dim]process started, connected, and {len(facts.tools)} tools listed in {facts.started_ms:.0f} ms "
                f"(protocol {facts.protocol})[/]"
            )
            facts.indexed = await _until_indexed(console, client)
            facts.map = await _map(console, client)
            facts.search = await _search(console, client, question)
            if facts.search["hits"]:
                facts.read = await _read(console, client, facts.search["hits"][0])
            facts.live = await _live(console, client, kb)
            facts.merge = await merge(console, kb, state)
            facts.journey = await journey(console, client, kb, state)
            facts.trust = await trust(console, client, kb, state)
    console.print(Rule(style="dim"))
    first, *others = (host.id for host in HOSTS)
    console.print(f"Connect a host  [bold]knowledge-forge install {first} --kb YOUR-NOTES[/]")
    console.print(f"                [dim](or {', '.join(others)})[/]")
    console.print("Ask from here   [bold]knowledge-forge search --kb YOUR-NOTES 'your question'[/]")
    return facts


async def _until_indexed(console: Console, client: Client) -> dict[str, Any]:
    with console.status("indexing"), timed() as spent, _patiently("did not index the pages"):
        while True:
            done = (await call(client, "kb_search", query="anything", limit=1))["indexed"]
            if done["done"] >= done["total"] > 0:
                break
            await anyio.sleep(0.05)
        took = spent()
    console.print(f"[dim]{done['done']} pages indexed {took:.0f} ms later; the server answered from the start[/]")
    return {**done, "ms": took}


async def _map(console: Console, client: Client) -> dict[str, Any]:
    view, took = await timed_call(client, "kb_map", path="", depth=2)
    step(console, "Circle 1: the map", "what is here, at a glance", "kb_map('', depth=2)", took)
    tree = Tree(f"[bold]{escape(view['title'])}[/]", guide_style="dim")
    branches: dict[str, Tree] = {}
    left_out: dict[str, int] = {}
    for entry in view["children"]:
        directory = entry["path"].rpartition("/")[0]
        branch = branches.get(directory, tree)
        folder = entry["kind"] == "directory"
        if not folder and len(branch.children) >= SHOWN_PER_FOLDER:
            left_out[directory] = left_out.get(directory, 0) + 1
            continue
        # One line per entry, whatever the width, so that the map can be read at a glance.
        label = Text(no_wrap=True, overflow="ellipsis")
        label.append(f"{entry['name']}/" if folder else entry["name"], "bold blue" if folder else "")
        label.append(f"  {counted(entry['count'], 'page')}" if folder else "", "cyan")
        label.append(f"  {tidy(entry['summary'], 120)}", "dim")
        added = branch.add(label)
        if folder:
            branches[entry["path"]] = added
    for directory, count in left_out.items():
        branches.get(directory, tree).add(f"[dim]and {count} more[/]")
    console.print(tree)
    return {**view, "ms": took}


async def _search(console: Console, client: Client, question: str) -> dict[str, Any]:
    # The first search loads the engines, and the demo is to show how long a search takes.
    await call(client, "kb_search", query="warm up", limit=1)
    answer, took = await timed_call(client, "kb_search", query=question, limit=3)
    shown = f"kb_search({question!r}, limit=3)"
    step(console, "Circle 3: the deep dive", "by words and by meaning, with a verdict", shown, took)
    for number, hit in enumerate(answer["hits"], 1):
        section = hit["section"].rpartition(" > ")[2]
        under = f" [dim]>[/] {escape(section)}" if section else ""
        console.print(f" {number}. [bold]{escape(hit['path'])}[/]{under}  [dim]{hit['score']:.2f}[/]")
        console.print(Padding(escape(tidy(hit["snippet"], SNIPPET_CHARACTERS)), (0, 0, 0, 4)), style="italic")
    scent = answer["scent"]
    console.print(f" [green]scent: {scent['level']}[/]  [dim]{escape(scent['reason'])}[/]")
    console.print(f" [dim]next:  {escape(scent['next'])}[/]")
    return {**answer, "ms": took}


async def _read(console: Console, client: Client, hit: dict[str, Any]) -> dict[str, Any]:
    place = {"path": hit["path"], **({"section": hit["section"]} if hit["section"] else {})}
    page, took = await timed_call(client, "kb_read", **place)
    shown = ", ".join(f"{key}={value!r}" for key, value in place.items())
    step(console, "Circle 2: the territory", "the page as it is on disk", f"kb_read({shown})", took)
    beginning = Markdown(_beginning(page["text"]))
    console.print(Panel(beginning, title=f"{page['path']} @ {page['revision']}", border_style="dim"))
    return {**page, "ms": took}


def _beginning(text: str) -> str:
    """Return about `PAGE_CHARACTERS` of Markdown in whole blocks, and an ellipsis if the page continues."""
    shown = ""
    for block in text.strip().split("\n\n"):
        # An open fence is completed first: cut there, everything after it would be shown as code.
        if shown and len(shown) + len(block) > PAGE_CHARACTERS and shown.count("```") % 2 == 0:
            return f"{shown}\n\n..."
        shown = f"{shown}\n\n{block}"
        if len(shown) > 4 * PAGE_CHARACTERS:
            return f"{shown[: 4 * PAGE_CHARACTERS]}..."
    return shown


async def _live(console: Console, client: Client, kb: Path) -> dict[str, Any]:
    step(
        console, "Live", f"an editor saves {NEW_PAGE} without telling the server", f"kb_search({NEW_QUESTION!r})", None
    )
    (kb / NEW_PAGE).write_text(NEW_TEXT, encoding="utf-8")
    with timed() as spent, _patiently("did not find the new page"):
        while True:
            answer = await call(client, "kb_search", query=NEW_QUESTION, limit=1)
            if answer["hits"] and answer["hits"][0]["path"] == NEW_PAGE:
                break
            # Asked often, because the time until the page is found is shown.
            await anyio.sleep(0.01)
        took = spent()
    found = tidy(answer["hits"][0]["snippet"], SNIPPET_CHARACTERS)
    console.print(f" found [green]{took:.0f} ms[/] after the save:")
    console.print(f"    [italic]{found}[/]")
    return {"page": NEW_PAGE, "question": NEW_QUESTION, "found": found, "ms": took}


@contextmanager
def _patiently(failure: str) -> Iterator[None]:
    try:
        with anyio.fail_after(PATIENCE_S):
            yield
    except TimeoutError as error:
        raise DemoFailed(f"the server {failure} in {PATIENCE_S} s; is this machine very busy?") from error
