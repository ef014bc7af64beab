"""HTTP for other machines: when it starts, what it asks of callers, TLS, and how it stops."""

from __future__ import annotations

import os
import re
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from knowledge.errors import DatabaseUnavailable
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.access import HttpAccess
from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import HttpAddress
from mcp_server.gate.host_registration import TOKEN_HOLDER, Principal
from mcp_server.gate.trust.scores import grant
from mcp_server.transport.http import Parts, http_app
from mcp_server.transport.sign_in import wrong_tokens
from mcp_server.transport.sign_in.bearer import KnownTokens
from mcp_server.transport.sign_in.start import require_certificate, require_sign_in
from tests.contract.gate.test_tokens import token_for
from tests.contract.gate.test_trust_gradient import call
from tests.contract.transport.test_http import HEADERS, HELLO
from tests.support.knowledge_bases.folders import write
from tests.support.roads.wires import PATIENCE_S

ROOT = Path(__file__).parents[3]
EVERYWHERE = HttpAddress("0.0.0.0", 8321)  # noqa: S104 - it is refused or never bound here
URL = "https://kb.example.com/mcp"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state", open_browser=False)


@asynccontextmanager
async def served(
    settings: Settings, access: HttpAccess, parts: Parts | None = None
) -> AsyncIterator[tuple[App, httpx.AsyncClient]]:
    async with open_app(settings, indexing=False) as app:
        transport = httpx.ASGITransport(http_app(app.server, access, parts))
        async with (
            app.server.session_manager.run(),
            httpx.AsyncClient(transport=transport, base_url="https://kb.example.com", headers=HEADERS) as client,
        ):
            yield app, client


async def test_an_address_for_other_machines_takes_a_url_and_somebody_who_can_sign_in(settings: Settings) -> None:
    async with open_app(settings, indexing=False) as app:
        state, here = app.base.state, HttpAddress("127.0.0.1", 8321)
        await require_sign_in(here, HttpAccess(), state, utc_now)
        for address in (EVERYWHERE, HttpAddress("192.0.2.1", 80), HttpAddress("::", 80), HttpAddress("kb", 80)):
            with pytest.raises(BadSetting, match=r"set FORGE_HTTP_URL .*knowledge-forge token create NAME"):
                await require_sign_in(address, HttpAccess(), state, utc_now)
        await token_for(app, "old", days=-1)
        for address in (EVERYWHERE, here):
            with pytest.raises(BadSetting, match="there is none that is valid"):
                await require_sign_in(address, HttpAccess(URL), state, utc_now)
        await token_for(app)
        await require_sign_in(EVERYWHERE, HttpAccess(URL), state, utc_now)


async def test_with_a_url_every_request_needs_a_token_and_only_health_and_readiness_do_not(settings: Settings) -> None:
    async with served(settings, HttpAccess(URL)) as (app, client):
        headers = {"authorization": f"Bearer {await token_for(app)}"}
        for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/"), ("GET", "/health/x")):
            answer = await client.request(method, path, headers={"mcp-session-id": "any"})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), (method, path)
        assert (await client.post("/mcp", json=HELLO, headers=headers)).status_code == 200
        assert (await client.get("/health")).text == "ok"
        assert (await client.get("/ready")).json() == {"ready": True}


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("host", "kb.example.com", 200),
        ("host", "kb.example.com:443", 200),
        ("host", "inside:8321", 200),
        ("host", "127.0.0.1:8321", 200),
        ("host", "kb.example.com:80", 421),
        ("host", "evil.example", 421),
        ("origin", "https://kb.example.com", 200),
        ("origin", "https://app.example.com", 200),
        ("origin", "http://kb.example.com", 403),
        ("origin", "http://localhost:3000", 403),
        ("origin", "https://kb.example.com.evil.example", 403),
    ],
)
async def test_a_request_names_an_allowed_host_and_a_page_comes_from_an_allowed_origin(
    settings: Settings, name: str, value: str, status: int
) -> None:
    access = HttpAccess(URL, hosts=("inside:*",), origins=("https://app.example.com",))
    async with served(settings, access) as (app, client):
        headers = {"authorization": f"Bearer {await token_for(app)}", name: value}
        assert (await client.post("/mcp", json=HELLO, headers=headers)).status_code == status


