"""Sends requests to the one host that a person configured, and knows whether a failed request may have been received.

Reads are retried for a short while when the network or the service fails. Writes are sent once, on a new connection: a
kept one may already be dead, and then nobody can say whether the service received the request. A write that was refused
because there were too many requests was not done, and is sent again after a short wait.
"""

from __future__ import annotations

import logging
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import anyio
import httpx

from knowledge.telemetry.operations import Operation
from knowledge.wire.addresses import shown_address
from knowledge.wire.compression import ACCEPTED, bounding
from mcp_server import VERSION
from mcp_server.connectors.errors import ConnectorError, NoAnswer, ReplyLost, ServiceLimited, Unreachable, WrongAddress
from mcp_server.connectors.request.allowance import Allowance
from mcp_server.connectors.request.bodies import BadBody, read_body, wait_of, without_secrets_of
from mcp_server.connectors.request.transport_errors import BROKEN, trouble_of
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest

USER_AGENT = f"knowledge-forge/{VERSION}"
REDIRECTS = (301, 302, 303, 307, 308)
MOST_CONNECTIONS = 16
LONGEST_ADDRESS = 64
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where a service is and how a request to it is signed.

    `service` is its name for people, `address` the configured one without a final slash, `setting` the variable that holds it.
    `headers` go with every request; `secrets` are texts that no message may hold. `ca_setting` is the variable for a private
    certificate authority.
    """

    service: str
    address: str
    setting: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    ca_setting: str = "SSL_CERT_FILE"


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Sizes, times and numbers of tries.

    `silence_s`: wait for the next bytes. `reply_s`: for one whole reply, however slowly it trickles. `patience_s`: for all tries
    of a request, waits included. `decent_wait_s`: the longest `Retry-After` that is waited for; a longer one is an error.
    `unknown_wait_s`: the wait after a 429 without `Retry-After`.
    """

    size_bytes: int = 8 * 1024 * 1024
    connect_s: float = 5.0
    silence_s: float = 15.0
    reply_s: float = 20.0
    patience_s: float = 20.0
    decent_wait_s: float = 5.0
    tries: int = 4
    first_wait_s: float = 0.5
    redirects: int = 3
    unknown_wait_s: float = 60.0


