"""A server announces proposals in Zulip if its settings say so; a command line never does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from mcp import Client

from mcp_server.app.composition import open_app
from mcp_server.app.settings.loader import load
from tests.doubles.serving import served
from tests.doubles.zulip_world import RECORDED_LEVEL
from tests.support.knowledge_bases.folders import write
from tests.support.zulip.hosts import BOT, Clock, furnished


@pytest.mark.parametrize(
    ("environ", "announcing", "told"),
    [
        ({"ZULIP_REVIEWS": "drawing/reviews"}, True, True),
        ({}, True, False),
        ({"ZULIP_REVIEWS": "drawing/reviews"}, False, False),
        ({"ZULIP_REVIEWS": "drawing/reviews", "ZULIP_READ_ONLY": "true"}, True, False),
    ],
    ids=["asked for", "not asked for", "a command line", "reading only"],
)
async def test_proposals_are_announced_if_the_settings_say_so(
    tmp_path: Path, environ: dict[str, str], *, announcing: bool, told: bool
) -> None:
    zulip = furnished(RECORDED_LEVEL, Clock())
    bot = zulip.world.user(BOT)
    async with served(zulip) as double:
        named = {"ZULIP_SITE": double.address, "ZULIP_EMAIL": bot.email, "ZULIP_API_KEY": bot.key}
        flags = {
            "kb": write(tmp_path / "kb", {"a.md": "# A\n"}),
            "state_dir": tmp_path / "state",
            "open_browser": False,
        }
        settings = load(flags, {**named, **environ}, cwd=tmp_path)
        async with (
            open_app(settings, indexing=False, announcing=announcing) as app,
            Client(app.server) as host,
        ):
            answer = await host.call_tool("kb_merge", {"path": "new.md", "content": "# New\n\nA secret plan.\n"})
            assert (answer.structured_content or {})["status"] == "proposed"
            assert any("announce_in_zulip" in str(task.name) for task in anyio.get_running_tasks()) is told
            if told:
                await _soon(lambda: bool(zulip.world.texts("drawing", "reviews")))
    (notice,) = zulip.world.texts("drawing", "reviews") if told else [""]
    assert ("new.md" in notice) is told
    assert "secret plan" not in notice
    assert told or not double.seen


async def _soon(true: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if true():
            return
        await anyio.sleep(0.02)
    raise AssertionError("nobody was told")
