"""The lines of a page with their authors, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from knowledge.history.timeline.line_authors import AuthoredLines, AuthoredPage
from knowledge.history.timestamps import utc_text
from mcp_server.cli.terminal import times
from mcp_server.cli.terminal.escape import visible
from mcp_server.presenters.change import author, notes

NOBODY = "not on record"


def page_lines(page: AuthoredPage) -> Iterator[str]:
    """Yield each run of lines below its author."""
    width = len(str(sum(len(run.lines) for run in page.runs))) + 3
    for run in page.runs:
        yield visible(_head(run))
        for number, line in enumerate(run.lines, run.first):
            yield f"{number:>{width}}  {visible(line)}".rstrip()


def _head(run: AuthoredLines) -> str:
    change = run.change
    if change is None:
        return NOBODY
    told = [note for note in notes(change) if not note.startswith("source ")]
    if run.origin.source not in ("user", "unknown"):
        told.append(f"source {run.origin.source}")
    if run.origin.corroborated_by:
        told.append(f"also said by {', '.join(run.origin.corroborated_by)}")
    why = f": {'; '.join(told)}" if told else ""
    return f"{change.id}  {times.shown(change.at)}  {author(change)}{why}"


def page_fields(page: AuthoredPage) -> dict[str, Any]:
    """Return the page as JSON fields."""
    return {"path": page.path, "revision": page.revision, "runs": [_fields(run) for run in page.runs]}


def _fields(run: AuthoredLines) -> dict[str, Any]:
    change = run.change
    return {
        "first": run.first,
        "lines": list(run.lines),
        "change": change.id if change else None,
        "at": utc_text(change.at) if change else None,
        "by": change.by if change else "",
        "approved_by": change.approved_by if change else "",
        "intent": change.intent if change else "",
        "source": run.origin.source,
        "authority": run.origin.authority,
        "corroborated_by": list(run.origin.corroborated_by),
    }
