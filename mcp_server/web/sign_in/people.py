"""The people of a sign-in server on the site: who they are, and what the settings let them do. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from knowledge.access.rules import PathAccess
from mcp_server.app.settings.sign_in import RequiredClaim, SiteAccess
from mcp_server.gate.host_registration import SIGNED_IN
from mcp_server.web.access.rights import EVERY_RIGHT, SiteRight

REVIEWER: Final = frozenset({SiteRight.OPEN, SiteRight.READ, SiteRight.REVIEW})


@dataclass(frozen=True, slots=True)
class SitePerson:
    """Somebody who logged in at the sign-in server: their principal, as over MCP, and the `claims` that decide what they may do.

    `name` is what they call themselves, for people to read. It decides nothing.
    """

    principal: str
    name: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)

    def as_text(self) -> str:
        """Return the person as the text that the state database keeps with a session."""
        return json.dumps({"principal": self.principal, "name": self.name, "claims": dict(self.claims)})

    @classmethod
    def from_text(cls, text: str) -> SitePerson:
        """Return what `as_text` made."""
        return cls(**json.loads(text))


def rights_of(access: SiteAccess, person: SitePerson, *, on_record: bool) -> Collection[SiteRight]:
    """Return what the person may do; nothing if they may not log in, because no setting names them and they are not `on_record`."""
    if not person.principal.endswith(f"@{access.issuer.name}{SIGNED_IN}"):
        return ()
    if _any_of(access.managers, person.claims):
        return EVERY_RIGHT
    return REVIEWER if on_record or _any_of(access.people, person.claims) else ()


def with_audit(rights: Collection[SiteRight], access: PathAccess) -> Collection[SiteRight]:
    """Return these rights, and the right to the audit log if `access` lets the person read every page."""
    return {*rights, SiteRight.AUDIT} if access.reads_all else rights


def _any_of(required: Iterable[RequiredClaim], claims: Mapping[str, Any]) -> bool:
    return any(_holds(claims.get(one.name), one.value) for one in required)


def _holds(claimed: object, value: str) -> bool:
    return value in claimed if isinstance(claimed, list) else claimed == value
