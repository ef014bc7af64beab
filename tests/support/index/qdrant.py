"""Where Qdrant runs in a test.

Inside the client (its own local mode), or on the server that FORGE_TEST_QDRANT_URL names.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient

from knowledge.index.engines.qdrant.engine import QdrantVectorIndex
from knowledge.index.engines.qdrant.points import QdrantOptions
from knowledge.index.engines.qdrant.server import QdrantAddress, QdrantLine

NAME = "kf-test"


class LocalQdrant(AsyncQdrantClient):
    """The client's local mode, which needs no indexes on the payload and outlives the engines on it."""

    def __init__(self) -> None:
        super().__init__(location=":memory:")

    async def create_payload_index(self, *_: object, **__: object) -> Any:
        """Do nothing; local mode would warn that it does nothing."""

    async def query_points(self, *args: Any, search_params: object = None, **named: Any) -> Any:  # noqa: ARG002 - see below
        """Search exactly. Local mode has no graph and warns that parameters for it have no effect."""
        return await super().query_points(*args, **named)

    async def close(self, *_: object, **__: object) -> None:
        """Stay open for the test's next engine."""


_LOCAL: dict[str, LocalQdrant] = {}
_LINES: dict[str, list[QdrantLine]] = {}


@asynccontextmanager
async def local_place(folder: Path) -> AsyncIterator[str]:
    """Yield the folder as the name of a separate, empty local mode."""
    _LOCAL[str(folder)] = LocalQdrant()
    try:
        yield str(folder)
    finally:
        await AsyncQdrantClient.close(_LOCAL.pop(str(folder)))


@asynccontextmanager
async def server_place(folder: Path) -> AsyncIterator[str]:
    """Yield the folder with a separate name on the server, and clean up; skip if no server is given."""
    url = os.environ.get("FORGE_TEST_QDRANT_URL")
    if not url:
        pytest.skip("no Qdrant server: FORGE_TEST_QDRANT_URL is not set")
    name = f"{NAME}-{secrets.token_hex(4)}"
    place = f"{folder}|{name}"
    line = QdrantLine.to(server())
    try:
        yield place
    finally:
        for opened in _LINES.pop(place, []):
            await opened.close()
        for collection in (await line.do(lambda client: client.get_collections())).collections:
            if collection.name.startswith(name):
                await line.do(lambda client, one=collection.name: client.delete_collection(one))  # type: ignore[misc]  # the default binds the name
        await line.close()


def server() -> QdrantAddress:
    """Return the server that the environment names."""
    return QdrantAddress(
        os.environ["FORGE_TEST_QDRANT_URL"],
        os.environ.get("FORGE_TEST_QDRANT_KEY"),
        grpc=bool(os.environ.get("FORGE_TEST_QDRANT_GRPC_PORT")),
        grpc_port=int(os.environ.get("FORGE_TEST_QDRANT_GRPC_PORT", "6334")),
    )


def line_to(place: str) -> tuple[QdrantLine, str, Path]:
    """Return a new connection to the place, the knowledge base's name there, and the folder."""
    folder, _, name = place.partition("|")
    if name:
        line = QdrantLine.to(server())
        _LINES.setdefault(place, []).append(line)
        return line, name, Path(folder)
    local = _LOCAL[folder]
    return QdrantLine(lambda: local, "local mode"), NAME, Path(folder)


def engine_at(
    place: str,
    *,
    options: QdrantOptions | None = None,
    through: Callable[[QdrantLine], QdrantLine] = lambda line: line,
) -> QdrantVectorIndex:
    """Open an engine at the place; any number may be open at once."""
    plain, name, folder = line_to(place)
    line = through(plain)
    if line is not plain and place in _LINES:
        _LINES[place].append(line)
    return QdrantVectorIndex(line, name, lock=folder / "qdrant.lock", options=options)


PLACES = {"qdrant-local": local_place, "qdrant-server": server_place}
