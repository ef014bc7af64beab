"""An import as text and as JSON: what would be written, what stays out and why, and what was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from mcp_server.cli.terminal.escape import visible
from mcp_server.imports.model import SkippedItem
from mcp_server.imports.plan import ImportPlan, PlannedPage
from mcp_server.imports.run import Imported

MOST_SHOWN = 20
MARKS = {"new": "+", "changed": "~", "conflict": "!"}
WORDS = {
    "new": "new",
    "changed": "changed in the source",
    "same": "the same already",
    "edited": "edited here, and unchanged in the source",
    "conflict": "changed on both sides in the same place, left as they are",
    "skipped": "skipped",
}


def plan_lines(plan: ImportPlan, *, continues: bool) -> Iterator[str]:
    """Yield the rehearsal: counts, the files that would be written, and everything that stays out with its reason."""
    source = f"{plan.incoming.kind} {plan.incoming.name}"
    yield visible(f"Import {plan.id} of {source}" + (" continues an interrupted one" if continues else ""))
    pages = Counter[str](one.status for one in plan.pages)
    files = Counter[str](one.status for one in plan.files)
    for status, words in WORDS.items():
        if pages[status] or files[status]:
            parts = [_count(pages[status], "page"), _count(files[status], "attachment")]
            yield f"  {words}: {' and '.join(part for part in parts if part)}"
    if plan.incoming.rewritten:
        yield f"  links adapted: {plan.incoming.rewritten:,}"
    written = [f"{MARKS[one.status]} {one.path}" for one in plan.pages if one.write is not None]
    written += [f"+ {one.path}" for one in plan.files if one.status == "new"]
    yield from _shown(written)
    for one in plan.pages:
        if one.status == "conflict":
            yield from _conflict(one)
    yield from _shown([f"renamed: {one.name} -> {one.path}" for one in plan.incoming.renamed])
    yield from _shown([f"skipped: {one.name}: {one.reason}" for one in skipped(plan)])
    yield from _shown([f"link left as text: {one.path} -> {one.target}" for one in plan.incoming.lost])


def imported_lines(done: Imported) -> Iterator[str]:
    """Yield what was done."""
    parts = [_count(count, f"{status} page") for status, count in sorted(done.pages.items())]
    parts += [_count(done.attachments, "attachment")]
    yield f"Imported {', '.join(part for part in parts if part) or 'nothing'} (import {done.id})"
    yield from _shown([f"failed: {one.name}: {one.reason}" for one in done.failed])


def plan_fields(plan: ImportPlan) -> dict[str, Any]:
    """Return the rehearsal as JSON values."""
    return {
        "import": plan.id,
        "kind": plan.incoming.kind,
        "name": plan.incoming.name,
        "pages": [
            {
                "path": one.path,
                "origin": one.page.origin,
                "status": one.status,
                "reason": one.reason,
                "conflicts": [
                    {"section": c.section, "line": c.line, "here": c.ours, "source": c.theirs}
                    for c in (one.answer.conflicts if one.answer else ())
                ],
            }
            for one in plan.pages
        ],
        "attachments": [{"path": one.path, "status": one.status, "reason": one.reason} for one in plan.files],
        "skipped": [{"name": one.name, "reason": one.reason} for one in plan.skipped],
        "renamed": [{"name": one.name, "path": one.path} for one in plan.incoming.renamed],
        "links_adapted": plan.incoming.rewritten,
        "links_lost": [{"path": one.path, "target": one.target} for one in plan.incoming.lost],
    }


def imported_fields(done: Imported) -> dict[str, Any]:
    """Return what was done as JSON values."""
    failed = [{"name": one.name, "reason": one.reason} for one in done.failed]
    return {"imported": {"pages": dict(done.pages), "attachments": done.attachments, "failed": failed}}


def skipped(plan: ImportPlan) -> Sequence[SkippedItem]:
    """Return everything that stays out."""
    pages = [SkippedItem(one.path, one.reason) for one in plan.pages if one.status == "skipped"]
    files = [SkippedItem(one.path, one.reason) for one in plan.files if one.status == "skipped"]
    return [*pages, *files, *plan.skipped]


def _conflict(page: PlannedPage) -> Iterator[str]:
    yield visible(f"! {page.path}: {page.reason or 'both sides changed the same text'}")
    for conflict in (page.answer.conflicts if page.answer else ())[:MOST_SHOWN]:
        yield visible(f"    line {conflict.line}" + (f", {conflict.section}" if conflict.section else ""))
        yield visible(f"      here:   {_first_line(conflict.ours)}")
        yield visible(f"      source: {_first_line(conflict.theirs)}")


def _first_line(text: str) -> str:
    lines = text.strip().splitlines() or ["(nothing)"]
    return lines[0] + (" ..." if len(lines) > 1 else "")


def _shown(lines: Sequence[str]) -> Iterator[str]:
    for line in lines[:MOST_SHOWN]:
        yield visible(f"  {line}")
    if len(lines) > MOST_SHOWN:
        yield f"  and {len(lines) - MOST_SHOWN:,} more; --json has all"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}" if number else ""
