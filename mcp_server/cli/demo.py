"""`demo`: a real client talks to a real server over a copy of the knowledge base, and you see what happened."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from mcp_server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp import Client
    from rich.console import Console

QUESTION = "why is the search index only a cache?"
NEW_PAGE = "field-notes.md"
NEW_TEXT = "# Field notes\n\nThe zebrafish experiment starts on Thursday; Noor brings the camera.\n"
NEW_QUESTION = "who brings the camera to the zebrafish experiment?"
FOLDER_LIMIT = 2000
PATIENCE_S = 60


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this verb takes."""
    parser.add_argument("question", nargs="?", help=f"what to ask (default: {QUESTION})")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Show the circles on a throw-away copy, so that the live change at the end touches nothing of yours."""
    from rich.console import Console

    console = Console()
    with tempfile.TemporaryDirectory(prefix="knowledge-forge-demo-") as scratch:
        copy = Path(scratch) / (settings.kb.name or "kb")
        _copy(settings.kb, copy)
        anyio.run(_show, console, copy, Path(scratch) / "state", args.question or QUESTION)
    return 0


def _copy(source: Path, target: Path) -> None:
    """Copy the Markdown of `source`, at most `FOLDER_LIMIT` pages of it."""
    from knowledge.vault import Vault

    vault = Vault.open(source)
    target.mkdir(parents=True)
    for number, found in enumerate(vault.scan()):
        if number >= FOLDER_LIMIT:
            break
        file = target / found.path
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / found.path, file)


async def _show(console: Console, kb: Path, state: Path, question: str) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from rich.rule import Rule

    command = ["-m", "mcp_server", "serve", "--kb", str(kb), "--state-dir", str(state)]
    process = StdioServerParameters(command=sys.executable, args=command, cwd=Path(__file__).parents[2])
    console.print(Rule("[bold]Knowledge Forge[/]: a server process, an MCP client, one knowledge base"))
    with (state.parent / "server.log").open("w", encoding="utf-8") as log, _timed() as started:
        async with Client(stdio_client(process, errlog=log)) as client:
            tools = (await client.list_tools()).tools
            console.print(
                f"\n[dim]process started, connected and listed {len(tools)} tools in {started():.0f} ms, protocol "
                f"{client.protocol_version}[/]\n"
            )
            await _until_indexed(console, client)
            await _map(console, client)
            best = await _search(console, client, question)
            if best:
                await _read(console, client, best)
            await _live(console, client, kb)
            await _trust(console, client)
    console.print(Rule())
    console.print(
        "Connect your host: [bold]knowledge-forge install claude-desktop[/] (or claude-code, cursor, vscode) "
        "[bold]--kb YOUR-NOTES[/]\nAsk from here:     [bold]knowledge-forge search --kb YOUR-NOTES 'your question'[/]"
    )


async def _until_indexed(console: Console, client: Client) -> None:
    with console.status("indexing"), anyio.fail_after(PATIENCE_S):
        while True:
            done = (await _call(client, "kb_search", query="anything", limit=1))["indexed"]
            if done["done"] >= done["total"] > 0:
                break
            await anyio.sleep(0.05)
    console.print(f"[dim]{done['done']} pages indexed in the background while the server already answered[/]\n")


async def _map(console: Console, client: Client) -> None:
    from rich.markup import escape
    from rich.tree import Tree

    with _timed() as spent:
        view = await _call(client, "kb_map", path="", depth=2)
        took = spent()
    _step(console, "Circle 1: the map", "kb_map('', depth=2)", took)
    tree = Tree(f"[bold]{escape(view['title'])}[/]  [dim]{escape(view['summary'])}[/]")
    branches = {"": tree}
    for entry in view["children"]:
        branch = branches.get(entry["path"].rpartition("/")[0], tree)
        if entry["kind"] == "directory":
            label = (
                f"[bold blue]{escape(entry['name'])}/[/]  [dim]{entry['count']} pages. {escape(entry['summary'])}[/]"
            )
            branches[entry["path"]] = branch.add(label)
        elif branch is tree or len(branch.children) < 3:
            branch.add(f"{escape(entry['name'])}  [dim]{escape(entry['summary'][:90])}[/]")
    console.print(tree)
    console.print()


async def _search(console: Console, client: Client, question: str) -> dict[str, Any] | None:
    from rich.markup import escape
    from rich.padding import Padding

    await _call(client, "kb_search", query="warm up", limit=1)
    with _timed() as spent:
        answer = await _call(client, "kb_search", query=question, limit=3)
        took = spent()
    _step(console, "Circle 3: the deep dive", f"kb_search({question!r})", took)
    for number, hit in enumerate(answer["hits"], 1):
        console.print(
            f" {number}. [bold]{escape(hit['path'])}[/] [dim]> {escape(hit['section'])}  {hit['score']:.2f}[/]"
        )
        console.print(Padding(escape(hit["snippet"]), (0, 0, 0, 4)), style="italic")
    scent, route = answer["scent"], answer["route"]
    console.print(
        f" [green]scent: {scent['level']}[/] [dim]({escape(scent['reason'])}; route {route['mode']}). "
        f"Next: {escape(scent['next'])}[/]\n"
    )
    return answer["hits"][0] if answer["hits"] else None


async def _read(console: Console, client: Client, hit: dict[str, Any]) -> None:
    from rich.markdown import Markdown
    from rich.panel import Panel

    asked = {"path": hit["path"], **({"section": hit["section"]} if hit["section"] else {})}
    with _timed() as spent:
        page = await _call(client, "kb_read", **asked)
        took = spent()
    shown = ", ".join(f"{key}={value!r}" for key, value in asked.items())
    _step(console, "Circle 2: the territory", f"kb_read({shown})", took)
    console.print(
        Panel(Markdown(page["text"][:1200]), title=f"{page['path']} @ {page['revision']}", border_style="dim")
    )
    console.print()


async def _live(console: Console, client: Client, kb: Path) -> None:
    _step(console, "Live", f"an editor saves {NEW_PAGE}; nobody tells the server", None)
    (kb / NEW_PAGE).write_text(NEW_TEXT, encoding="utf-8")
    with _timed() as spent, anyio.fail_after(PATIENCE_S):
        while True:
            answer = await _call(client, "kb_search", query=NEW_QUESTION, limit=1)
            if answer["hits"] and answer["hits"][0]["path"] == NEW_PAGE:
                break
            await anyio.sleep(0.01)
        console.print(f" found {spent():.0f} ms after the save: [italic]{answer['hits'][0]['snippet']}[/]\n")


async def _trust(console: Console, client: Client) -> None:
    status = await _call(client, "trust_status")
    _step(console, "Trust", "trust_status()", None)
    console.print(
        f" {status['principal']} holds level [bold]{status['level']}[/] of 5, at most {status['cap']}: it may read, and later "
        "propose. Only you can raise it: [bold]knowledge-forge enroll[/], [bold]trust grant[/].\n"
    )


async def _call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    content: dict[str, Any] | None = result.structured_content
    if result.is_error or content is None:
        raise RuntimeError(f"{tool} failed: {result.content}")
    return content


def _step(console: Console, title: str, call: str, took_ms: float | None) -> None:
    from rich.markup import escape

    timing = f"  [dim]{took_ms:.1f} ms[/]" if took_ms is not None else ""
    console.print(f"[bold cyan]{title}[/]  [dim]{escape(call)}[/]{timing}")


@contextmanager
def _timed() -> Iterator[Any]:
    """Yield a function that returns the milliseconds since the block began."""
    started = time.perf_counter()
    yield lambda: (time.perf_counter() - started) * 1000
