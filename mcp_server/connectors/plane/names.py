"""How people name states and tasks: by a group of states, by a key, an id or an address; and the errors of such names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from mcp_server.connectors.errors import ConnectorError, one_line
from mcp_server.connectors.plane.model import State
from mcp_server.connectors.plane.wire import SERVICE
from mcp_server.connectors.text.name_match import folded

CLOSED = frozenset({"completed", "cancelled"})
GROUPS = ("backlog", "unstarted", "started", "completed", "cancelled")
OPEN = "open"
API_OF_THE_CLOUD, WEB_OF_THE_CLOUD = "api.plane.so", "app.plane.so"
UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
KEY = re.compile(r"([^\W_][\w]{0,29})-([0-9]{1,9})")
LONGEST_SHOWN = 60


class BadReference(ConnectorError):
    """The argument names no task of this workspace."""

    def __init__(self, asked: str, why: str) -> None:
        self.asked, self.why = asked, why
        shown = one_line(asked, LONGEST_SHOWN)
        super().__init__(SERVICE, f"{shown!r} {why}; name a task by its key (like KB-12), its id or its address")


class ClosedProject(ConnectorError):
    """The project exists, and its tasks cannot be used."""

    def __init__(self, key: str, why: str, remedy: str) -> None:
        self.key, self.why = key, why
        super().__init__(SERVICE, f"project {key} {why}; {remedy}")


class TooManyProjects(ConnectorError):
    """A task's id does not say which project it is in, and there are too many projects to search."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(
            SERVICE,
            f"Plane finds a task by its id only within a project, and there are {count}; give its key, like KB-12",
        )


def states_meant(asked: str, states: Iterable[State]) -> frozenset[str] | None:
    """Return the ids of the states that a name, a group or `open` means, or None.

    A state with that name comes first: an organisation may call one of its states "Started" or "Open".
    """
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
    return frozenset(state.id for state in states if state.group == group) if group in GROUPS else None


def is_group(asked: str) -> bool:
    """Return whether that is the name of a group of states."""
    return folded(asked) in (*GROUPS, "canceled")


@dataclass(frozen=True, slots=True)
class Reference:
    """How a task is named: by its project's key and its number, or by its id, in an address with its project's id."""

    project_key: str = ""
    number: int = 0
    task_id: str = ""
    project_id: str = ""


def reference_of(asked: str, *, hosts: Iterable[str], base_path: str, workspace: str) -> Reference:
    """Return the task that a key in any case, an id, or the address of its page names.

    `hosts` are our Plane's, with their ports; `base_path` precedes the workspace in its addresses.

    Raises:
        BadReference: it is none of these, or an address of another site or workspace.
    """
    # Sources are written `plane:KB-12`, and people write `#KB-12`.
    text = asked.strip().removeprefix("plane:").lstrip("#")
    if "://" in text:
        text = _from_address(asked.strip(), hosts, base_path, workspace)
    if found := KEY.fullmatch(text):
        return Reference(project_key=found[1], number=int(found[2]))
    if UUID.fullmatch(text):
        return Reference(task_id=_dashed(text))
    if found := re.fullmatch(rf"({UUID.pattern})/({UUID.pattern})", text, re.IGNORECASE):
        return Reference(task_id=_dashed(found[2]), project_id=_dashed(found[1]))
    raise BadReference(asked, "names no task")


def _from_address(asked: str, hosts: Iterable[str], base_path: str, workspace: str) -> str:
    """Return the key, or `project id/task id`, in the address of a task's page.

    Source: packages/utils/src/work-item/base.ts of github.com/makeplane/plane.
    """
    try:
        address = urlsplit(asked)
        # `https://plane.example@evil.example/` is on evil.example.
        host = address.netloc.rpartition("@")[2].casefold()
    except ValueError:
        raise BadReference(asked, "is not an address") from None
    if host not in {known.casefold() for known in hosts}:
        raise BadReference(asked, "is an address on another site")
    # Unquoted after the split: an encoded slash belongs to a name, and must not make it a path.
    parts = [unquote(part) for part in address.path.removeprefix(base_path).split("/") if part]
    if parts[:1] != [workspace]:
        raise BadReference(asked, "is an address in another workspace")
    match parts[1:]:
        case ["browse", key]:
            return key
        case ["projects", project_id, "issues" | "work-items", task_id]:
            return f"{project_id}/{task_id}"
        case _:
            raise BadReference(asked, "is not the address of a task")


def _dashed(text: str) -> str:
    digits = text.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def web_address(base_url: str) -> str:
    """Return the address where people see the projects of the API at `base_url`: in Plane's cloud it has another host."""
    base = base_url.rstrip("/")
    parts = urlsplit(base)
    return f"{parts.scheme}://{WEB_OF_THE_CLOUD}" if parts.netloc.casefold() == API_OF_THE_CLOUD else base
