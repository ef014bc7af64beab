"""The review page on a real socket, a host that may only propose, and a person who uses the page without JavaScript."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx
from mcp import Client

from agents.catalogue import Catalogue
from knowledge.trust.ports import Proposal
from mcp_server.app.composition import App, open_app
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import os_user
from mcp_server.web.access.login_links import login_link
from mcp_server.web.access.sessions import Sessions
from mcp_server.web.address import address
from mcp_server.web.server import show
from tests.support.knowledge_bases.folders import write
from tests.support.web.plain_http import TRUSTING_NOBODY

PATIENCE_S = 60.0
T = TypeVar("T")
ME = os_user()
PAGE = "guides/deploy.md"


class _Forms(HTMLParser):
    """Reads a page's forms: by address the fields and their values."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, dict[str, str]] = {}
        self._fields: dict[str, str] | None = None
        self._text: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        if tag == "form":
            self._fields = self.found.setdefault(str(held.get("action")), {})
        elif held.get("type") == "radio" and "checked" not in held:
            return
        elif self._fields is not None and tag == "input" and held.get("name"):
            self._fields[str(held["name"])] = held.get("value") or ""
        elif self._fields is not None and tag == "textarea":
            self._text = str(held["name"])
            self._fields[self._text] = ""

    def handle_data(self, data: str) -> None:
        if self._text is not None and self._fields is not None:
            self._fields[self._text] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._text is not None and self._fields is not None:
            # A browser leaves out the first line end, and sends the others as CR LF.
            self._fields[self._text] = self._fields[self._text].removeprefix("\n").replace("\n", "\r\n")
            self._text = None
        elif tag == "form":
            self._fields = None


def forms(html: str) -> dict[str, dict[str, str]]:
    """Return the forms of a page."""
    reader = _Forms()
    reader.feed(html)
    return reader.found


@dataclass
class Visitor:
    """A browser without JavaScript. `html` is the current page."""

    http: httpx.AsyncClient
    address: str
    html: str = ""
    status: int = 0

    async def look(self, path: str = "/waiting") -> str:
        return self._on(await self.http.get(path))

    def expire(self) -> None:
        """Lose the session, as a browser does after twelve hours. What says that somebody once logged in here stays."""
        self.http.cookies.delete(f"forge_review_{self.address.rpartition(':')[2]}")

    async def send(self, action: str, **fields: str) -> str:
        """Fill in the current page's form with that address, and send it."""
        held = forms(self.html)
        assert action in held, f"no form {action} here, only {sorted(held)}"
        return await self.post(action, {**held[action], **fields})

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> str:
        sent = {"origin": self.address, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self._on(await self.http.post(path, data=fields, headers=sent))

    def _on(self, answer: httpx.Response) -> str:
        self.html, self.status = answer.text, answer.status_code
        return self.html


@dataclass
class Place:
    """A knowledge base with its review page. `host` is a client that may only propose."""

    app: App
    host: Client
    settings: Settings
    address: str
    visitors: list[httpx.AsyncClient] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def text(self, path: str = PAGE) -> str:
        return (self.settings.kb / path).read_text(encoding="utf-8")

    async def link(self, to: str = "/waiting") -> str:
        return await login_link(Sessions(self.app.base.state.trust, utc_now), self.address, to)

    async def visitor(self, *, logged_in: bool = True) -> Visitor:
        http = httpx.AsyncClient(
            base_url=self.address, follow_redirects=True, timeout=PATIENCE_S, verify=TRUSTING_NOBODY
        )
        self.visitors.append(http)
        visitor = Visitor(http, self.address)
        if logged_in:
            await visitor.look((await self.link()).removeprefix(self.address))
            await visitor.send("/login")
            assert visitor.status == 200
        return visitor

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        result = await self.host.call_tool(tool, dict(arguments))
        assert not result.is_error, result.content
        return dict(result.structured_content or {})

    async def propose(self, old: str = "forty", new: str = "sixty", path: str = PAGE, intent: str = "") -> Proposal:
        """Have the host propose a change of a page, and return the proposal."""
        read = await self.call("kb_read", path=path)
        content = self.text(path).replace(old, new)
        answer = await self.call("kb_merge", path=path, content=content, base_revision=read["revision"], intent=intent)
        assert answer["status"] == "proposed", answer
        return await self.proposal(answer["proposal"]["id"])

    async def propose_deletion(self, path: str = "guides/onboarding.md") -> Proposal:
        read = await self.call("kb_read", path=path)
        answer = await self.call("kb_delete", path=path, base_revision=read["revision"])
        return await self.proposal(answer["proposal"]["id"])

    async def proposal(self, proposal_id: str) -> Proposal:
        found = await self.app.base.state.trust.proposal(proposal_id)
        assert found is not None
        return found

    async def indexed(self) -> None:
        """Bring the index up to date with the files."""
        async with held_lease(self.app.base, wait_s=PATIENCE_S) as lease:
            assert lease is not None
            await bring_up_to_date(self.app.base, lease)

    async def score(self) -> float:
        trust_record = await self.app.base.state.trust_record(f"{ME}@unenrolled")
        return 2.0 if trust_record is None else trust_record.score


@asynccontextmanager
async def shown(
    folder: Path, pages: dict[str, str] | None = None, agents: Catalogue | None = None, **more: Any
) -> AsyncIterator[Place]:
    """Open a knowledge base and serve its page; `more` are other settings."""
    settings = Settings(kb=write(folder / "kb", pages), state_dir=folder / "state", open_browser=False, **more)
    async with (
        open_app(settings, indexing=False, agents=agents) as app,
        Client(app.server) as host,
        anyio.create_task_group() as tasks,
    ):
        known = anyio.Event()
        tasks.start_soon(show, app.site_services, app.approvals, settings, known)
        with anyio.fail_after(PATIENCE_S):
            await known.wait()
        found = await address(app.base.state)
        assert found is not None
        place = Place(app, host, settings, found)
        try:
            yield place
        finally:
            for visitor in place.visitors:
                await visitor.aclose()
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def kept(
    folder: Path, pages: dict[str, str] | None = None, agents: Catalogue | None = None
) -> AsyncIterator[Place]:
    """Do the same for a fixture."""
    async with in_one_task(shown(folder, pages, agents)) as place:
        yield place


@asynccontextmanager
async def in_one_task(opening: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave `opening` in a task of its own: pytest enters and leaves a fixture in different ones."""
    opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def keep() -> None:
        async with opening as found:
            opened.set_result(found)
            await over.wait()

    keeping = asyncio.create_task(keep())
    either: set[asyncio.Future[Any]] = {keeping, opened}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if keeping.done():
        await keeping  # which says why
    try:
        yield opened.result()
    finally:
        over.set()
        await keeping
