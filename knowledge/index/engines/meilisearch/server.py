"""The line to a Meilisearch server: requests in worker threads, retries, time limits, every failure in our words."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

import anyio
import anyio.to_thread

from knowledge.errors import EngineUnavailable
from knowledge.index.engines.meilisearch.pool import Pooled, Redirected
from knowledge.index.engines.server_line import Away
from knowledge.wire.addresses import shown_address
from knowledge.wire.compression import BadPacking

if TYPE_CHECKING:
    import requests
    from meilisearch.client import Client
    from meilisearch.index import Index

log = logging.getLogger(__name__)

T = TypeVar("T")

ENGINE = "Meilisearch"
CONNECT_S = 2.0
READ_S = 5.0
WRITE_S = 60.0
TRIES = 4
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0
REST_S = 5.0
"""After a failure searches fail at once for so long, instead of each waiting for a server that is away."""
THREADS = 8
LOOPBACK = ("127.0.0.1", "::1", "localhost")
SLACK_S = 1.0
LOOK_S = (0.005, 0.25)
"""How often a task is looked at: soon at first, then more seldom."""
TASK_S = 1_800.0
"""A task that is not done by then will hardly be; a first batch on a slow disk takes a few minutes."""


@dataclass(frozen=True, slots=True)
class MeilisearchAddress:
    """Where the server is and how to speak to it. `ca` is a file of certificates to trust instead of the usual ones."""

    url: str
    key: str | None = field(default=None, repr=False)
    ca: Path | None = None

    @property
    def shown(self) -> str:
        """Return the address as a message may hold it."""
        return shown_address(self.url)


class NoIndex(Exception):
    """There is no such index, or no such document in it. Nobody outside the adapter sees this."""


@dataclass(frozen=True, slots=True)
class _MeilisearchFailure:
    problem: str
    again: bool
    """Whether the same request may succeed in a moment."""


class MeilisearchLine:
    """Asks the server at `address`. The client is loaded with the first request; one is made for each, all share one pool.

    A client of its own for each request, because clients keep the headers of the request under way to themselves.
    """

    def __init__(self, address: MeilisearchAddress) -> None:
        self._address = address
        self._opening = threading.Lock()
        self._session: requests.Session | None = None
        self._threads = anyio.CapacityLimiter(THREADS)
        self._away = Away(ENGINE)

    @property
    def shown(self) -> str:
        """Return the server's address as it may be shown."""
        return self._address.shown

    async def ask(self, request: Callable[[MeilisearchConnection], T]) -> T:
        """Return the answer to something that a search waits for; fails at once while the server is known to be away.

        Raises:
            EngineUnavailable: no answer, or a refusal.
            NoIndex: no such index.
        """
        self._away.require_back()
        # Twice, because a server may just have closed the connection that was kept for it.
        return await self._within(request, READ_S, tries=2)

    async def do(self, request: Callable[[MeilisearchConnection], T]) -> T:
        """Return the answer to something that may take its time; it is tried again with growing pauses.

        Raises:
            EngineUnavailable: no answer, or a refusal.
            NoIndex: no such index.
        """
        return await self._within(request, WRITE_S, tries=TRIES)

    async def done(self, tasks: Sequence[int], *, missing_ok: bool = False) -> None:
        """Return when all these tasks have succeeded; with `missing_ok` also if there was no such index.

        Raises:
            EngineUnavailable: one failed or was cancelled, or the server is away; says which and why.
        """
        until = time.monotonic() + TASK_S
        for task in tasks:
            pause_s = LOOK_S[0]
            while not await self._is_done(task, missing_ok=missing_ok):
                if time.monotonic() > until:
                    raise EngineUnavailable(ENGINE, f"{self.shown} did not finish task {task} in {TASK_S:.0f} s")
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, LOOK_S[1])

    async def drained(self, indexes: Sequence[str]) -> None:
        """Return when no task on these indexes is waiting or under way, whoever asked for it.

        Raises:
            EngineUnavailable: the server is away, or does not come to an end.
        """
        asked = urlencode({"indexUids": ",".join(indexes), "statuses": "enqueued,processing", "limit": 100})
        waiting = await self.do(lambda line: line.get(f"tasks?{asked}"))
        for task in waiting["results"]:
            try:
                await self.done([int(task["uid"])])
            except EngineUnavailable as error:
                log.warning("%s", error)  # what somebody's task did not do is found out from what is there

    async def close(self) -> None:
        """Give the connections back; a later request would open them again."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    async def _is_done(self, task: int, *, missing_ok: bool) -> bool:
        found = await self.do(lambda line: line.get(f"tasks/{task}"))
        if found["status"] in ("enqueued", "processing"):
            return False
        if found["status"] == "succeeded":
            return True
        why = (found.get("error") or {}).get("code", "no reason given")
        if missing_ok and why == "index_not_found":
            return True
        raise EngineUnavailable(ENGINE, f"{self.shown}: task {task} ({found['type']}) {found['status']}: {why}")

    async def _within(self, request: Callable[[MeilisearchConnection], T], limit_s: float, *, tries: int) -> T:
        for attempt in range(tries):
            try:
                # The thread ends by itself; this is for a head that drips, which the library waits for without an end.
                with anyio.fail_after(CONNECT_S + limit_s + SLACK_S):
                    answer = await anyio.to_thread.run_sync(
                        partial(self._asked, request, limit_s), limiter=self._threads, abandon_on_cancel=True
                    )
            except (EngineUnavailable, NoIndex):
                raise
            except Exception as error:
                failure = _failure(error, self._address, limit_s)
                if not failure.again or attempt == tries - 1:
                    raise self._away.begins(failure.problem, for_s=REST_S) from error
                pause_s = FIRST_PAUSE_S * 4**attempt if limit_s == WRITE_S else 0.02
                # Some chance, so that those who failed together do not come back together.
                await anyio.sleep(min(pause_s, LONGEST_PAUSE_S) * (0.5 + random.random() / 2))  # noqa: S311 - no secret
            else:
                self._away.ends()
                return answer
        raise AssertionError  # the last attempt returned or raised

    def _asked(self, request: Callable[[MeilisearchConnection], T], limit_s: float) -> T:
        try:
            from meilisearch.errors import MeilisearchApiError
        except ImportError as error:
            problem = "its client is not installed (pip install 'knowledge-forge[meilisearch]')"
            raise EngineUnavailable(ENGINE, problem) from error
        with self._opening:
            session = self._session = self._session or _session(self._address)
        try:
            return request(MeilisearchConnection(_client(self._address, session, limit_s)))
        except MeilisearchApiError as error:
            if error.code in ("index_not_found", "document_not_found"):
                raise NoIndex from error
            raise


class MeilisearchConnection:
    """What may be asked of the server, in the thread that asks: the client, over connections that are kept."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, path: str) -> Any:
        """Return what is at `path`."""
        return self._client.http.get(path)

    def search(self, searches: Sequence[dict[str, Any]]) -> Sequence[Any]:
        """Return the result of each search."""
        return list(self._client.http.post("multi-search", {"queries": list(searches)})["results"])

    def index(self, uid: str) -> Index:
        """Return the client of one index."""
        index = self._client.index(uid)
        index.http = self._client.http
        return index

    def swap(self, one: str, other: str, *, rename: bool) -> int:
        """Let both indexes change names, or give `one` the name `other`; return the task."""
        return int(self._client.swap_indexes([{"indexes": [one, other], "rename": rename}]).task_uid)

    def drop(self, uid: str) -> int:
        """Delete the index; return the task."""
        return int(self._client.http.delete(f"indexes/{uid}")["taskUid"])

    def configure(self, uid: str, settings: Mapping[str, Any]) -> int:
        """Give the index these settings; there is one then. Return the task."""
        return int(self.index(uid).update_settings(dict(settings)).task_uid)

    def add(self, index: str, documents: bytes) -> int:
        """Put documents in the place of those with the same `seq`; return the task."""
        return int(self.index(index).add_documents_ndjson(documents, "seq").task_uid)

    def remove(self, index: str, keys: Sequence[int]) -> int:
        """Delete the documents with these numbers; return the task."""
        # Not through the client's method, which warns of its own future.
        return int(
            self._client.http.post(f"indexes/{index}/documents/delete-batch", [str(key) for key in keys])["taskUid"]
        )

    def forget(self, index: str, filter_: str) -> int:
        """Delete all documents that the filter admits; return the task."""
        return int(self.index(index).delete_documents(filter=filter_).task_uid)

    def names(self, prefix: str) -> list[str]:
        """Return the names of all indexes that begin with `prefix`."""
        found: list[str] = []
        while True:
            page = self.get(f"indexes?{urlencode({'offset': len(found), 'limit': 1_000})}")
            found += [str(one["uid"]) for one in page["results"]]
            if len(found) >= page["total"] or not page["results"]:
                return [name for name in found if name.startswith(prefix)]


