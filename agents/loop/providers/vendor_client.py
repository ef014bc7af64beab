"""Carries requests through a vendor's package, one try each, and tells what went wrong in our words.

The packages of both vendors are made by one generator: the same errors, the same streams, the same raw replies. This module
is handed the package and imports none.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from types import ModuleType
from typing import Any

import anyio

from agents.loop.model.errors import BadAddress, BadKey, BadSurroundings
from agents.loop.model.ports import ModelUsage
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.failures import RequestFailed, RequestFailure, failure_of
from agents.loop.providers.wire.request import Assembly, ProviderRequest, Wire
from knowledge.wire.compression import ACCEPTED, bounding

LOST = ModelUsage(known=False)
"""What a request used that was sent and whose answer was lost: perhaps it is billed, and nobody says."""
MOST_REPLY = 32 * 1024 * 1024
"""Bytes. A streamed answer of 64,000 tokens has an event of 250 bytes for each."""
REQUEST_IDS = ("request-id", "x-request-id")


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor's package and what of its client is used: `raw` answers in one piece, `streamed` in pieces.

    `headers` go with every request; a value may be the package's own mark for a header that is left out.
    """

    package: ModuleType
    raw: Callable[..., Awaitable[Any]]
    streamed: Callable[..., Awaitable[Any]]
    close: Callable[[], Awaitable[None]]
    headers: Mapping[str, Any] | None = None


