"""One careful way to send requests to the one host that a person configured.

What only asks is asked again, for a short while, when the network or the service stumbles. What changes something is sent
once, on a connection of its own: one that was kept from before may be dead already, and then nobody can say whether the
service saw the request.
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

from knowledge.wire.addresses import shown_address
from knowledge.wire.compression import ACCEPTED, bounding
from mcp_server import VERSION
from mcp_server.connectors.errors import ConnectorError, NoAnswer, ReplyLost, ServiceLimited, Unreachable, WrongAddress
from mcp_server.connectors.request.bodies import BadBody, read_body, wait_of, without
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

    `service` is what a person calls it, `address` the configured one without a slash at its end, `setting` the variable that
    holds it. `headers` go with every request; `secrets` are texts that no message may hold. `ca_setting` is the variable for a
    certificate authority of one's own.
    """

    service: str
    address: str
    setting: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    ca_setting: str = "SSL_CERT_FILE"


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much, how long and how often.

    `reply_s`: for one whole reply, however it trickles. `silence_s`: for the next bytes of it. `patience_s`: for all tries
    of one request together, waits included. `decent_wait_s`: the longest that is waited because the service asks for it.
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
    """Sends requests to one place and returns what came back, whatever its status: judging it is for the wire modules.

    `fresh` is a client that keeps no connection; without it `client` sends what writes, too.
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
    ) -> None:
        self.place = place
        self._client, self._fresh = client, fresh or client
        self._sleep, self._monotonic = sleep, monotonic
        self._bounds = bounds or RequestLimits()

    async def send(self, request: ServiceRequest) -> ServiceReply:
        """Return the reply: its status is 2xx or 4xx, but not 429; its body is JSON or empty.

        A repeatable request is tried again, a few times and for a bounded time, after a cut connection, a timeout, 5xx, and
        429 as `Retry-After` says; any other is sent once. Redirects within this place are followed for what only asks.
        Secrets of the place are removed from what comes back.

        Raises:
            Unreachable: no connection came about, so nothing was sent.
            ReplyLost: a request that writes was sent, and no usable reply came (5xx, cut, timeout, too large, no JSON).
            NoAnswer: the same for one that only reads.
            Limited: 429, and waiting for so long is not decent.
            WrongAddress: it redirects elsewhere, or redirects what writes.
        """
        built, started, lost = self._built(request), self._monotonic(), False
        for number in range(1, self._bounds.tries + 1):
            left_s = self._bounds.patience_s - (self._monotonic() - started)
            try:
                return await self._tried(request, built, left_s)
            except _TryFailed as failed:
                lost = lost or failed.sent
                wait_s = self._wait_s(failed, number)
                spent_s = self._monotonic() - started
                if not request.repeatable or wait_s is None or spent_s + wait_s >= self._bounds.patience_s:
                    # What the library says quotes what came back, and that may be what was sent: it is in no traceback.
                    raise self._told(failed, request, lost=lost) from None
            await self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def _wait_s(self, failed: _TryFailed, number: int) -> float | None:
        """Return how long to wait before the next try; None where there is none."""
        if not failed.passing or number == self._bounds.tries:
            return None
        if failed.wait_s is not None:
            return failed.wait_s if failed.wait_s <= self._bounds.decent_wait_s else None
        # Many processes that failed together must not come back together.
        return self._bounds.first_wait_s * float(2 ** (number - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret

    def _told(self, failed: _TryFailed, request: ServiceRequest, *, lost: bool) -> ConnectorError:
        """Return the error to raise; what an earlier try may have done counts for what writes."""
        if lost and request.writes:
            why = failed.why if failed.sent else f"{failed.why}, after a try without a reply"
            return ReplyLost(self.place.service, why)
        return failed.error or NoAnswer(self.place.service, failed.why)

    def _built(self, request: ServiceRequest) -> httpx.Request:
        if not request.path.startswith("/"):
            raise ValueError("a path begins with a slash, and so leads to no other host")
        try:
            url = httpx.URL(self.place.address + request.path)
            if request.query:
                url = url.copy_merge_params(dict(request.query))
        except (httpx.InvalidURL, ValueError) as error:
            raise self._unreachable("that is no address") from error
        if (url.port or 0) > LAST_PORT:
            raise self._unreachable("that is no address")
        return self._signed(request, url)

    def _signed(self, request: ServiceRequest, url: httpx.URL) -> httpx.Request:
        """Return the request as the library has it, with nothing in it that a client would add on its own."""
        if not all(value.isascii() and value.isprintable() for value in self.place.headers.values()):
            service = self.place.service
            raise ConnectorError(service, f"the key for {service} has characters that no key has; set it again")
        bounds, silence_s = self._bounds, request.patience_s or self._bounds.silence_s
        waits = {"connect": bounds.connect_s, "pool": bounds.connect_s, "read": silence_s, "write": bounds.silence_s}
        return httpx.Request(
            request.method,
            url,
            headers={
                "user-agent": USER_AGENT,
                "accept": "application/json",
                "accept-encoding": ACCEPTED,
                **self.place.headers,
            },
            json=dict(request.json) if request.json is not None else None,
            data=dict(request.form) if request.form is not None else None,
            extensions={"timeout": waits},
        )

    async def _tried(self, request: ServiceRequest, built: httpx.Request, left_s: float) -> ServiceReply:
        """Return the reply to one try, to the end of redirects that stay within this place."""
        for _ in range(self._bounds.redirects + 1):
            status, headers, content = await self._exchanged(request, built, left_s)
            if status not in REDIRECTS or "location" not in headers:
                return self._read(status, headers, content)
            built = self._followed(request, built, headers["location"])
        raise self._misled("itself, again and again")

    async def _exchanged(
        self, request: ServiceRequest, built: httpx.Request, left_s: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        client = self._fresh if request.writes else self._client
        try:
            with anyio.fail_after(request.patience_s or min(self._bounds.reply_s, left_s)):
                reply = await client.send(built, stream=True, follow_redirects=False)
                try:
                    content = await self._whole(reply)
                finally:
                    await reply.aclose()
        except BROKEN as error:
            trouble = trouble_of(error, self.place.ca_setting)
            unreachable = None if trouble.sent else self._unreachable(trouble.why)
            raise _TryFailed(trouble.why, sent=trouble.sent, passing=trouble.passing, error=unreachable) from error
        return reply.status_code, {name.lower(): value for name, value in reply.headers.items()}, content

    async def _whole(self, reply: httpx.Response) -> bytes:
        content = bytearray()
        async for piece in reply.aiter_bytes():
            content += piece
            if len(content) > self._bounds.size_bytes:
                raise _TryFailed(f"it is larger than {self._bounds.size_bytes:,} bytes", sent=True)
        return bytes(content)

    def _read(self, status: int, headers: Mapping[str, str], content: bytes) -> ServiceReply:
        wait_s = wait_of(headers.get("retry-after"), headers.get("date"), datetime.now(UTC))
        if status == httpx.codes.TOO_MANY_REQUESTS:
            limited = ServiceLimited(self.place.service, self._bounds.unknown_wait_s if wait_s is None else wait_s)
            raise _TryFailed("too many requests", sent=False, passing=True, wait_s=wait_s, error=limited)
        if not (httpx.codes.is_success(status) or httpx.codes.is_client_error(status)):
            raise _TryFailed(f"status {status}", sent=True, passing=httpx.codes.is_server_error(status), wait_s=wait_s)
        safe = {name: without(value, self.place.secrets) for name, value in headers.items()}
        try:
            return ServiceReply(status, safe, read_body(content, self.place.secrets))
        except BadBody as bad:
            if httpx.codes.is_client_error(status):
                return ServiceReply(status, safe, None, page=bad.page)
            hint = f"; is {self.place.setting} its address?" if bad.page else ""
            raise _TryFailed(f"{bad.why}{hint}", sent=True) from bad

    def _followed(self, request: ServiceRequest, built: httpx.Request, location: str) -> httpx.Request:
        """Return the request for where a redirect leads, if it may be made: it only asks, and the key stays here."""
        try:
            url = built.url.join(location)
            where = without(shown_address(str(url)), self.place.secrets)[:LONGEST_ADDRESS]
        except (httpx.InvalidURL, ValueError):
            url, where = None, "what is no address"
        # A name and password in the address would take the place of the key: the library signs with them.
        if url is None or request.writes or url.userinfo or _origin(url) != _origin(built.url):
            raise self._misled(where)
        return self._signed(request, url)

    def _misled(self, where: str) -> _TryFailed:
        error = WrongAddress(self.place.service, self.place.setting, where)
        return _TryFailed("it redirects", sent=False, error=error)

    def _unreachable(self, why: str) -> Unreachable:
        try:
            address = shown_address(str(httpx.URL(self.place.address)))
        except (httpx.InvalidURL, ValueError):
            address = f"the address in {self.place.setting}"
        return Unreachable(self.place.service, without(address, self.place.secrets)[:LONGEST_ADDRESS], why)


class _TryFailed(Exception):
    """One try that gave no reply to return. `error` is what it is called where nothing was lost; None: by what was asked."""

    def __init__(
        self,
        why: str,
        *,
        sent: bool,
        passing: bool = False,
        wait_s: float | None = None,
        error: ConnectorError | None = None,
    ) -> None:
        self.why, self.sent, self.passing, self.wait_s, self.error = why, sent, passing, wait_s, error
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Clients:
    """Two clients for one place: one keeps its connections, the other makes a fresh one for every request."""

    kept: httpx.AsyncClient
    fresh: httpx.AsyncClient

    async def aclose(self) -> None:
        """Close all connections."""
        await self.kept.aclose()
        await self.fresh.aclose()


def made_clients(ca: Path | None) -> Clients:
    """Return clients that trust what the system trusts, or only the authority in the file `ca`.

    What the environment says of proxies counts, as for every other program; what it says of passwords (netrc) does not.

    Raises:
        OSError: `ca` cannot be read, or holds no certificate (ssl.SSLError).
    """
    # The library would tell addresses with their queries at INFO, and headers at DEBUG.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    verify = ssl.create_default_context(cafile=str(ca)) if ca else _trusted_by_the_system()
    hooks = {"response": [bounding(httpx)]}
    kept = httpx.Limits(max_connections=MOST_CONNECTIONS)
    fresh = httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=0)
    return Clients(
        httpx.AsyncClient(verify=verify, limits=kept, event_hooks=hooks),
        httpx.AsyncClient(verify=verify, limits=fresh, event_hooks=hooks),
    )


@cache
def _trusted_by_the_system() -> ssl.SSLContext:
    # Reading all authorities takes longer than a request.
    return httpx.create_ssl_context()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
