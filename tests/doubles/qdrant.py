"""A Qdrant for tests: the part of its HTTP API that our engine uses, on loopback. The client's local mode keeps the points.

Source: https://api.qdrant.tech, and the client's own models of requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from pydantic import BaseModel
from qdrant_client import QdrantClient, models
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.doubles.serving import serving as served
from tests.support.processes.free_port import free_port

Answer = Callable[[Request], Awaitable[Any]]


class QdrantDouble:
    """A server that can be stopped and started again at the same address, with the same points."""

    def __init__(self) -> None:
        self._points = QdrantClient(":memory:")
        self._running = ExitStack()
        self.port = free_port()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._running.enter_context(served(Starlette(routes=self._routes()), port=self.port))

    def stop(self) -> None:
        """Close all connections, between two requests."""
        self._running.close()

    def _routes(self) -> list[Route]:
        one, points = "/collections/{name}", "/collections/{name}/points"
        table: list[tuple[str, str, Answer]] = [
            ("GET", "/aliases", self._aliases),
            ("GET", "/collections", self._collections),
            ("POST", "/collections/aliases", self._name),
            ("GET", f"{one}/exists", self._exists),
            ("PUT", f"{one}/index", self._index),
            ("PUT", one, self._create),
            ("DELETE", one, self._drop),
            ("PUT", points, self._put),
            ("POST", points, self._read),
            ("POST", f"{points}/delete", self._delete),
            ("POST", f"{points}/scroll", self._scroll),
            ("POST", f"{points}/query", self._query),
        ]
        return [Route(path, partial(_answered, answer), methods=[method]) for method, path, answer in table]

    # --- collections --------------------------------------------------------------------------------------------------

    async def _aliases(self, _: Request) -> Any:
        return self._points.get_aliases()

    async def _collections(self, _: Request) -> Any:
        return self._points.get_collections()

    async def _name(self, request: Request) -> Any:
        steps = models.ChangeAliasesOperation.model_validate_json(await request.body()).actions
        return self._points.update_collection_aliases(change_aliases_operations=steps)

    async def _exists(self, request: Request) -> Any:
        return {"exists": self._points.collection_exists(_of(request))}

    async def _index(self, request: Request) -> Any:
        """Check the request. Local mode searches without indexes of the payload."""
        models.CreateFieldIndex.model_validate_json(await request.body())
        self._points.get_collection(_of(request))
        return _done()

    async def _create(self, request: Request) -> Any:
        asked = models.CreateCollection.model_validate_json(await request.body())
        return self._points.create_collection(_of(request), vectors_config=asked.vectors or {})

    async def _drop(self, request: Request) -> Any:
        return self._points.delete_collection(_of(request))

    # --- points -------------------------------------------------------------------------------------------------------

    async def _put(self, request: Request) -> Any:
        points = models.PointsList.model_validate_json(await request.body()).points
        return self._points.upsert(_of(request), points=points)

    async def _read(self, request: Request) -> Any:
        asked = models.PointRequest.model_validate_json(await request.body())
        return self._points.retrieve(_of(request), ids=asked.ids, with_payload=asked.with_payload or False)

    async def _delete(self, request: Request) -> Any:
        ids = models.PointIdsList.model_validate_json(await request.body()).points
        return self._points.delete(_of(request), points_selector=ids)

    async def _scroll(self, request: Request) -> Any:
        asked = models.ScrollRequest.model_validate_json(await request.body())
        points, following = self._points.scroll(
            _of(request), offset=asked.offset, limit=asked.limit or 10, with_payload=asked.with_payload or False
        )
        return {"points": [_plain(point) for point in points], "next_page_offset": following}

    async def _query(self, request: Request) -> Any:
        asked = models.QueryRequest.model_validate_json(await request.body())
        return self._points.query_points(
            _of(request),
            query=asked.query,
            using=asked.using,
            query_filter=asked.filter,
            limit=asked.limit or 10,
            with_payload=asked.with_payload or False,
        )


@contextmanager
def serving() -> Iterator[QdrantDouble]:
    """Run a double during the block."""
    double = QdrantDouble()
    try:
        yield double
    finally:
        double.stop()


async def _answered(answer: Answer, request: Request) -> Response:
    try:
        result = await answer(request)
    except ValueError as error:
        # Local mode says so of a missing collection; anything else is a request that it cannot read.
        missing = str(error).startswith("Collection ") and "not found" in str(error)
        return JSONResponse({"status": {"error": str(error)}, "time": 0.0}, 404 if missing else 400)
    return JSONResponse({"result": _plain(result), "status": "ok", "time": 0.0})


def _of(request: Request) -> str:
    return str(request.path_params["name"])


def _done() -> dict[str, object]:
    return {"operation_id": 0, "status": "completed"}


def _plain(result: Any) -> Any:
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json", exclude_none=True)
    return [_plain(one) for one in result] if isinstance(result, list) else result
