"""Several servers that are asked for the same act at once: one does it, and the others report its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from knowledge.outbox.ports import OutboxEntry
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.doctor import examine
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallAnswered
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.trust.scores import grant
from tests.support.hosts.mail_service import Mail
from tests.support.knowledge_bases.folders import write

ME = Principal("ann", "desktop")
SERVERS, CALLS = 3, 4


@asynccontextmanager
async def servers(settings: Settings, folder: Path, mail: Mail) -> AsyncIterator[list[App]]:
    """Yield servers that share their state; if that is a database, each is on its own machine."""
    async with AsyncExitStack() as stack:
        apps = []
        for n in range(SERVERS):
            own = folder / (str(n) if settings.database_url else "state")
            told = replace(settings, state_dir=own)
            opening = open_app(told, extra_tools=[mail.spec()], indexing=False, announcing=False)
            apps.append(await stack.enter_async_context(opening))
        await grant(apps[0].base.state, ME.id, 4, by="ann", now=utc_now())
        yield apps


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_of_several_servers_asked_for_the_same_act_one_sends_it(
    engine: str, request: pytest.FixtureRequest, schema: str, tmp_path: Path
) -> None:
    """The second process waits for the first, instead of treating its request as lost."""

    async def takes() -> None:
        await anyio.sleep(0.05)

    settings, mail = Settings(kb=write(tmp_path / "kb")), Mail(takes=takes)
    if engine == "postgres":
        url = request.getfixturevalue("postgres").url()
        settings = replace(settings, database_url=url, database_schema=schema)
    told: Counter[str] = Counter()
    async with servers(settings, tmp_path, mail) as apps, anyio.create_task_group() as tasks:

        async def ask(app: App, text: str) -> None:
            answer = await app.gate.dispatch("send", {"text": text}, Call(ME))
            assert isinstance(answer, CallAnswered), answer
            told[answer.content["status"]] += 1

        for n in range(CALLS):
            for app in apps:
                tasks.start_soon(ask, app, f"message {n}")
    assert sorted(mail.held) == [f"message {n}" for n in range(CALLS)]
    assert told == {"done": CALLS, "unchanged": CALLS * (SERVERS - 1)}


async def test_the_doctor_names_acts_with_an_unknown_outcome_and_no_others(tmp_path: Path) -> None:
    settings = Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")
    now = utc_now()
    async with open_state(settings) as state:
        for n, begun in enumerate([now, now - timedelta(hours=1), now - timedelta(hours=2), now - timedelta(hours=3)]):
            outbox_entry = OutboxEntry(f"kf-{n}", ME.id, "send", f"mail:{n}", str(n), begun)
            await state.outbox.begin(outbox_entry, within=timedelta(0))
        await state.outbox.end("kf-2", "unsure", at=now)
        await state.outbox.end("kf-3", "done", at=now)
    (told,) = [finding for finding in await examine(settings) if finding.what == "outbox"]
    assert told.health == "note"
    assert "mail:2" in told.found
    assert "mail:1" in told.found
    assert "mail:0" not in told.found, "that may be under way"
    assert "mail:3" not in told.found
    async with open_state(settings) as state:
        for n in range(3):
            await state.outbox.end(f"kf-{n}", "failed", at=now)
    assert not [finding for finding in await examine(settings) if finding.what == "outbox"]
