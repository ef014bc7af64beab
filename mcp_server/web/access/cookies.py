"""The cookies of the site: their names, and how browsers keep them.

Source: RFC 6265bis, sections 4.1.2.7 (SameSite) and 4.1.3 (the `__Host-` prefix).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from starlette.responses import Response


@dataclass(frozen=True, slots=True)
class SiteCookies:
    """The cookies under one of the site's addresses.

    At the public one, with TLS, only this host can set them (`__Host-`), so no neighbour below the same domain can plant a session.
    On this machine the name has the port in it, because browsers share cookies among all ports.
    """

    port: int | None
    secure: bool
    lax: bool = False
    """Whether a link on another site, such as the sign-in server's, leads to a page with the session. Forms never do."""

    @property
    def session(self) -> str:
        """The name of the session's cookie."""
        return self._name("review", "site")

    @property
    def known(self) -> str:
        """The name of the cookie of a browser that somebody has logged in with; it outlives the session and gives no access."""
        return self._name("known", "known")

    @property
    def attempt(self) -> str:
        """The name of the cookie of a login that has begun at the sign-in server."""
        return self._name("login", "login")

    def _name(self, here: str, public: str) -> str:
        if self.secure:
            return f"__Host-forge_{public}"
        return f"forge_{here}" if self.port is None else f"forge_{here}_{self.port}"

    def put(self, answer: Response, name: str, value: str, lifetime: timedelta) -> None:
        """Have the browser keep a value that no script can read and no form of another site sends."""
        answer.set_cookie(
            name,
            value,
            max_age=int(lifetime.total_seconds()),
            httponly=True,
            samesite=self._same_site,
            secure=self.secure,
        )

    def drop(self, answer: Response, name: str) -> None:
        """Have the browser forget it."""
        answer.delete_cookie(name, httponly=True, samesite=self._same_site, secure=self.secure)

    @property
    def _same_site(self) -> Literal["lax", "strict"]:
        return "lax" if self.lax else "strict"
