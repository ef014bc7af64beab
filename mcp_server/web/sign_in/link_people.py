"""People without a sign-in server, who log in on the site with a link that the owner made for them."""

from __future__ import annotations

from collections.abc import Collection

from knowledge.state.ports import StateStore
from mcp_server.gate.caller import Clock
from mcp_server.gate.host_registration import TOKEN_HOLDER, Principal
from mcp_server.gate.trust.scores import grant_of, trust_record_of
from mcp_server.web.access.rights import SiteRight
from mcp_server.web.access.sessions import RightsOf
from mcp_server.web.sign_in.people import REVIEWER, SitePerson, with_audit


class LinkPeople:
    """Returns the rights of people on the site.

    Those who log in with a link may read and review, as long as they are on record. `others` returns the rights of everybody else.
    """

    def __init__(self, state: StateStore, now: Clock, others: RightsOf | None) -> None:
        self._state, self._now, self._others = state, now, others

    async def rights(self, person: SitePerson) -> Collection[SiteRight]:
        """Return what the person may do now; nothing if they are frozen or no longer on record."""
        user, _, host = person.principal.rpartition("@")
        if host != TOKEN_HOLDER:
            return await self._others(person) if self._others else ()
        directory = await self._state.people.directory()
        frozen = grant_of(await trust_record_of(self._state, Principal(user, host), now=self._now())).frozen
        if frozen or not directory.person_of(person.principal):
            return ()
        return with_audit(REVIEWER, directory.access_of(person.principal))
