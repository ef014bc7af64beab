"""Identifies the callers of this process, by whichever credential they send."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from knowledge.errors import StorageError
from knowledge.state.ports import StateStore
from mcp_server.gate.caller import Clock
from mcp_server.gate.host_registration import (
    REMEMBERED_S,
    UNENROLLED,
    Principal,
    RefusedToken,
    UnknownSecret,
    digest,
    identify,
)
from mcp_server.gate.trust.tokens import PREFIX, UNKNOWN, holder_of, id_in

SignIn = Callable[[str], Awaitable[Principal]]
"""Returns the principal of an access token of a sign-in server; raises RefusedToken."""
_DOTS = 2


class Callers:
    """Identifies callers by a bearer token (`kf_...`), an access token of a sign-in server, or the secret of a registered host.

    While the database is unreachable, an identification stays valid for a minute. This raises no caller's trust: the gate looks up
    the caller's grant, and remembers it for at most the same minute.
    """

    def __init__(
        self,
        state: StateStore,
        user: str,
        now: Clock,
        clock: Callable[[], float] = time.monotonic,
        *,
        sign_in: SignIn | None = None,
    ) -> None:
        self._state, self._user, self._now, self._clock, self._sign_in = state, user, now, clock, sign_in
        self._known: dict[bytes, tuple[Principal, float]] = {}

    async def named(self, secret: str | None, *, without: str = UNENROLLED) -> Principal:
        """Return the caller that sent `secret`. If that is None, it is the host `without`.

        Raises:
            UnknownSecret: it belongs to nobody, or is no longer valid.
            StorageError: the database is unreachable, and the caller was not identified within the last minute.
        """
        if secret is None:
            return Principal(self._user, without)
        # Three parts: a signed access token. No secret of ours has a dot.
        if self._sign_in is not None and secret.count(".") == _DOTS:
            return await self._sign_in(secret)
        key = digest(secret)
        try:
            principal = await self._identified(secret)
        except UnknownSecret:
            # Otherwise a secret that was replaced would count again as soon as the database is unreachable.
            self._known.pop(key, None)
            raise
        except StorageError:
            known, at = self._known.get(key, (None, 0.0))
            if known is None or self._clock() - at > REMEMBERED_S:
                raise
            return known
        self._known[key] = (principal, self._clock())
        return principal

    async def _identified(self, secret: str) -> Principal:
        if not secret.startswith(PREFIX):
            return await identify(self._state, self._user, secret)
        token_id = id_in(secret)
        if token_id is None:
            raise RefusedToken(UNKNOWN)
        return holder_of(secret, await self._state.trust.token(token_id), now=self._now())
