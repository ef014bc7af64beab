"""The `meilisearch` client over kept-alive connections, with our time limits and certificates. Imported with the first request."""

from __future__ import annotations

import io
import json
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import h11
import requests
from meilisearch._httprequests import HttpRequests
from meilisearch.client import Client
from meilisearch.config import Config
from meilisearch.errors import MeilisearchApiError, MeilisearchCommunicationError, MeilisearchTimeoutError
from meilisearch.index import Index
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3.exceptions import HTTPError

from knowledge.index.engines.server_line import WRITE_S, MissingIndex, ServerFailure
from knowledge.wire.compression import BadPacking, Unpacking
from knowledge.wire.http_posts import HttpPosts, Reply

CONNECT_S = 2.0
NOT_FOUND = ("index_not_found", "document_not_found")


class _Redirected(requests.exceptions.RequestException):
    """The server redirects. Following it would send the page in the request to another place."""


def open_session(ca: Path | None, connections: int) -> requests.Session:
    """Return a session with kept-alive connections that trusts the certificates in `ca`, by default the usual ones."""
    session = requests.Session()
    # No proxies, and no netrc: its password would replace the key.
    session.trust_env = False
    session.verify = True if ca is None else str(ca)
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_connections=1, pool_maxsize=connections))
    # The server sends a compressed answer in several small packets, and delays the second by 40 ms until the first is
    # acknowledged.
    session.headers["Accept-Encoding"] = "identity"
    return session


class _RefusedSearch(Exception):
    """The server answers a search with an error of this status and code."""

    def __init__(self, status: int, code: str | None) -> None:
        super().__init__(f"{status} {code}")
        self.status_code, self.code = status, code


def open_posts(url: str, key: str | None, ca: Path | None) -> HttpPosts:
    """Return connections for searches. They trust the certificates in `ca`, by default those that a session trusts."""
    tls = ssl.create_default_context(cafile=ca or DEFAULT_CA_BUNDLE_PATH) if url.startswith("https:") else None
    return HttpPosts(url, {"Authorization": f"Bearer {key}"} if key else {}, tls)


async def searched(posts: HttpPosts, parts: Sequence[Sequence[Mapping[str, Any]]]) -> list[Any]:
    """Return the result of each search. Each part is one request; all are sent before the first wait."""
    bodies = [json.dumps({"queries": part}).encode() for part in parts]
    asked = [posts.begin("multi-search", body) for body in bodies]
    try:
        return [result for one in asked for result in _results(await one)]
    except TimeoutError:
        raise
    except (OSError, h11.RemoteProtocolError) as error:
        raise MeilisearchCommunicationError(type(error).__name__) from error
    finally:
        for one in asked:
            # The error of the first is raised; those of the others are dropped.
            if not one.cancel() and not one.cancelled():
                one.exception()


def _results(reply: Reply) -> list[Any]:
    if 300 <= reply.status < 400:
        raise _Redirected
    if reply.status != 200:
        try:
            code = json.loads(reply.body).get("code")
        except (ValueError, AttributeError):
            code = None
        raise _RefusedSearch(reply.status, code)
    return list(json.loads(reply.body)["results"])


class MeilisearchConnection:
    """The requests to the server, in the thread that makes them. Methods that change something return the task's number.

    Each request has its own client, because a client stores the headers of its current request; all share one session.
    """

    def __init__(self, url: str, key: str | None, session: requests.Session, limit_s: float) -> None:
        self._client = Client(url, key)
        # The client itself opens a connection for every request, and can't be given certificates.
        self._client.http = _SessionRequests(self._client.config, session, limits_s=(CONNECT_S, limit_s))

    def get(self, path: str) -> Any:
        """Return the reply for `path`."""
        return self._client.http.get(path)

    def swap(self, one: str, other: str, *, rename: bool) -> int:
        """Let both indexes exchange their names, or give `one` the name `other`."""
        return int(self._client.swap_indexes([{"indexes": [one, other], "rename": rename}]).task_uid)

    def drop(self, uid: str) -> int:
        """Delete the index."""
        return int(self._client.http.delete(f"indexes/{uid}")["taskUid"])

    def configure(self, uid: str, settings: Mapping[str, Any]) -> int:
        """Give the index these settings; it is created if necessary."""
        return int(self._index(uid).update_settings(dict(settings)).task_uid)

    def add(self, index: str, documents: bytes) -> int:
        """Add documents, which replace those with the same `seq`."""
        return int(self._index(index).add_documents_ndjson(documents, "seq").task_uid)

    def remove(self, index: str, keys: Sequence[int]) -> int:
        """Delete the documents with these numbers."""
        # The client's own method for this warns that it is deprecated.
        path = f"indexes/{index}/documents/delete-batch"
        return int(self._client.http.post(path, [str(key) for key in keys])["taskUid"])

    def forget(self, index: str, filter_: str) -> int:
        """Delete all documents that the filter admits."""
        return int(self._index(index).delete_documents(filter=filter_).task_uid)

    def names(self, prefix: str) -> list[str]:
        """Return the names of all indexes that begin with `prefix`."""
        found: list[str] = []
        while True:
            page = self.get(f"indexes?{urlencode({'offset': len(found), 'limit': 1_000})}")
            found += [str(one["uid"]) for one in page["results"]]
            if len(found) >= page["total"] or not page["results"]:
                return [name for name in found if name.startswith(prefix)]

    def _index(self, uid: str) -> Index:
        index = self._client.index(uid)
        index.http = self._client.http
        return index


