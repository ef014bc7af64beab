"""A flood of wrong tokens: it must neither keep the server busy nor keep those out who have a valid one."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable

from knowledge.errors import NoTurn
from mcp_server.fair_use.turns import Turns
from mcp_server.gate.host_registration import Principal, UnknownSecret, digest

WRONG_PER_MINUTE = 300
"""The most wrong tokens of one address that are looked up. A host that tries an expired token every second stays far below."""
WINDOW_S = 60.0
AT_ONCE = 2
"""At most this many tokens that were not valid lately are looked up at a time, because connections to the database are few."""
MOST_WAITING = 200
PATIENCE_S = 5.0
VALID_S = 3600.0
"""How long a token that was valid is looked up at once, whatever else its address sends."""
MOST_KNOWN, MOST_ADDRESSES = 10_000, 10_000
PREFIX = 64
"""Bits of an IPv6 address that belong to one network. Anyone with one address in it has them all."""
RETRY_S = 5

Named = Callable[[str], Awaitable[Principal]]


class TooManyWrongTokens(Exception):
    """The token was not looked up; `retry_s` is when to try again."""

    def __init__(self, retry_s: int) -> None:
        self.retry_s = retry_s
        super().__init__(
            f"too many wrong tokens came from this address, or too many wait to be checked. This one was not checked, and nothing was "
            f"done. Try again in {retry_s} s"
        )


class TokenChecks:
    """Finds the principal of a token. A token that was valid lately is looked up even if its address sends many wrong ones."""

    def __init__(self, named: Named, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._named, self._clock = named, clock
        self._turns = Turns({"check": AT_ONCE}, each=1, most_waiting=MOST_WAITING, patience_s=PATIENCE_S, clock=clock)
        self._valid: dict[bytes, float] = {}
        self._wrong: dict[str, deque[float]] = {}

    async def principal(self, token: str, address: str) -> Principal:
        """Return the token's principal. The database is asked each time.

        Raises:
            TooManyWrongTokens: it was not looked up.
            UnknownSecret: it belongs to nobody.
            StorageError: nobody can tell now.
        """
        key, network = digest(token), network_of(address)
        if self._clock() - self._valid.get(key, -math.inf) <= VALID_S:
            return await self._looked_up(token, key, network)
        self._require_few_wrong(network)
        try:
            async with self._turns.turn(network, "check"):
                self._require_few_wrong(network)  # others of its address may have been wrong while it waited
                return await self._looked_up(token, key, network)
        except NoTurn:
            raise TooManyWrongTokens(RETRY_S) from None

    async def _looked_up(self, token: str, key: bytes, network: str) -> Principal:
        try:
            principal = await self._named(token)
        except UnknownSecret:
            self._valid.pop(key, None)
            self._note_wrong(network)
            raise
        self._valid.pop(key, None)
        self._valid[key] = self._clock()
        if len(self._valid) > MOST_KNOWN:
            del self._valid[next(iter(self._valid))]
        return principal

    def _require_few_wrong(self, network: str) -> None:
        wrong, now = self._wrong.get(network, deque()), self._clock()
        while wrong and now - wrong[0] > WINDOW_S:
            wrong.popleft()
        if len(wrong) >= WRONG_PER_MINUTE:
            raise TooManyWrongTokens(math.ceil(wrong[0] + WINDOW_S - now) or 1)

    def _note_wrong(self, network: str) -> None:
        wrong = self._wrong.pop(network, deque())
        wrong.append(self._clock())
        self._wrong[network] = wrong
        if len(self._wrong) > MOST_ADDRESSES:
            del self._wrong[next(iter(self._wrong))]


def network_of(address: str) -> str:
    """Return what wrong tokens are counted by: an IPv4 address, or the network of an IPv6 address. Pure."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((int(found), PREFIX), strict=False))
    return str(found)
