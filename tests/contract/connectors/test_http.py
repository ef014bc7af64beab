"""The sender's promises on any network: on real sockets, with real TLS, and with a fake clock."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from mcp_server.connectors.errors import (
    ConnectorError,
    NoAnswer,
    ReplyLost,
    ServiceLimited,
    Unreachable,
    WrongAddress,
)
from mcp_server.connectors.http import Clients, RequestLimits, Sender, ServiceAddress, make_clients
from mcp_server.connectors.request.bodies import BadBody, read_body, wait_of
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest
from tests.doubles import serving
from tests.doubles.serving import Fault, Served, in_turn, served

KEY = "plane_api_0123456789abcdef"
CALM = RequestLimits(size_bytes=200_000)
HASTY = replace(CALM, silence_s=0.3, reply_s=0.6)
"""For late or missing replies: a test need not wait for them as long as people do."""
READ = ServiceRequest("GET", "/tasks/", {"q": "a b&c"}, repeatable=True)
WRITE = ServiceRequest("POST", "/tasks/", json={"name": "Größe"})
KEYED = ServiceRequest("POST", "/tasks/", json={"external_id": "1"}, repeatable=True)
PAGE = "<!DOCTYPE html><p>Please sign in</p>"


class Echo:
    """An application that counts its acts, and answers what it was asked."""

    def __init__(self) -> None:
        self.acts: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = Asked(scope, receive)
        content = await asked.body()
        self.acts.append(asked.method)
        told = {"query": dict(asked.query_params), "body": content.decode(), "headers": dict(asked.headers)}
        await JSONResponse(told, headers={"X-Seen": "1", "Set-Cookie": "session=kept; Path=/"})(scope, receive, send)


@dataclass
class Sending:
    """A sender, its target, and the waits that it made."""

    sender: Sender
    double: Served
    app: Echo
    waits: list[float] = field(default_factory=list)

    async def error(self, request: ServiceRequest, *faults: Fault | None) -> ConnectorError:
        self._expect(*faults)
        with pytest.raises(ConnectorError) as raised:
            await self.sender.send(request)
        return raised.value

    async def reply(self, request: ServiceRequest, *faults: Fault | None) -> ServiceReply:
        self._expect(*faults)
        return await self.sender.send(request)

    def _expect(self, *faults: Fault | None) -> None:
        self.double.plan = in_turn(*faults)
        if any(fault and fault.seconds for fault in faults):
            self.sender._bounds = HASTY


@asynccontextmanager
async def opened(
    bounds: RequestLimits = CALM, path: str = "", ca: Path | None = None, certificate: tuple[Path, Path] | None = None
) -> AsyncIterator[Sending]:
    app = Echo()
    async with served(app, certificate=certificate) as double, clients(ca) as made:
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        place = ServiceAddress("Plane", double.address + path, "PLANE_BASE_URL", {"X-API-Key": KEY}, (KEY,), "PLANE_CA")
        sender = Sender(place, made.kept, fresh=made.fresh, sleep=sleep, monotonic=lambda: sum(waits), bounds=bounds)
        yield Sending(sender, double, app, waits)


@asynccontextmanager
async def clients(ca: Path | None = None) -> AsyncIterator[Clients]:
    made = make_clients(ca)
    try:
        yield made
    finally:
        await made.aclose()


@pytest.fixture
async def sending() -> AsyncIterator[Sending]:
    async with opened() as ready:
        yield ready


async def test_a_request_arrives_unchanged_and_its_reply_comes_back(sending: Sending) -> None:
    reply = await sending.reply(ServiceRequest("PATCH", "/tasks/1/", {"q": "a b&c=ü"}, json={"name": "Größe"}))
    assert (reply.status, reply.headers["x-seen"]) == (200, "1")
    assert reply.body["query"] == {"q": "a b&c=ü"}
    assert json.loads(reply.body["body"]) == {"name": "Größe"}
    assert reply.body["headers"]["content-type"] == "application/json"
    assert sending.double.seen[0].headers["x-api-key"] == KEY
    assert sending.double.seen[0].headers["user-agent"].startswith("knowledge-forge/")


async def test_a_form_arrives_as_a_form(sending: Sending) -> None:
    reply = await sending.reply(ServiceRequest("POST", "/messages", form={"content": "a&b=ü\n", "to": "[1]"}))
    assert reply.body["headers"]["content-type"] == "application/x-www-form-urlencoded"
    assert reply.body["body"] == "content=a%26b%3D%C3%BC%0A&to=%5B1%5D"


async def test_an_empty_body_is_none(sending: Sending) -> None:
    assert (await sending.reply(ServiceRequest("DELETE", "/tasks/1/"), serving.status(204))).body is None


ONCE = [
    (serving.after(), ReplyLost),
    (serving.before(), ReplyLost),
    (serving.delayed(5), ReplyLost),
    (serving.dripping(0.1), ReplyLost),
    (serving.status(500, acts=True), ReplyLost),
    (serving.status(503, {"retry-after": "1"}), ReplyLost),
    (serving.html(), ReplyLost),
    (serving.truncated(), ReplyLost),
    (serving.malformed(), ReplyLost),
    (serving.oversized(300_000), ReplyLost),
    (serving.body("[" * 5000 + "]" * 5000), ReplyLost),
    (serving.body("NaN"), ReplyLost),
    (serving.body("1e999"), ReplyLost),
    (serving.body(b'"\xff"'), ReplyLost),
    (serving.body('{"a": '), ReplyLost),
    (serving.status(304), ReplyLost),
    (serving.status(429), ServiceLimited),
    (serving.status(429, {"retry-after": "5.5"}), ServiceLimited),
    (serving.redirected("/elsewhere/"), WrongAddress),
]


@pytest.mark.parametrize(("fault", "error"), ONCE)
async def test_a_changing_request_is_sent_once_whatever_comes_back(
    sending: Sending, fault: Fault, error: type[ConnectorError]
) -> None:
    """Bounded retries for reads, none for writes without an idempotency key."""
    assert type(await sending.error(WRITE, fault)) is error
    assert len(sending.double.seen) == 1
    assert sending.waits == []


async def test_a_changing_request_waits_a_few_seconds_if_there_were_too_many(sending: Sending) -> None:
    """kb/reference/plane.md: a limited request was not done, so sending it after the wait does it once."""
    limited = serving.status(429, {"retry-after": "5"})
    assert (await sending.reply(WRITE, limited, limited)).status == 200
    assert (sending.waits, sending.app.acts) == ([5.0, 5.0], ["POST"])
    assert type(await sending.error(WRITE, limited, serving.after())) is ReplyLost
    assert sending.app.acts == ["POST", "POST"]


async def test_a_changing_request_uses_its_own_connection(sending: Sending) -> None:
    """A kept connection may already be dead, and then nobody knows whether the request arrived."""
    for request in (READ, READ, WRITE, WRITE, READ):
        await sending.sender.send(request)
    first, second, third, fourth, fifth = [seen.connection for seen in sending.double.seen]
    assert first == second == fifth
    assert len({first, third, fourth}) == 3


async def test_a_kept_connection_that_died_is_no_trouble(sending: Sending) -> None:
    for _ in range(3):
        await sending.reply(READ, serving.hang_up())
    assert len(sending.app.acts) >= 3


PASSING = [
    serving.after(),
    serving.before(),
    serving.delayed(5),
    serving.dripping(0.1),
    serving.status(500),
    serving.status(502, {"content-type": "text/html"}, PAGE),
    serving.status(503, {"retry-after": "2"}),
    serving.truncated(),
    serving.malformed(),
    serving.status(429, {"retry-after": "1"}),
    serving.status(429, {"retry-after": "0.25"}),
    serving.status(429),
]


@pytest.mark.parametrize("fault", PASSING)
async def test_a_reading_request_is_retried(sending: Sending, fault: Fault) -> None:
    reply = await sending.reply(READ, fault, fault)
    assert reply.body["query"] == {"q": "a b&c"}
    assert len(sending.double.seen) == 3
    assert len(sending.waits) == 2


@pytest.mark.parametrize("fault", PASSING)
async def test_a_request_with_an_idempotency_key_is_retried(sending: Sending, fault: Fault) -> None:
    assert (await sending.reply(KEYED, fault)).status == 200
    assert len(sending.double.seen) == 2


LASTING = [
    (serving.html(), NoAnswer),
    (serving.oversized(300_000), NoAnswer),
    (serving.body('{"a": '), NoAnswer),
    (serving.status(304), NoAnswer),
    (serving.status(429, {"retry-after": "60"}), ServiceLimited),
    (serving.status(503, {"retry-after": "60"}), NoAnswer),
    (serving.redirected("http://127.0.0.1:9/"), WrongAddress),
]


@pytest.mark.parametrize(("fault", "error"), LASTING)
async def test_a_permanent_error_is_reported_immediately(
    sending: Sending, fault: Fault, error: type[ConnectorError]
) -> None:
    assert type(await sending.error(READ, fault)) is error
    assert len(sending.double.seen) == 1


async def test_asking_again_ends_after_a_few_times_and_waits_grow(sending: Sending) -> None:
    error = await sending.error(READ, *[serving.status(500)] * 20)
    assert type(error) is NoAnswer
    assert len(sending.double.seen) == CALM.tries
    assert sending.waits == sorted(sending.waits)
    assert sum(sending.waits) < CALM.patience_s


async def test_waits_of_many_callers_differ(sending: Sending) -> None:
    for _ in range(3):
        await sending.error(READ, *[serving.status(500)] * 4)
    assert len(set(sending.waits)) == len(sending.waits)


async def test_asking_again_ends_when_patience_does() -> None:
    async with opened(RequestLimits(tries=100)) as patient:
        error = await patient.error(READ, *[serving.status(429, {"retry-after": "4.5"})] * 100)
        assert isinstance(error, ServiceLimited)
        assert error.wait_s == 4.5
        assert patient.waits == [4.5] * 4


async def test_a_reply_that_is_kept_open_by_design_may_take_as_long_as_its_request_says(sending: Sending) -> None:
    reply = await sending.reply(ServiceRequest("GET", "/events", repeatable=True, patience_s=5), serving.delayed(0.8))
    assert reply.status == 200
    assert len(sending.double.seen) == 1


@pytest.mark.parametrize(
    "later",
    [
        serving.status(429, {"retry-after": "60"}),
        serving.status(503, {"retry-after": "60"}),
        serving.redirected("http://127.0.0.1:9/"),
        serving.html(),
    ],
)
async def test_a_lost_try_is_not_forgotten_when_a_later_one_did_certainly_nothing(
    sending: Sending, later: Fault
) -> None:
    """The first try may have acted, so "nothing was done" would be a lie."""
    assert type(await sending.error(KEYED, serving.after(), later)) is ReplyLost
    assert sending.app.acts[:1] == ["POST"]


async def test_a_lost_try_is_not_forgotten_when_the_service_is_gone_afterwards() -> None:
    async with clients() as made, AsyncExitStack() as running:
        double = await running.enter_async_context(served(Echo(), plan=in_turn(serving.after())))

        async def gone_meanwhile(_seconds: float) -> None:
            await running.aclose()

        place = ServiceAddress("Plane", double.address, "PLANE_BASE_URL", {}, ())
        sender = Sender(place, made.kept, fresh=made.fresh, sleep=gone_meanwhile, monotonic=lambda: 0.0)
        with pytest.raises(ReplyLost, match="nothing listens there, after a try without a reply"):
            await sender.send(KEYED)


async def test_where_nothing_listens_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for request, tries in ((READ, CALM.tries), (WRITE, 1), (KEYED, CALM.tries)):
        error, waits = await fails(f"http://name:word-of-passing@127.0.0.1:{port}/api", request)
        assert isinstance(error, Unreachable)
        assert f"http://127.0.0.1:{port}/api cannot be reached (nothing listens there)" in str(error)
        assert len(waits) == tries - 1
        assert "word-of-passing" not in str(error)


async def test_an_unknown_host_is_reported() -> None:
    error, waits = await fails("http://nowhere.invalid", READ)
    assert isinstance(error, Unreachable)
    assert (error.why, waits) == ("no such host is known", [])


@pytest.mark.parametrize(
    "address",
    ["http://exa mple", "ftp://127.0.0.1", "http://[::1", "http://127.0.0.1:99999", "nonsense", f"http://{'a' * 300}"],
)
async def test_an_invalid_address_is_reported(address: str) -> None:
    error, waits = await fails(address, WRITE)
    assert isinstance(error, Unreachable)
    assert waits == []


async def test_a_key_that_no_header_can_carry_is_reported_without_it() -> None:
    place = ServiceAddress("Plane", "http://127.0.0.1:9", "PLANE_BASE_URL", {"X-API-Key": f"{KEY}\n"}, (KEY,))
    async with clients() as made:
        with pytest.raises(ConnectorError, match="characters that a key can't have") as raised:
            await Sender(place, made.kept, sleep=asyncio.sleep, monotonic=lambda: 0.0).send(READ)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("path", ["tasks/", "@127.0.0.2/tasks/", ".example.org/", ":81/x"])
async def test_no_path_leads_to_another_host(sending: Sending, path: str) -> None:
    with pytest.raises(ValueError, match="no other host"):
        await sending.sender.send(ServiceRequest("GET", path))
    assert sending.double.seen == []


async def test_a_redirect_within_the_place_is_followed_for_reads(sending: Sending) -> None:
    reply = await sending.reply(READ, serving.redirected("/other/?page=2"), serving.redirected("third/"))
    assert reply.status == 200
    assert [seen.path for seen in sending.double.seen] == ["/tasks/", "/other/", "/other/third/"]
    assert {seen.headers["x-api-key"] for seen in sending.double.seen} == {KEY}


async def test_a_redirect_that_leads_round_in_circles_ends(sending: Sending) -> None:
    assert type(await sending.error(READ, *[serving.redirected("/tasks/")] * 20)) is WrongAddress
    assert len(sending.double.seen) == CALM.redirects + 1


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["other", "https", "//127.0.0.1:{port}", "http://[bad"])
async def test_a_key_goes_to_no_other_host_that_a_redirect_names(sending: Sending, code: int, where: str) -> None:
    """Redirects are never followed to another host; another port or scheme is another host."""
    async with opened() as stranger:
        url = {
            "other": f"{stranger.double.address}/tasks/?key={KEY}",
            "https": sending.double.address.replace("http:", "https:"),
        }.get(where, where.format(port=stranger.double.port))
        error = await sending.error(READ, serving.redirected(url, code))
        assert isinstance(error, WrongAddress)
        assert "PLANE_BASE_URL" in str(error)
        assert KEY not in str(error)
        assert stranger.double.seen == []


async def test_an_error_without_json_is_for_the_wire_to_judge(sending: Sending) -> None:
    page = await sending.reply(READ, serving.html(404, acts=False))
    text = await sending.reply(WRITE, serving.status(403, body="Forbidden"))
    said = await sending.reply(WRITE, serving.status(400, body='{"error": "no"}'))
    assert (page.status, page.body, page.page) == (404, None, True)
    assert (text.status, text.body, text.page) == (403, None, False)
    assert (said.status, said.body) == (400, {"error": "no"})


async def test_an_html_page_is_reported_with_the_setting_to_check(sending: Sending) -> None:
    for request in (READ, WRITE):
        error = await sending.error(request, serving.html())
        assert "a page of HTML instead of JSON" in str(error)
        assert "PLANE_BASE_URL" in str(error)


async def test_a_small_body_that_unpacks_to_a_large_one_is_not_taken(sending: Sending) -> None:
    packed = gzip.compress(b'"' + b"x" * 5_000_000 + b'"')
    assert len(packed) < 10_000
    fault = serving.status(200, {"content-encoding": "gzip"}, packed)
    assert "larger than" in str(await sending.error(READ, fault))


async def test_a_compressed_body_is_unpacked_and_a_broken_one_reported(sending: Sending) -> None:
    packed = serving.status(200, {"content-encoding": "gzip"}, gzip.compress(b'{"a": 1}'))
    broken = serving.status(200, {"content-encoding": "gzip"}, b"no gzip")
    assert (await sending.reply(READ, packed)).body == {"a": 1}
    assert "compression is broken" in str(await sending.error(WRITE, broken))


async def test_no_cookie_is_kept_and_no_name_from_a_netrc_sent(
    sending: Sending, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password word-of-passing\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    for request in (READ, WRITE, READ, WRITE):
        await sending.sender.send(request)
    for seen in sending.double.seen:
        assert not {"cookie", "authorization"} & set(seen.headers)


@pytest.mark.parametrize("echo", [KEY, json.dumps(KEY), "".join(f"\\u{ord(letter):04x}" for letter in KEY)])
async def test_a_secret_that_the_service_echoes_is_gone_from_the_reply(sending: Sending, echo: str) -> None:
    """Secrets never appear in results."""
    text = f'{{"error": "bad key {echo.strip(chr(34))}", "{KEY}": ["{KEY}"]}}'
    reply = await sending.reply(READ, serving.status(403, {"x-key": f"of {KEY}"}, text))
    assert KEY not in repr(reply)
    assert reply.body["error"] == "bad key [removed]"


async def test_no_error_and_no_log_contains_a_key_or_the_request(
    sending: Sending, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asking = ServiceRequest("GET", "/tasks/", {"q": "word-of-passing"})
    for request, faults in ((asking, [fault for fault, _ in LASTING]), (WRITE, [fault for fault, _ in ONCE])):
        for fault in faults:
            error = await sending.error(request, fault)
            assert KEY not in repr(error) + str(error)
            assert len(str(error)) <= 280
    told = [record.getMessage() for record in caplog.records if record.name.partition(".")[0] in {"httpx", "httpcore"}]
    assert not [line for line in told if KEY in line or "word-of-passing" in line or "Größe" in line]


async def test_a_caller_that_goes_away_leaves_no_request_behind(sending: Sending) -> None:
    sending.double.plan = in_turn(serving.delayed(5), None)
    task = asyncio.create_task(sending.sender.send(ServiceRequest("GET", "/slow", patience_s=5)))
    await asyncio.to_thread(sending.double.arrived.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await sending.sender.send(READ)).status == 200


async def test_concurrent_requests_all_get_their_own_reply(sending: Sending) -> None:
    replies = await asyncio.gather(
        *[
            sending.sender.send(ServiceRequest("GET", "/tasks/", {"n": str(number)}, repeatable=True))
            for number in range(100)
        ]
    )
    assert [reply.body["query"]["n"] for reply in replies] == [str(number) for number in range(100)]


async def test_the_proxy_of_the_environment_is_used_but_for_hosts_that_it_excepts(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", sending.double.address)
    monkeypatch.setenv("NO_PROXY", "direct.invalid")
    async with clients() as made:

        async def reached(host: str) -> ServiceReply:
            place = ServiceAddress("Plane", f"http://{host}/api", "PLANE_BASE_URL", {"X-API-Key": KEY}, (KEY,))
            return await Sender(place, made.kept, fresh=made.fresh, sleep=at_once, monotonic=lambda: 0.0).send(WRITE)

        assert (await reached("plane.invalid")).status == 200
        with pytest.raises(Unreachable, match="no such host"):
            await reached("direct.invalid")
    assert len(sending.double.seen) == 1
    assert sending.double.seen[0].headers["host"] == "plane.invalid"


async def test_a_blocking_proxy_is_reported_and_nothing_was_sent(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", sending.double.address)
    sending.double.plan = lambda *_: serving.status(403)
    for request in (READ, WRITE):
        error, waits = await fails("https://plane.invalid", request)
        assert isinstance(error, Unreachable)
        assert "proxy set in the environment" in error.why
        assert waits == []
    assert {seen.method for seen in sending.double.seen} == {"CONNECT"}
    assert not [seen for seen in sending.double.seen if "x-api-key" in seen.headers]


async def at_once(_seconds: float) -> None:
    """Wait for nothing."""


@dataclass(frozen=True)
class Authority:
    """A certificate authority made for one test, and certificates from it."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    name: x509.Name

    @property
    def file(self) -> Path:
        return self.folder / "ca.pem"

    def certificate(self, host: str, *, until: timedelta = timedelta(days=1)) -> tuple[Path, Path]:
        """Return the files of a certificate for `host`, and of its key."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + until)
            .add_extension(x509.SubjectAlternativeName([_as_name(host)]), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        chain, secret = self.folder / "server.pem", self.folder / "server.key"
        chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(_private(key))
        return chain, secret


def _as_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Our own authority")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_signing(), critical=True)
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return Authority(tmp_path, key, name)


def _signing() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


async def test_a_service_with_a_certificate_of_our_own_authority_is_trusted_where_it_is_named(
    authority: Authority,
) -> None:
    async with opened(ca=authority.file, certificate=authority.certificate("127.0.0.1")) as sending:
        for request in (READ, WRITE):
            assert (await sending.sender.send(request)).status == 200
        assert isinstance(await sending.error(WRITE, serving.after()), ReplyLost)
        assert isinstance(await sending.error(READ, *[serving.truncated()] * 4), NoAnswer)


@pytest.mark.parametrize(
    ("host", "until", "named", "says"),
    [
        ("127.0.0.1", 1, False, "unable to get local issuer certificate"),
        ("elsewhere.example", 1, True, "IP address mismatch"),
        ("127.0.0.1", -1, True, "certificate has expired"),
    ],
)
async def test_an_untrusted_certificate_is_reported_with_the_setting_for_ones_own(
    authority: Authority, host: str, until: int, *, named: bool, says: str
) -> None:
    certificate = authority.certificate(host, until=timedelta(days=until))
    async with opened(ca=authority.file if named else None, certificate=certificate) as sending:
        for request in (READ, WRITE):
            error = await sending.error(request)
            assert isinstance(error, Unreachable)
            assert says in str(error)
            assert "PLANE_CA" in str(error)
            assert len(str(error)) <= 280
        assert sending.double.seen == []
        assert sending.waits == []


async def test_https_to_a_plain_http_server_is_reported(sending: Sending) -> None:
    error, _ = await fails(sending.double.address.replace("http:", "https:"), READ)
    assert isinstance(error, Unreachable)
    assert "HTTPS" in error.why


async def test_http_where_only_https_is_spoken_gives_no_reply(authority: Authority) -> None:
    async with opened(certificate=authority.certificate("127.0.0.1")) as sending:
        error, _ = await fails(sending.double.address.replace("https:", "http:"), READ)
        assert isinstance(error, NoAnswer)


async def fails(address: str, request: ServiceRequest) -> tuple[ConnectorError, list[float]]:
    """Return the error of a request to that address, and the waits between its tries."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    place = ServiceAddress("Plane", address, "PLANE_BASE_URL", {"X-API-Key": KEY}, (KEY, "word-of-passing"), "PLANE_CA")
    async with clients() as made:
        sender = Sender(place, made.kept, fresh=made.fresh, sleep=sleep, monotonic=lambda: sum(waits), bounds=CALM)
        with pytest.raises(ConnectorError) as raised:
            await sender.send(request)
    return raised.value, waits


NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "date", "seconds"),
    [
        ("3", None, 3.0),
        ("0.3571", None, 0.3571),
        ("0", None, 0.0),
        ("-5", None, 0.0),
        ("Mon, 04 May 2026 12:00:30 GMT", None, 30.0),
        ("Mon, 04 May 2026 12:00:30 GMT", "Mon, 04 May 2026 12:00:20 GMT", 10.0),
        ("Mon, 04 May 2026 11:00:00 GMT", None, 0.0),
        ("1e12", None, 86_400.0),
        ("nan", None, None),
        ("inf", None, None),
        ("soon", None, None),
        ("Mon, 04 May 99999999999999999999 12:00:00 GMT", None, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_retry_after_is_understood(said: str | None, date: str | None, seconds: float | None) -> None:
    """RFC 9110 knows integers and dates, Zulip sends fractions."""
    assert wait_of(said, date, NOW) == seconds


@given(st.binary(max_size=200))
def test_whatever_bytes_come_they_are_a_value_or_a_bad_body(content: bytes) -> None:
    try:
        value = read_body(content)
    except BadBody as bad:
        told = bad.why
        assert told
    else:
        json.dumps(value, allow_nan=False).encode()


@settings(max_examples=50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_is_read_unchanged_except_for_what_cannot_be_stored(value: object) -> None:
    expected = json.loads(json.dumps(value).replace("\\u0000", "\N{REPLACEMENT CHARACTER}"))
    assert read_body(json.dumps(value).encode()) == expected


def test_half_a_pair_becomes_a_sign_that_can_be_stored() -> None:
    read = read_body(b'["\\ud83d\\ude80", "a\\ud83d", "\\ude80b", "\\u0000"]')
    assert read == ["🚀", "a\ufffd", "\ufffdb", "\ufffd"]
