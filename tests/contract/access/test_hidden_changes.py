"""Changes of hidden pages are not heard of, in either protocol (decision 114)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceListChangedNotification, ResourceUpdatedNotification

from mcp_server.app.composition import App, open_app
from tests.support.access.people_base import load_access
from tests.support.access.worlds import World, world

pytestmark = pytest.mark.filterwarnings(
    "ignore:resources/(un)?subscribe:Warning"
)  # the SDK's client warns of the old era

HIDDEN, OPEN = "people/ann/diary.md", "plans/q3.md"
WATCHED = [f"kb://doc/{HIDDEN}", "kb://map/people/ann", "kb://map/people", "kb://map/", f"kb://doc/{OPEN}"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    return asyncio.run(world(tmp_path_factory.mktemp("changes") / "team", lambda _path: True))


async def change_both(app: App) -> None:
    """Announce changes of a hidden page, of a journey of somebody who may read more, and then of a page that Ben may read."""
    await app.base.state.publish("doc", [HIDDEN])
    await app.base.state.publish("map", ["people/ann"])
    await app.base.state.publish("journey", ["research-owner"])
    await app.base.state.publish("doc", [OPEN])


async def test_a_2026_client_hears_of_readable_pages_only(made: World) -> None:
    settings = replace(made.settings, enrolment=made.secrets["ben"])
    heard: list[str] = []
    async with (
        open_app(settings, indexing=False, announcing=False, load_access=load_access) as app,
        Client(app.server) as client,
        client.listen(
            resource_subscriptions=[*WATCHED, "journey://research-owner"], resources_list_changed=True
        ) as events,
    ):
        await change_both(app)
        with anyio.fail_after(60):
            async for event in events:
                heard.append(event.uri if isinstance(event, ResourceUpdated) else type(event).__name__)
                if heard[-1] == "kb://map/":
                    break
    assert heard == [f"kb://doc/{OPEN}", "kb://map/"]


async def test_a_2025_client_hears_of_readable_pages_only(made: World) -> None:
    settings = replace(made.settings, enrolment=made.secrets["ben"])
    heard, bell = list[str](), anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(str(message.params.uri))
        elif isinstance(message, ResourceListChangedNotification):
            heard.append("list")
        if heard and heard[-1] == "kb://map/":
            bell.set()

    async with (
        open_app(settings, indexing=False, announcing=False, load_access=load_access) as app,
        Client(app.server, mode="legacy", message_handler=on_message) as client,
    ):
        await client.list_resources()
        for uri in WATCHED:
            await client.session.subscribe_resource(uri)
        await change_both(app)
        with anyio.fail_after(60):
            await bell.wait()
    assert heard == [f"kb://doc/{OPEN}", "kb://map/"]
