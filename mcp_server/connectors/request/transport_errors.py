"""What an exception of the HTTP library means: whether anything can have been sent, and what a person can do about it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import anyio
import httpx

SENT_NOTHING = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    UnicodeError,
)
"""Raised before the first byte of a request is written: there was no connection, or no place or name for one."""

BROKEN = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    UnicodeError,
    OSError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
)
"""Everything that a request can end with, the deadline's TimeoutError (an OSError) and what the library lets through included."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """`sent`: the service may have acted. `passing`: asking again may help. `why` has no word of what was sent or received."""

    sent: bool
    passing: bool
    why: str


def trouble_of(error: Exception, ca_setting: str) -> Trouble:
    """Return what `error` means; `ca_setting` names the variable for a certificate authority of one's own."""
    if isinstance(error, SENT_NOTHING) and not isinstance(error, UnicodeDecodeError):
        return _unsent(error, ca_setting)
    return Trouble(sent=True, passing=True, why=_broken(error))


def _unsent(error: Exception, ca_setting: str) -> Trouble:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Trouble(sent=False, passing=False, why=_certificate(cause, ca_setting))
        if isinstance(cause, ssl.SSLError):
            return Trouble(sent=False, passing=False, why="no TLS connection; does it speak https there?")
        if isinstance(cause, socket.gaierror):
            return Trouble(sent=False, passing=False, why="no such host is known")
        if isinstance(cause, ConnectionRefusedError):
            return Trouble(sent=False, passing=True, why="nothing listens there")
    match error:
        case httpx.InvalidURL() | httpx.UnsupportedProtocol() | UnicodeError():
            return Trouble(sent=False, passing=False, why="that is no address")
        case httpx.ProxyError():
            return Trouble(sent=False, passing=False, why="the proxy of the environment does not let it through")
        case httpx.TimeoutException():
            return Trouble(sent=False, passing=True, why="no connection in time")
        case _:
            return Trouble(sent=False, passing=True, why="no connection")


def _certificate(error: ssl.SSLCertVerificationError, ca_setting: str) -> str:
    said = (error.verify_message or "it cannot be verified").strip().split(", certificate is")[0]
    return f"its certificate: {said[:60]}; a certificate authority of your own goes into {ca_setting}"


def _broken(error: Exception) -> str:
    match error:
        case httpx.ReadTimeout() | httpx.WriteTimeout() | TimeoutError():
            return "it took too long"
        case httpx.DecodingError():
            return "its compression is broken"
        case httpx.RemoteProtocolError() if "illegal" in str(error) or "malformed" in str(error):
            return "what came back is no HTTP"
        case _:
            return "the connection was cut"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and everything behind it, groups opened; each once."""
    waiting, known = [error], set[int]()
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in known:
            continue
        known.add(id(found))
        yield found
        waiting += [found.__cause__, found.__context__]
        if isinstance(found, BaseExceptionGroup):
            waiting += found.exceptions
