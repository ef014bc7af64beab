"""Sends requests through a vendor's package, one try each, and says in our words what went wrong.

One generator produces both vendors' packages, so they have the same errors, streams and raw replies. The package is an argument
here. `httpx2`, which both use, is imported in functions: nothing of the vendors is loaded before a provider is built.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import replace
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
"""The usage of a request whose answer was lost: it may be billed, and the vendor reports nothing."""
MOST_REPLY = 32 * 1024 * 1024
"""Bytes. A streamed answer of 64,000 tokens has an event of 250 bytes for each."""
REQUEST_IDS = ("request-id", "x-request-id")


class VendorChannel:
    """Sends through `resource`, the part of a package's client that has `create`. `now` is needed for a `Retry-After` that is a date.

    `headers` go with every request; a value may be the package's own mark for a header to leave out.
    """

    def __init__(
        self,
        package: ModuleType,
        client: Any,
        resource: Any,
        *,
        patience: RequestPatience,
        now: Callable[[], datetime],
        headers: Mapping[str, Any] | None = None,
    ) -> None:
        import httpx2

        self._package, self._client, self._resource, self._http = package, client, resource, httpx2
        self._patience, self._now, self._headers = patience, now, headers

    async def send(self, request: ProviderRequest, wire: Wire, *, streamed: bool) -> tuple[Mapping[str, Any], str]:
        """Return the complete reply and the id of the request.

        Raises:
            RequestFailed: an error came, or nothing, or an incomplete reply.
        """
        assembly = wire.assembly()
        longest_s = self._patience.streamed_s if streamed else self._patience.whole_s
        try:
            with anyio.fail_after(longest_s):
                if streamed:
                    reply, headers = await self._stream(request, assembly)
                else:
                    arguments = self._arguments(request, self._patience.whole_s)
                    raw = await self._resource.with_raw_response.create(**arguments)
                    # Not parsed by the package, which builds objects of its types from any JSON, and text from anything else.
                    reply, headers = _object(raw.http_response.content), _lower(raw.http_response.headers)
        except RequestFailed as failed:
            raise RequestFailed(_with_usage(failed.failure, wire, assembly)) from None
        except Exception as error:  # noqa: BLE001 - the libraries below the packages raise errors of many kinds
            raise RequestFailed(_with_usage(self._failure(error, longest_s), wire, assembly)) from None
        wrong = wire.error_in(reply)
        if wrong is not None:
            failure = failure_of(200, wrong, headers, self._now())
            raise RequestFailed(replace(failure, usage=wire.used(reply) if reply.get("usage") else ModelUsage()))
        return reply, next((headers[name] for name in REQUEST_IDS if name in headers), "")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _stream(
        self, request: ProviderRequest, assembly: Assembly
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        stream = await self._resource.create(**self._arguments(request, self._patience.silence_s), stream=True)
        headers = _lower(stream.response.headers)
        async with stream:
            if "json" in headers.get("content-type", ""):
                # A server that cannot stream answers in one piece.
                return _object(await stream.response.aread()), headers
            async for event in stream:
                # As the server sent it: the packages pass on anything that is not an object.
                sent = event.to_dict(mode="json", warnings=False) if hasattr(event, "to_dict") else event
                assembly.add(sent if isinstance(sent, dict) else {})
                if assembly.over:
                    break
        if not assembly.complete:
            raise RequestFailed(RequestFailure(why="the stream broke off"))
        return assembly.reply, headers

    def _arguments(self, request: ProviderRequest, silence_s: float) -> dict[str, Any]:
        connect_s = self._patience.connect_s
        return {
            **request.body,
            "extra_body": dict(request.extra) or None,
            "extra_headers": self._headers,
            "timeout": self._http.Timeout(silence_s, connect=connect_s, pool=connect_s),
        }

    def _failure(self, error: Exception, longest_s: float) -> RequestFailure:
        """Return the failure behind an error of the package or of a library below it, where an impossible proxy port shows up."""
        package, http = self._package, self._http
        if isinstance(error, package.APIStatusError):
            return failure_of(error.status_code, error.body, _lower(error.response.headers), self._now())
        if isinstance(error, TimeoutError):
            return RequestFailure(why=f"no complete answer within {longest_s:.0f} s")
        if isinstance(error, package.APITimeoutError | http.TimeoutException):
            sent = not isinstance(error.__cause__ or error, http.ConnectTimeout | http.PoolTimeout)
            return RequestFailure(why="no answer in time" if sent else "no connection in time", sent=sent)
        if isinstance(error, package.APIConnectionError | http.RequestError):
            sent = not isinstance(error.__cause__ or error, http.ConnectError | http.UnsupportedProtocol)
            if _untrusted(error):
                return RequestFailure(why="its certificate is not trusted", again=False, sent=False)
            return RequestFailure(why="the connection broke" if sent else "no connection", sent=sent)
        if isinstance(error, package.APIError):
            # Inside a stream, where there is no status.
            return failure_of(200, error.body, {}, self._now())
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            return RequestFailure(why="the stream has something that is not JSON")
        return RequestFailure(why=type(error).__name__, again=False)


def check_access(provider: str, access: Access) -> None:
    """Check that key and address can be sent, because libraries quote unusable ones in their errors.

    Raises: BadKey: the key has characters that no key has. BadAddress: the address is not an HTTP address.
    """
    if not (access.key.isascii() and access.key.isprintable() and " " not in access.key):
        raise BadKey(provider, access.key_setting, "it has characters that no key has")
    if not access.reachable:
        raise BadAddress(provider, access.address_setting)


def build_client(provider: str, package: ModuleType, client: Callable[..., Any], **options: Any) -> Any:
    """Return the package's client. It sends the key to the configured host only, and reads no setting of another program.

    Raises:
        BadSurroundings: the environment names a proxy or certificates that cannot be used.
    """
    import httpx2

    # At DEBUG the packages log prompts, at INFO addresses.
    for name in (package.__name__, "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        http = package.DefaultAsyncHttpxClient(
            follow_redirects=False,  # by default the packages follow redirects, and send the key along
            verify=trusted(),
            headers={"accept-encoding": ACCEPTED},
            event_hooks={"response": [bounding(httpx2, MOST_REPLY)]},
        )
        # Without retries: ours would multiply with the package's.
        made = client(max_retries=0, http_client=http, **options)
    except Exception as error:  # noqa: BLE001 - as above, and they quote what they cannot use
        raise BadSurroundings(provider, type(error).__name__) from None
    # ANTHROPIC_ or OPENAI_CUSTOM_HEADERS of the environment are for another program's gateway, may hold its credentials, and would
    # override the key that is configured here.
    made._custom_headers = {}  # noqa: SLF001 - neither package has a public way to leave them out
    return made


@cache
def trusted() -> ssl.SSLContext:
    """Return the certificates that both packages trust by default; reading them takes longer than many requests, so only once."""
    import httpx2

    return httpx2.create_ssl_context()


def _with_usage(failure: RequestFailure, wire: Wire, assembly: Assembly) -> RequestFailure:
    """Return the failure with the usage that the received part of a stream reports."""
    if failure.usage != ModelUsage() or not failure.sent:
        return failure
    # The first events of a stream may have reported the input already.
    so_far = wire.used(assembly.reply)
    if so_far.known:
        return replace(failure, usage=so_far)
    return replace(failure, usage=LOST) if failure.status in (0, 200) else failure


def _untrusted(error: BaseException | None) -> bool:
    """Return whether a certificate was the reason, however deep the packages wrapped it."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError):
        raise RequestFailed(RequestFailure(status=200, why="it is not JSON", usage=LOST)) from None
    if not isinstance(reply, dict):
        raise RequestFailed(RequestFailure(status=200, why="it is not a JSON object", usage=LOST))
    return reply


def _lower(headers: Mapping[str, str]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers.items()}
