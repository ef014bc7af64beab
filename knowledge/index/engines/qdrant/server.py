"""The line to a Qdrant server: one client, made at first use; retries, time limits, and every failure in our words."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from knowledge.errors import EngineUnavailable
from knowledge.index.engines.server_line import Away
from knowledge.wire.addresses import shown_address
from knowledge.wire.compression import ACCEPTED, bounding

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

logger = logging.getLogger(__name__)

T = TypeVar("T")

ENGINE = "Qdrant"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
READ_S = 5.0
WRITE_S = 60.0
TRIES = 4
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0
REST_S = 5.0
"""After a failure searches fail at once for so long, instead of each waiting for a server that is away."""


@dataclass(frozen=True, slots=True)
class QdrantAddress:
    """Where the server is and how to speak to it."""

    url: str
    key: str | None = field(default=None, repr=False)
    grpc: bool = False
    grpc_port: int = 6334

    @property
    def shown(self) -> str:
        """Return the address as a message may hold it."""
        return shown_address(self.url)


def connect(address: QdrantAddress) -> AsyncQdrantClient:
    """Return a client; nothing is sent yet.

    Raises:
        EngineUnavailable: the package is not installed.
    """
    try:
        import httpx
        from qdrant_client import AsyncQdrantClient
    except ImportError as error:
        raise EngineUnavailable(
            ENGINE, "its client is not installed (pip install 'knowledge-forge[qdrant]')"
        ) from error
    return AsyncQdrantClient(
        url=address.url,
        # Not as `api_key`: with plain HTTP that raises a Python warning. `QdrantLine` says it once, in the log.
        headers={"accept-encoding": ACCEPTED} | ({"api-key": address.key} if address.key else {}),
        prefer_grpc=address.grpc,
        grpc_port=address.grpc_port,
        timeout=int(WRITE_S),
        # Its check warns from a thread; what an older server cannot do is found out where it matters.
        check_compatibility=False,
        # Left alone, the client opens a new connection for every request to this machine.
        limits=httpx.Limits(max_connections=32, max_keepalive_connections=16),
        event_hooks={"response": [bounding(httpx)]},
    )


class Gone(Exception):
    """There is no such collection or alias. Nobody outside the adapter sees this."""


@dataclass(frozen=True, slots=True)
class _QdrantFailure:
    problem: str
    again: bool
    """Whether the same request may succeed in a moment."""
    pause_s: float = 0.0


class QdrantLine:
    """Asks a server. `make` gives the client; it runs in a worker thread, because loading it takes most of a second."""

    def __init__(self, make: Callable[[], AsyncQdrantClient], shown: str, *, plain_key: bool = False) -> None:
        self._make, self.shown, self._plain_key = make, shown, plain_key
        self._opening = anyio.Lock()
        self._client: AsyncQdrantClient | None = None
        self._away = Away(ENGINE)

    @classmethod
    def to(cls, address: QdrantAddress) -> QdrantLine:
        """Return the line to the server at this address."""
        parts = urlsplit(address.url)
        plain = address.key is not None and parts.scheme == "http" and parts.hostname not in LOOPBACK
        return cls(lambda: connect(address), address.shown, plain_key=plain)

    async def ask(self, request: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        """Return the answer to something that a search waits for; fails at once while the server is known to be away.

        Raises:
            EngineUnavailable: no answer, or a refusal.
            Gone: no such collection.
        """
        self._away.require_back()
        # Twice, because a server may just have closed the connection that was kept for it.
        return await self._within(request, READ_S, tries=2)

    async def do(self, request: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        """Return the answer to something that may take its time; it is tried again with growing pauses.

        Raises:
            EngineUnavailable: no answer, or a refusal.
            Gone: no such collection.
        """
        return await self._within(request, WRITE_S, tries=TRIES)

    async def close(self) -> None:
        """Give the connections back; a later request would open them again."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _within(self, request: Callable[[AsyncQdrantClient], Awaitable[T]], limit_s: float, *, tries: int) -> T:
        client = await self._opened()
        for attempt in range(tries):
            try:
                with anyio.fail_after(limit_s):
                    answer = await request(client)
            except Exception as error:
                failure = _failure(error, self.shown, limit_s)
                if not failure.again or attempt == tries - 1:
                    raise self._away.begins(failure.problem, for_s=REST_S) from error
                pause_s = max(failure.pause_s, FIRST_PAUSE_S * 4**attempt if limit_s == WRITE_S else 0.0)
                await anyio.sleep(min(pause_s, LONGEST_PAUSE_S))
            else:
                self._away.ends()
                return answer
        raise AssertionError  # the last attempt returned or raised

    async def _opened(self) -> AsyncQdrantClient:
        async with self._opening:
            if self._client is None:
                if self._plain_key:
                    logger.warning("the key for %s travels unencrypted: its address begins with http:", self.shown)
                self._client = await anyio.to_thread.run_sync(self._make)
            return self._client


def _failure(error: Exception, shown: str, limit_s: float) -> _QdrantFailure:
    """Say in our words what went wrong: never what was sent.

    Raises:
        Gone: there is no such collection.
        Exception: `error` itself, if it is none of the server's or the network's.
    """
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, TimeoutError):
        return _QdrantFailure(f"{shown} did not answer within {limit_s:g} s", again=True)
    if isinstance(error, ResponseHandlingException):
        return _QdrantFailure(f"{shown} does not answer ({type(error.source).__name__})", again=True)
    if isinstance(error, ResourceExhaustedResponse):
        return _QdrantFailure(f"{shown} has too much to do", again=True, pause_s=float(error.retry_after_s))
    if isinstance(error, UnexpectedResponse):
        return _refused(error.status_code or 0, _said(error), shown, error)
    if isinstance(error, ValueError) and str(error).startswith("Collection ") and "not found" in str(error):
        raise Gone from error  # how the client's own local mode says it
    # The client asserts that an answer has a result.
    if isinstance(error, ValueError | RecursionError | AssertionError | LookupError | TypeError | AttributeError):
        return _QdrantFailure(f"{shown} answers something that can't be read; is that Qdrant?", again=False)
    return _by_grpc(error, shown)


def _refused(status: int, said: str, shown: str, error: Exception) -> _QdrantFailure:
    if status == 404:
        raise Gone from error
    if status in (401, 403):
        return _QdrantFailure(f"{shown} refuses the key in FORGE_QDRANT_KEY ({status})", again=False)
    return _QdrantFailure(f"{shown} answered {status}{said}", again=status in (408, 429) or status >= 500)


def _said(error: object) -> str:
    """Return the server's own sentence, shortened. It speaks of structure, not of content."""
    try:
        said = error.structured()["status"]["error"]  # type: ignore[attr-defined]  # any class that has it will do
    except (ValueError, KeyError, TypeError):
        return ""
    return f": {' '.join(str(said).split())[:200]}"


def _by_grpc(error: Exception, shown: str) -> _QdrantFailure:
    from grpc import StatusCode
    from grpc.aio import AioRpcError

    if not isinstance(error, AioRpcError):
        raise error
    code = error.code()
    if code is StatusCode.NOT_FOUND:
        raise Gone from error
    if code in (StatusCode.UNAUTHENTICATED, StatusCode.PERMISSION_DENIED):
        return _QdrantFailure(f"{shown} refuses the key in FORGE_QDRANT_KEY ({code.name})", again=False)
    lasting = (StatusCode.INVALID_ARGUMENT, StatusCode.FAILED_PRECONDITION, StatusCode.UNIMPLEMENTED)
    return _QdrantFailure(f"{shown} answered {code.name}", again=code not in lasting)
