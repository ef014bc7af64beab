"""The site of a knowledge base with rules, as somebody sees it from whom they hide pages."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from agents.engine.events import Started
from agents.loop.record.frames import Header
from agents.loop.store.ports import Hold
from knowledge.access.changes import Changing, DirectoryChange
from knowledge.access.rules import PathRule, Right
from knowledge.history.acts import act_name
from knowledge.trust.ports import Note
from mcp_server.app.composition import App, open_app
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.app.knowledge_base import utc_now
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.gate.trust.scores import grant
from mcp_server.runs.locations import runs_in
from mcp_server.web.access.sessions import Sessions
from mcp_server.web.application import page_app, running_page
from mcp_server.web.page_context import PageContext
from tests.support.access.people_base import CANARIES, MODIFIED_NS, PEOPLE, RULE_LIST
from tests.support.access.probes import CHANGEABLE
from tests.support.access.worlds import OWNER, World, indexed, world
from tests.support.hosts.writers import Writer
from tests.support.web.review_pages import forms
from tests.support.web.team_site import SiteVisitor

PORT: Final = 28_998
SITE: Final = f"http://localhost:{PORT}"
BOSS: Final = "boss"
"""The person whose host made the knowledge base. Every rule admits them."""
NO_PROPOSAL, NO_CHANGE = "p-" + "0" * 20, "999999"
DIFFERING: Final = (
    *CHANGEABLE,
    (re.compile(r"20[2-9]\d-\d\d-\d\d([T ]\d\d:\d\d)?|\b\d\d:\d\d\b"), "TIME"),
    (re.compile(r"(title=\"Confidence\">|<dt>Confidence</dt><dd>|recency )\d\.\d\d"), r"\1NUMBER"),
    (re.compile(r"\bjust now\b|(\b\d+(\.\d+)? (s|min|h|(second|minute|hour|day)s?)\b ?)+(ago)?"), "WHILE"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "SECRET"),
    (re.compile(r"\b(cursor|known)=[\w%.~-]+"), r"\1=CURSOR"),
    (
        re.compile(
            r"(change=|saved=|undone=|/audit/|#c|id=\"c|Record |[Cc]hange (<bdi>|&#39;)?|name=\"change\" value=\")e?\d+"
        ),
        r"\1NUMBER",
    ),
)
"""Parts of a page that differ between two sites: times, ids, numbers of acts, and the tokens of forms."""


@dataclass(frozen=True)
class LimitedSite:
    """A site, a browser in which somebody has logged in, and the ids of records by what they are."""

    app: App
    context: PageContext
    visitor: SiteVisitor
    ids: Mapping[str, str]

    def address(self, probe: str) -> str:
        """Return the address with the ids of this site: `<own-proposal>` is the id of the proposal that the person made."""
        return re.sub(r"<([^>]+)>", lambda found: self.ids[found[1]], probe)

    async def get(self, probe: str) -> str:
        """Return status, headers and text of the page, without what differs between two sites."""
        return as_text((await self.visitor.go(self.address(probe))).answer)

    async def somebody_writes(self, hidden: str) -> None:
        """Have somebody write a page in an editor, and bring that on record and into the index."""
        page = self.app.base.vault.root / hidden
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(
            f"# Written\n\nBook the hall, says {CANARIES['ann']}. See [plan](../../plans/q3.md).\n", encoding="utf-8"
        )
        await self.app.services.outside_changes.record()
        await _settled(self.app)

    async def post(self, action: str, fields: Mapping[str, str]) -> str:
        """Send a form with the token of the session, and return the answer in the same way."""
        await self.visitor.go("/passkeys")
        csrf = forms(self.visitor.html)["/logout"]["csrf"]
        filled = {name: self.address(value) for name, value in fields.items()}
        await self.visitor.post(self.address(action), {"csrf": csrf, **filled}, origin=SITE)
        return as_text(self.visitor.answer)


def as_text(answer: httpx.Response) -> str:
    """Return what a browser gets, without what differs between two sites."""
    kept = {name: value for name, value in answer.headers.items() if name not in ("set-cookie", "content-length")}
    found = f"{answer.status_code} {sorted(kept.items())}\n{answer.text}"
    for pattern, word in DIFFERING:
        found = pattern.sub(word, found)
    return found


@asynccontextmanager
async def limited_site(folder: Path, person: str, shows: Callable[[str], bool]) -> AsyncIterator[LimitedSite]:
    """Make a knowledge base of the pages that `shows` admits, and log the person in on its site."""
    made = await world(folder, shows)
    async with open_app(made.settings, indexing=False, announcing=False) as app:
        for change in _people():
            await app.base.state.people.change(change, note=Note(BOSS, "people", "", utc_now()))
        ids = await _records(made, app, person, shows)
        await _settled(app)
        context = running_page(app.site_services, app.approvals, made.settings, port=PORT, holder="nobody").page_context
        async with httpx.AsyncClient(base_url=SITE, transport=httpx.ASGITransport(page_app(context))) as http:
            visitor = SiteVisitor(http)
            secret = await Sessions(app.base.state.trust, utc_now).invite(f"{person}@token:http", "/")
            await visitor.go(f"/login/{secret}")
            await visitor.post("/login", forms(visitor.html)["/login"], origin=SITE)
            assert visitor.status == 303, visitor.html
            try:
                yield LimitedSite(app, context, visitor, ids)
            finally:
                await context.close()


async def _settled(app: App) -> None:
    """Bring the index up to date with pages of which none was written just now: those would be indexed once more later."""
    for page in app.base.vault.root.rglob("*.md"):
        os.utime(page, ns=(MODIFIED_NS, MODIFIED_NS))
    await indexed(app)


def _people() -> list[DirectoryChange]:
    changing = Changing(BOSS, utc_now())
    principals = {BOSS: [f"{os_user()}@{OWNER}"]} | {one: [f"{one}@token:http", f"{os_user()}@{one}"] for one in PEOPLE}
    rules = [*RULE_LIST, *(PathRule(BOSS, folder, Right.WRITE) for folder in {rule.folder for rule in RULE_LIST})]
    return [
        *(changing.person_added(name, names) for name, names in principals.items()),
        changing.group_added("staff", ["ann", "ben"]),
        *(changing.rule_set(rule.who, rule.folder, rule.right.name.lower()) for rule in rules),
    ]


async def _records(made: World, app: App, person: str, shows: Callable[[str], bool]) -> Mapping[str, str]:
    """Leave proposals, a journey and runs behind, and return the ids of records."""
    state, me = app.base.state, os_user()
    ids = {"no-proposal": NO_PROPOSAL, "no-change": NO_CHANGE}
    await grant(state, f"{me}@{OWNER}", 2, by=BOSS, now=utc_now())
    async with made.host(OWNER) as boss:
        ids["proposal"] = await _proposed(boss, "drafts/idea.md", "Ask in the canteen.\n")
        ids |= dict.fromkeys(("hidden-proposal", "hidden-change"), "")
        for other, word in CANARIES.items():
            diary = f"people/{other}/diary.md"
            if other != person and shows(diary):
                ids["hidden-proposal"] = await _proposed(boss, diary, f"{word} asks for more.\n")
                (line, *_) = await state.ledger.history(diary, limit=1)
                ids["hidden-change"] = act_name(line)
    ids["hidden-proposal"] = ids["hidden-proposal"] or NO_PROPOSAL
    ids["hidden-change"] = ids["hidden-change"] or NO_CHANGE
    async with made.host(person) as own:
        ids["own-proposal"] = await _proposed(own, "drafts/idea.md", "Paint it green.\n")
    (line, *_) = await state.ledger.history("plans/launch.md", limit=1)
    ids["change"], ids["before"], ids["after"] = act_name(line), str(line.before), str(line.revision)
    journeys, runs, now = journeys_in(state), runs_in(state), utc_now()
    begun = Started("research", "Which hall is cheap?", "ROUTE", Principal(me, person).id, {}, "c")
    await journeys.start("research-own", begun, by=begun.principal, at=now)
    for name, who in (("own", person), ("hidden", OWNER)):
        header = Header(id=f"run-{name}", goal=f"Goal of {name}", principal=f"{me}@{who}", begun_at=now)
        await runs.begin(header, Hold("nobody", now, now))
    return ids


async def _proposed(host: Writer, path: str, text: str) -> str:
    """Have the host propose a paragraph at the end of the page, and return the proposal's id."""
    answer = await host.call(
        "kb_merge",
        path=path,
        content=f"{host.text(path)}\n{text}",
        base_revision=await host.revision(path),
        section="*",
    )
    assert answer["status"] == "proposed", answer
    return str(answer["proposal"]["id"])
