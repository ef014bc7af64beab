"""The site as people of a sign-in server reach it: under its public address, through browsers that keep cookies as real ones do."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
from mcp import Client

from knowledge.trust.ports import Passkey, Proposal
from mcp_server.app.composition import App, open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.sign_in import Issuer, RequiredClaim, SiteClient
from mcp_server.web.application import page_app, running_page
from mcp_server.web.page_context import PageContext
from tests.doubles.login_server import CLIENT, SECRET, LoginServer
from tests.doubles.serving import served
from tests.doubles.sign_in_server import REALM
from tests.support.knowledge_bases.folders import write
from tests.support.web.plain_http import TRUSTING_NOBODY
from tests.support.web.review_pages import PAGE, PATIENCE_S, forms

PUBLIC = "https://forge.example.com"
PORT = 28_999
"""The port of the site on its own machine, which nothing listens at in these tests."""
SESSION, KNOWN, ATTEMPT = "__Host-forge_site", "__Host-forge_known", "__Host-forge_login"


@dataclass
class SiteVisitor:
    """A browser at the public address. It doesn't follow redirects by itself."""

    http: httpx.AsyncClient
    answer: httpx.Response = field(default_factory=lambda: httpx.Response(200))

    @property
    def status(self) -> int:
        return self.answer.status_code

    @property
    def html(self) -> str:
        return self.answer.text

    @property
    def location(self) -> str:
        return self.answer.headers["location"]

    async def go(self, address: str, **headers: str) -> SiteVisitor:
        self.answer = await self.http.get(address, headers=headers)
        return self

    async def send(self, action: str, **fields: str) -> SiteVisitor:
        """Fill in the current page's form with that address, and send it."""
        return await self.post(action, {**forms(self.html)[action], **fields})

    async def post(self, path: str, fields: dict[str, str], origin: str = PUBLIC) -> SiteVisitor:
        self.answer = await self.http.post(path, data=fields, headers={"origin": origin})
        return self


@dataclass
class TeamSite:
    """A knowledge base whose site has a sign-in server. `host` is a client that may only propose."""

    app: App
    host: Client
    settings: Settings
    context: PageContext
    issuer: LoginServer
    outside: httpx.AsyncClient
    browsers: list[httpx.AsyncClient] = field(default_factory=list)

    def browser(self, address: str = PUBLIC, context: PageContext | None = None) -> SiteVisitor:
        transport = httpx.ASGITransport(page_app(context or self.context))
        http = httpx.AsyncClient(base_url=address, transport=transport)
        self.browsers.append(http)
        return SiteVisitor(http)

    async def answer(self, visitor: SiteVisitor, to: str = "/", **person: Any) -> str:
        """Begin a login, log in at the sign-in server, and return the address that it sends the browser to."""
        if person:
            self.issuer.person = {"groups": ["reviewers"], **person}
        await visitor.go(f"/login/begin?{httpx.QueryParams({'to': to})}")
        assert visitor.status == 303, visitor.html
        found = await self.outside.get(visitor.location)
        assert found.status_code == 302, found.text
        return found.headers["location"]

    async def log_in(self, visitor: SiteVisitor, to: str = "/", **person: Any) -> SiteVisitor:
        """Log this person in, and show the page that the login leads to."""
        await visitor.go(await self.answer(visitor, to, **person))
        assert visitor.status == 303, visitor.html
        return await visitor.go(visitor.location)

    async def propose(self) -> Proposal:
        """Have the host propose another sentence for a page, and return the proposal."""
        read = await self.host.call_tool("kb_read", {"path": PAGE})
        text = (self.settings.kb / PAGE).read_text(encoding="utf-8") + f"\nIts number is {secrets.token_hex(4)}.\n"
        revision = (read.structured_content or {})["revision"]
        arguments = {"path": PAGE, "content": text, "base_revision": revision}
        answer = (await self.host.call_tool("kb_merge", arguments)).structured_content or {}
        assert answer["status"] == "proposed", answer
        return await self.proposal(answer["proposal"]["id"])

    async def asked_by(self, principal: str) -> Proposal:
        """Return the only pending proposal of this principal."""
        (found,) = [one for one in await self.app.base.state.trust.proposals() if one.principal == principal]
        return found

    async def passkeys_of(self, principal: str) -> list[Passkey]:
        """Return the passkeys that sign for this principal."""
        return [one for one in await self.app.base.state.trust.passkeys() if one.user == principal]

    async def proposal(self, proposal_id: str) -> Proposal:
        found = await self.app.base.state.trust.proposal(proposal_id)
        assert found is not None
        return found

    def configured(self, **more: Any) -> PageContext:
        """Return the site with other settings, on the same state."""
        return context_of(self.app, Settings(**{**plain(self.settings), **more}))


def plain(settings: Settings) -> dict[str, Any]:
    """Return the settings by field."""
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def context_of(app: App, settings: Settings) -> PageContext:
    """Return the page of this knowledge base as a worker shows it."""
    return running_page(app.site_services, app.approvals, settings, port=PORT, holder="nobody").page_context


def parameters(address: str) -> dict[str, str]:
    """Return the parameters in an address."""
    return dict(parse_qsl(urlsplit(address).query))


@asynccontextmanager
async def team_site(folder: Path, **more: Any) -> AsyncIterator[TeamSite]:
    """Open a knowledge base with a sign-in server; `more` are other settings."""
    issuer = LoginServer()
    async with served(issuer.app()) as double:
        issuer.url = f"{double.address}{REALM}"
        settings = Settings(
            kb=write(folder / "kb"),
            state_dir=folder / "state",
            open_browser=False,
            **{
                "public_url": PUBLIC,
                "oauth_issuers": (Issuer("corp", issuer.url),),
                "site_client": SiteClient("corp", CLIENT),
                "site_secret": SECRET,
                "site_people": (RequiredClaim("groups", "reviewers"),),
                **more,
            },
        )
        async with (
            open_app(settings, indexing=False) as app,
            Client(app.server) as host,
            httpx.AsyncClient(follow_redirects=False, timeout=PATIENCE_S, verify=TRUSTING_NOBODY) as outside,
        ):
            site = TeamSite(app, host, settings, context_of(app, settings), issuer, outside)
            try:
                yield site
            finally:
                for http in site.browsers:
                    await http.aclose()
