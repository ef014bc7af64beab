"""Answers of the double of Plane, and the parts that all requests share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.doubles.plane_rows import Account, Project, Row

MOST_A_PAGE = 1000
NO_PERMISSION = {"detail": "You do not have permission to perform this action."}
NO_SUCH = {"error": "The requested resource does not exist."}
NO_PAGE = {"error": "Page not found."}
BROKEN = {"error": "Something went wrong please try again later"}
REQUIRED = "This field is required."


class Answer(Exception):
    """A reply that ends the handling of a request."""

    def __init__(self, status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.body, self.headers = status, body, dict(headers or {})


class Paused(Exception):
    """A create that has looked for its key, and has not written yet; `write` finishes it."""

    def __init__(self, write: Callable[[], Answer]) -> None:
        self.write = write


@dataclass(frozen=True)
class Asked:
    """A request as the handlers see it; `who` owns its key."""

    method: str
    query: Mapping[str, str]
    body: Any
    who: Account


def paged(asked: Asked, rows: list[Row], shown: Callable[[Row], Row] = dict) -> Answer:
    """Return the requested page of the rows.

    Raises: Answer: there can be no such page.
    """
    try:
        size = int(asked.query.get("per_page", str(MOST_A_PAGE)))
    except ValueError:
        raise Answer(400, {"detail": "Invalid per_page parameter."}) from None
    if size > MOST_A_PAGE:
        raise Answer(400, {"detail": f"Invalid per_page value. Cannot exceed {MOST_A_PAGE}."})
    cursor = re.fullmatch(r"(\d+):(-?\d+):([01])", asked.query.get("cursor", f"{size}:0:0"))
    if not cursor:
        raise Answer(400, {"detail": "Invalid cursor parameter."})
    page = int(cursor[2])
    if page < 0:
        raise Answer(400, {"detail": "Error in parsing"})
    part = rows[page * size : (page + 1) * size]
    return Answer(
        200,
        {
            "grouped_by": None,
            "sub_grouped_by": None,
            "total_count": len(rows),
            "next_cursor": f"{size}:{page + 1}:0",
            "prev_cursor": f"{size}:{page - 1}:1",
            "next_page_results": len(rows) > (page + 1) * size,
            "prev_page_results": page > 0,
            "count": len(part),
            "total_pages": math.ceil(len(rows) / size),
            "total_results": len(rows),
            "extra_stats": None,
            "results": [only(shown(row), asked) for row in part],
        },
    )


def parsed(headers: Mapping[str, str], content: bytes) -> Any:
    """Return the body of a request."""
    kind = headers.get("content-type", "").split(";")[0]
    if content and kind != "application/json":
        raise Answer(415, {"detail": f'Unsupported media type "{kind}" in request.'})
    try:
        body = json.loads(content or b"{}")
    except ValueError as wrong:
        raise Answer(400, {"detail": f"JSON parse error - {wrong}"}) from None
    if not isinstance(body, dict):
        told = f"Invalid data. Expected a dictionary, but got {type(body).__name__}."
        raise Answer(400, {"non_field_errors": [told]})
    return body


def there(rows: Mapping[str, Row], own_id: str) -> Row:
    """Return the row with that id, or raise the answer that it does not exist."""
    if own_id not in rows:
        raise Answer(404, NO_SUCH)
    return rows[own_id]


def active(project: Project) -> dict[str, Row]:
    """Return the tasks that are not archived."""
    return {own_id: row for own_id, row in project.tasks.items() if row["archived_at"] is None}


def by_external(rows: Mapping[str, Row], key: str, source: str) -> Row | None:
    """Return the row that another program made with that key, or None."""
    return next((row for row in rows.values() if row["external_id"] == key and row["external_source"] == source), None)


def newest_first(rows: Iterable[Row]) -> list[Row]:
    """Return the rows, newest first."""
    return sorted(rows, key=lambda row: str(row["created_at"]), reverse=True)


def only(row: Row, asked: Asked) -> Row:
    """Return the row's requested fields."""
    names = [name for name in asked.query.get("fields", "").split(",") if name]
    return {name: value for name, value in row.items() if name in names} if names else row


def covers(cycle: Row, now: datetime) -> bool:
    """Return whether the cycle is running now."""
    starts, ends = cycle["start_date"], cycle["end_date"]
    return bool(starts and ends) and datetime.fromisoformat(starts) <= now <= datetime.fromisoformat(ends)