class PackagedLine:
    """Sends by the package of `vendor`. `now` is needed for a `Retry-After` that is a date."""

    def __init__(self, vendor: Vendor, patience: RequestPatience, now: Callable[[], datetime]) -> None:
        import httpx2

        self._vendor, self._patience, self._now, self._http = vendor, patience, now, httpx2

    async def send(self, request: ProviderRequest, wire: Wire, *, streamed: bool) -> tuple[Mapping[str, Any], str]:
        """Return the whole reply and the request's id.

        Raises:
            Failed: an error came, or nothing, or nothing whole.
        """
        assembly = wire.assembly()
        longest_s = self._patience.streamed_s if streamed else self._patience.whole_s
        try:
            with anyio.fail_after(longest_s):
                reply, headers = await (self._pieces(request, assembly) if streamed else self._whole(request))
        except RequestFailed as failed:
            raise RequestFailed(self._with_usage(failed.failure, wire, assembly)) from None
        except Exception as error:  # noqa: BLE001 - what the packages stand on raises errors of many kinds
            failure = self._failure(error, longest_s)
            raise RequestFailed(self._with_usage(failure, wire, assembly)) from None
        wrong = wire.error_in(reply)
        if wrong is not None:
            failure = failure_of(200, wrong, headers, self._now())
            raise RequestFailed(replace(failure, usage=wire.used(reply) if reply.get("usage") else ModelUsage()))
        return reply, next((headers[name] for name in REQUEST_IDS if name in headers), "")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._vendor.close()

    async def _whole(self, request: ProviderRequest) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        raw = await self._vendor.raw(**request.body, **self._options(request, self._patience.whole_s))
        # Read here: the package makes objects of its types of whatever came, and text of what is no JSON.
        return _object(raw.http_response.content), _lower(raw.http_response.headers)

    async def _pieces(
        self, request: ProviderRequest, assembly: Assembly
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        stream = await self._vendor.streamed(
            **request.body, stream=True, **self._options(request, self._patience.silence_s)
        )
        headers = _lower(stream.response.headers)
        async with stream:
            if "json" in headers.get("content-type", ""):
                # A server that cannot stream answers in one piece.
                return _object(await stream.response.aread()), headers
            async for event in stream:
                assembly.add(_as_sent(event))
                if assembly.over:
                    break
        if not assembly.whole:
            raise RequestFailed(RequestFailure(why="the stream broke off"))
        return assembly.reply, headers

    def _options(self, request: ProviderRequest, silence_s: float) -> dict[str, Any]:
        connect_s = self._patience.connect_s
        return {
            "extra_body": dict(request.extra) or None,
            "extra_headers": self._vendor.headers,
            "timeout": self._http.Timeout(silence_s, connect=connect_s, pool=connect_s),
        }

    def _failure(self, error: Exception, longest_s: float) -> RequestFailure:
        """Return what an error of the package means, or of what it stands on: a proxy with an impossible port is noticed there."""
        package, http = self._vendor.package, self._http
        if isinstance(error, package.APIStatusError):
            return failure_of(error.status_code, error.body, _lower(error.response.headers), self._now())
        if isinstance(error, TimeoutError):
            return RequestFailure(why=f"no whole answer within {longest_s:.0f} s")
        if isinstance(error, package.APITimeoutError | http.TimeoutException):
            sent = not isinstance(error.__cause__ or error, http.ConnectTimeout | http.PoolTimeout)
            return RequestFailure(why="no answer in time" if sent else "no connection in time", sent=sent)
        if isinstance(error, package.APIConnectionError | http.RequestError):
            sent = not isinstance(error.__cause__ or error, http.ConnectError | http.UnsupportedProtocol)
            if _untrusted(error):
                return RequestFailure(why="its certificate is not trusted", again=False, sent=False)
            return RequestFailure(why="the connection broke" if sent else "no connection", sent=sent)
        if isinstance(error, package.APIError):
            # Inside of a stream: there is no status then.
            return failure_of(200, error.body, {}, self._now())
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            return RequestFailure(why="the stream holds what is no JSON")
        return RequestFailure(why=type(error).__name__, again=False)

    @staticmethod
    def _with_usage(failure: RequestFailure, wire: Wire, assembly: Assembly) -> RequestFailure:
        """Return the failure with what the part of the stream that came says was used."""
        if failure.usage != ModelUsage() or not failure.sent:
            return failure
        so_far = wire.used(assembly.reply)
        if so_far.known:
            return replace(failure, usage=so_far)
        return replace(failure, usage=LOST) if failure.status in (0, 200) else failure


@contextmanager
def surroundings(provider: str) -> Iterator[None]:
    """Let a client be built, which reads proxies and certificates from the environment and quotes what it cannot use.

    Raises:
        BadSurroundings: it could not be.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - likewise
        raise BadSurroundings(provider, type(error).__name__) from None


def quiet(*names: str) -> None:
    """Keep the packages from logging requests: at DEBUG they write prompts, at INFO addresses."""
    for name in (*names, "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)


@cache
def trusted() -> ssl.SSLContext:
    """Return what both packages trust by default, read once: it takes longer than many a request."""
    import httpx2

    return httpx2.create_ssl_context()


def careful() -> dict[str, Any]:
    """Return the options of either package's HTTP client: the key goes to the configured host only, replies are bounded."""
    import httpx2

    return {
        "follow_redirects": False,  # without this the packages follow redirects
        "verify": trusted(),
        "headers": {"accept-encoding": ACCEPTED},
        "event_hooks": {"response": [bounding(httpx2, MOST_REPLY)]},
    }


def without_ambient_headers(client: Any) -> None:
    """Take out of a package's client the headers that it found in the environment, in `ANTHROPIC_` or `OPENAI_CUSTOM_HEADERS`.

    They are for another program's gateway, may hold its credentials, and would go before the key that is configured here.
    """
    client._custom_headers = {}  # noqa: SLF001 - neither package has a public way to leave them out


def check(provider: str, access: Access) -> None:
    """Make sure that key and address can be sent to: libraries quote what cannot in their errors.

    Raises:
        BadKey: a key has other characters.
        BadAddress: it is no address of HTTP.
    """
    if not (access.key.isascii() and access.key.isprintable() and " " not in access.key):
        raise BadKey(provider, access.key_setting, "it has characters that no key has")
    if not access.reachable:
        raise BadAddress(provider, access.address_setting)


def _untrusted(error: BaseException | None) -> bool:
    """Return whether a certificate was the reason, however deep the packages hid it."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _as_sent(event: Any) -> Mapping[str, Any]:
    """Return an event as the server sent it; the packages make nothing of what is no object."""
    sent = event.to_dict(mode="json", warnings=False) if hasattr(event, "to_dict") else event
    return sent if isinstance(sent, dict) else {}


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError):
        raise RequestFailed(RequestFailure(status=200, why="it is no JSON", usage=LOST)) from None
    if not isinstance(reply, dict):
        raise RequestFailed(RequestFailure(status=200, why="it is no JSON object", usage=LOST))
    return reply


def _lower(headers: Mapping[str, str]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers.items()}