class Sender:
    """Sends requests to one service. A reply is returned whatever its status: the wire modules judge it.

    `fresh` is a client that keeps no connections, for writes; without it `client` sends those too. `allowance` counts the requests,
    if the service limits them.
    """

    def __init__(
        self,
        place: ServiceAddress,
        client: httpx.AsyncClient,
        *,
        fresh: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]],
        monotonic: Callable[[], float],
        bounds: RequestLimits | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self.place = place
        self._allowance = allowance
        self._client, self._fresh = client, fresh or client
        self._sleep, self._monotonic = sleep, monotonic
        self._bounds = bounds or RequestLimits()

    async def send(self, request: ServiceRequest) -> ServiceReply:
        """Return the reply: its status is 2xx or 4xx, but not 429; its body is JSON or empty.

        A repeatable request is retried, a few times and for a bounded time, after a cut connection, a timeout, a 5xx or a 429. Any
        other request is sent again only after a 429 with `Retry-After`. The wait before a retry is as long as `Retry-After` says, if
        the reply has it. Reads follow redirects within this host. Secrets are removed from the reply.

        Raises:
            Unreachable: no connection was made, so nothing was sent.
            ReplyLost: a write was sent, and no usable reply came (5xx, cut, timeout, too large, not JSON).
            NoAnswer: the same for a read.
            ServiceLimited: 429, and `Retry-After` asks for more than a decent wait; or the allowance has no room for it.
            WrongAddress: the service redirects to another host, or redirects a write.
        """
        with Operation("request", elsewhere=True, service=self.place.service, method=request.method) as current:
            reply = await self._sent(request, current)
            current.note(status=reply.status)
            return reply

    async def _sent(self, request: ServiceRequest, current: Operation) -> ServiceReply:
        built, started, lost = self._build(request), self._monotonic(), False
        for number in range(1, self._bounds.tries + 1):
            current.note(attempts=number)
            left_s = self._bounds.patience_s - (self._monotonic() - started)
            try:
                return await self._try(request, built, left_s)
            except _TryFailed as failed:
                lost = lost or failed.sent
                wait_s = self._wait_s(failed, number)
                spent_s = self._monotonic() - started
                # A limited write was not done. It waits only as long as the service says, never for a time that we guess.
                may_repeat = request.repeatable or (failed.is_limited and failed.wait_s is not None)
                if not may_repeat or wait_s is None or spent_s + wait_s >= self._bounds.patience_s:
                    # `from None`: httpx's error quotes what came back, which may echo what was sent. No traceback may hold that.
                    raise self._final_error(failed, request, lost=lost) from None
            await self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def _wait_s(self, failed: _TryFailed, number: int) -> float | None:
        """Return how long to wait before the next try; None for no further try."""
        if not failed.passing or number == self._bounds.tries:
            return None
        if failed.wait_s is not None:
            return failed.wait_s if failed.wait_s <= self._bounds.decent_wait_s else None
        # Many processes that failed together must not come back together.
        return self._bounds.first_wait_s * float(2 ** (number - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret

    def _final_error(self, failed: _TryFailed, request: ServiceRequest, *, lost: bool) -> ConnectorError:
        # Even if the last try was certainly not received, an earlier one may have been: then nobody knows.
        if lost and request.writes:
            why = failed.why if failed.sent else f"{failed.why}, after a try without a reply"
            return ReplyLost(self.place.service, why)
        return failed.error or NoAnswer(self.place.service, failed.why)

    def _build(self, request: ServiceRequest) -> httpx.Request:
        # "https://host" + "@evil.example/" would lead to another host, with our key.
        if not request.path.startswith("/"):
            raise ValueError("a path begins with a slash, so that it leads to no other host")
        try:
            url = httpx.URL(self.place.address + request.path)
            if request.query:
                url = url.copy_merge_params(dict(request.query))
        except (httpx.InvalidURL, ValueError) as error:
            raise self._unreachable("the address is not valid") from error
        # The system's resolver takes a port modulo 65,536: the key would go to another one.
        if (url.port or 0) > LAST_PORT:
            raise self._unreachable("the address is not valid")
        return self._sign(request, url)

    def _sign(self, request: ServiceRequest, url: httpx.URL) -> httpx.Request:
        """Return the request for httpx. Not built by the client, which would add its own headers, cookies and credentials."""
        if not all(value.isascii() and value.isprintable() for value in self.place.headers.values()):
            service = self.place.service
            raise ConnectorError(service, f"the key for {service} has characters that a key can't have; set it again")
        file, bounds, silence_s = request.file, self._bounds, request.patience_s or self._bounds.silence_s
        waits = {"connect": bounds.connect_s, "pool": bounds.connect_s, "read": silence_s, "write": bounds.silence_s}
        return httpx.Request(
            request.method,
            url,
            headers={
                "user-agent": USER_AGENT,
                "accept": "application/json",
                "accept-encoding": ACCEPTED,
                **self.place.headers,
                **request.headers,
            },
            content=request.content,
            json=dict(request.json) if request.json is not None else None,
            data=dict(request.form) if request.form is not None else None,
            files={"file": (file.name, file.content, file.media_type)} if file is not None else None,
            extensions={"timeout": waits},
        )

    async def _try(self, request: ServiceRequest, built: httpx.Request, left_s: float) -> ServiceReply:
        """Return the reply to one try, following redirects within this host."""
        for _ in range(self._bounds.redirects + 1):
            status, headers, content = await self._exchange(request, built, left_s)
            if status not in REDIRECTS or "location" not in headers:
                if request.raw and httpx.codes.is_success(status):
                    # Latin-1 maps every byte to a letter and back; keys are ASCII.
                    text = without_secrets_of(content.decode("latin-1"), self.place.secrets)
                    return ServiceReply(status, {}, text.encode("latin-1"))
                return self._reply(request, status, headers, content)
            built = self._redirected(request, built, headers["location"])
        raise self._wrong_address("itself, again and again")

    async def _exchange(
        self, request: ServiceRequest, built: httpx.Request, left_s: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        client = self._fresh if request.writes else self._client
        if self._allowance is not None:
            await self._allowance.spend()
        content = bytearray()
        try:
            with anyio.fail_after(request.patience_s or min(self._bounds.reply_s, left_s)):
                reply = await client.send(built, stream=True, follow_redirects=False)
                try:
                    async for piece in reply.aiter_bytes():
                        # Counted as it comes: a declared length may be missing or wrong.
                        content += piece
                        if len(content) > self._bounds.size_bytes:
                            raise _TryFailed(f"it is larger than {self._bounds.size_bytes:,} bytes", sent=True)
                finally:
                    await reply.aclose()
        except BROKEN as error:
            trouble = trouble_of(error, self.place.ca_setting)
            unreachable = None if trouble.sent else self._unreachable(trouble.why)
            raise _TryFailed(trouble.why, sent=trouble.sent, passing=trouble.passing, error=unreachable) from error
        return reply.status_code, {name.lower(): value for name, value in reply.headers.items()}, bytes(content)

    def _reply(self, request: ServiceRequest, status: int, headers: Mapping[str, str], content: bytes) -> ServiceReply:
        wait_s = wait_of(headers.get("retry-after"), headers.get("date"), datetime.now(UTC))
        limited_s = None
        if status == httpx.codes.TOO_MANY_REQUESTS:
            limited_s = self._bounds.unknown_wait_s if wait_s is None else wait_s
        if self._allowance is not None:
            self._allowance.heard(headers, limited_s)
        if limited_s is not None:
            limited = ServiceLimited(self.place.service, limited_s)
            # Both services count requests before they look at them: a limited one did nothing.
            raise _TryFailed("too many requests", sent=False, passing=True, wait_s=wait_s, error=limited)
        if not (httpx.codes.is_success(status) or httpx.codes.is_client_error(status)):
            # A 502 or 504 comes from a proxy while the service behind it may still be working.
            raise _TryFailed(f"status {status}", sent=True, passing=httpx.codes.is_server_error(status), wait_s=wait_s)
        safe = {name: without_secrets_of(value, self.place.secrets) for name, value in headers.items()}
        try:
            body = read_body(content, self.place.secrets) if request.reads_reply else None
            return ServiceReply(status, safe, body)
        except BadBody as bad:
            if httpx.codes.is_client_error(status):
                return ServiceReply(status, safe, None, page=bad.page)
            hint = f"; is {self.place.setting} its address?" if bad.page else ""
            raise _TryFailed(f"{bad.why}{hint}", sent=True) from bad

    def _redirected(self, request: ServiceRequest, built: httpx.Request, location: str) -> httpx.Request:
        """Return the request for the place that a redirect names, if it is a read and the key stays on this host."""
        try:
            url = built.url.join(location)
            where = without_secrets_of(shown_address(str(url)), self.place.secrets)[:LONGEST_ADDRESS]
        except (httpx.InvalidURL, ValueError):
            url, where = None, "an invalid address"
        # httpx would use a user name and password in the address instead of our key.
        if url is None or request.writes or url.userinfo or _origin(url) != _origin(built.url):
            raise self._wrong_address(where)
        return self._sign(request, url)

    def _wrong_address(self, where: str) -> _TryFailed:
        error = WrongAddress(self.place.service, self.place.setting, where)
        return _TryFailed("it redirects", sent=False, error=error)

    def _unreachable(self, why: str) -> Unreachable:
        try:
            address = shown_address(str(httpx.URL(self.place.address)))
        except (httpx.InvalidURL, ValueError):
            address = f"the address in {self.place.setting}"
        shown = without_secrets_of(address, self.place.secrets)[:LONGEST_ADDRESS]
        return Unreachable(self.place.service, shown, why)


@dataclass(eq=False)  # exceptions are compared by identity
class _TryFailed(Exception):
    """One try without a usable reply.

    `error` is what the caller gets for it, None for NoAnswer. A write that may have been received gets ReplyLost instead.
    """

    why: str
    sent: bool
    passing: bool = False
    wait_s: float | None = None
    error: ConnectorError | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there were too many requests."""
        return isinstance(self.error, ServiceLimited)


@dataclass(frozen=True, slots=True)
class Clients:
    """Two clients for one service: `kept` keeps its connections, `fresh` opens a new one for every request."""

    kept: httpx.AsyncClient
    fresh: httpx.AsyncClient

    async def aclose(self) -> None:
        """Close all connections."""
        await self.kept.aclose()
        await self.fresh.aclose()


def make_clients(ca: Path | None) -> Clients:
    """Return clients that trust the certificates that the system trusts, or only the authority in the file `ca`.

    Proxies in the environment are used; passwords in netrc are not.

    Raises:
        OSError: `ca` cannot be read, or holds no certificate (ssl.SSLError).
    """
    # httpx logs addresses with their queries at INFO, and headers, our key among them, at DEBUG.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    verify = ssl.create_default_context(cafile=str(ca)) if ca else _system_certificates()
    hooks = {"response": [bounding(httpx)]}
    kept = httpx.Limits(max_connections=MOST_CONNECTIONS)
    fresh = httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=0)
    return Clients(
        httpx.AsyncClient(verify=verify, limits=kept, event_hooks=hooks),
        httpx.AsyncClient(verify=verify, limits=fresh, event_hooks=hooks),
    )


@cache
def _system_certificates() -> ssl.SSLContext:
    # Reading all authorities takes longer than a request.
    return httpx.create_ssl_context()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
