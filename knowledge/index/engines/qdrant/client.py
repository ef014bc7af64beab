"""The `qdrant-client` package: opening a client, queries, and failures in our words. Imported with the first request.

Importing the package takes most of a second.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import h11
import httpx
from grpc import StatusCode
from grpc.aio import AioRpcError
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from knowledge.index.engines.qdrant.points import MEANING, Condition, QdrantOptions
from knowledge.index.engines.server_line import WRITE_S, MissingIndex, ServerFailure
from knowledge.index.ports import Scored
from knowledge.wire.compression import bounding
from knowledge.wire.http_posts import HttpPosts

GRAPH_CANDIDATES = 512
"""Candidates that a graph search keeps (`hnsw_ef`). With Qdrant's default of 100 it finds 71 % of the true first ten, with this
92 % (kb/decisions/0019)."""
LASTING = (StatusCode.INVALID_ARGUMENT, StatusCode.FAILED_PRECONDITION, StatusCode.UNIMPLEMENTED)


class RestClient(AsyncQdrantClient):
    """A client that has connections of its own for searches: `posts`, or None if all requests take the same way."""

    posts: HttpPosts | None = None

    async def close(self, grpc_grace: float | None = None, **kwargs: Any) -> None:
        """Close all connections."""
        if self.posts is not None:
            await self.posts.close()
        await super().close(grpc_grace, **kwargs)


def open_client(url: str, key: str | None, *, grpc: bool, grpc_port: int) -> AsyncQdrantClient:
    """Return a client; nothing is sent yet."""
    keyed = {"api-key": key} if key else {}
    client = RestClient(
        url=url,
        # The server sends a compressed answer in several small packets, and delays the second by 40 ms until the first
        # is acknowledged. The key is a header and not `api_key`: over plain HTTP, that raises a Python warning.
        # `QdrantLine` logs one instead.
        headers={"accept-encoding": "identity"} | keyed,
        prefer_grpc=grpc,
        grpc_port=grpc_port,
        timeout=int(WRITE_S),
        # Its check warns from a thread. Features that an older server lacks are checked where they matter.
        check_compatibility=False,
        # By default the client opens a new connection for every request to this machine.
        limits=httpx.Limits(max_connections=32, max_keepalive_connections=16),
        event_hooks={"response": [bounding(httpx)]},
    )
    address = client.http.client.host
    if not grpc and not _through_proxy(address):
        # The client's own certificates, which it also takes from SSL_CERT_FILE.
        tls = httpx.create_ssl_context() if address.startswith("https:") else None
        client.posts = HttpPosts(address, keyed, tls)
    return client


def _through_proxy(address: str) -> bool:
    """Return whether the environment sends requests to this address through a proxy, as the client does by itself."""
    parts, proxies = urlsplit(address), getproxies()
    return bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(parts.hostname or "")


async def nearest(
    client: AsyncQdrantClient,
    collection: str,
    vector: Sequence[float],
    conditions: Sequence[Condition],
    *,
    limit: int,
    options: QdrantOptions,
) -> list[Scored]:
    """Return the points nearest to `vector` that meet all conditions, equally near ones by number, each with its document."""
    if isinstance(client, RestClient) and client.posts is not None:
        found = await _posted(client.posts, collection, vector, conditions, limit=limit, options=options)
    else:
        found = await _queried(client, collection, vector, conditions, limit=limit, options=options)
    return sorted(found, key=lambda hit: (-hit.score, hit.seq))


async def _posted(
    posts: HttpPosts,
    collection: str,
    vector: Sequence[float],
    conditions: Sequence[Condition],
    *,
    limit: int,
    options: QdrantOptions,
) -> list[Scored]:
    """Ask as the client does, in a fifth of the time: it checks each number, and lets other tasks run before it sends."""
    params: dict[str, Any] = {"hnsw_ef": GRAPH_CANDIDATES}
    if options.quantization != "none":
        params["quantization"] = {"rescore": True, "oversampling": _oversampling(options)}
    query: dict[str, Any] = {"query": {"nearest": list(vector)}, "using": MEANING, "params": params, "limit": limit}
    query["with_payload"] = ["doc"]
    if conditions:
        query["filter"] = {"must": list(conditions)}
    reply = await posts.begin(f"collections/{quote(collection)}/points/query", json.dumps(query).encode())
    if reply.status != 200:
        # As the client raises it.
        if reply.status == 429 and (pause_s := reply.headers.get("retry-after", "")).isdecimal():
            raise ResourceExhaustedResponse("too many requests", int(pause_s))
        raise UnexpectedResponse(reply.status, "", reply.body, httpx.Headers(reply.headers))
    points = json.loads(reply.body)["result"]["points"]
    return [Scored(int(one["id"]), int((one["payload"] or {}).get("doc", 0)), float(one["score"])) for one in points]


async def _queried(
    client: AsyncQdrantClient,
    collection: str,
    vector: Sequence[float],
    conditions: Sequence[Condition],
    *,
    limit: int,
    options: QdrantOptions,
) -> list[Scored]:
    rescore = None
    if options.quantization != "none":
        rescore = models.QuantizationSearchParams(rescore=True, oversampling=_oversampling(options))
    found = await client.query_points(
        collection,
        query=list(vector),
        using=MEANING,
        query_filter=models.Filter.model_validate({"must": list(conditions)}) if conditions else None,
        search_params=models.SearchParams(hnsw_ef=GRAPH_CANDIDATES, quantization=rescore),
        limit=limit,
        with_payload=["doc"],
    )
    return [Scored(int(one.id), int((one.payload or {}).get("doc", 0)), one.score) for one in found.points]


def _oversampling(options: QdrantOptions) -> float:
    return 4.0 if options.quantization == "binary" else 2.0


def failure(error: Exception, shown: str, limit_s: float) -> ServerFailure:
    """Return the error's reason, without the request's content.

    Raises:
        MissingIndex: there is no such collection.
        Exception: `error` itself, if neither server nor network caused it.
    """
    if isinstance(error, TimeoutError):
        return ServerFailure(f"{shown} did not answer within {limit_s:g} s", again=True)
    if isinstance(error, ResponseHandlingException | OSError | h11.RemoteProtocolError):
        source = error.source if isinstance(error, ResponseHandlingException) else error
        return ServerFailure(f"{shown} does not answer ({type(source).__name__})", again=True)
    if isinstance(error, ResourceExhaustedResponse):
        return ServerFailure(f"{shown} is overloaded", again=True, pause_s=float(error.retry_after_s))
    if isinstance(error, UnexpectedResponse):
        status = error.status_code or 0
        if status == 404:
            raise MissingIndex from error
        if status in (401, 403):
            return _refused_key(shown, status)
        return ServerFailure(
            f"{shown} answered {status}{_sentence(error)}", again=status in (408, 429) or status >= 500
        )
    if isinstance(error, AioRpcError):
        code = error.code()
        if code is StatusCode.NOT_FOUND:
            raise MissingIndex from error
        if code in (StatusCode.UNAUTHENTICATED, StatusCode.PERMISSION_DENIED):
            return _refused_key(shown, code.name)
        return ServerFailure(f"{shown} answered {code.name}", again=code not in LASTING)
    return _unreadable(error, shown)


def _refused_key(shown: str, code: object) -> ServerFailure:
    return ServerFailure(f"{shown} refuses the key in FORGE_QDRANT_KEY ({code})", again=False)


def _sentence(error: UnexpectedResponse) -> str:
    """Return the server's own sentence, shortened. It concerns structure, not content."""
    try:
        sentence = error.structured()["status"]["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return f": {' '.join(str(sentence).split())[:200]}"


def _unreadable(error: Exception, shown: str) -> ServerFailure:
    if isinstance(error, ValueError) and str(error).startswith("Collection ") and "not found" in str(error):
        raise MissingIndex from error  # the wording of the client's local mode
    # The client asserts that an answer has a result.
    if isinstance(error, ValueError | RecursionError | AssertionError | LookupError | TypeError | AttributeError):
        return ServerFailure(f"{shown} sends an answer that can't be read; is it Qdrant?", again=False)
    raise error
