"""The rights on the site: every address declares one, and a session has some or all of them. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum

from starlette.requests import Request
from starlette.responses import Response

Endpoint = Callable[[Request], Awaitable[Response]]


class SiteRight(Enum):
    """A right that an address needs. The value completes: you may not ..."""

    OPEN = "open this page"
    """Needs no login: the login itself, style sheets and scripts."""
    READ = "read"
    REVIEW = "review"
    """Decide on proposals, contradictions, journeys and runs, write pages as one's own principal, and undo changes."""
    AUDIT = "read the audit log, which is about all pages"
    """For those who may read every page: the chain of records can only be shown and checked as a whole."""
    MANAGE = "manage trust and the state"


EVERY_RIGHT = frozenset(SiteRight)
"""The rights of the owner, who logged in from the server's machine."""
_NAME = "site_right"


def declared(endpoint: Endpoint, right: SiteRight) -> Endpoint:
    """Record on the endpoint which right it needs, and return it."""
    setattr(endpoint, _NAME, right)
    return endpoint


def right_of(endpoint: object) -> SiteRight:
    """Return the right that an endpoint needs.

    Raises:
        TypeError: it declares none.
    """
    right = getattr(endpoint, _NAME, None)
    if not isinstance(right, SiteRight):
        raise TypeError(f"{endpoint} does not say who may use it: declare its right")
    return right
