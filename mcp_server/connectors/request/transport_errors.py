"""The meaning of an exception of the HTTP library: whether anything may have been sent, and what a person can do."""

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
"""Raised before the first byte of a request is written: there was no connection, or no valid host for one."""

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
"""Every exception that a request can raise, including the deadline's TimeoutError (an OSError) and anyio's errors that
httpx passes on."""

TOO_LONG = "it took too long"


@dataclass(frozen=True, slots=True)
class Trouble:
    """`sent`: the service may have acted. `passing`: a retry may help. `why` quotes nothing that was sent or received."""

    sent: bool
    passing: bool
    why: str


def trouble_of(error: Exception, ca_setting: str) -> Trouble:
    """Return the meaning of `error`; `ca_setting` names the variable for a private certificate authority."""
    # A UnicodeEncodeError is a host name that cannot be written; a UnicodeDecodeError comes from a reply, so something was sent.
    if isinstance(error, SENT_NOTHING) and not isinstance(error, UnicodeDecodeError):
        return _not_sent(error, ca_setting)
    match error:
        case httpx.ReadTimeout() | httpx.WriteTimeout() | TimeoutError():
            why = TOO_LONG
        case httpx.DecodingError():
            why = "its compression is broken"
        case httpx.RemoteProtocolError() if "illegal" in str(error) or "malformed" in str(error):
            why = "the reply is not HTTP"
        case _:
            why = "the connection was cut"
    return Trouble(sent=True, passing=True, why=why)


def _not_sent(error: Exception, ca_setting: str) -> Trouble:
    # httpx reports certificate, name and port errors alike as ConnectError; only the causes behind it tell them apart.
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem = (cause.verify_message or "it cannot be verified").strip().split(", certificate is")[0]
            advice = f"name your own certificate authority in {ca_setting}"
            return Trouble(sent=False, passing=False, why=f"its certificate: {problem[:60]}; {advice}")
        if isinstance(cause, ssl.SSLError):
            return Trouble(sent=False, passing=False, why="no TLS connection; does that port speak HTTPS?")
        if isinstance(cause, socket.gaierror):
            return Trouble(sent=False, passing=False, why="no such host is known")
        if isinstance(cause, ConnectionRefusedError):
            return Trouble(sent=False, passing=True, why="nothing listens there")
    match error:
        case httpx.InvalidURL() | httpx.UnsupportedProtocol() | UnicodeError():
            return Trouble(sent=False, passing=False, why="the address is not valid")
        case httpx.ProxyError():
            return Trouble(sent=False, passing=False, why="the proxy set in the environment blocks it")
        case httpx.TimeoutException():
            return Trouble(sent=False, passing=True, why="no connection in time")
        case _:
            return Trouble(sent=False, passing=True, why="no connection")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, everything behind it and inside exception groups, each once."""
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
