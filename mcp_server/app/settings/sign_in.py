"""The settings of sign-in servers: which ones this server trusts, what their scopes allow, and who may log in on the site."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from mcp_server.app.settings import values
from mcp_server.app.settings.services import TOOLSETS

HIGHEST: Final = 5
_NAME: Final = r"[a-z0-9][a-z0-9._-]{0,31}"
TAKEN: Final = ("token", "unenrolled")
"""Names that no sign-in server can have: principals of other kinds have them in the place of its name."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """A sign-in server whose access tokens count. `url` is its issuer identifier, exactly as its tokens and its metadata have it."""

    name: str
    url: str


@dataclass(frozen=True, slots=True)
class ScopeReach:
    """The reach of a scope: acts up to trust level `level`, with the tools of `toolsets`, or of all toolsets for None."""

    scope: str
    level: int
    toolsets: frozenset[str] | None = None


FIRST_SCOPES: Final = tuple(
    ScopeReach(f"forge:{word}", level) for level, word in enumerate(("read", "propose", "edit", "act"), start=1)
)


@dataclass(frozen=True, slots=True)
class SiteClient:
    """The client id that the site has at a sign-in server, which is named as in `FORGE_OAUTH_ISSUERS`."""

    issuer: str
    client_id: str


@dataclass(frozen=True, slots=True)
class RequiredClaim:
    """A claim about a person, and the value that it must have, or contain if it is a list."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class SiteAccess:
    """How people log in with a sign-in server on the site, whose origin is `url`, and who may. `managers` may do everything there."""

    url: str
    issuer: Issuer
    client_id: str
    secret: str | None = field(default=None, repr=False)
    people: tuple[RequiredClaim, ...] = ()
    managers: tuple[RequiredClaim, ...] = ()


def browser_origin(url: str) -> str:
    """Return the origin of an address as browsers write it: names in lower case, without the usual port."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    usual = 443 if parts.scheme == "https" else 80
    return f"{parts.scheme}://{host}" + ("" if parts.port in (None, usual) else f":{parts.port}")


def site_client(text: str) -> SiteClient:
    """Return the site's client id at a sign-in server, from `NAME=CLIENT_ID`."""
    name, _, client_id = (word.strip() for word in text.partition("="))
    # RFC 6749, appendix A.1: visible ASCII.
    if not re.fullmatch(_NAME, name) or not re.fullmatch(r"[ -~]{1,500}", client_id):
        raise ValueError(
            f"{text[:60]!r} is not NAME=CLIENT_ID, for example corp=knowledge-forge; the name is that of FORGE_OAUTH_ISSUERS"
        )
    return SiteClient(name, client_id)


def required_claims(text: str) -> tuple[RequiredClaim, ...]:
    """Return the claims in a list of `CLAIM=VALUE`."""
    return tuple(_claim(part) for part in values.names(text))


def _claim(part: str) -> RequiredClaim:
    name, _, value = (word.strip() for word in part.partition("="))
    if not name or not value:
        raise ValueError(f"{part[:60]!r} is not CLAIM=VALUE, for example sub=8f1c or groups=reviewers")
    return RequiredClaim(name, value)


def issuers(text: str) -> tuple[Issuer, ...]:
    """Return the sign-in servers in a list of `NAME=URL`."""
    found: dict[str, Issuer] = {}
    for part in values.names(text):
        name, equals, url = (word.strip() for word in part.partition("="))
        if not equals or not re.fullmatch(_NAME, name) or name in TAKEN:
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
