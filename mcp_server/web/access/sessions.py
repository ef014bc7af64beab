"""One-time login links, sessions, and the tokens that bind a form to its session.

Secrets have 256 random bits. The state database holds only their digests, so that nobody can log in with what they read there.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from knowledge.trust.ports import TrustRecords
from mcp_server.gate.host_registration import digest, is_signed_in
from mcp_server.web.access.rights import EVERY_RIGHT, SiteRight
from mcp_server.web.sign_in.people import SitePerson

LOGIN_LIFETIME = timedelta(minutes=10)
SESSION_LIFETIME = timedelta(hours=12)
KNOWN_LIFETIME = timedelta(days=30)
"""How long a browser is known after a login."""
HOME, WAITING = "/", "/waiting"
"""The paths of the first page, and of the page that lists everything that waits for a person. Login links lead to the second."""

RightsOf = Callable[[SitePerson], Awaitable[Collection[SiteRight]]]
"""Returns the rights of a person on the site; none if they may not use it."""


@dataclass(frozen=True, slots=True)
class Session:
    """A person who is logged in, and their rights. The owner logs in with a link from the server's machine and has all rights.

    The owner's `user` is the account on that machine; everybody else's is their principal. `name` is what people who logged in at a
    sign-in server call themselves.
    """

    user: str
    secret: str = field(repr=False)
    rights: Collection[SiteRight] = EVERY_RIGHT
    name: str = ""

    @property
    def signed_in(self) -> bool:
        """Whether this is anybody but the owner: they logged in at a sign-in server, or with a link that the owner made."""
        return is_signed_in(self.user)

    @property
    def sees_all(self) -> bool:
        """Whether every page is shown, whatever the rules on folders say: to the owner, and to those who may change the rules."""
        return not self.signed_in or self.may(SiteRight.MANAGE)

    def may(self, right: SiteRight) -> bool:
        """Return whether the person has the right."""
        return right in self.rights

    @property
    def csrf(self) -> str:
        """The token in every form of this session, which no other page can know (cross-site request forgery)."""
        return self._bound("form")

    def opened(self, proposal_hash: str, version: str = "") -> str:
        """Return the token that only a page with the complete proposal carries.

        `version` is the hash of the present effect if the page shows that instead of the proposed one, otherwise "".
        """
        return self._bound(f"opened {proposal_hash} {version}".rstrip())

    def _bound(self, what: str) -> str:
        return hmac.new(self.secret.encode(), what.encode(), "sha256").hexdigest()


def same(token: str, expected: str) -> bool:
    """Return whether a token is the expected one. The comparison takes a time that reveals nothing about the expected token."""
    # As bytes, because `compare_digest` raises an error at text that is not ASCII, and the token comes from the request.
    return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), expected.encode())


class Sessions:
    """Log people in, once per link, and recognise them afterwards."""

    def __init__(self, trust: TrustRecords, now: Callable[[], datetime], rights: RightsOf | None = None) -> None:
        """`rights` says what people other than the owner may do; without it they have no sessions."""
        self._trust, self._now, self._rights = trust, now, rights

    async def invite(self, user: str, to: str = WAITING) -> str:
        """Return a secret that logs in `user` and then leads to the path `to`. It works once, within ten minutes."""
        secret = secrets.token_urlsafe(32)
        value = json.dumps({"user": user, "to": to})
        await self._trust.put_secret(digest(secret), "login", value, expires_at=self._now() + LOGIN_LIFETIME)
        return secret

    async def invited(self, secret: str) -> bool:
        """Return whether the secret is still valid for a login. Asking does not use it up."""
        return await self._trust.secret(digest(secret), "login", now=self._now()) is not None

    async def enter(self, secret: str) -> tuple[Session, str] | None:
        """Use up the secret and return the new session and its first path; None if the secret is unknown, used or expired."""
        # Taking the secret waits for the database's only writer, which strangers' guesses must not block; looking does not.
        known = await self.invited(secret)
        value = await self._trust.take_secret(digest(secret), "login", now=self._now()) if known else None
        if value is None:
            return None
        invitation = json.loads(value)
        user, to = str(invitation["user"]), str(invitation["to"])
        if is_signed_in(user):
            person = await self.enter_person(SitePerson(user))
            return None if person is None else (person, to)
        session = Session(user, secrets.token_urlsafe(32))
        await self.keep(session)
        return session, to

    async def enter_person(self, person: SitePerson) -> Session | None:
        """Return the new session of somebody other than the owner; None if they may not use the site."""
        if self._rights is None or not await self._rights(person):
            return None
        session = Session(person.principal, secrets.token_urlsafe(32))
        expires_at = self._now() + SESSION_LIFETIME
        await self._trust.put_secret(digest(session.secret), "person", person.as_text(), expires_at=expires_at)
        return session

    async def keep(self, session: Session) -> None:
        """Store the session, so that its cookie is recognised for `SESSION_LIFETIME`."""
        await self._trust.put_secret(
            digest(session.secret), "session", session.user, expires_at=self._now() + SESSION_LIFETIME
        )

    async def recognise(self, user: str) -> str:
        """Return a secret for a browser that has just logged in.

        It gives no access: it only shows later that somebody logged in there.
        """
        secret = secrets.token_urlsafe(32)
        await self._trust.put_secret(digest(secret), "known", user, expires_at=self._now() + KNOWN_LIFETIME)
        return secret

    async def known(self, cookie: str | None) -> bool:
        """Return whether somebody has logged in with this browser in the last `KNOWN_LIFETIME`."""
        return bool(cookie) and await self._trust.secret(digest(cookie or ""), "known", now=self._now()) is not None

    async def of(self, cookie: str | None) -> Session | None:
        """Return the cookie's session; None if it is missing or has expired."""
        if not cookie:
            return None
        user = await self._trust.secret(digest(cookie), "session", now=self._now())
        if user is not None:
            return Session(user, cookie)
        if self._rights is None:
            return None
        text = await self._trust.secret(digest(cookie), "person", now=self._now())
        if text is None:
            return None
        person = SitePerson.from_text(text)
        # With each request, so that a person who was frozen, or taken out of the settings, is out at once.
        rights = await self._rights(person)
        return Session(person.principal, cookie, rights, person.name) if rights else None

    async def leave(self, session: Session) -> None:
        """End the session."""
        for purpose in ("session", "person"):
            await self._trust.take_secret(digest(session.secret), purpose, now=self._now())
