"""Logging in on the site at a sign-in server, as its pages use it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from knowledge.state.ports import StateStore
from mcp_server.app.settings.sign_in import SiteAccess
from mcp_server.gate.caller import Clock
from mcp_server.gate.host_registration import SIGNED_IN, Principal
from mcp_server.gate.trust.scores import grant_of, trust_record_of
from mcp_server.transport.sign_in.access_tokens import subject_name
from mcp_server.web.access.rights import SiteRight
from mcp_server.web.sign_in.people import SitePerson, rights_of, with_audit
from mcp_server.web.sign_in.provider import SiteProvider

LONGEST_DISPLAY: Final = 80
"""Characters of a name that are shown."""


class SiteSignIn:
    """The sign-in server of the site, and what its people may do here."""

    def __init__(self, access: SiteAccess, state: StateStore, now: Clock) -> None:
        self.access, self.provider = access, SiteProvider(access)
        self._state, self._now = state, now

    def person(self, claims: Mapping[str, Any]) -> SitePerson:
        """Return the person of these claims. Only claims that the settings name are kept.

        Raises:
            ValueError: the subject can't be written down.
        """
        access = self.access
        principal = Principal(subject_name(str(claims["sub"])), f"{access.issuer.name}{SIGNED_IN}").id
        named = next((claims[key] for key in ("name", "preferred_username", "email") if claims.get(key)), "")
        wanted = {one.name for one in (*access.people, *access.managers)}
        kept = {key: value for key, value in claims.items() if key in wanted and _counts(key, claims)}
        return SitePerson(principal, str(named)[:LONGEST_DISPLAY], kept)

    def knows(self, principal: str) -> bool:
        """Return whether the principal is somebody of this sign-in server."""
        return principal.endswith(f"@{self.access.issuer.name}{SIGNED_IN}")

    async def rights(self, person: SitePerson) -> Collection[SiteRight]:
        """Return what the person may do now; nothing if they may not use the site, or are frozen."""
        directory = await self._state.people.directory()
        rights = rights_of(self.access, person, on_record=bool(directory.person_of(person.principal)))
        user, _, host = person.principal.rpartition("@")
        if not rights or grant_of(await trust_record_of(self._state, Principal(user, host), now=self._now())).frozen:
            return ()
        return with_audit(rights, directory.access_of(person.principal))


def _counts(key: str, claims: Mapping[str, Any]) -> bool:
    """Return whether a claim counts as proof. An unverified e-mail address does not: anybody can enter any address."""
    return key != "email" or claims.get("email_verified") is True
