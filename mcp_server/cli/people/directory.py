"""The shared part of the verbs about people: they change the directory with a passkey's signature, and print rows of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from knowledge.access.directory import Directory
from knowledge.access.rules import GROUP_MARK
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.review.review import open_review
from mcp_server.cli.terminal.console import print_table
from mcp_server.cli.terminal.output import print_json
from mcp_server.cli.trust.acts import act
from mcp_server.gate.trust.people import PeopleAct

Rows = Sequence[Mapping[str, Any]]
Action = Callable[[Settings, Any], Awaitable[Directory]]


async def directory(settings: Settings, _args: object = None) -> Directory:
    """Return the directory as it is."""
    async with open_state(settings) as state:
        return await state.people.directory()


async def changed(settings: Settings, what: PeopleAct, arguments: Mapping[str, Any]) -> Directory:
    """Make the change, which needs a signature once a passkey is registered, and return the directory after it.

    Raises:
        NotCarriedOut, BadDirectoryChange: nothing was changed.
    """
    async with open_review(settings) as review:
        await act(review, what, arguments)
        return await review.state.people.directory()


def print_rows(settings: Settings, rows: Rows, nothing: str) -> None:
    """Print the rows, or the sentence if there are none."""
    if settings.json:
        print_json(rows)
    elif rows:
        lists = tuple(name for name, value in rows[0].items() if isinstance(value, list))
        print_table(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows], wrapped=lists)
    else:
        print(nothing)


def people_rows(found: Directory) -> Rows:
    """Return a row for each person."""
    return [
        {
            "person": name,
            "principals": list(principals),
            "groups": [f"{GROUP_MARK}{group}" for group in sorted(found.groups_of(name))],
        }
        for name, principals in found.people.items()
    ]


def group_rows(found: Directory) -> Rows:
    """Return a row for each group."""
    return [{"group": f"{GROUP_MARK}{name}", "people": list(people)} for name, people in found.groups.items()]


def rule_rows(found: Directory) -> Rows:
    """Return a row for each rule, by folder."""
    rules = sorted(found.rules, key=lambda one: (one.folder, one.who))
    return [{"folder": f"{one.folder}/", "who": one.who, "right": ", ".join(one.names)} for one in rules]


def reviewer_rows(found: Directory) -> Rows:
    """Return a row for each folder that has reviewers."""
    return [
        {"folder": f"{folder}/", "reviewers": list(names), "people": list(found.people_in(names))}
        for folder, names in found.reviewers.items()
    ]


def _cell(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
