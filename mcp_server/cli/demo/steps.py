"""The steps of the demo: one call of a tool, and how it is shown."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from knowledge.errors import KnowledgeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp import Client
    from mcp_types import CallToolResult
    from rich.console import Console


NEW_PAGE = "field-notes.md"


REFUSED_TOOL = "kb_map"


class DemoFailed(KnowledgeError):
    """The server did not do what the demo shows."""


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
        DemoFailed: it was refused, or went wrong.
    """
    result = await client.call_tool(tool, arguments)
    content: dict[str, Any] | None = result.structured_content
    if result.is_error or content is None:
        raise DemoFailed(f"{tool} failed: {text_of(result)}")
    return content


def step(console: Console, title: str, says: str, called: str, took_ms: float | None) -> None:
    """Say what is shown next, and by which call."""
    from rich.markup import escape

    timing = f"  [cyan]{took_ms:.1f} ms[/]" if took_ms is not None else ""
    console.print(f"\n[bold cyan]{title}[/]  {escape(says)}")
    console.print(f" [dim]{escape(called)}[/]{timing}")


@contextmanager
def timed() -> Iterator[Any]:
    """Yield a function that returns the milliseconds since the block began."""
    started = time.perf_counter()
    yield lambda: (time.perf_counter() - started) * 1000
