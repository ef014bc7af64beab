"""The site at the port of the MCP endpoint, under its own host name or the same one (decision 115)."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from mcp_server.app.settings.access import HttpAccess
from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.sign_in import Issuer, SiteClient
from mcp_server.transport.http import http_app
from mcp_server.transport.sign_in.access_tokens import AccessTokens
from mcp_server.transport.sign_in.documents import document, new_client
from mcp_server.transport.sign_in.issuer_keys import IssuerKeys
from mcp_server.web.sign_in.beside_mcp import BesideMcp, host_of, require_different_hosts
from mcp_server.web.sign_in.beside_mcp import team_site as beside
from tests.support.web.team_site import PUBLIC, SESSION, SiteVisitor, team_site

SITE, MCP = "forge.example.com", "mcp.example.com"


@pytest.mark.parametrize("shared", [SITE, MCP])
async def test_each_request_goes_where_its_host_and_path_say(shared: str) -> None:
    def named(name: str) -> object:
        async def app(scope: Scope, _receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": f"{name} {scope['path']}".encode()})

        return app

    both = BesideMcp(named("mcp"), {SITE: named("site")}, shared)  # type: ignore[arg-type, dict-item]  # enough of an application
    async with httpx.AsyncClient(transport=httpx.ASGITransport(both)) as http:

        async def answered(host: str, path: str, accept: str = "*/*") -> str:
            return (await http.get(f"http://{host}{path}", headers={"accept": accept})).text.split()[0]

        for path in ("/", "/waiting", "/login/callback", "/pages"):
            assert await answered(SITE, path) == "site"
            assert await answered("other.example", path) == "mcp"
        alone = "site" if shared == MCP else "mcp"
        for path in ("/mcp", "/kb/notes/mcp", "/.well-known/oauth-protected-resource/mcp", "/health", "/ready"):
            assert await answered(SITE, path) == alone
            assert await answered(MCP, path) == "mcp"
        assert await answered(SITE.upper(), "/health", "text/html,*/*") == "site"


async def test_people_and_their_clients_are_the_same_principals_at_one_port(tmp_path: Path) -> None:
    url = f"{PUBLIC}/mcp"
    async with team_site(tmp_path, http_url=url) as site:
        settings = site.settings
        access = settings.http_access
        assert isinstance(access, HttpAccess)
        async with beside(site.app.site_services, site.app.approvals, settings) as app:
            both = BesideMcp(http_app(site.app.server, access), {host_of(settings): app}, host_of(settings))
            http = httpx.AsyncClient(base_url=PUBLIC, transport=httpx.ASGITransport(both))
            site.browsers.append(http)
            visitor = await site.log_in(SiteVisitor(http), "/pages")
            assert visitor.status == 200
            assert (await visitor.go("/mcp")).status == 401, "a session of the site is no token"
            assert (await visitor.go("/health")).html == "ok"
            session = await site.context.sessions.of(http.cookies[SESSION])
            assert session is not None
        async with new_client() as client:
            keys = IssuerKeys(site.issuer.url, lambda address: document(client, address))
            tokens = AccessTokens(access.issuers, url, access.scopes, {site.issuer.url: keys})
            assert (await tokens.principal(site.issuer.token(url, sub="ann"))).id == session.user


def test_two_knowledge_bases_need_two_host_names(tmp_path: Path) -> None:
    corp = (Issuer("corp", "https://login.example.com"),)

    def one(url: str) -> Settings:
        return Settings(kb=tmp_path, public_url=url, oauth_issuers=corp, site_client=SiteClient("corp", "forge"))

    require_different_hosts({"a": one("https://a.example.com"), "b": one("https://b.example.com")})
    with pytest.raises(BadSetting, match="a and b both have it"):
        require_different_hosts({"a": one("https://a.example.com"), "b": one("https://A.example.com:443")})
