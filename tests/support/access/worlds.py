"""Two knowledge bases for one caller: with everything, and as if what is hidden from the caller had never been."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp.client.session import ElicitationFnT

from agents.engine.events import Started
from knowledge.history.ports import Actor, HistoryEntry
from knowledge.merge.model import Contradiction, Side
from mcp_server.app.composition import App, open_app
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal, enrol, os_user
from mcp_server.gate.trust.folder_rights import LoadAccess
from mcp_server.gate.trust.scores import grant
from tests.support.access.people_base import CANARIES, PEOPLE, all_pages, load_access, written
from tests.support.hosts.writers import Writer
from tests.support.roads.road import connect, opened, over_http

MODIFIED = datetime(2026, 3, 1, tzinfo=UTC)
OWNER = "owner"
HOSTS = (OWNER, *PEOPLE)
FENCE = 1


@dataclass(frozen=True)
class World:
    """A knowledge base whose owner has worked in it, and the secrets of its hosts."""

    settings: Settings
    secrets: dict[str, str]

    @asynccontextmanager
    async def host(
        self,
        person: str | None,
        load: LoadAccess = load_access,
        *,
        forms: ElicitationFnT | None = None,
        mode: str = "auto",
    ) -> AsyncIterator[Writer]:
        """Connect as that person's host, None as one that nobody registered. `load` has the rights of everybody."""
        secret = await self._strangers() if person is None else self.secrets[person]
        settings = replace(self.settings, enrolment=secret)
        async with (
            opened(settings, indexing=False, announcing=False, load_access=load) as app,
            connect(app, mode=mode, elicitation_callback=forms) as client,
        ):
            yield Writer(client, app, settings.kb)

    async def _strangers(self) -> str | None:
        """Return the secret of a host that belongs to nobody: over HTTP nobody comes without one."""
        if not over_http():
            return None
        async with open_state(self.settings) as state:
            return await enrol(state, "stranger", now=utc_now())


async def checked(*hosts: Writer) -> None:
    """Return once their writes so far are compared with other pages: what that finds is in later answers."""
    for host in hosts:
        await host.app.services.load_writing().elsewhere.settled()


async def indexed(app: App) -> None:
    """Bring the index of all pages up to date."""
    await app.base.index.begin(app.base.identity)
    await app.base.indexer.reconcile(FENCE)


async def world(folder: Path, shows: Callable[[str], bool], *, level: float = 3, **more: Any) -> World:
    """Make the knowledge base of the pages that `shows` admits, and let its owner work on them. `more` are settings."""
    settings = Settings(kb=written(folder / "kb", filter(shows, all_pages())), state_dir=folder / "state", **more)
    async with open_app(settings, indexing=False, announcing=False, load_access=load_access) as app:
        state = app.base.state
        secrets = {host: await enrol(state, host, now=utc_now()) for host in HOSTS}
        for host in HOSTS:
            await grant(state, Principal(os_user(), host).id, 5 if host == OWNER else level, by="ann", now=utc_now())
        await indexed(app)
    made = World(settings, secrets)
    async with made.host(OWNER) as owner:
        await _work(owner, shows)
        await indexed(owner.app)
    return made


async def _work(owner: Writer, shows: Callable[[str], bool]) -> None:
    """Leave histories, origins, contradictions, proposals and a journey behind, on all pages that exist."""
    for person, word in CANARIES.items():
        diary, moved = f"people/{person}/diary.md", f"people/{person}/{word}-old.md"
        if shows(diary):
            await owner.call(
                "kb_merge",
                path=diary,
                content=f"# Diary {word}\n\n## Salary {word}\n\nThe budget for travel is 8,000 euros, says {word}.\n",
                source=f"wiki:{word}",
                base_revision=await owner.revision(diary),
                intent=f"what {word} said",
            )
            await owner.call("kb_move", path=f"people/{person}/{word}-launch.md", to=moved)
    for path, text in (
        ("plans/q3.md", "The launch is on 4 March 2027.\n"),
        ("plans/launch.md", "- Order flowers\n"),
        ("policies/travel.md", "Travel costs are paid within 30 days.\n"),
    ):
        revision = await owner.revision(path)
        await owner.call("kb_merge", path=path, content=text, source="wiki:team", base_revision=revision)
    for person, word in CANARIES.items():
        # By hand, because which pages a sweep compares depends on all of them.
        await _flag(
            owner,
            shows,
            ("plans/q3.md", "The launch is on 3 March 2027."),
            (f"people/{person}/{word}-old.md", "4 March 2027"),
        )
        await _flag(
            owner,
            shows,
            ("people/team.md", "Ann, Ben and Eve"),
            (f"people/{person}/shared/open.md", "The hall costs 700 euros."),
        )
    await _flag(owner, shows, ("policies/travel.md", "paid within 14 days"), ("plans/launch.md", "Book the hall"))
    begun = Started(
        "research", f"What do {' '.join(CANARIES.values())} cost?", "ROUTE", f"{os_user()}@{OWNER}", {}, "c"
    )
    await journeys_in(owner.app.base.state).start("research-owner", begun, by=begun.principal, at=utc_now())


async def _flag(owner: Writer, shows: Callable[[str], bool], one: tuple[str, str], other: tuple[str, str]) -> None:
    """Put a contradiction between two pages on record, if both exist."""
    if not (shows(one[0]) and shows(other[0])):
        return
    now = utc_now()
    sides = [
        Side(path, "", text, "user", 0.8, MODIFIED, 0.7, await owner.revision(path)) for path, text in (one, other)
    ]
    found = Contradiction("number", "a number", f"{one[0]} and {other[0]} differ", sides[0], sides[1])
    entry = HistoryEntry(now, Actor("server", "check", ""), outcome="flagged", contradictions=[found])
    await owner.app.base.state.ledger.commit(entry)