async def test_a_process_is_not_ready_while_a_part_is_away_and_does_not_say_why(settings: Settings) -> None:
    broken = [True]

    async def read() -> None:
        if broken:
            raise DatabaseUnavailable("postgresql://forge@db.example.org", "the password is secret")

    async with served(settings, HttpAccess(URL), {"state": read, "index": anyio.lowlevel.checkpoint}) as (_, client):
        answer = await client.get("/ready")
        assert answer.status_code == 503
        assert answer.json() == {"ready": False, "state": "unavailable", "index": "ok"}
        assert (await client.get("/health")).status_code == 200
        broken.clear()
        assert (await client.get("/ready")).status_code == 200


async def test_while_tokens_cannot_be_checked_the_answer_is_503_and_not_401(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a 401 a client would throw its token away."""
    async with served(settings, HttpAccess(URL)) as (app, client):

        async def away(_token: str) -> None:
            raise DatabaseUnavailable("state.db", "away")

        monkeypatch.setattr(app.base.state.trust, "token", away)
        token = f"kf_{'0' * 12}_{'A' * 43}"
        answer = await client.post("/mcp", json=HELLO, headers={"authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 that signs itself, and its key."""
    import ipaddress

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(utc_now() - timedelta(days=1))
        .not_valid_after(utc_now() + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
    )
    return files


def test_a_certificate_that_cannot_be_used_is_refused_before_anything_listens(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    chain, key = certificate
    require_certificate(HttpAccess(URL, certificate=chain, key=key))
    locked = tmp_path / "locked.pem"
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    locked.write_bytes(loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret))
    for one, other, says in (
        (chain, None, "it needs FORGE_TLS_KEY"),
        (None, key, "it needs FORGE_TLS_CERTIFICATE"),
        (key, chain, "without a passphrase"),
        (chain, locked, "without a passphrase"),
        (tmp_path / "none.pem", key, "No such file"),
    ):
        with pytest.raises(BadSetting, match=says):
            require_certificate(HttpAccess(URL, certificate=one, key=other))


@asynccontextmanager
async def running(settings: Settings, more: Mapping[str, str]) -> AsyncIterator[tuple[anyio.abc.Process, str]]:
    """Start `serve --http` in a process of its own, and yield it with the address that it logs."""
    words = ["-m", "mcp_server", "serve", "--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("FORGE_")}
    env |= {"FORGE_OPEN_BROWSER": "0", **more}
    async with await anyio.open_process(
        [sys.executable, *words, "--http", "127.0.0.1:0"], env=env, cwd=ROOT
    ) as process:
        assert process.stderr is not None
        said = ""
        with anyio.fail_after(60):
            async for block in process.stderr:
                said += block.decode()
                if found := re.search(r"serving (https?://\S+/mcp)", said):
                    break
        assert found, said
        yield process, found[1]
        if process.returncode is None:
            process.kill()


async def test_the_server_speaks_tls_itself_and_serves_a_client_of_the_protocol(
    settings: Settings, certificate: tuple[Path, Path]
) -> None:
    async with open_app(settings, indexing=False) as app:
        token = await token_for(app)
    chain, key = certificate
    more = {"FORGE_HTTP_URL": URL, "FORGE_TLS_CERTIFICATE": str(chain), "FORGE_TLS_KEY": str(key)}
    async with running(settings, more) as (_, address):
        assert address.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(chain))
        async with httpx.AsyncClient(verify=trusting, timeout=PATIENCE_S) as client:
            assert (await client.get(address.replace("/mcp", "/ready"))).json()["ready"] is True
            assert (await client.post(address, json=HELLO, headers=HEADERS)).status_code == 401
            headers = {**HEADERS, "authorization": f"Bearer {token}"}
            assert (await client.post(address, json=HELLO, headers=headers)).status_code == 200


@pytest.mark.skipif(sys.platform == "win32", reason="there a process gets no signal to stop")
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_stopped_server_has_every_page_on_disk_whose_writing_it_confirmed(settings: Settings, era: str) -> None:
    async with open_app(settings, indexing=False) as app:
        token = await token_for(app)
        await grant(app.base.state, f"ann@{TOKEN_HOLDER}", 3, by="ada", now=utc_now())
    confirmed: list[str] = []
    async with running(settings, {"FORGE_HTTP_URL": URL}) as (process, address):
        three = anyio.Event()

        async def write_until_it_ends(number: int) -> None:
            headers = {"authorization": f"Bearer {token}"}
            try:
                async with create_mcp_http_client(headers=headers) as http:
                    wire = streamable_http_client(address, http_client=http)
                    async with Client(wire, mode=era) as client:
                        for page in range(1_000):
                            path = f"{number}-{page}.md"
                            answer = await call(client, "kb_merge", path=path, content=f"# Page {path}\n")
                            assert answer["status"] == "done"
                            confirmed.append(path)
                            if len(confirmed) == 3:
                                three.set()
            except Exception:  # noqa: BLE001 - the server goes away, in whichever way the client notices
                return

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(write_until_it_ends, number)
            with anyio.fail_after(60):
                await three.wait()
            process.send_signal(signal.SIGTERM)
            with anyio.fail_after(60):
                assert await process.wait() == 0
            tasks.cancel_scope.cancel()
    assert [path for path in confirmed if not (settings.kb / path).is_file()] == []
    async with open_state(settings) as state:
        written = [one.body for one in await state.ledger.records(after=0, limit=10_000) if '"kb_merge"' in one.body]
    # An act on record has its page, and a page that was written is on record.
    assert len(written) == len(list(settings.kb.glob("[0-9]*.md"))) >= len(confirmed)


async def test_a_flood_of_wrong_tokens_is_answered_with_429_and_keeps_out_nobody_who_signed_in_before(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 116."""
    monkeypatch.setattr(wrong_tokens, "WRONG_PER_MINUTE", 2)
    async with served(settings, HttpAccess(URL)) as (app, client):

        async def ask(token: str) -> httpx.Response:
            return await client.post("/mcp", json=HELLO, headers={"authorization": f"Bearer {token}"})

        ann, bob = await token_for(app, "ann"), await token_for(app, "bob")
        assert (await ask(ann)).status_code == 200
        assert [(await ask("kf_guess")).status_code for _ in range(3)] == [401, 401, 429]
        assert (await ask(ann)).status_code == 200
        refused = await ask(bob)
        assert (refused.status_code, "www-authenticate" in refused.headers) == (429, False)
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert "This one was not checked, and nothing was done" in refused.json()["error"]["message"]


async def test_one_caller_cannot_open_streams_without_end() -> None:
    end = anyio.Event()
    answers: list[httpx.Response] = []

    async def stays_open(scope: Scope, receive: Receive, send: Send) -> None:
        await end.wait()
        await PlainTextResponse("ok")(scope, receive, send)

    async def named(token: str) -> Principal:
        return Principal(token, TOKEN_HOLDER)

    app = KnownTokens(stays_open, named=named, required=True, most_open=2)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kb") as client:

        async def ask(who: str) -> None:
            answers.append(await client.get("/mcp", headers={"authorization": f"Bearer {who}"}))

        async with anyio.create_task_group() as tasks:
            for who in ("ann", "ann", "bob"):
                tasks.start_soon(ask, who)
            await anyio.wait_all_tasks_blocked()
            await ask("ann")
            assert answers[0].status_code == 429
            assert answers[0].json()["error"]["message"].startswith("ann@token:http has 2 open requests")
            end.set()
        await ask("ann")
    assert [one.status_code for one in answers[1:]] == [200] * 4
