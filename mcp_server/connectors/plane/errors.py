"""Errors in what a caller asks of Plane, found before anything but names is requested there."""

from __future__ import annotations

from mcp_server.connectors.errors import ConnectorError, one_line
from mcp_server.connectors.plane.wire import SERVICE

LONGEST_SHOWN = 60


class BadReference(ConnectorError):
    """The argument names no task of this workspace."""

    def __init__(self, asked: str, why: str) -> None:
        self.asked, self.why = asked, why
        shown = one_line(asked, LONGEST_SHOWN)
        super().__init__(SERVICE, f"{shown!r} {why}; name a task by its key (like KB-12), its id or its address")


class BadDate(ConnectorError):
    """The argument is not a date."""

    def __init__(self, argument: str, asked: str, fitting: str) -> None:
        self.argument, self.asked = argument, asked
        shown = one_line(asked, LONGEST_SHOWN)
        super().__init__(SERVICE, f"{argument} {shown!r} is not {fitting}; nothing was requested from Plane")


class ClosedProject(ConnectorError):
    """The project exists, and its tasks cannot be used."""

    def __init__(self, key: str, why: str, remedy: str) -> None:
        self.key, self.why = key, why
        super().__init__(SERVICE, f"project {key} {why}; {remedy}")


class TooManyProjects(ConnectorError):
    """A task's id does not say which project it is in, and there are too many to look through."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(
            SERVICE,
            f"Plane finds a task by its id only within a project, and there are {count}; give its key, like KB-12",
        )
