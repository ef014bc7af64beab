"""The line to a Qdrant server: one client, opened with the first request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from knowledge.errors import EngineUnavailable
from knowledge.extras import install_command
from knowledge.index.engines.qdrant.points import MARK, CollectionMark, parse_mark
from knowledge.index.engines.server_line import ServerFailure, ServerLine, warn_of_plain_key
from knowledge.telemetry.operations import recorded
from knowledge.wire.addresses import shown_address

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

T = TypeVar("T")

ENGINE = "Qdrant"


@dataclass(frozen=True, slots=True)
class QdrantAddress:
    """A server and how to reach it."""

    url: str
    key: str | None = field(default=None, repr=False)
    grpc: bool = False
    grpc_port: int = 6334


def connect(address: QdrantAddress) -> AsyncQdrantClient:
    """Return a client; nothing is sent yet.

    Raises:
        EngineUnavailable: the package is not installed.
    """
    try:
        from knowledge.index.engines.qdrant.client import open_client
    except ImportError as error:
        problem = f"its client is not installed ({install_command('qdrant')})"
        raise EngineUnavailable(ENGINE, problem) from error
    warn_of_plain_key(address.key, address.url, shown_address(address.url))
    return open_client(address.url, address.key, grpc=address.grpc, grpc_port=address.grpc_port)


class QdrantLine(ServerLine):
    """Requests to a server. `make` opens the client; it runs in a worker thread, because importing it takes long."""

    def __init__(self, make: Callable[[], AsyncQdrantClient], shown: str) -> None:
        super().__init__(ENGINE, shown)
        self._make = make
        self._opening = anyio.Lock()
        self._client: AsyncQdrantClient | None = None

    @classmethod
    def to(cls, address: QdrantAddress) -> QdrantLine:
        """Return the line to the server at this address."""
        return cls(partial(connect, address), shown_address(address.url))

    async def ask(self, request: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        """Return the answer to a request that a search waits for; fail at once while the server is known to be down.

        Raises:
            EngineUnavailable: no answer, or a refusal.
            MissingIndex: there is no such collection.
        """
        return await self._within_read(partial(_send, request, await self._opened()))

    async def do(self, request: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        """Return the answer to a request that may take its time; it is tried again with growing pauses.

        Raises:
            EngineUnavailable, MissingIndex: as for `ask`.
        """
        return await self._within_write(partial(_send, request, await self._opened()))

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _opened(self) -> AsyncQdrantClient:
        if self._client is not None:
            return self._client  # without the lock, which lets other tasks run first
        async with self._opening:
            if self._client is None:
                self._client = await anyio.to_thread.run_sync(self._make)
            return self._client

    def _failure(self, error: Exception, limit_s: float) -> ServerFailure:
        from knowledge.index.engines.qdrant.client import failure  # loaded: a client was made

        return failure(error, self.shown, limit_s)


async def read_mark(client: AsyncQdrantClient, collection: str) -> CollectionMark | None:
    """Return the mark of a collection, or of the one behind an alias; None if it has none yet."""
    found = await client.retrieve(collection, ids=[MARK], with_payload=True)
    return parse_mark(found[0].payload) if found else None


@recorded("request", elsewhere=True, service="qdrant")
async def _send(request: Callable[[AsyncQdrantClient], Awaitable[T]], client: AsyncQdrantClient, limit_s: float) -> T:
    with anyio.fail_after(limit_s):
        return await request(client)
