"""What is asked of tasks: which fit, in which order, and where a long answer goes on. Pure.

Plane's public API has no filters but `external_id` (github.com/makeplane/plane, apps/api/plane/api/views/issue.py), so tasks are
listed and sorted out here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from urllib.parse import unquote, urlsplit

from knowledge.errors import BadCursor
from knowledge.wire.cursors import seal, unseal
from mcp_server.connectors.plane.errors import BadDate, BadReference
from mcp_server.connectors.plane.model import PlaneTask, State
from mcp_server.connectors.text.dates import in_utc

CLOSED = frozenset({"completed", "cancelled"})
GROUPS = ("backlog", "unstarted", "started", "completed", "cancelled")
OPEN = "open"
OVERDUE = "overdue"


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """What a task of one project has to have; None for what does not matter. Ids are resolved.

    `words` have to be in its name, or are its key. `nobody`: it must have no assignee. `among` are the ids of the tasks of a
    cycle or module.
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
        """Return whether a task has all of it; `key` is its readable key."""
        return (
            self._says(task, key)
            and (self.state_ids is None or task.state_id in self.state_ids)
            and (self.assignee_id is None or self.assignee_id in task.assignee_ids)
            and not (self.nobody and task.assignee_ids)
            and (self.label_id is None or self.label_id in task.label_ids)
            and (self.priority is None or task.priority == self.priority)
            and (self.updated_since is None or task.updated_at >= self.updated_since)
            and self._is_due(task)
        )

    def _says(self, task: PlaneTask, key: str) -> bool:
        if not self.words:
            return True
        name = _in_small(task.name)
        return self.words == (_in_small(key),) or all(word in name for word in self.words)

    def _is_due(self, task: PlaneTask) -> bool:
        if self.overdue_at is not None:
            return task.due is not None and task.due < self.overdue_at and task.state_id not in self.closed_ids
        return self.due_by is None or (task.due is not None and task.due <= self.due_by)


def words_of(text: str | None) -> tuple[str, ...]:
    """Return the words that have to be there, in lower case."""
    return tuple(_in_small(text or "").split())


def _in_small(text: str) -> str:
    """Return a text in lower case, as Plane's search compares too: what fits here is found there."""
    return unicodedata.normalize("NFC", text).lower()


def states_meant(asked: str, states: Iterable[State]) -> frozenset[str] | None:
    """Return the ids of the states that a name, a group or `open` means, None where none of these does."""
    states = tuple(states)
    wanted = " ".join(asked.casefold().split())
    for named in (
        [state.id for state in states if state.name == asked.strip()],
        [state.id for state in states if " ".join(state.name.casefold().split()) == wanted],
    ):
        if named:
            return frozenset(named)
    if wanted == OPEN:
        return frozenset(state.id for state in states if state.group not in CLOSED)
    group = {"canceled": "cancelled", "done": "completed", "closed": "completed"}.get(wanted, wanted)
    if group in GROUPS:
        return frozenset(state.id for state in states if state.group == group)
    return None


def closed_states(states: Iterable[State]) -> frozenset[str]:
    """Return the ids of the states in which nothing is left to do."""
    return frozenset(state.id for state in states if state.group in CLOSED)


def day_of(argument: str, text: str, *, also: str = "") -> date:
    """Return an ISO date.

    Raises:
        BadDate: it is none.
    """
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise BadDate(argument, text, f"{also}an ISO date like 2026-11-30") from None


def moment_of(argument: str, text: str) -> datetime:
    """Return an ISO date (its begin, in UTC) or an ISO time as a moment.

    Raises:
        BadDate: it is none of both.
    """
    try:
        return in_utc(text)
    except ValueError:
        raise BadDate(argument, text, "an ISO date or time like 2026-11-30 or 2026-11-30T14:00:00Z") from None


def told(moment: datetime) -> str:
    """Return a moment to the last digit: `seen_at` of an update is compared with it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def newest_first(task: PlaneTask) -> tuple[float, str]:
    """Return what tasks are sorted by: last changed first, and then by something that does not change."""
    return -task.updated_at.timestamp(), task.id


@dataclass(frozen=True, slots=True)
class Rest:
    """What of an answer is still to be told. `seen_to` is the moment up to which the first page saw, "" where there was nothing.

    `changed` counts tasks that were changed or made after that: they are in front now, where nobody reads on.
    """

    tasks: Sequence[PlaneTask]
    seen_to: str
    changed: int = 0

    def cursor_behind(self, task: PlaneTask, key: str) -> str:
        """Return the cursor that goes on behind `task`."""
        return seal(key, (self.seen_to, told(task.updated_at), task.id))


def rest_of(tasks: Iterable[PlaneTask], cursor: str | None, key: str) -> Rest:
    """Return the tasks behind the cursor, last changed first.

    Raises:
        BadCursor: it belongs to another question.
    """
    ordered = sorted(tasks, key=newest_first)
    if cursor is None:
        return Rest(ordered, told(ordered[0].updated_at) if ordered else "")
    seen_to, moment, task_id = unseal(cursor, key, str, str, str)
    try:
        until = datetime.fromisoformat(str(seen_to)).timestamp()
        behind = (-datetime.fromisoformat(str(moment)).timestamp(), str(task_id))
    except (ValueError, OverflowError):
        raise BadCursor(cursor) from None
    changed = sum(task.updated_at.timestamp() > until for task in ordered)
    return Rest([task for task in ordered if newest_first(task) > behind], str(seen_to), changed)


UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
KEY = re.compile(r"([^\W_][\w]{0,29})-([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Reference:
    """How a task is named: by its project's key and its number, or by its id, with the id of its project where that is said."""

    project_key: str = ""
    number: int = 0
    task_id: str = ""
    project_id: str = ""


def reference_of(asked: str, *, hosts: Iterable[str], base_path: str, workspace: str) -> Reference:
    """Return which task is meant by a key in any case, an id, or the address of its page.

    `hosts` are those whose addresses are ours, with their port; `base_path` is what stands before the workspace there.

    Raises:
        BadReference: none of that, or an address elsewhere.
    """
    text = asked.strip().removeprefix("plane:").lstrip("#")
    if "://" in text:
        text = _in_address(asked.strip(), hosts, base_path, workspace)
    if found := KEY.fullmatch(text):
        return Reference(project_key=found[1], number=int(found[2]))
    if UUID.fullmatch(text):
        return Reference(task_id=_uuid(text))
    if found := re.fullmatch(rf"({UUID.pattern})/({UUID.pattern})", text, re.IGNORECASE):
        return Reference(task_id=_uuid(found[2]), project_id=_uuid(found[1]))
    raise BadReference(asked, "names no task")


def _in_address(asked: str, hosts: Iterable[str], base_path: str, workspace: str) -> str:
    """Return the key or the ids in the address of a task's page.

    Source: packages/utils/src/work-item/base.ts of github.com/makeplane/plane.
    """
    try:
        address = urlsplit(asked)
        host = address.netloc.rpartition("@")[2].casefold()
    except ValueError:
        raise BadReference(asked, "is no address") from None
    if host not in {known.casefold() for known in hosts}:
        raise BadReference(asked, "is an address of another site")
    parts = [unquote(part) for part in address.path.removeprefix(base_path).split("/") if part]
    if parts[:1] != [workspace]:
        raise BadReference(asked, "is an address of another workspace")
    match parts[1:]:
        case ["browse", key]:
            return key
        case ["projects", project_id, "issues" | "work-items", task_id]:
            return f"{project_id}/{task_id}"
        case _:
            raise BadReference(asked, "is no address of a task")


def _uuid(text: str) -> str:
    digits = text.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
