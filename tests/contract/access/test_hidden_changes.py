"""Changes of hidden pages are not heard of, in either protocol (decision 114)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import PromptListChangedNotification, ResourceListChangedNotification, ResourceUpdatedNotification

from knowledge.access.rules import PathAccess, Right
from mcp_server.app.composition import App
from mcp_server.protocol import change_events as changes
from tests.support.access.people_base import load_access
from tests.support.access.worlds import World, indexed, world
from tests.support.roads.road import connect, opened

pytestmark = [
    pytest.mark.security,
    pytest.mark.filterwarnings("ignore:resources/(un)?subscribe:Warning"),  # the SDK's client warns of the old era
]

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
        opened(settings, indexing=False, announcing=False, load_access=load_access) as app,
        connect(app) as client,
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
        opened(settings, indexing=False, announcing=False, load_access=load_access) as app,
        connect(app, mode="legacy", message_handler=on_message) as client,
    ):
        await client.list_resources()
        for uri in WATCHED:
            await client.session.subscribe_resource(uri)
        await change_both(app)
        with anyio.fail_after(60):
            await bell.wait()
    assert heard == [f"kb://doc/{OPEN}", "kb://map/"]


async def test_one_event_for_very_many_changes_is_heard_only_if_a_readable_page_is_among_them(tmp_path: Path) -> None:
    fresh = await world(tmp_path / "team", lambda _path: True)
    settings = replace(fresh.settings, enrolment=fresh.secrets["ben"])
    async with (
        opened(settings, indexing=False, announcing=False, load_access=load_access) as app,
        connect(app) as client,
        client.listen(resource_subscriptions=["kb://map/", f"kb://doc/{OPEN}"], resources_list_changed=True) as events,
    ):

        async def heard_of_very_many() -> list[str]:
            """Announce that very many pages changed, and return what is heard before a last event about one page."""
            await app.base.state.publish("map", [""])
            await app.base.state.publish("doc", [OPEN])
            heard = list[str]()
            with anyio.fail_after(60):
                async for event in events:
                    heard.append(event.uri if isinstance(event, ResourceUpdated) else type(event).__name__)
                    if heard[-1] == f"kb://doc/{OPEN}":
                        break
            return heard[:-1]

        assert await heard_of_very_many() == []
        (settings.kb / OPEN).write_text("# Other\n\nAnother text.\n", encoding="utf-8")
        await indexed(app)
        # The event about a page was also one about the map above it, which comes after it.
        assert (await heard_of_very_many()).count("kb://map/") == 2


AGENT = """\
title: An agent
summary: {summary}
initial: PLAN
complete: DONE
phases:
  - name: PLAN
    tools: [kb_map]
    prompt: Plan it for {{{{ brief }}}}.
    prompt_again: Mend it.
    work: {{properties: {{names: {{type: array, items: {{type: string}}}}}}}}
  - name: DONE
    prompt: Say goodbye.
transitions:
  - {{from: PLAN, to: DONE, condition: planned}}
conditions:
  planned:
    filled: names
"""


async def without_two_agents(principal: str) -> PathAccess:
    """Return the rights of everybody, which hide two files in a folder that all may read."""
    access = await load_access(principal)
    hidden = {f"_agents/{name}.yaml": Right.NONE for name in ("first", "secret")}
    return PathAccess({**access.rights, **hidden}) if access.rights else access


async def test_a_hidden_agent_comes_unheard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "FIRST_LOOK_S", 0.1)
    monkeypatch.setattr(changes, "LISTS_LOOK_S", 0.1)
    fresh, heard, bell = await world(tmp_path / "team", lambda _path: True), list[str](), anyio.Event()
    folder = fresh.settings.kb / "_agents"
    folder.mkdir()
    (folder / "first.yaml").write_text(AGENT.format(summary="First."), encoding="utf-8")

    async def on_message(message: Any) -> None:
        if isinstance(message, PromptListChangedNotification | ResourceListChangedNotification):
            heard.append(message.method)
            if len(heard) == 2:
                bell.set()

    settings = replace(fresh.settings, enrolment=fresh.secrets["ben"])
    async with (
        opened(settings, indexing=False, announcing=False, load_access=without_two_agents) as app,
        connect(app, mode="legacy", message_handler=on_message) as client,
    ):
        assert "first" not in {prompt.name for prompt in (await client.list_prompts()).prompts}
        await client.list_resources()
        (folder / "secret.yaml").write_text(AGENT.format(summary="Hidden."), encoding="utf-8")
        with anyio.fail_after(60):
            while "secret" not in await app.server.origins():  # noqa: ASYNC110 - the folder announces nothing
                await anyio.sleep(0.05)
        await anyio.sleep(0.5)  # several looks; a slow machine makes this test weaker, not wrong
        assert heard == []
        (folder / "open.yaml").write_text(AGENT.format(summary="For all."), encoding="utf-8")
        with anyio.fail_after(60):
            await bell.wait()
        assert "open" in {prompt.name for prompt in (await client.list_prompts()).prompts}
    assert sorted(heard) == ["notifications/prompts/list_changed", "notifications/resources/list_changed"]


async def test_a_hidden_link_is_no_agent_with_a_problem(tmp_path: Path) -> None:
    fresh = await world(tmp_path / "team", lambda _path: True)
    (fresh.settings.kb / "_agents").mkdir()
    (fresh.settings.kb / "_agents/secret.yaml").symlink_to(fresh.settings.kb / "plans/q3.md")
    async with fresh.host("ben", without_two_agents) as ben:
        refused = [await ben.refused("journey_start", agent=name, brief="Go.") for name in ("secret", "nobody")]
    assert refused[0].replace("secret", "nobody") == refused[1]
