"""What `doctor` says about signing in from other machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.sign_in import Issuer
from mcp_server.app.settings.values import HttpAddress
from mcp_server.cli.doctor.doctor import examine
from mcp_server.cli.doctor.result import DoctorFinding
from mcp_server.cli.doctor.sign_in import http_examined, issuers_examined, tokens_examined
from tests.contract.gate.test_tokens import token_for
from tests.doubles.serving import served
from tests.doubles.sign_in_server import REALM, SignInServer
from tests.support.knowledge_bases.folders import write

URL = "https://kb.example.com/mcp"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state", open_browser=False)


async def test_without_tokens_and_settings_nothing_is_said(settings: Settings) -> None:
    assert not {one.what for one in await examine(settings)} & {"http", "tokens", "sign-in"}


async def test_a_server_that_would_not_start_for_other_machines_is_a_fault_with_its_way_out(settings: Settings) -> None:
    everywhere = replace(settings, http=HttpAddress("0.0.0.0", 8321))  # noqa: S104 - nothing listens here
    async with open_app(settings, indexing=False) as app:
        state = app.base.state
        found = await http_examined(state, everywhere)
        assert (_health(found), "set FORGE_HTTP_URL" in _found(found)) == ("bad", True)
        found = await http_examined(state, replace(everywhere, http_url=URL))
        assert (_health(found), "token create NAME" in _found(found)) == ("bad", True)
        token = await token_for(app)
        found = await http_examined(state, replace(everywhere, http_url=URL))
        assert (_health(found), URL in _found(found)) == ("ok", True)
        assert await http_examined(state, replace(settings, http=HttpAddress("127.0.0.1", 8321))) is None
        assert token[16:] not in repr(await examine(replace(everywhere, http_url=URL)))


async def test_tokens_that_expire_soon_are_named_by_their_ids(settings: Settings) -> None:
    async with open_app(settings, indexing=False) as app:
        assert await tokens_examined(app.base.state) is None
        await token_for(app, "bob", days=100)
        await token_for(app, "eve", days=-1)
        found = await tokens_examined(app.base.state)
        assert (_health(found), _found(found)) == ("ok", "1 valid token, of bob")
        soon = await token_for(app, "ann", days=3)
        found = await tokens_examined(app.base.state)
        assert (_health(found), f"expire soon: {soon[3:15]} of ann" in _found(found)) == ("note", True)


async def test_a_sign_in_server_whose_keys_cannot_be_read_is_a_fault(settings: Settings) -> None:
    issuer = SignInServer()
    async with served(issuer.app()) as double:
        issuer.url = f"{double.address}{REALM}"
        right = replace(settings, http_url=URL, oauth_issuers=(Issuer("corp", issuer.url),))
        found = await issuers_examined(right)
        assert (_health(found), issuer.url in _found(found)) == ("ok", True)
        for wrong, says in (
            (f"{issuer.url}/", "another issuer"),
            (f"{double.address}/realms/other", "HTTP status 404"),
        ):
            found = await issuers_examined(replace(right, oauth_issuers=(Issuer("corp", wrong),)))
            assert (_health(found), says in _found(found)) == ("bad", True)
        issuer.more_keys, issuer.keys = [{"kty": "oct", "k": "QUFB"}], {}
        found = await issuers_examined(right)
        assert (_health(found), "no key" in _found(found)) == ("bad", True)


def _health(finding: DoctorFinding | None) -> str:
    return finding.health if finding else "nothing"


def _found(finding: DoctorFinding | None) -> str:
    return finding.found if finding else ""
