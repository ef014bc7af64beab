"""The reading tools through a real MCP client, over the double, and over a real Plane if one is given.

A real one is named as for tests/contract/connectors/plane/test_client.py; the suite makes its own project
and deletes it at the end.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.connectors.plane import wire
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.connectors.plane.text.markdown import differs, html_of
from tests.contract.connectors.plane.test_client import NEEDED, Here, opened
from tests.doubles.plane import ADA, WORKSPACE, plane_served
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.unit.connectors.plane.test_markdown import ORDINARY


@dataclass(frozen=True)
class Reader:
    """A connected host, and the project that it reads."""

    here: Here
    writer: Writer

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return await self.writer.call(tool, **arguments)

    async def keys(self, **asked: object) -> list[str]:
        """Return the keys of this project's matching tasks."""
        answer = await self.call("plane_query_tasks", project=self.here.project.key, **asked)
        return [task["key"] for task in answer["tasks"]]


@dataclass(frozen=True)
class Ground:
    """A Plane with the suite's own project, and the key for it."""

    here: Here
    key: str
    home: Path


@asynccontextmanager
async def reading(ground: Ground) -> AsyncIterator[Reader]:
    """Connect a host to a server that uses that Plane."""
    home, here = ground.home, ground.here
    settings = Settings(
        kb=write(home / "kb", None),
        state_dir=home / "state",
        plane_base_url=here.url,
        plane_api_key=ground.key,
        plane_workspace=here.workspace,
    )
    settings = await let_in(settings, "reader", 1)
    async with open_app(settings, indexing=False, announcing=False) as app, Client(app.server) as client:
        yield Reader(here, Writer(client, app, settings.kb))


@pytest.fixture(params=["double", pytest.param("real", marks=pytest.mark.external)])
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    """Yield a Plane; the suite doesn't know which one."""
    if request.param == "double":
        async with plane_served() as (running, _), opened(running.address, ADA.key, WORKSPACE) as here:
            yield Ground(here, ADA.key, tmp_path)
        return
    url, key, workspace = (os.environ.get(name, "") for name in NEEDED)
    if not (url and key and workspace):
        pytest.skip(f"no real Plane: set {', '.join(NEEDED)}")
    async with opened(url.rstrip("/"), key, workspace) as here:
        yield Ground(here, key, tmp_path)


async def test_a_project_is_listed_with_the_names_in_it(ground: Ground) -> None:
    async with reading(ground) as reader:
        here = reader.here
        await here.raw("/labels/", {"name": "bug", "color": "#ff0000"})
        listed = await reader.call("plane_list_projects")
        assert here.project.key in [line["key"] for line in listed["projects"]]
        (line,) = (await reader.call("plane_list_projects", project=here.project.name))["projects"]
        assert set(line["states"]) >= {state.name for state in (await here.states()).values()}
        assert line["labels"] == ["bug"]
        assert here.me.name in line["members"]


async def test_tasks_are_found_by_names(ground: Ground) -> None:
    async with reading(ground) as reader:
        here = reader.here
        label = wire.read_label(await here.raw("/labels/", {"name": "bug", "color": "#ff0000"}))
        states = await here.states()
        stale = await here.made(
            "Search returns stale rows",
            state_id=states["started"].id,
            priority="high",
            label_ids=(label.id,),
            assignee_ids=(here.me.id,),
        )
        done = await here.made("Поиск по-русски", state_id=states["completed"].id)
        both, first, second = {here.key_of(stale), here.key_of(done)}, [here.key_of(stale)], [here.key_of(done)]
        assert set(await reader.keys()) == both
        asked: list[tuple[Mapping[str, object], list[str]]] = [
            ({"state": "open"}, first),
            ({"state": states["completed"].name.upper()}, second),
            ({"label": "bug"}, first),
            ({"priority": "high"}, first),
            ({"assignee": "me"}, first),
            ({"assignee": here.me.email}, first),
            ({"assignee": "none"}, second),
            ({"text": "STALE"}, first),
            ({"text": "поиск"}, second),
            ({"updated_since": "2199-01-01"}, []),
        ]
        for arguments, found in asked:
            assert await reader.keys(**arguments) == found, arguments
        everywhere = await reader.call("plane_query_tasks", text="stale rows")
        assert here.key_of(stale) in [task["key"] for task in everywhere["tasks"]]


