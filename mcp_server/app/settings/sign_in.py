"""The settings of sign-in servers: which ones this server trusts, and what their scopes allow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mcp_server.app.settings import values
from mcp_server.app.settings.services import TOOLSETS

HIGHEST: Final = 5
TAKEN: Final = ("token", "unenrolled")
"""Names that principals of other kinds have in this place."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """A sign-in server whose access tokens count. `url` is its issuer identifier, exactly as its tokens and its metadata have it."""

    name: str
    url: str


@dataclass(frozen=True, slots=True)
class ScopeReach:
    """What a scope allows: acts up to trust level `level`, with the tools of `toolsets`, None for all."""

    scope: str
    level: int
    toolsets: frozenset[str] | None = None


FIRST_SCOPES: Final = tuple(
    ScopeReach(f"forge:{word}", level) for level, word in enumerate(("read", "propose", "edit", "act"), start=1)
)


def issuers(text: str) -> tuple[Issuer, ...]:
    """Return the sign-in servers in a list of `NAME=URL`."""
    found: dict[str, Issuer] = {}
    for part in values.names(text):
        name, equals, url = (word.strip() for word in part.partition("="))
        if not equals or not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,31}", name) or name in TAKEN:
            raise ValueError(
                f"{part[:60]!r} is not NAME=URL, for example corp=https://login.example.com/realms/corp; a name has "
                "lower-case letters and digits"
            )
        if name in found or url in {one.url for one in found.values()}:
            raise ValueError(f"{name} is named twice, or its address is")
        # The slash at the end belongs to the identifier of some servers, so the text stays as it is.
        values.server_url(url, example="https://login.example.com/realms/corp", key="no setting; the server needs none")
        if not url.startswith("https://") and not re.match(r"http://(127\.0\.0\.1|localhost|\[::1\])[:/]", f"{url}/"):
            raise ValueError(f"the address of {name} must begin with https://")
        found[name] = Issuer(name, url)
    return tuple(found.values())


def scopes(text: str) -> tuple[ScopeReach, ...]:
    """Return what scopes allow, from a list of `SCOPE=LEVEL` or `SCOPE=LEVEL/TOOLSET+TOOLSET`."""
    return tuple(_scope(part.strip()) for part in text.split(",") if part.strip())


def _scope(part: str) -> ScopeReach:
    scope, _, reach = part.rpartition("=")
    level, slash, named = reach.partition("/")
    toolsets = [name for name in named.split("+") if name]
    # RFC 6749, section 3.3, without the characters that a header would have to quote.
    if not re.fullmatch(r"[!#-\[\]-~]{1,200}", scope) or level not in {str(one) for one in range(1, HIGHEST + 1)}:
        raise ValueError(f"{part[:60]!r} is not SCOPE=LEVEL or SCOPE=LEVEL/TOOLSET+TOOLSET, with a level from 1 to 5")
    if slash and (not toolsets or any(name not in TOOLSETS for name in toolsets)):
        raise ValueError(f"{named[:60]!r} are no toolsets; choose from {', '.join(TOOLSETS)}, joined by +")
    return ScopeReach(scope, int(level), frozenset(toolsets) if slash else None)
