"""A reviewer on another machine, in Chromium: over TLS, from the sign-in server and back, with a passkey, at the port of MCP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
import uvicorn
from playwright.async_api import Page

from mcp_server.app.settings.access import HttpAccess
from mcp_server.app.settings.values import HttpAddress
from mcp_server.transport import http
from mcp_server.transport.shared_port import SharedPort, bound
from mcp_server.web.sign_in.beside_mcp import BesideMcp, host_of
from mcp_server.web.sign_in.beside_mcp import team_site as beside
from tests.browser.accessibility import violations
from tests.browser.chromium import Person, browser, executable
from tests.contract.transport.test_other_machines import certificate  # noqa: F401 - a fixture
from tests.support.web.team_site import PUBLIC, SESSION, TeamSite, team_site

pytestmark = pytest.mark.external


@asynccontextmanager
async def on_the_network(
    folder: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[TeamSite, int]]:
    """Serve MCP and the site with TLS, and return the port."""
    servers: list[uvicorn.Server] = []

    class Kept(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    async with team_site(folder, http_url=f"{PUBLIC}/mcp") as site, anyio.create_task_group() as tasks:
        monkeypatch.setattr(uvicorn, "Server", Kept)
        access = HttpAccess(f"{PUBLIC}/mcp", certificate=files[0], key=files[1], issuers=site.settings.oauth_issuers)
        address = HttpAddress("127.0.0.1", 0)
        listening = bound(address)
        port = SharedPort(listening, http.log_addresses)
        async with beside(site.app.site_services, site.app.approvals, site.settings) as app:
            host = host_of(site.settings)
            both = BesideMcp(http.http_app(site.app.server, access), {host: app}, host)
            tasks.start_soon(partial(http.serve_app, both, address, access, port=port))
            try:
                yield site, int(listening.getsockname()[1])
            finally:
                servers[0].should_exit = True


async def arrived(page: Page, path: str) -> None:
    await page.wait_for_url(lambda url: urlsplit(url).path == path)


async def test_a_reviewer_logs_in_signs_with_a_passkey_and_logs_out(
    tmp_path: Path,
    certificate: tuple[Path, Path],  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executable()
    async with on_the_network(tmp_path, certificate, monkeypatch) as (site, port):
        site.issuer.metadata["end_session_endpoint"] = f"{site.issuer.url}/logout"
        read = (await site.host.call_tool("kb_read", {"path": "guides/onboarding.md"})).structured_content or {}
        arguments = {"path": "guides/onboarding.md", "base_revision": read["revision"]}
        made = (await site.host.call_tool("kb_delete", arguments)).structured_content or {}
        path = f"/proposals/{made['proposal']['id']}"
        rules = f"--host-resolver-rules=MAP forge.example.com:443 127.0.0.1:{port}"
        # With the flag, Chromium takes the certificate for a good one; otherwise it would offer no passkeys.
        async with browser(rules, "--ignore-certificate-errors") as chromium:
            context = await chromium.new_context(viewport={"width": 360, "height": 740})
            page = await context.new_page()
            person = Person(context, page, site).watched(page)  # type: ignore[arg-type]  # its link and address are not used
            await person.plug_in()
            await page.goto(f"{PUBLIC}{path}")
            assert await violations(page) == []
            await page.get_by_role("link", name="Log in", exact=True).click()
            await arrived(page, path)
            await page.get_by_text("Approving this takes a passkey of yours").wait_for()
            assert await violations(page) == []
            (cookie,) = [one for one in await context.cookies(PUBLIC) if one.get("name") == SESSION]
            assert (cookie.get("secure"), cookie.get("httpOnly"), cookie.get("sameSite")) == (True, True, "Lax")

            await page.goto(f"{PUBLIC}/passkeys")
            await page.get_by_label("Name").fill("laptop")
            await page.get_by_role("button", name="Add…").click()
            await page.get_by_role("button", name="Create passkey").click()
            await page.get_by_text("user ann@corp:http").wait_for()

            await page.goto(f"{PUBLIC}{path}")
            await page.get_by_role("button", name="Sign and approve").click()
            await page.get_by_text("executed").first.wait_for()
            decided = await site.proposal(path.rpartition("/")[2])
            assert decided.verdict is not None
            assert (decided.verdict.by, decided.verdict.signed) == ("ann@corp:http", "laptop")

            await page.goto(f"{PUBLIC}/trust")
            assert await page.get_by_role("heading").inner_text() == "You can't use this page"
            assert await violations(page) == []
            await page.locator("summary").first.click()
            await page.get_by_role("button", name="Log out").click()
            await page.get_by_role("link", name="Log out of the sign-in server too").wait_for()
            assert await violations(page) == []

            site.issuer.person = {"sub": "eve", "name": "Eve"}
            await page.goto(f"{PUBLIC}/login/begin")
            await page.get_by_text("The sign-in server knows you as Eve").wait_for()
            assert await violations(page) == []
            assert person.trouble == []
