"""One careful way to send requests to the one host that a person configured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_server.connectors.wire import Reply, Request

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class Place:
    """Where a service is and how a request to it is signed.

    `service` is what a person calls it, `address` the configured one without a slash at its end, `setting` the variable that
    holds it. `headers` go with every request; `secrets` are texts that no message may hold.
    """

    service: str
    address: str
    setting: str
    headers: Mapping[str, str]
    secrets: tuple[str, ...]


class Sender:
    """Sends requests to one place and returns what came back, whatever its status: judging it is for the wire modules."""

    def __init__(
        self,
        place: Place,
        client: httpx.AsyncClient,
        *,
        sleep: Callable[[float], Awaitable[None]],
        monotonic: Callable[[], float],
    ) -> None:
        self.place = place
        self._client, self._sleep, self._monotonic = client, sleep, monotonic

    async def send(self, request: Request) -> Reply:
        """Return the reply: one with a status below 500 other than 429, and a body that is JSON or empty.

        A repeatable request is tried again, a few times and for a bounded time, after a cut connection, a timeout, 5xx, and
        429 as `Retry-After` says; any other is sent once.

        Raises:
            Unreachable: no connection came about, so nothing was sent.
            ReplyLost: a request that writes was sent, and no usable reply came (5xx, cut, timeout, too large, no JSON).
            NoAnswer: the same for one that only reads.
            Limited: 429, and waiting for so long is not decent.
            WrongAddress: it redirects elsewhere, or redirects what writes.
        """
        raise NotImplementedError
