"""Access tokens of a sign-in server, over real HTTP: who their subjects are, what scopes allow, and what a bad token gets.

The Model Context Protocol, authorization; RFC 6750, RFC 8707, RFC 9068, RFC 9728.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import jwt
import pytest
import uvicorn
from cryptography.hazmat.primitives import serialization
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.sign_in import Issuer, ScopeReach
from mcp_server.app.settings.values import HttpAddress
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallFailed
from mcp_server.gate.trust.scores import grant
from mcp_server.transport.http import http_app
from mcp_server.transport.shared_port import bound
from tests.contract.gate.test_tokens import token_for
from tests.contract.gate.test_trust_gradient import ERAS, call
from tests.contract.transport.test_http import HEADERS, HELLO
from tests.doubles.serving import served
from tests.doubles.sign_in_server import REALM, SignInServer, forged, private_key, public_jwk
from tests.support.knowledge_bases.folders import write
from tests.support.roads.wires import PATIENCE_S
from tests.support.web.plain_http import TRUSTING_NOBODY

SCOPES = (
    ScopeReach("forge:read", 1),
    ScopeReach("forge:propose", 2),
    ScopeReach("forge:edit", 3),
    ScopeReach("notes:edit", 3, frozenset({"knowledge"})),
    ScopeReach("forge:act", 4),
)


@dataclass
class Place:
    """A server that trusts a sign-in server, both on real sockets."""

    app: App
    issuer: SignInServer
    url: str
    http: httpx.AsyncClient

    async def hello(self, token: str | bytes, *, url: str = "") -> httpx.Response:
        """Send `initialize` with that token."""
        head = b"Bearer " + (token if isinstance(token, bytes) else token.encode())
        headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        return await self.http.post(url or self.url, json=HELLO, headers=[*headers, (b"authorization", head)])

    def token(self, **more: Any) -> str:
        """Return a token of the sign-in server for this server."""
        return self.issuer.token(self.url, **more)


@asynccontextmanager
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    issuer = SignInServer()
    kb = write(tmp_path / "kb", {"page.md": "# Page\n\nFirst.\n"})
    async with served(issuer.app()) as double:
        issuer.url = f"{double.address}{REALM}"
        with bound(HttpAddress("127.0.0.1", 0)) as listening:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            settings = Settings(
                kb=kb,
                state_dir=tmp_path / "state",
                open_browser=False,
                http_url=url,
                oauth_issuers=(Issuer("corp", issuer.url),),
                oauth_scopes=SCOPES,
            )
            async with open_app(settings, indexing=False) as app:
                web = http_app(app.server, settings.http_access)
                running = uvicorn.Server(uvicorn.Config(web, log_level="warning", access_log=False, ws="none"))
                async with (
                    anyio.create_task_group() as tasks,
                    httpx.AsyncClient(timeout=PATIENCE_S, verify=TRUSTING_NOBODY) as http,
                ):
                    tasks.start_soon(running.serve, [listening])
                    yield Place(app, issuer, url, http)
                    running.should_exit = True


@asynccontextmanager
async def connected(there: Place, era: str, token: str) -> AsyncIterator[Client]:
    async with (
        create_mcp_http_client(headers={"authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(there.url, http_client=http), mode=era) as client,
    ):
        yield client


# --- who ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_the_subject_of_a_token_is_a_principal_with_its_own_trust_below_the_ceiling_of_its_scopes(
    tmp_path: Path, era: str
) -> None:
    async with place(tmp_path) as there:
        ann = "ann@corp:http"
        await grant(there.app.base.state, ann, 5, by="ada", now=utc_now())
        async with connected(there, era, there.token(scope="openid forge:edit")) as client:
            status = await call(client, "trust_status")
            assert (status["principal"], status["level"], status["cap"]) == (ann, 3, 3.0)
            assert (await call(client, "kb_merge", path="new.md", content="# New\n"))["status"] == "done"
            moved = await call(client, "kb_move", path="new.md", to="moved.md")
            assert (moved["status"], moved["proposal"]["level_held"]) == ("proposed", 3)
        async with connected(there, era, there.token(scope="forge:act")) as client:
            assert (await call(client, "kb_move", path="new.md", to="moved.md"))["status"] == "done"


async def test_no_claim_raises_what_scopes_and_trust_allow(tmp_path: Path) -> None:
    """Only the scopes that the settings name count, and only up to the trust on record."""
    async with place(tmp_path) as there:
        boasts = {"level": 5, "trust": 5, "ceiling": 5, "roles": ["admin"], "groups": ["forge:act"], "admin": True}
        token = there.token(scope="forge:read FORGE:ACT forge:act2 forge:*", scp="forge:act", **boasts)
        async with connected(there, "auto", token) as client:
            assert (await call(client, "trust_status"))["level"] == 1
        async with connected(there, "auto", there.token(scope="forge:act", **boasts)) as client:
            assert (await call(client, "trust_status"))["level"] == 2
            assert (await call(client, "kb_merge", path="new.md", content="# New\n"))["status"] == "proposed"


@pytest.mark.parametrize(
    ("subject", "principal"),
    [
        ("ann@example.com", "ann@example.com@corp:http"),
        ("ada@unenrolled", "ada@unenrolled@corp:http"),
        ("auth0|5f7c8ec7", "auth0|5f7c8ec7@corp:http"),
        ("Ann Lee\n\x1b[31m", "Ann%20Lee%0A%1B%5B31m@corp:http"),
        ("\u202eeve\N{CYRILLIC SMALL LETTER A}", "%E2%80%AEeve%D0%B0@corp:http"),
        ("*", "%2A@corp:http"),
        ("a%2Fb", "a%252Fb@corp:http"),
        ("x" * 121, f"#{hashlib.sha256(b'x' * 121).hexdigest()}@corp:http"),
        ("#" + "0" * 64, "%23" + "0" * 64 + "@corp:http"),
    ],
)
async def test_a_hostile_subject_is_a_name_of_its_own_that_harms_nothing(
    tmp_path: Path, subject: str, principal: str
) -> None:
    async with place(tmp_path) as there:
        found = await there.app.callers.named(there.token(sub=subject))
        assert (found.id, found.signed_in) == (principal, True)


# --- bad tokens -----------------------------------------------------------------------------------------------------------


def bad_tokens(there: Place) -> dict[str, str | bytes]:
    """Return tokens that prove nothing, each with a name."""
    issuer, url, now = there.issuer, there.url, int(time.time())
    good, claims = there.token(), issuer.claims(there.url)
    key, _ = issuer.keys["k1"]
    thief = private_key("RS256")
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    header, payload, signature = good.split(".")

    def stolen(**header: Any) -> str:
        return jwt.encode(claims, thief, "RS256", headers={"kid": "k1", **header})

    def shared(secret: bytes, algorithm: str = "HS256") -> str:
        start = forged({"alg": algorithm, "kid": "k1", "typ": "at+jwt"}, claims).rsplit(".", 1)[0]
        made = hmac.new(secret, start.encode(), "sha256").digest()
        return forged({"alg": algorithm, "kid": "k1", "typ": "at+jwt"}, claims, made)

    jwk = public_jwk(thief, "RS256", "k1")
    elsewhere = f"{issuer.url}/stolen"
    return {
        "wrong audience": there.token(aud="https://other.example.com/mcp"),
        "audience of another path": there.token(aud=url.removesuffix("mcp")),
        "audience with ours as its beginning": there.token(aud=f"{url}.example.com"),
        "no audience": there.token(aud=None),
        "no audience in a list": there.token(aud=[]),
        "odd audience": there.token(aud={"aud": url}),
        "wrong issuer": there.token(iss="https://login.example.com"),
        "issuer with a slash": there.token(iss=f"{issuer.url}/"),
        "no issuer": there.token(iss=None),
        "odd issuer": there.token(iss=[issuer.url]),
        "expired": there.token(exp=now - 31),
        "no expiry": there.token(exp=None),
        "odd expiry": there.token(exp="soon"),
        "endless expiry": there.token(exp=float("inf")),
        "not yet": there.token(nbf=now + 7_200),
        "issued tomorrow": there.token(iat=now + 86_400),
        "no subject": there.token(sub=None),
        "empty subject": there.token(sub=""),
        "subject of half a character": there.token(sub="\ud800"),
        "odd subject": there.token(sub=["ann"]),
        "other key under a known id": stolen(),
        "signature of another token": f"{header}.{payload}.{there.token(sub='eve').split('.')[2]}",
        "claims of another token": f"{header}.{there.token(sub='eve').split('.')[1]}.{signature}",
        "no signature": f"{header}.{payload}.",
        "algorithm none": forged({"alg": "none", "typ": "at+jwt"}, claims),
        "algorithm None": forged({"alg": "None", "kid": "k1"}, claims),
        "algorithm none with a signature": forged({"alg": "none", "kid": "k1"}, claims, b"x"),
        "no algorithm": forged({"kid": "k1"}, claims, b"x"),
        "odd algorithm": forged({"alg": ["RS256"], "kid": "k1"}, claims, b"x"),
        "HS256 with the public key": shared(public),
        "HS256 with nothing": shared(b""),
        "HS512 named, HS256 made": shared(public, "HS512"),
        "an algorithm that the key is not for": jwt.encode(claims, key, "PS256", headers={"kid": "k1"}),
        "a curve for an RSA key": forged({"alg": "ES256", "kid": "k1"}, claims, b"x" * 64),
        "id of no key": there.token(header={"kid": "k2"}),
        "id that is a path": stolen(kid="../../../../dev/null"),
        "id that is SQL": stolen(kid="k1' OR '1'='1"),
        "id that is an address": stolen(kid=elsewhere),
        "id that is no text": forged({"alg": "RS256", "kid": 1}, claims, b"x"),
        "keys elsewhere (jku)": stolen(jku=elsewhere),
        "certificate elsewhere (x5u)": stolen(x5u=elsewhere),
        "its own key (jwk)": stolen(jwk=jwk),
        "its own key, and no id": jwt.encode(claims, thief, "RS256", headers={"jwk": jwk, "jku": elsewhere}),
        "an extension that must be understood": there.token(header={"crit": ["exp"], "exp": 1}),
        "unencoded claims": there.token(header={"b64": False, "crit": ["b64"]}),
        "a token for logging out": there.token(header={"typ": "logout+jwt"}),
        "five parts, as encrypted ones": f"{good}.a.b",
        "two parts": f"{header}.{payload}",
        "no JSON": "e30.bm8ganNvbg.eA",
        "no object": f"{header}.W10.{signature}",
        "deep JSON": f"{header}.{'W1tb' * 2_000}.{signature}",
        "a letter of another alphabet": good.replace("e", "\N{CYRILLIC SMALL LETTER IE}", 1),
        "raw bytes": b"\xff\xfe.\x80.\x80",
        "a space inside": good.replace(".", " .", 1),
        "very long": good + "A" * 12_000,
        "longer claims": there.token(note="x" * 12_000),
    }


async def test_bad_tokens_are_all_401_with_the_challenge_and_nothing_of_them_appears_anywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with place(tmp_path) as there:
        assert (await there.hello(there.token())).status_code == 200
        known = f'resource_metadata="{there.url.removesuffix("/mcp")}/.well-known/oauth-protected-resource/mcp"'
        for what, token in bad_tokens(there).items():
            answer = await there.hello(token)
            assert answer.status_code == 401, (what, answer.text)
            challenge = answer.headers["www-authenticate"]
            assert challenge == f'Bearer error="invalid_token", scope="forge:read", {known}', what
            secret = token if isinstance(token, str) else token.decode("latin-1")
            assert not leaked(secret, answer.text + str(answer.headers)), what
            logged = [one.getMessage() for one in caplog.records if not one.name.startswith(("httpx", "httpcore"))]
            assert not leaked(secret, "\n".join(logged)), what
        assert [path for path in there.issuer.asked if "stolen" in path] == []
        assert await there.app.base.state.trust_records() == []


def leaked(token: str, text: str) -> bool:
    """Return whether a part of the token, which may be its signature, appears in the text."""
    return any(len(part) > 20 and part in text for part in token.split("."))


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([], "?access_token={token}"),
        (["Bearer {token}"], "?access_token={token}"),
        (["Bearer {token}", "Bearer {token}"], ""),
        (["Bearer {token}", "Bearer guess"], ""),
        (["Basic {token}"], ""),
        (["DPoP {token}"], ""),
        (["{token}"], ""),
        (["Bearer {token}, Bearer {token}"], ""),
        ([], ""),
    ],
)
async def test_a_good_token_in_the_wrong_place_is_a_401(tmp_path: Path, headers: list[str], query: str) -> None:
    async with place(tmp_path) as there:
        token = there.token()
        given = [("authorization", one.format(token=token)) for one in headers]
        answer = await there.http.post(
            there.url + query.format(token=token), json=HELLO, headers=[*HEADERS.items(), *given]
        )
        assert answer.status_code == 401
        assert "resource_metadata=" in answer.headers["www-authenticate"]
        assert not leaked(token, answer.text)


async def test_tokens_with_small_differences_are_good(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        for made in (
            there.token(aud=["https://other.example.com", there.url]),
            there.token(aud=f"{there.url}/"),
            there.token(nbf=int(time.time()) + 5),
            there.token(header={"typ": "JWT"}),
            there.token(scope=None, scp=["forge:read"]),
        ):
            assert (await there.hello(made)).status_code == 200
        assert (await there.hello(await token_for(there.app))).status_code == 200


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "EdDSA", "PS256"])
async def test_other_kinds_of_keys_count_each_for_its_own_algorithm(tmp_path: Path, algorithm: str) -> None:
    async with place(tmp_path) as there:
        there.issuer.keys = {"other": (private_key(algorithm), algorithm)}
        assert (await there.hello(there.token(kid="other"))).status_code == 200


# --- keys -----------------------------------------------------------------------------------------------------------------


async def test_while_the_keys_cannot_be_had_the_answer_is_503_so_that_clients_keep_their_tokens(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        there.issuer.down = True
        answer = await there.hello(there.token())
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
        assert (await there.hello(await token_for(there.app))).status_code == 200


async def test_keys_of_a_server_with_another_name_and_secrets_among_the_keys_do_not_count(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        there.issuer.more_keys = [
            {"kty": "oct", "kid": "s", "alg": "HS256", "k": "QUFB" * 16},
            "x",
            {"kty": "RSA"},
            None,
        ]
        made = jwt.encode(there.issuer.claims(there.url), b"AAA" * 16, "HS256", headers={"kid": "s"})
        assert (await there.hello(made)).status_code == 401
        assert (await there.hello(there.token())).status_code == 200
    async with place(tmp_path / "other") as there:
        there.issuer.metadata = {"issuer": "https://login.example.com"}
        assert (await there.hello(there.token())).status_code == 503


# --- scopes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "method", "params", "lacks"),
    [
        ("openid", "initialize", HELLO["params"], "forge:read"),
        ("openid", "tools/list", {}, "forge:read"),
        ("forge:read", "tools/list", {}, None),
        ("forge:read", "tools/call", {"name": "kb_read", "arguments": {"path": "page.md"}}, None),
        (
            "forge:read",
            "tools/call",
            {"name": "kb_merge", "arguments": {"path": "a.md", "content": "# A"}},
            "forge:propose",
        ),
        (
            "forge:read",
            "tools/call",
            {"name": "kb_merge", "arguments": {"path": "a.md", "content": "x", "dry_run": True}},
            None,
        ),
        ("forge:propose", "tools/call", {"name": "kb_merge", "arguments": {"path": "a.md", "content": "# A"}}, None),
        ("notes:edit", "tools/call", {"name": "journey_list", "arguments": {}}, "forge:read"),
        ("notes:edit", "tools/call", {"name": "trust_status", "arguments": {}}, None),
        ("notes:edit", "resources/read", {"uri": "kb://doc/page.md"}, None),
        ("notes:edit", "resources/read", {"uri": "agent://research"}, "forge:read"),
        ("notes:edit", "prompts/list", {}, "forge:read"),
        ("forge:read", "tools/call", {"name": "no_such_tool"}, None),
    ],
)
async def test_a_request_beyond_the_scopes_gets_403_with_the_least_scope_that_is_enough(
    tmp_path: Path, scope: str, method: str, params: dict[str, Any], lacks: str | None
) -> None:
    async with place(tmp_path) as there:
        # A session that was opened with a token of the same subject.
        opened = {**HEADERS, "authorization": f"Bearer {there.token(scope='forge:read')}"}
        session = (await there.http.post(there.url, json=HELLO, headers=opened)).headers["mcp-session-id"]
        headers = {
            **HEADERS,
            "authorization": f"Bearer {there.token(scope=scope)}",
            "mcp-protocol-version": "2025-11-25",
        }
        if method != "initialize":
            headers["mcp-session-id"] = session
        asked = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
        answer = await there.http.post(there.url, json=asked, headers=headers)
        if lacks is None:
            assert answer.status_code == 200
            return
        assert answer.status_code == 403
        assert answer.headers["www-authenticate"].startswith(f'Bearer error="insufficient_scope", scope="{lacks}", ')
        assert "/.well-known/oauth-protected-resource/mcp" in answer.headers["www-authenticate"]


async def test_the_gate_itself_refuses_what_the_scopes_do_not_allow(tmp_path: Path) -> None:
    """The 403 is for clients. Were it left out, or its reading of the request wrong, the gate would still refuse."""
    async with place(tmp_path) as there:
        who = await there.app.callers.named(there.token(scope="notes:edit"))
        answer = await there.app.gate.dispatch("journey_list", {}, Call(who))
        assert isinstance(answer, CallFailed)
        assert "the scopes of its token allow no more (toolset journeys)" in answer.why


class Kept:
    """The tokens that a client keeps, in memory."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_finds_the_sign_in_server_by_itself_and_asks_for_more_only_when_it_needs_it(
    tmp_path: Path, era: str
) -> None:
    """The SDK's own client: 401, metadata of this server, metadata of the other one, token; later 403, and a better token."""
    async with place(tmp_path) as there:
        kept = Kept()
        signing_in = ClientCredentialsOAuthProvider(
            there.url, kept, "robot", "secret", "client_secret_post", issuer=there.issuer.url
        )
        async with (
            create_mcp_http_client(auth=signing_in) as http,
            Client(streamable_http_client(there.url, http_client=http), mode=era) as client,
        ):
            assert (await call(client, "kb_read", path="page.md"))["title"] == "Page"
            proposed = await call(client, "kb_merge", path="new.md", content="# New\n")
            assert proposed["status"] == "proposed"
            assert (await call(client, "trust_status"))["principal"] == "robot@corp:http"
        asked = [path.partition(" ")[2] for path in there.issuer.asked if path.startswith(f"{REALM}/token")]
        assert asked[0] == "forge:read"
        assert set(asked[1].split()) == {"forge:read", "forge:propose"}
        assert len(asked) == 2


async def test_the_metadata_of_this_server_is_at_both_well_known_addresses_without_a_token(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        home = there.url.removesuffix("/mcp")
        for address in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
            answer = await there.http.get(home + address)
            assert answer.status_code == 200
            found = answer.json()
            assert found["resource"] == there.url
            assert found["authorization_servers"] == [there.issuer.url]
            assert found["scopes_supported"] == ["forge:read"]
            assert found["bearer_methods_supported"] == ["header"]
        assert json.loads(json.dumps(found)) == found
        assert (await there.http.get(home + "/.well-known/other")).status_code == 401
