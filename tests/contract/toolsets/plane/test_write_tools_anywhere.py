"""The tools that write in Plane, over the double and over a real server: their promises hold for both.

A real one is named as in test_plane_client.py; the suite makes a project of its own there, and deletes it at the end.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from mcp_server.app.composition import open_app
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from tests.contract.connectors.plane.test_client import NEEDED, Here, opened
from tests.doubles.plane import ADA, WORKSPACE, plane_served
from tests.support.hosts.writers import Refused, Writer, let_in
from tests.support.plane.hosts import plane_settings

TEXT = """\
# Why

They are *old* and **leaked**: see [the guide](https://example.com/guide) and `vault read`. Поиск, 日本.

1. Make new ones
2. Hand them out

- [ ] first
- [x] second

| key | since |
| --- | --- |
| a | 2024 |

```sh
rotate --all && echo "<done>"
```

> Nobody likes it."""


@dataclass(frozen=True)
class AtPlane:
    """A host at level 4, and its Plane, inspected without the tools."""

    writer: Writer
    here: Here

    @property
    def key(self) -> str:
        return self.here.project.key

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Return the answer, once the server allows the requests: it allows 60 a minute."""
        while True:
            try:
                return await self.writer.call(tool, **arguments)
            except Refused as error:
                if "allows no more requests" not in str(error):
                    raise
                await anyio.sleep(15)


@asynccontextmanager
async def host_at(home: Path, url: str, key: str, workspace: str) -> AsyncIterator[AtPlane]:
    """Connect a host to a Plane with the suite's own project."""
    told = plane_settings(home, url, plane_api_key=key, plane_workspace=workspace)
    settings = await let_in(told, "writer", 4)
    async with (
        opened(url, key, workspace) as here,
        open_app(settings, indexing=False, announcing=False) as app,
        Client(app.server) as client,
    ):
        yield AtPlane(Writer(client, app, settings.kb), here)


@asynccontextmanager
async def host_of(kind: str, home: Path) -> AsyncIterator[AtPlane]:
    """Connect a host to the double or to the real server; the suite doesn't know which one."""
    if kind == "double":
        async with plane_served() as (running, _), host_at(home, running.address, ADA.key, WORKSPACE) as found:
            yield found
        return
    given = [os.environ.get(name, "") for name in NEEDED]
    if not all(given):
        pytest.skip(f"no real Plane: set {', '.join(NEEDED)}")
    async with host_at(home, given[0].rstrip("/"), given[1], given[2]) as found:
        yield found


anywhere = pytest.mark.parametrize("kind", ["double", pytest.param("real", marks=pytest.mark.external)])


@anywhere
async def test_a_task_is_stored_as_described_and_created_once(kind: str, tmp_path: Path) -> None:
    async with host_of(kind, tmp_path) as host:
        asked: dict[str, object] = {
            "project": host.here.project.name.upper(),
            "name": "Rotate the keys",
            "description": TEXT,
            "priority": "urgent",
            "assignees": [host.here.me.email],
            "state": "started",
            "start": "2026-11-20",
            "due": "2026-12-01",
        }
        made = await host.call("plane_create_task", **asked)
        assert (made["status"], made["dropped"], made["differs"]) == ("done", [], [])
        assert made["key"] == f"{host.key}-1"
        kept = await host.here.plane.task_by_key(made["key"])
        assert (kept.id, kept.name, kept.priority) == (made["task_id"], "Rotate the keys", "urgent")
        assert markdown_of(kept.html) == TEXT
        assert kept.assignee_ids == (host.here.me.id,)
        assert kept.state_id == (await host.here.states())["started"].id
        again = await host.call("plane_create_task", **asked)
        assert (again["status"], again["key"]) == ("unchanged", made["key"])
        assert (await host.here.plane.tasks(host.here.project.id)).total == 1


@anywhere
async def test_a_task_is_moved_cleared_and_described_again_and_unchanged_fields_are_not_sent(
    kind: str, tmp_path: Path
) -> None:
    async with host_of(kind, tmp_path) as host:
        made = await host.call(
            "plane_create_task", project=host.key, name="Moves", description="One.", due="2026-12-01"
        )
        key = made["key"].lower()
        moved = await host.call(
            "plane_update_task", task=key, state="completed", priority="low", due="", start="2026-11-20"
        )
        assert (moved["status"], moved["dropped"], moved["differs"]) == ("done", [], [])
        seen = (await host.call("plane_get_task", task=key))["updated_at"]
        told = await host.call("plane_update_task", task=made["task_id"], description=TEXT, seen_at=seen, name="Moved")
        assert (told["status"], told["differs"]) == ("done", [])
        kept = await host.here.plane.task_by_key(made["key"])
        assert (kept.name, kept.priority, kept.due, str(kept.starts)) == ("Moved", "low", None, "2026-11-20")
        assert kept.state_id == (await host.here.states())["completed"].id
        same = await host.call("plane_update_task", task=key, state="completed", description=TEXT, name="Moved", due="")
        assert same["status"] == "unchanged"
        conflict = await host.call("plane_update_task", task=key, description="Mine.", seen_at=seen)
        assert (conflict["status"], conflict["preview"]) == ("conflict", TEXT)
        assert markdown_of((await host.here.plane.task_by_key(made["key"])).html) == TEXT


@anywhere
async def test_a_comment_is_stored_as_written_and_added_once(kind: str, tmp_path: Path) -> None:
    async with host_of(kind, tmp_path) as host:
        made = await host.call("plane_create_task", project=host.key, name="Talks")
        said = await host.call("plane_comment_task", task=made["key"], text=TEXT)
        assert (said["status"], said["key"], said["differs"]) == ("done", made["key"], [])
        again = await host.call("plane_comment_task", task=made["url"], text=TEXT)
        assert again["status"] == "unchanged"
        (comment,) = (await host.here.plane.comments(host.here.project.id, made["task_id"])).items
        assert markdown_of(comment.html) == TEXT
        shown = await host.call("plane_get_task", task=made["key"], include=["comments"])
        assert [one["text"] for one in shown["comments"]] == [TEXT]


@anywhere
async def test_a_missing_thing_is_reported_with_the_existing_ones(kind: str, tmp_path: Path) -> None:
    async with host_of(kind, tmp_path) as host:
        made = await host.call("plane_create_task", project=host.key, name="Stays")
        for arguments in ({"state": "Nowhere"}, {"labels": ["none such"]}, {"assignees": ["nobody@example.invalid"]}):
            with pytest.raises(Refused, match="in Plane"):
                await host.call("plane_update_task", task=made["key"], **arguments)
        with pytest.raises(Refused, match="Plane has no"):
            await host.call("plane_comment_task", task=f"{host.key}-9999", text="Hello?")
        assert (await host.here.plane.task_by_key(made["key"])).updated_at
