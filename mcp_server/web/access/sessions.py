"""Who looks at the page: one-time login links, sessions, and the tokens that bind a form to its session.

Secrets have 256 random bits; the state database keeps their digests only, so that who reads it cannot log in with them.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from knowledge.trust.ports import TrustRecords
from mcp_server.gate.host_registration import digest

LOGIN_LIFETIME = timedelta(minutes=10)
SESSION_LIFETIME = timedelta(hours=12)
HOME = "/"


@dataclass(frozen=True, slots=True)
class Session:
    """A person who is logged in."""

    user: str
    secret: str = field(repr=False)

    @property
    def csrf(self) -> str:
        """Return what every form of this session carries, and no other page can know."""
        return self._bound("form")

    def opened(self, proposal_hash: str) -> str:
        """Return what only a page carries that shows all of this proposal."""
        return self._bound(f"opened {proposal_hash}")

    def _bound(self, what: str) -> str:
        return hmac.new(self.secret.encode(), what.encode(), "sha256").hexdigest()


def same(token: str, expected: str) -> bool:
    """Return whether a token is the expected one, in a time that tells nothing."""
    return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), expected.encode())


class Sessions:
    """Lets people in, once a link, and knows them afterwards."""

    def __init__(self, trust: TrustRecords, now: Callable[[], datetime]) -> None:
        self._trust, self._now = trust, now

    async def invite(self, user: str, to: str = HOME) -> str:
        """Return a secret that logs `user` in, once, within ten minutes, and leads to the path `to`."""
        secret = secrets.token_urlsafe(32)
        value = json.dumps({"user": user, "to": to})
        await self._trust.put_secret(digest(secret), "login", value, expires_at=self._now() + LOGIN_LIFETIME)
        return secret

    async def invited(self, secret: str) -> bool:
        """Return whether the secret still lets somebody in. It is not used up by asking."""
        return await self._trust.secret(digest(secret), "login", now=self._now()) is not None

    async def enter(self, secret: str) -> tuple[Session, str] | None:
        """Use the secret up, and return the new session and where it leads; None if it lets nobody in (any more)."""
        # Taking waits for the database's one writer, whom guesses must not keep busy; looking waits for nobody.
        known = await self.invited(secret)
        value = await self._trust.take_secret(digest(secret), "login", now=self._now()) if known else None
        if value is None:
            return None
        invitation = json.loads(value)
        session = Session(str(invitation["user"]), secrets.token_urlsafe(32))
        await self._trust.put_secret(
            digest(session.secret), "session", session.user, expires_at=self._now() + SESSION_LIFETIME
        )
        return session, str(invitation["to"])

    async def of(self, cookie: str | None) -> Session | None:
        """Return whose session the cookie is, None if it is nobody's (any more)."""
        if not cookie:
            return None
        user = await self._trust.secret(digest(cookie), "session", now=self._now())
        return None if user is None else Session(user, cookie)

    async def leave(self, session: Session) -> None:
        """End the session."""
        await self._trust.take_secret(digest(session.secret), "session", now=self._now())
