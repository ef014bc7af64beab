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
    """The cookies that the site sets at one of its addresses.

    At the public address, which uses TLS, their names begin with `__Host-`. Browsers let only this host set such cookies, so
    another host of the same domain can't plant a session. On this machine their names contain the port, because browsers share
    cookies among all ports.
    """

    port: int | None
    secure: bool
    lax: bool = False
    """Whether the browser sends the cookies when a person follows a link from another site, such as the sign-in server.

    It never sends them with a form of another site.
    """

    @property
    def session(self) -> str:
        """The name of the session's cookie."""
        return self._name("review", "site")

    @property
    def known(self) -> str:
        """The name of the cookie that marks a browser in which somebody has logged in. It outlives the session and gives no access."""
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
        """Have the browser forget the cookie `name`."""
        answer.delete_cookie(name, httponly=True, samesite=self._same_site, secure=self.secure)

    @property
    def _same_site(self) -> Literal["lax", "strict"]:
        return "lax" if self.lax else "strict"
