"""A journey records what its calls are about, so in it nobody reads what is hidden from the one who began it (decision 114)."""

from __future__ import annotations

import asyncio
import json

import pytest
from mcp_types import TextResourceContents

from mcp_server.gate.host_registration import os_user
from tests.support.access.people_base import CANARIES
from tests.support.access.worlds import OWNER, World, world
from tests.support.hosts.writers import Writer

WORD = CANARIES["ann"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    return asyncio.run(world(tmp_path_factory.mktemp("journeys") / "team", lambda _path: True))


async def told(ben: Writer, journey: str) -> str:
    """Return all that Ben's host can read about the journey."""
    found = [await ben.call("journey_status", journey_id=journey, view=view) for view in ("state", "events", "report")]
    for uri in (f"journey://{journey}", f"journey://{journey}/events", f"journey://{journey}/report"):
        found += [
            {"text": part.text}
            for part in (await ben.client.read_resource(uri)).contents
            if isinstance(part, TextResourceContents)
        ]
    return json.dumps(found)


async def test_a_host_that_may_read_more_leaves_nothing_of_it_in_the_journey_of_another(made: World) -> None:
    async with made.host("ben") as ben, made.host(OWNER) as owner:
        journey = (await ben.call("journey_start", agent="research", brief="What does a hall cost?"))["journey_id"]
        ids = {"journey_id": journey}
        assert "people/ann" not in json.dumps(await owner.call("kb_map", path="people", **ids))
        assert "nothing at" in await owner.refused("kb_map", path="people/ann", **ids)
        assert WORD not in json.dumps((await owner.call("kb_search", query=WORD, **ids))["hits"])
        assert WORD in json.dumps((await owner.call("kb_search", query=WORD))["hits"])
        for tool, more in (
            ("kb_read", {"path": f"Diary {WORD}"}),
            ("kb_merge", {"path": "people/ann/x.md", "content": WORD}),
        ):
            await owner.refused(tool, **more, **ids)
        seen = await told(ben, journey)
    assert "kb_search" in seen
    assert WORD not in seen
    assert "people/ann" not in seen


async def test_in_a_journey_of_its_own_a_host_reads_what_it_may_read(made: World) -> None:
    async with made.host(OWNER) as owner:
        journey = (await owner.call("journey_start", agent="research", brief="What does a diary cost?"))["journey_id"]
        assert WORD in json.dumps((await owner.call("kb_search", query=WORD, journey_id=journey))["hits"])


async def test_a_source_that_is_a_journey_of_others_brings_no_names_of_what_was_read_there(made: World) -> None:
    """A merge from a journey takes over the untrusted places that were read in it, which later proposals name."""
    async with made.host(OWNER) as owner:
        taints = owner.app.services.taints
        await taints.note(f"{os_user()}@{OWNER}", "research-owner", ["kb:people/ann/diary.md"])
        assert list(await taints.of_journey("research-owner")) == ["kb:people/ann/diary.md"]
    async with made.host("ben") as ben:
        await ben.merge("plans/hall.md", "# Hall\n\nIt is booked.\n", source="journey:research-owner")
        assert not await ben.app.services.taints.of(f"{os_user()}@ben", "")
