"""How other servers for Plane and Zulip behave under the same faults.

    python -m tests.benchmarks.connector_peers --plane PYTHON --zulip PYTHON [--write-doc]

PYTHON are interpreters in whose environments `plane-mcp-server` and `zulipchat-mcp` are installed. Every server is
called over stdio by the same client and works on a double of its own, with the same faults. A host that gets an error
calls again; so does this program. The counts are of what exists in Plane and Zulip afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import TextContent

from tests.benchmarks.connectors import BOT, CHANNEL, TASKS, Team, team
from tests.benchmarks.handbook import write_section
from tests.benchmarks.processes import ROOT
from tests.doubles.plane import ADA, GUS, WORKSPACE, Plane
from tests.doubles.serving import after, for_requests, no_fault

PEER_OF_PLANE, PEER_OF_ZULIP = "plane-mcp-server", "zulipchat-mcp"
OURS = "Knowledge Forge"
PAGE, MOST_PAGES = 100, 50
LONG = 13_000
PROJECT = "KB"


@dataclass(frozen=True, slots=True)
class Heard:
    """A caller's answer: whether it is an error, its text, and its JSON if it is one."""

    error: bool
    text: str
    told: Mapping[str, Any]


Asking = Callable[[str, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Way:
    """How a server does one thing: the tool, and its arguments for the given values."""

    tool: str
    arguments: Callable[..., dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one server is started, and how it does each thing."""

    name: str
    command: Sequence[str]
    environment: Callable[[Team], Mapping[str, str]]
    create: Way | None = None
    page: Way | None = None
    send: Way | None = None


def ours() -> Dialect:
    """Return the calls of this project's server."""
    return Dialect(
        OURS,
        (sys.executable, "-m", "mcp_server", "serve"),
        lambda own: own.environment,
        Way("plane_create_task", lambda _own, name, people: {"project": PROJECT, "name": name, "assignees": people}),
        Way(
            "plane_query_tasks",
            lambda _own, cursor: {"project": PROJECT, "limit": PAGE, **({"cursor": cursor} if cursor else {})},
        ),
        Way("zulip_send_message", lambda topic, text: {"channel": CHANNEL, "topic": topic, "text": text}),
    )


def peer_of_plane(python: str) -> Dialect:
    """Return the calls of Plane's own server; it takes ids."""
    ids = {GUS.first: GUS.id}

    def project(own: Team) -> str:
        return str(own.plane.project(PROJECT).row["id"])

    return Dialect(
        PEER_OF_PLANE,
        (python, "-m", "plane_mcp", "stdio"),
        lambda own: {
            "PLANE_API_KEY": ADA.key,
            "PLANE_WORKSPACE_SLUG": WORKSPACE,
            "PLANE_BASE_URL": own.at_plane.address,
        },
        Way(
            "workitem",
            lambda own, name, people: {
                "action": "create",
                "project_id": project(own),
                "name": name,
                "assignees": [ids[person] for person in people],
            },
        ),
        Way(
            "workitem",
            lambda own, cursor: {
                "action": "list",
                "project_id": project(own),
                "per_page": PAGE,
                **({"cursor": cursor} if cursor else {}),
            },
        ),
    )


def peer_of_zulip(python: str, home: Path) -> Dialect:
    """Return the calls of that server."""

    def environment(own: Team) -> dict[str, str]:
        bot = own.zulip.world.user(BOT)
        told = f"[api]\nemail={bot.email}\nkey={bot.key}\nsite={own.at_zulip.address}\n"
        (home / "zuliprc").write_text(told, encoding="utf-8")
        (home / "zuliprc").chmod(0o600)
        return {"HOME": str(home)}

    return Dialect(
        PEER_OF_ZULIP,
        (str(Path(python).with_name(PEER_OF_ZULIP)), "--zulip-config-file", str(home / "zuliprc")),
        environment,
        send=Way(
            "send_message", lambda topic, text: {"type": "stream", "to": CHANNEL, "topic": topic, "content": text}
        ),
    )


@asynccontextmanager
async def connected(dialect: Dialect, own: Team) -> AsyncIterator[Client]:
    """Start that server and connect the SDK's client to it; its stderr is not shown."""
    where = ["--kb", str(own.kb), "--state-dir", str(own.state_dir)] if dialect.name == OURS else []
    environment = {"PATH": os.environ["PATH"], **dialect.environment(own)}
    command = ["-c", 'exec "$@" 2>/dev/null', "sh", *dialect.command, *where]
    async with Client(StdioServerParameters(command="sh", args=command, env=environment, cwd=ROOT)) as client:
        yield client


async def heard(client: Client, way: Way, *given: Any) -> Heard:
    """Return the caller's answer."""
    result = await client.call_tool(way.tool, way.arguments(*given))
    text = "".join(part.text for part in result.content if isinstance(part, TextContent))
    try:
        told = json.loads(text)
    except ValueError:
        told = {}
    return Heard(bool(result.is_error), text, told if isinstance(told, dict) else {})


Row = tuple[str, str]
"""A fault, and its result."""


async def tried(dialect: Dialect) -> list[Row]:
    """Return the result of each fault with that server."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        async with team(Path(folder)) as own, connected(dialect, own) as client:
            tools = (await client.list_tools()).tools
            tokens = sum(
                len(tool.name) + len(tool.description or "") + len(json.dumps(tool.input_schema, separators=(",", ":")))
                for tool in tools
            )
            rows.append(("tools listed, tokens of what they take", f"{len(tools)}, {tokens // 4:,}"))
            if dialect.create and dialect.page:
                rows += await _in_plane(own, client, dialect.create, dialect.page)
            if dialect.send:
                rows += await _in_zulip(own, client, dialect.send)
    return rows


async def _in_plane(own: Team, client: Client, create: Way, page: Way) -> list[Row]:
    own.at_plane.plan = for_requests("POST", "/work-items/", after())
    for _ in range(2):
        again = await heard(client, create, own, "lost", [])
        if not again.error:
            break
    own.at_plane.plan = no_fault
    there = sum(row["name"] == "lost" for row in own.plane.tasks(PROJECT))
    dropped = await heard(client, create, own, "for one who reads", [GUS.first])
    said = any(word in dropped.text.casefold() for word in ("drop", GUS.first.casefold(), GUS.id))
    return [
        ("create a task; the reply is lost after Plane made it; called again after an error", f"{there} in Plane"),
        (
            "create a task for a guest, whom Plane drops from a 201",
            "refused"
            if dropped.error
            else f"made; {'the dropped assignee is named' if said else 'the task comes back without assignees and without a warning'}",
        ),
        (f"list {TASKS:,} tasks where the cursor goes in a circle", await _followed(own, client, page)),
    ]


async def _followed(own: Team, client: Client, page: Way) -> str:
    _in_circles(own.plane)
    pages, keys, cursor, noted = 0, [], "", False
    while pages < MOST_PAGES:
        answer = (await heard(client, page, own, cursor)).told
        pages += 1
        keys += [row.get("key") or row["id"] for row in answer.get("tasks") or answer.get("results") or []]
        noted = noted or bool(answer.get("note"))
        cursor = answer["next_cursor"] if answer.get("next_page_results", True) else ""
        if not cursor:
            break
    end = f"ends after {pages} pages" if not cursor else f"continues after {pages} pages"
    word = "and says so" if noted else "and says nothing"
    return f"{end}, {word}; {len(keys):,} rows of {len(set(keys)):,} tasks"


def _in_circles(plane: Plane) -> None:
    """Let the second page of tasks lead to itself."""
    rightly = plane._get_tasks

    def wrongly(asked: Any, project_id: str) -> Any:
        answer = rightly(asked, project_id)
        if cursor := asked.query.get("cursor"):
            answer.body.update(next_cursor=cursor, next_page_results=True)
        return answer

    plane._get_tasks = wrongly  # type: ignore[method-assign]  # a Plane gone wrong


async def _in_zulip(own: Team, client: Client, send: Way) -> list[Row]:
    own.at_zulip.plan = for_requests("POST", "/messages", after())
    for _ in range(2):
        if not (await heard(client, send, "lost", "said once")).error:
            break
    own.at_zulip.plan = no_fault
    there = len(own.zulip.world.texts(CHANNEL, "lost"))
    text = "".join(f"Sentence {number:04}.\n\n" for number in range(LONG // 16)).rstrip()
    await heard(client, send, "long", text)
    arrived = "\n".join(own.zulip.world.texts(CHANNEL, "long"))
    kept = sum(f"{number:04}." in arrived for number in range(LONG // 16))
    return [
        ("send a message; the reply is lost after Zulip has it; called again after an error", f"{there} in Zulip"),
        (f"send {len(text):,} characters in {LONG // 16} sentences", f"{kept} sentences in Zulip"),
    ]


def version(python: str, package: str) -> str:
    """Return which version of `package` that interpreter has."""
    asked = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()


async def compared(plane: str, zulip: str) -> list[str]:
    """Return the tables."""
    with tempfile.TemporaryDirectory() as home:
        own = dict(await tried(ours()))
        told = []
        for peer, python in ((peer_of_plane(plane), plane), (peer_of_zulip(zulip, Path(home)), zulip)):
            rows = await tried(peer)
            told += ["", f"| | {OURS} | {peer.name} {version(python, peer.name)} |", "|---|---|---|"]
            told += [f"| {what} | {own[what]} | {came} |" for what, came in rows]
    return told


def lines(tables: Sequence[str]) -> list[str]:
    """Return the section of the handbook."""
    when = datetime.now(UTC).date().isoformat()
    return [
        "## Other servers under the same faults",
        "",
        "The contents of Plane and Zulip after the same faults (`python -m tests.benchmarks.connector_peers --plane PYTHON",
        f"--zulip PYTHON --write-doc`; {when}), over stdio and on the doubles of the tests, which answer as real servers were",
        "recorded to. A call that ends in an error is made again, once, as hosts do. Lists are followed as the answers say, for",
        f"at most {MOST_PAGES} pages. This project's tools for its knowledge base are counted, too.",
        *tables,
    ]


def main() -> None:
    """Compare, print, and write the section of the handbook if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plane", required=True, metavar="PYTHON", help=f"an interpreter that has {PEER_OF_PLANE}")
    parser.add_argument("--zulip", required=True, metavar="PYTHON", help=f"an interpreter that has {PEER_OF_ZULIP}")
    parser.add_argument("--write-doc", action="store_true")
    args = parser.parse_args()
    told = lines(anyio.run(compared, args.plane, args.zulip))
    print("\n".join(told))
    if args.write_doc:
        write_section("connector-peers", told)


if __name__ == "__main__":
    main()
