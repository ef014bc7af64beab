"""The line to a Meilisearch server: requests in worker threads, and waiting for tasks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import anyio
import anyio.to_thread

from knowledge.errors import EngineUnavailable
from knowledge.extras import install_command
from knowledge.index.engines.server_line import ServerFailure, ServerLine, warn_of_plain_key
from knowledge.telemetry.operations import recorded
from knowledge.wire.addresses import shown_address

if TYPE_CHECKING:
    import requests

    from knowledge.index.engines.meilisearch.client import MeilisearchConnection
    from knowledge.wire.http_posts import HttpPosts

log = logging.getLogger(__name__)

T = TypeVar("T")

ENGINE = "Meilisearch"
THREADS = 8
GRACE_S = 3.0
"""Seconds that a request may take in addition to its time limit, to connect and to end."""
LOOK_S = (0.005, 0.25)
"""The pauses between polls of a task: short at first, then longer."""
TASK_S = 1_800.0
"""Seconds after which a task counts as stuck; a first batch on a slow disk takes a few minutes."""


@dataclass(frozen=True, slots=True)
class MeilisearchAddress:
    """A server and how to reach it. `ca` is a file of certificates to trust instead of the usual ones."""

    url: str
    key: str | None = field(default=None, repr=False)
    ca: Path | None = None


class MeilisearchLine(ServerLine):
    """Requests to the server at `address`; the client is loaded with the first one."""

    def __init__(self, address: MeilisearchAddress) -> None:
        super().__init__(ENGINE, shown_address(address.url))
        self._address = address
        self._opening = threading.Lock()
        self._session: requests.Session | None = None
        self._posts: HttpPosts | None = None
        self._threads = anyio.CapacityLimiter(THREADS)

    async def ask(self, request: Callable[[MeilisearchConnection], T]) -> T:
        """Return the answer to a request that a search waits for; fail at once while the server is known to be down.

        Raises:
            EngineUnavailable: no answer, or a refusal.
            MissingIndex: there is no such index or document.
        """
        return await self._within_read(partial(self._send, request))

    async def search(self, parts: Sequence[Sequence[Mapping[str, Any]]]) -> list[Any]:
        """Return the result of each search. Each part is one request; all are sent before the first wait.

        Raises:
            EngineUnavailable, MissingIndex: as for `ask`.
        """
        return await self._within_read(partial(self._search, parts))

    async def do(self, request: Callable[[MeilisearchConnection], T]) -> T:
        """Return the answer to a request that may take its time; it is tried again with growing pauses.

        Raises:
            EngineUnavailable, MissingIndex: as for `ask`.
        """
        return await self._within_write(partial(self._send, request))

    async def finish(self, request: Callable[[MeilisearchConnection], int], *, missing_ok: bool = False) -> None:
        """Do a request that starts a task, and return when the task has succeeded.

        With `missing_ok` it may also fail because there is no such index.

        Raises:
            EngineUnavailable: as for `ask`, or the task failed or was cancelled; says which and why.
        """
        await self.finished([await self.do(request)], missing_ok=missing_ok)

    async def finished(self, tasks: Sequence[int], *, missing_ok: bool = False) -> None:
        """Return when all these tasks have succeeded; errors as for `finish`."""
        until = time.monotonic() + TASK_S
        for task in tasks:
            pause_s = LOOK_S[0]
            look = methodcaller("get", f"tasks/{task}")
            while (found := await self.do(look))["status"] in ("enqueued", "processing"):
                if time.monotonic() > until:
                    raise EngineUnavailable(ENGINE, f"{self.shown} did not finish task {task} in {TASK_S:.0f} s")
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, LOOK_S[1])
            why = (found.get("error") or {}).get("code", "no reason given")
            if found["status"] != "succeeded" and not (missing_ok and why == "index_not_found"):
                what = f"task {task} ({found['type']}) {found['status']}: {why}"
                raise EngineUnavailable(ENGINE, f"{self.shown}: {what}")

    async def drained(self, indexes: Sequence[str]) -> None:
        """Return when no task on these indexes is waiting or running, whichever process started it.

        Raises:
            EngineUnavailable: the server is down, or does not finish them.
        """
        asked = urlencode({"indexUids": ",".join(indexes), "statuses": "enqueued,processing", "limit": 100})
        waiting = await self.do(lambda line: line.get(f"tasks?{asked}"))
        for task in waiting["results"]:
            try:
                await self.finished([int(task["uid"])])
            except EngineUnavailable as error:
                log.warning("%s", error)  # the marks show what a failed task did not do

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
        posts, self._posts = self._posts, None
        if posts is not None:
            await posts.close()

    @recorded("request", elsewhere=True, service="meilisearch")
    async def _send(self, request: Callable[[MeilisearchConnection], T], limit_s: float) -> T:
        # The library itself has no limit for headers that arrive byte by byte. The abandoned thread ends when they are complete.
        with anyio.fail_after(limit_s + GRACE_S):
            return await anyio.to_thread.run_sync(
                partial(self._send_now, request, limit_s), limiter=self._threads, abandon_on_cancel=True
            )

    @recorded("request", elsewhere=True, service="meilisearch")
    async def _search(self, parts: Sequence[Sequence[Mapping[str, Any]]], limit_s: float) -> list[Any]:
        try:
            from knowledge.index.engines.meilisearch.client import open_posts, searched
        except ImportError as error:
            raise _not_installed() from error
        at = self._address
        if self._posts is None:
            warn_of_plain_key(at.key, at.url, self.shown)
            self._posts = open_posts(at.url, at.key, at.ca)
        with anyio.fail_after(limit_s):
            return await searched(self._posts, parts)

    def _send_now(self, request: Callable[[MeilisearchConnection], T], limit_s: float) -> T:
        try:
            from knowledge.index.engines.meilisearch.client import MeilisearchConnection, open_session
        except ImportError as error:
            raise _not_installed() from error
        at = self._address
        with self._opening:
            if self._session is None:
                warn_of_plain_key(at.key, at.url, self.shown)
                self._session = open_session(at.ca, THREADS)
            session = self._session
        return request(MeilisearchConnection(at.url, at.key, session, limit_s))

    def _failure(self, error: Exception, limit_s: float) -> ServerFailure:
        from knowledge.index.engines.meilisearch.client import failure  # loaded: a request was sent

        return failure(error, self.shown, limit_s, key=self._address.key is not None)


def _not_installed() -> EngineUnavailable:
    return EngineUnavailable(ENGINE, f"its client is not installed ({install_command('meilisearch')})")
