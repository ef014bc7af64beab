"""Changes reach every listener, in both eras, whichever process made or saw them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent
from mcp_types import ResourceListChangedNotification, ResourceUpdatedNotification

from knowledge.errors import DatabaseUnavailable
from knowledge.state.ports import Event
from knowledge.trust.ports import TrustRecord
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.protocol.change_events import SessionSubscribers, follow_changes
from mcp_server.protocol.reach.subscribers import ReadersBus
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened
from tests.support.state.memory.state import MemoryStateStore
from tests.support.state.trust_levels import stand

pytestmark = [
    pytest.mark.filterwarnings("ignore:resources/(un)?subscribe:Warning"),  # the SDK's client warns of the old era
]

PAGE = "kb://doc/guides/deploy.md"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")


async def quiet(app: App) -> None:
    """Wait until the first index is done and announced."""
    with anyio.fail_after(60):
        while not (await app.base.state.last_event()):  # noqa: ASYNC110 - the index has no bell
            await anyio.sleep(0.02)
    await anyio.sleep(1)


async def test_a_2026_client_is_notified_of_a_page_indexed_by_another_process(settings: Settings) -> None:
    async with open_app(settings) as indexing:
        await quiet(indexing)
        async with (
            opened(settings, indexing=False) as other,
            connect(other) as client,
            client.listen(resource_subscriptions=[PAGE, "kb://map/guides"]) as heard,
        ):
            (settings.kb / "guides" / "deploy.md").write_text("# Changed\n", encoding="utf-8")
            uris = set()
            with anyio.fail_after(60):
                async for event in heard:
                    assert isinstance(event, ResourceUpdated)
                    uris.add(event.uri)
                    if len(uris) == 2:
                        break
            assert uris == {PAGE, "kb://map/guides"}


async def test_a_2025_client_is_notified_until_it_unsubscribes(settings: Settings) -> None:
    heard: list[str] = []
    bell = anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(str(message.params.uri))
            bell.set()

    async with opened(settings) as app:
        await quiet(app)
        async with connect(app, mode="legacy", message_handler=on_message) as client:
            await client.session.subscribe_resource(PAGE)
            (settings.kb / "guides" / "deploy.md").write_text("# Changed\n", encoding="utf-8")
            (settings.kb / "long.md").write_text("# Changed\n", encoding="utf-8")
            with anyio.fail_after(60):
                await bell.wait()
            await client.session.unsubscribe_resource(PAGE)
            await app.base.state.publish("doc", ["guides/deploy.md"])
            await anyio.sleep(0.3)
    assert heard == [PAGE]


async def test_a_2025_client_that_listed_resources_is_notified_of_very_many_changes_together(
    settings: Settings,
) -> None:
    """After these, the map and a changed list are announced, because the client may show old ones."""
    bell = anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceListChangedNotification):
            bell.set()

    async with (
        opened(settings, indexing=False) as app,
        connect(app, mode="legacy", message_handler=on_message) as client,
    ):
        await client.list_resources()
        await app.base.state.publish("map", [""])
        with anyio.fail_after(60):
            await bell.wait()


@pytest.mark.security
async def test_callers_that_may_not_read_may_not_listen(settings: Settings) -> None:
    async with opened(await let_in(settings, "desktop"), indexing=False) as app:
        frozen = TrustRecord(Principal(os_user(), "desktop").id, 0.0, 0.0, 2.9, frozen=True, updated_at=utc_now())
        await stand(app.base.state, frozen, reason="harmful", by="ann")
        async with connect(app, mode="legacy") as client:
            with pytest.raises(Exception, match="frozen"):
                await client.session.subscribe_resource(PAGE)
        async with connect(app) as client:
            with pytest.raises(Exception, match="frozen"):
                async with client.listen(resource_subscriptions=[PAGE]):
                    pass


class Heard(ReadersBus):
    """Remembers what was published, and signals it."""

    def __init__(self) -> None:
        super().__init__()
        self.uris: list[str] = []
        self.rang = anyio.Event()

    async def publish(self, event: ServerEvent, changes: Sequence[Event] = ()) -> None:
        del changes
        if isinstance(event, ResourceUpdated):
            self.uris.append(event.uri)
            self.rang.set()

    async def next(self) -> str:
        with anyio.fail_after(60):
            await self.rang.wait()
        self.rang = anyio.Event()
        return self.uris[-1]


class Unsteady(MemoryStateStore):
    """A store that loses its contents, as one restored from a backup does, and that is unavailable at times."""

    away = False

    def lose_everything(self) -> None:
        self._events.clear()

    async def events_after(self, seq: int, *, limit: int = 1000) -> Sequence[Event]:
        if self.away:
            raise DatabaseUnavailable("the database", "it is being moved")
        return await super().events_after(seq, limit=limit)


async def test_changes_are_announced_after_a_store_outage_and_after_its_counter_went_back() -> None:
    store, bus = Unsteady(), Heard()
    await store.publish("doc", ["before.md"])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow_changes, store, bus, SessionSubscribers())
        await anyio.wait_all_tasks_blocked()
        await store.publish("map", ["first"])
        assert await bus.next() == "kb://map/first"
        store.away = True
        await store.publish("map", ["away"])
        await anyio.wait_all_tasks_blocked()
        store.away = False
        assert await bus.next() == "kb://map/away"
        store.lose_everything()
        await store.publish("map", ["restored"])
        assert await bus.next() == "kb://map/restored"
        tasks.cancel_scope.cancel()
    assert "kb://doc/before.md" not in bus.uris, "what was there before it began is no news"
