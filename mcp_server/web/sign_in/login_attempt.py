"""A login that has begun and waits for the browser to come back from the sign-in server. Pure.

All of it is in a cookie of that browser, so any worker can finish it, and strangers leave nothing in the state database. What goes
to the sign-in server is derived from the cookie's secret, so only the browser with that cookie can finish the login. Nobody can
finish another person's login, or make another person's browser finish theirs.

Source: RFC 7636 (PKCE), RFC 9700, section 2.1 (state, nonce).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from knowledge.errors import KnowledgeError
from mcp_server.web.access.sessions import HOME

CALLBACK: Final = "/login/callback"
"""The path to which the sign-in server sends browsers back. That server knows the whole address in advance."""
ATTEMPT_LIFETIME: Final = timedelta(minutes=10)
CLOCKS_S: Final = 60
"""How far the clocks of two machines that serve the site may differ."""
LONGEST_TO: Final = 1_500
"""Characters of the address to go to after the login, as it is quoted in the cookie."""
_SECRET_BYTES: Final = 32


class LoginFailed(KnowledgeError):
    """Nobody was logged in. The message is for the person. If the reason came from the sign-in server, it is in the log."""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """The secret of one login, when it began, and the address on this site to which it leads."""

    secret: str = field(repr=False)
    began_s: int
    to: str = HOME

    @classmethod
    def begun(cls, to: str, now: datetime) -> LoginAttempt:
        """Return a new attempt. If `to` is not on this site, or too long, the login leads to the first page."""
        return cls(secrets.token_urlsafe(_SECRET_BYTES), int(now.timestamp()), own_address(to))

    @classmethod
    def in_cookie(cls, cookie: str, now: datetime) -> LoginAttempt | None:
        """Return the attempt in a browser's cookie; None if the attempt is too old, or the cookie is not one of ours."""
        secret, _, rest = cookie.partition(".")
        began, _, to = rest.partition(".")
        if not began.isdecimal() or len(began) > 12 or len(secret) < _SECRET_BYTES:
            return None
        if not -CLOCKS_S <= now.timestamp() - int(began) <= ATTEMPT_LIFETIME.total_seconds():
            return None
        return cls(secret, int(began), own_address(unquote(to)))

    @property
    def cookie(self) -> str:
        """The value of the cookie."""
        return f"{self.secret}.{self.began_s}.{quote(self.to, safe='/')}"

    @property
    def state(self) -> str:
        """The value that the sign-in server sends back, so that only a browser with this cookie can finish this login."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """The value that the ID token must repeat, so that no token of another login counts."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """Proves to the sign-in server that the program which redeems a code is the one which asked for the code."""
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """The hash of the verifier, S256."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def _derived(self, purpose: str) -> str:
        # With time and address, so that a cookie in which one of them was changed finishes no login.
        text = f"{purpose} {self.began_s} {self.to}"
        return hmac.new(self.secret.encode(), text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def own_address(to: str) -> str:
    """Return the address if it is one on this site, with a path and perhaps a query; otherwise the first page."""
    try:
        parts = urlsplit(to)
    except ValueError:
        return HOME
    # Browsers read a backslash as a slash, drop tabs and line ends, and take two slashes for the beginning of a host.
    if not to.startswith("/") or to[1:2] in ("/", "\\") or parts.scheme or parts.netloc or not to.isprintable():
        return HOME
    # A login that leads to the login would only confuse.
    return to if len(quote(to)) <= LONGEST_TO and not to.startswith(("/login", "/logout")) else HOME
