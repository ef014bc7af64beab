"""Finds the tasks that match a query, their order, and where the next page of a long answer begins. Pure.

Plane's public API filters by nothing but `external_id` (github.com/makeplane/plane, apps/api/plane/api/views/issue.py), so all
tasks are listed and filtered here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from knowledge.errors import BadCursor
from knowledge.wire.cursors import seal, unseal
from mcp_server.connectors.errors import ConnectorError, one_line
from mcp_server.connectors.plane.model import PlaneTask
from mcp_server.connectors.plane.wire import SERVICE
from mcp_server.connectors.text.dates import in_utc

OVERDUE = "overdue"


class BadDate(ConnectorError):
    """The argument is not a date."""

    def __init__(self, argument: str, asked: str, fitting: str) -> None:
        self.argument, self.asked = argument, asked
        shown = one_line(asked, 60)
        super().__init__(SERVICE, f"{argument} {shown!r} is not {fitting}; nothing was requested from Plane")


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """The required properties of a project's tasks; None for any. Ids are resolved.

    `words` must all be in its name, or be its key. `nobody`: it must have no assignee. `overdue_at`: it must be due before that
    day and in none of the states `closed_ids`.
    """

    words: tuple[str, ...] = ()
    state_ids: frozenset[str] | None = None
    assignee_id: str | None = None
    nobody: bool = False
    label_id: str | None = None
    priority: str | None = None
    due_by: date | None = None
    overdue_at: date | None = None
    closed_ids: frozenset[str] = frozenset()
    updated_since: datetime | None = None

    def fits(self, task: PlaneTask, key: str) -> bool:
        """Return whether a task has all of that; `key` is its readable key."""
        return (
            self._has_words(task, key)
            and (self.state_ids is None or task.state_id in self.state_ids)
            and (self.assignee_id is None or self.assignee_id in task.assignee_ids)
            and not (self.nobody and task.assignee_ids)
            and (self.label_id is None or self.label_id in task.label_ids)
            and (self.priority is None or task.priority == self.priority)
            and (self.updated_since is None or task.updated_at >= self.updated_since)
            and self._is_due(task)
        )

    def _has_words(self, task: PlaneTask, key: str) -> bool:
        name = _lower(task.name)
        return self.words == (_lower(key),) or all(word in name for word in self.words)

    def _is_due(self, task: PlaneTask) -> bool:
        if self.overdue_at is not None:
            return task.due is not None and task.due < self.overdue_at and task.state_id not in self.closed_ids
        return self.due_by is None or (task.due is not None and task.due <= self.due_by)


def words_of(text: str | None) -> tuple[str, ...]:
    """Return the words that a task's name must have, in lower case."""
    return tuple(_lower(text or "").split())


def _lower(text: str) -> str:
    # As Plane's own search compares: a project that it finds has every task that matches here.
    return unicodedata.normalize("NFC", text).lower()


def day_of(argument: str, text: str, *, also: str = "") -> date:
    """Return an ISO date.

    Raises:
        BadDate: it is not one. `also` names what else would fit.
    """
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise BadDate(argument, text, f"{also}an ISO date like 2026-11-30") from None


def moment_of(argument: str, text: str) -> datetime:
    """Return an ISO date (its midnight, in UTC) or ISO time.

    Raises:
        BadDate: it is neither.
    """
    try:
        return in_utc(text)
    except ValueError:
        raise BadDate(argument, text, "an ISO date or time like 2026-11-30 or 2026-11-30T14:00:00Z") from None


def exact(moment: datetime) -> str:
    """Return a time to the last digit: an update compares `seen_at` with it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _newest_first(task: PlaneTask) -> tuple[float, str]:
    # The id decides between tasks that a script changed in one moment, so that no page repeats or skips one.
    return -task.updated_at.timestamp(), task.id


@dataclass(frozen=True, slots=True)
class RemainingTasks:
    """The part of an answer that no page has shown. `seen_to` is the newest change when the first page was made, "" for none.

    `changed` counts tasks that were changed or created since: they are now before the cursor, where reading does not return.
    """

    tasks: Sequence[PlaneTask]
    seen_to: str
    changed: int = 0

    def cursor_after(self, task: PlaneTask, key: str) -> str:
        """Return the cursor of the page that begins after `task`."""
        return seal(key, (self.seen_to, exact(task.updated_at), task.id))


def remaining_tasks(tasks: Iterable[PlaneTask], cursor: str | None, key: str) -> RemainingTasks:
    """Return the tasks after the cursor, last changed first.

    Raises:
        BadCursor: it belongs to another question.
    """
    ordered = sorted(tasks, key=_newest_first)
    if cursor is None:
        return RemainingTasks(ordered, exact(ordered[0].updated_at) if ordered else "")
    seen_to, moment, task_id = unseal(cursor, key, str, str, str)
    try:
        until = datetime.fromisoformat(str(seen_to)).timestamp()
        last = (-datetime.fromisoformat(str(moment)).timestamp(), str(task_id))
    except (ValueError, OverflowError):
        raise BadCursor(cursor) from None
    # A changed task moves to the front, and with it out of the pages that are still to come.
    changed = sum(task.updated_at.timestamp() > until for task in ordered)
    return RemainingTasks([task for task in ordered if _newest_first(task) > last], str(seen_to), changed)
