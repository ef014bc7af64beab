"""The server for comparison: a plain SDK server with three tools of the same shape, and nothing behind them.

    python -m tests.benchmarks.bare [ANSWER.json]

With a file, `kb_map` answers with its contents, and there is also `noop`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, Field


class Entry(BaseModel):
    """A child of a directory."""

    name: str
    path: str
    kind: str
    title: str
    summary: str
    count: int
    modified: str | None


class MapView(BaseModel):
    """The map of a directory."""

    path: str
    title: str
    summary: str
    derived: bool
    children: list[Entry]
    count: int
    modified: str | None
    truncated: bool


class Outline(BaseModel):
    """A heading."""

    section: str
    level: int
    line: int
    tokens: int


class Reading(BaseModel):
    """A page."""

    path: str
    title: str
    revision: str
    metadata: dict[str, Any]
    outline: list[Outline]
    text: str
    next_offset: int | None
    source: str
    authority: float
    tainted: bool


class Hit(BaseModel):
    """A passage."""

    path: str
    section: str
    title: str
    snippet: str
    score: float
    line_start: int
    line_end: int
    revision: str
    source: str
    authority: float
    tainted: bool


class Route(BaseModel):
    """The question's route."""

    mode: str
    confidence: float
    reason: str


class Scent(BaseModel):
    """Whether the answer is enough."""

    level: str
    reason: str
    next: str


class Answer(BaseModel):
    """Passages."""

    hits: list[Hit]
    route: Route
    scent: Scent
    nudge: str | None
    next_cursor: str | None


class Filters(BaseModel):
    """Which documents may be found."""

    tags: list[str] = []
    kind: str | None = None
    source: str | None = None
    modified_after: str | None = None
    modified_before: str | None = None


EMPTY = MapView(path="", title="", summary="", derived=True, children=[], count=0, modified=None, truncated=False)


def build(answer: Path | None) -> MCPServer[Any]:
    """Return the bare server."""
    server: MCPServer[Any] = MCPServer(name="bare", instructions="A plain server.", log_level="WARNING")
    view = EMPTY if answer is None else MapView(**json.loads(answer.read_text(encoding="utf-8")))

    @server.tool()
    async def kb_map(path: str = "", depth: Annotated[int, Field(ge=1, le=4)] = 1) -> MapView:  # noqa: ARG001 - listed only
        """Start here. Shows a directory's contents: title, summary, and one line for each page and subdirectory."""
        return view

    @server.tool()
    async def kb_read(
        path: str,
        section: str | None = None,
        view: Literal["outline", "full"] = "outline",  # noqa: ARG001 - listed only
        revision: str | None = None,
        offset: Annotated[int, Field(ge=0)] = 0,  # noqa: ARG001 - listed only
    ) -> Reading:
        """Reads one page. A short page is returned in full; for a long one you get metadata, outline and beginning."""
        raise LookupError(f"nothing behind {path} {section} {revision}")

    @server.tool()
    async def kb_search(  # noqa: PLR0917 - the arguments of the tool that it stands beside
        query: str,
        path: str | None = None,
        mode: Literal["auto", "navigation", "discovery"] = "auto",  # noqa: ARG001 - listed only
        limit: Annotated[int, Field(ge=1, le=50)] = 8,  # noqa: ARG001 - listed only
        cursor: str | None = None,
        filters: Filters | None = None,
    ) -> Answer:
        """Finds the passages that answer a question, by words and by meaning."""
        raise LookupError(f"nothing behind {query} {path} {cursor} {filters}")

    if answer is not None:

        @server.tool()
        async def noop() -> str:
            """Do nothing."""
            return ""

    return server


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else None).run("stdio")