def _session(address: MeilisearchAddress) -> requests.Session:
    import requests
    from requests.adapters import HTTPAdapter

    parts = urlsplit(address.url)
    if address.key and parts.scheme == "http" and parts.hostname not in LOOPBACK:
        log.warning("the key for %s travels unencrypted: its address begins with http:", address.shown)
    session = requests.Session()
    # Neither proxies nor a netrc, whose password would take the place of the key.
    session.trust_env = False
    session.verify = True if address.ca is None else str(address.ca)
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_connections=1, pool_maxsize=THREADS))
    # A compressed answer leaves the server in several small pieces, and the second waits 40 ms for the first's receipt.
    session.headers["Accept-Encoding"] = "identity"
    return session


def _client(address: MeilisearchAddress, session: requests.Session, limit_s: float) -> Client:
    from meilisearch.client import Client

    client = Client(address.url, address.key)
    # The client opens a connection for every request and knows no certificates but the usual ones.
    client.http = Pooled(client.config, session, limits_s=(CONNECT_S, limit_s))
    return client


def _failure(error: Exception, address: MeilisearchAddress, limit_s: float) -> _MeilisearchFailure:
    """Say in our words what went wrong: never what was sent.

    Raises:
        Exception: `error` itself, if it is none of the server's or the network's.
    """
    import requests
    from meilisearch.errors import MeilisearchApiError, MeilisearchCommunicationError, MeilisearchTimeoutError

    shown = address.shown
    if isinstance(error, MeilisearchApiError):
        return _refusal(error.status_code, error.code, shown, key=address.key is not None)
    if isinstance(error, Redirected):
        return _MeilisearchFailure(
            f"{shown} points elsewhere; put the address it points to into FORGE_MEILI_URL", again=False
        )
    if isinstance(error, MeilisearchTimeoutError | TimeoutError):
        # A search has waited long enough.
        return _MeilisearchFailure(f"{shown} does not answer within {limit_s:.0f} s", again=limit_s == WRITE_S)
    if isinstance(error.__cause__, requests.exceptions.SSLError):
        return _MeilisearchFailure(
            f"{shown} has a certificate that is not trusted here (FORGE_MEILI_CA names others)", again=False
        )
    if isinstance(error, MeilisearchCommunicationError | requests.exceptions.RequestException):
        return _MeilisearchFailure(f"{shown} cannot be reached", again=True)
    if isinstance(error, OSError):  # the file of certificates is not there
        return _MeilisearchFailure(f"{shown} cannot be asked ({error.strerror or type(error).__name__})", again=False)
    if isinstance(error, BadPacking):
        return _MeilisearchFailure(f"{shown} answers what can't be read: {error}", again=False)
    if isinstance(error, ValueError | RecursionError):
        return _MeilisearchFailure(f"{shown} answers something that is not JSON; is that Meilisearch?", again=False)
    if isinstance(error, LookupError | TypeError | AttributeError):
        return _MeilisearchFailure(
            f"{shown} answers other JSON than Meilisearch does; is that Meilisearch?", again=False
        )
    raise error


def _refusal(status: int, code: str | None, shown: str, *, key: bool) -> _MeilisearchFailure:
    if status in (401, 403):
        problem = "refuses the key in FORGE_MEILI_KEY" if key else "wants a key; set FORGE_MEILI_KEY"
        return _MeilisearchFailure(f"{shown} {problem} ({code or status})", again=False)
    return _MeilisearchFailure(f"{shown} answers {status} ({code or 'no code'})", again=status == 429 or status >= 500)
