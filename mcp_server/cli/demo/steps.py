"""The steps of the demo: a server with a client, one call of a tool, and how it is shown."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from knowledge.errors import KnowledgeError

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult

NEW_PAGE = "field-notes.md"
REFUSED_TOOL = "kb_map"


class DemoFailed(KnowledgeError):
    """The server did not do what the demo shows."""


@asynccontextmanager
async def connected(kb: Path, state: Path, name: str, secret: str = "") -> AsyncIterator[Client]:
    """Start a server process and yield an MCP client that is connected to it, with the host's secret if it has one.

    The server's log goes to `name`.log next to the state.
    """
    from mcp import Client, StdioServerParameters  # 0.7 s, which `demo --help` need not wait for
    from mcp.client.stdio import stdio_client

    command = ["-m", "mcp_server", "serve", "--kb", str(kb), "--state-dir", str(state)]
    env = {"FORGE_OPEN_BROWSER": "0"}  # the demo decides on proposals itself
    if secret:
        env["FORGE_ENROLMENT"] = secret
    process = StdioServerParameters(command=sys.executable, args=command, cwd=Path(__file__).parents[3], env=env)
    with (state.parent / f"{name}.log").open("w", encoding="utf-8") as log:
        async with Client(stdio_client(process, errlog=log)) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    """Return the text of a result."""
    return " ".join(part.text for part in result.content if part.type == "text")


async def timed_call(client: Client, tool: str, **arguments: Any) -> tuple[dict[str, Any], float]:
    """Return the tool's answer, and how many milliseconds it took."""
    with timed() as spent:
        answer = await call(client, tool, **arguments)
        return answer, round(spent(), 2)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the tool's answer.

    Raises:
        DemoFailed: it was refused or failed.
    """
    result = await client.call_tool(tool, arguments)
    content: dict[str, Any] | None = result.structured_content
    if result.is_error or content is None:
        raise DemoFailed(f"{tool} failed: {text_of(result)}")
    return content


def step(console: Console, title: str, says: str, called: str, took_ms: float | None) -> None:
    """Print what is shown next, and the call that shows it."""
    timing = f"  [cyan]{took_ms:.1f} ms[/]" if took_ms is not None else ""
    console.print(f"\n[bold cyan]{title}[/]  {escape(says)}")
    console.print(f" [dim]{escape(called)}[/]{timing}")


@contextmanager
def timed() -> Iterator[Any]:
    """Yield a function that returns the milliseconds since the block began."""
    started = time.perf_counter()
    yield lambda: (time.perf_counter() - started) * 1000