class _SessionRequests(HttpRequests):
    """Sends the client's requests over `session`. For one thread; the session may serve several."""

    def __init__(self, config: Config, session: requests.Session, *, limits_s: tuple[float, float]) -> None:
        super().__init__(config)
        self._session, self._limits_s = session, limits_s
        if config.api_key is None:
            del self.headers["Authorization"]  # the client would send the key "None"

    def send_request(
        self,
        http_method: Callable[..., requests.Response],
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | list[str] | bool | bytes | str | int | None = None,  # noqa: FBT001 - the client's own signature
        content_type: str | None = None,
        *,
        serializer: type[json.JSONEncoder] | None = None,
    ) -> Any:
        """Return the answer; raises as the client does. `http_method` is the function of `requests` of that name."""

        def over_session(url: str, **options: Any) -> requests.Response:
            ends = time.monotonic() + self._limits_s[1]
            ours = {"timeout": self._limits_s, "allow_redirects": False, "stream": True}
            with self._session.request(http_method.__name__, url, **options | ours) as response:
                if 300 <= response.status_code < 400:
                    raise _Redirected(response=response)
                response.raw = io.BytesIO(_body(response, ends))
                response.content  # noqa: B018 - the response stores it when it is read
            return response

        return super().send_request(
            update_wrapper(partial(over_session), http_method), path, body, content_type, serializer=serializer
        )


def _body(response: requests.Response, ends: float) -> bytes:
    """Return the whole body, unpacked.

    Raises:
        BadPacking: it is too large, or can't be unpacked.
        requests.exceptions.Timeout: it is not complete when the monotonic clock is at `ends`.
    """
    unpacking = Unpacking(response.headers.get("content-encoding", ""))
    body = bytearray()
    try:
        # `read1` returns what has arrived. `read` would wait for the requested amount, however slowly it comes.
        while packed := response.raw.read1(decode_content=False):
            body += b"".join(unpacking.feed(packed))
            if time.monotonic() > ends:
                raise requests.exceptions.ReadTimeout("the body takes too long")
    except HTTPError as error:
        raise requests.exceptions.ConnectionError(type(error).__name__) from error
    return bytes(body)


def failure(error: Exception, shown: str, limit_s: float, *, key: bool) -> ServerFailure:
    """Return the error's reason, without the request's content. `key` says whether one is set.

    Raises:
        MissingIndex: there is no such index or document.
        Exception: `error` itself, if neither server nor network caused it.
    """
    if isinstance(error, MeilisearchApiError | _RefusedSearch):
        return _refusal(error, shown, key=key)
    if isinstance(error, _Redirected):
        problem = f"{shown} redirects; set FORGE_MEILI_URL to the address that it redirects to"
        return ServerFailure(problem, again=False)
    if isinstance(error, MeilisearchTimeoutError | TimeoutError):
        # Only a write is repeated: a search has waited long enough.
        return ServerFailure(f"{shown} does not answer within {limit_s:.0f} s", again=limit_s == WRITE_S)
    if isinstance(error.__cause__, requests.exceptions.SSLError | ssl.SSLError):
        problem = f"{shown} has a certificate that is not trusted; FORGE_MEILI_CA names a file of certificates to trust"
        return ServerFailure(problem, again=False)
    if isinstance(error, MeilisearchCommunicationError | requests.exceptions.RequestException):
        return ServerFailure(f"{shown} cannot be reached", again=True)
    if isinstance(error, OSError):  # the file of certificates does not exist
        return ServerFailure(f"{shown} cannot be asked ({error.strerror or type(error).__name__})", again=False)
    if isinstance(error, BadPacking):
        return ServerFailure(f"{shown} sends an answer that can't be read: {error}", again=False)
    if isinstance(error, ValueError | RecursionError):
        return ServerFailure(f"{shown} sends an answer that is not JSON; is it Meilisearch?", again=False)
    if isinstance(error, LookupError | TypeError | AttributeError):
        return ServerFailure(f"{shown} sends other JSON than Meilisearch does; is it Meilisearch?", again=False)
    raise error


def _refusal(error: MeilisearchApiError | _RefusedSearch, shown: str, *, key: bool) -> ServerFailure:
    status, code = error.status_code, error.code
    if code in NOT_FOUND:
        raise MissingIndex from error
    if status in (401, 403):
        problem = "refuses the key in FORGE_MEILI_KEY" if key else "needs a key; set FORGE_MEILI_KEY"
        return ServerFailure(f"{shown} {problem} ({code or status})", again=False)
    return ServerFailure(f"{shown} answers {status} ({code or 'no code'})", again=status == 429 or status >= 500)