async def test_lists_of_values_orders_totals_and_counts(ground: Ground) -> None:
    async with reading(ground) as reader:
        here = reader.here
        label = wire.read_label(await here.raw("/labels/", {"name": "bug", "color": "#ff0000"}))
        states = await here.states()
        whole = await here.made("Whole", state_id=states["started"].id, priority="low", starts=date(2026, 11, 20))
        part = await here.made(
            "Part",
            parent_id=whole.id,
            priority="urgent",
            assignee_ids=(here.me.id,),
            label_ids=(label.id,),
            due=date(2026, 12, 1),
        )
        other = await here.made("Another", due=date(2026, 11, 30), state_id=states["completed"].id)
        keys = {"whole": here.key_of(whole), "part": here.key_of(part), "other": here.key_of(other)}
        asked: list[tuple[Mapping[str, object], list[str]]] = [
            ({"sort": "created"}, ["other", "part", "whole"]),
            ({"sort": "created", "reverse": True}, ["whole", "part", "other"]),
            ({"sort": "priority"}, ["part", "whole", "other"]),
            ({"sort": "name", "reverse": True}, ["whole", "part", "other"]),
            ({"sort": "due", "priority": ["urgent", "none"]}, ["other", "part"]),
            ({"state": ["started", "completed"], "sort": "name"}, ["other", "whole"]),
            ({"assignee": ["me", "none"], "label": ["bug"]}, ["part"]),
            ({"created_by": "me", "starts_by": "2026-11-20"}, ["whole"]),
            ({"parent": keys["whole"]}, ["part"]),
            ({"parent": "none", "sort": "name"}, ["other", "whole"]),
        ]
        for arguments, found in asked:
            assert await reader.keys(**arguments) == [keys[name] for name in found], arguments
        counted = await reader.call("plane_query_tasks", project=here.project.key, count_by="label", limit=1)
        assert (counted["total"], counted["counts"]) == (3, {"none": 2, "bug": 1})


async def test_a_task_is_read_by_key_id_and_address_with_its_text_as_sent(ground: Ground) -> None:
    """However Plane changes the HTML, the Markdown is the same, and no difference is reported."""
    async with reading(ground) as reader:
        here = reader.here
        sent = html_of(ORDINARY)
        made = await here.made("With a text", html=sent)
        key = here.key_of(made)
        told = await reader.call("plane_get_task", task=key.lower())
        assert told["text"] == markdown_of(sent)
        assert differs(sent, (await here.plane.task(here.project.id, made.id)).html) == ()
        assert (await reader.call("plane_get_task", task=made.id))["key"] == key
        assert (await reader.call("plane_get_task", task=told["url"]))["key"] == key


async def test_comments_and_relations_are_shown_by_name(ground: Ground) -> None:
    async with reading(ground) as reader:
        here = reader.here
        one, other = await here.made("One"), await here.made("Other")
        await here.plane.create_comment(here.project.id, one.id, html_of("Seen on **42**"), f"{one.id}-1")
        await here.plane.create_comment(here.project.id, one.id, html_of("- [x] mended"), f"{one.id}-2")
        told = await reader.call("plane_get_task", task=here.key_of(one), include=["comments", "relations"])
        assert [(said["by"], said["text"]) for said in told["comments"]] == [
            (here.me.name, "Seen on **42**"),
            (here.me.name, "- [x] mended"),
        ]
        assert told["relations"] == []
        assert (await reader.call("plane_get_task", task=here.key_of(other), include=["comments"]))["comments"] == []
