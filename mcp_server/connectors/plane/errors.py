"""What can be wrong with what a caller asks of the board. Nothing was asked of Plane for it, or nothing but names."""

from __future__ import annotations

from mcp_server.connectors.errors import ConnectorError

SERVICE = "Plane"
LONGEST_SHOWN = 60


class BadReference(ConnectorError):
    """What was given names no task of this workspace."""

    def __init__(self, asked: str, why: str) -> None:
        self.asked, self.why = asked, why
        super().__init__(
            SERVICE, f"{_short(asked)!r} {why}; name a task by its key (like KB-12), its id or its address"
        )


class BadDate(ConnectorError):
    """What was given is no date."""

    def __init__(self, argument: str, asked: str, fitting: str) -> None:
        self.argument, self.asked = argument, asked
        super().__init__(SERVICE, f"{argument} {_short(asked)!r} is not {fitting}; nothing was asked of Plane")


class ClosedProject(ConnectorError):
    """The project is there, and its tasks cannot be used."""

    def __init__(self, key: str, why: str, mend: str) -> None:
        self.key, self.why = key, why
        super().__init__(SERVICE, f"project {key} {why}; {mend}")


class TooManyProjects(ConnectorError):
    """A task's id alone does not say where it is, and there are too many places to look."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(
            SERVICE,
            f"Plane finds a task by its id only within a project, and there are {count}; give its key, like KB-12",
        )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SHOWN else f"{line[: LONGEST_SHOWN - 3]}..."
