"""What the scopes of an access token allow, and which scope a refused request lacks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from mcp_server.app.settings.sign_in import ScopeReach
from mcp_server.gate.policy import Limits, Reach, Trust

WHY = "the scopes of its token allow no more"
MOST_SCOPES = 200


def scopes_in(claims: Mapping[str, Any]) -> list[str]:
    """Return the scopes that a token's claims name: `scope` (RFC 9068, section 2.2.3), or `scp`, as some servers call it."""
    named = claims.get("scope", claims.get("scp", ""))
    words = named.split() if isinstance(named, str) else named if isinstance(named, list) else []
    return [word for word in words if isinstance(word, str)][:MOST_SCOPES]


def limits_of(scopes: Collection[str], known: Sequence[ScopeReach]) -> Limits:
    """Return what these scopes allow together. A scope that the settings don't name allows nothing."""
    reaches = (Reach(Trust(one.level), one.toolsets) for one in known if one.scope in scopes)
    return Limits(tuple(reaches), WHY, scoped=True)


def least(known: Sequence[ScopeReach], level: Trust, toolsets: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes with the lowest level that allow requests of that level with each of these toolsets.

    One scope for several toolsets is better than several scopes; nothing is returned for a toolset that no scope allows.
    """
    wanted = frozenset(toolsets)
    enough = sorted((one for one in known if one.level >= level), key=lambda one: one.level)
    for one in enough:
        if one.toolsets is None or wanted <= one.toolsets:
            return (one.scope,)
    found = (next((one.scope for one in enough if toolset in (one.toolsets or ())), "") for toolset in sorted(wanted))
    return tuple(dict.fromkeys(scope for scope in found if scope))
