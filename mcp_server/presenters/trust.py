"""The trust of every host, as the terminal and the page list it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from knowledge.state.ports import StateStore
from mcp_server.gate.host_registration import TOKEN_HOLDER, UNENROLLED, Principal, is_signed_in, os_user
from mcp_server.gate.trust.scores import grant_of, is_person, trust_record_of


@dataclass(frozen=True, slots=True)
class TrustSummary:
    """The trust of one principal now: idle scores have decayed, and a grant to its person is counted.

    `forms` is None unless the principal is a registered host; then it says whether that host's forms can approve.
    """

    principal: str
    is_person: bool
    score: float
    level: int
    meaning: str
    floor: float
    ceiling: float
    frozen: bool
    forms: bool | None


def principal_named(name: str) -> Principal:
    """Return the principal of that name, `user@host`."""
    user, _, host = name.rpartition("@")
    return Principal(user, host)


async def trust_summary(state: StateStore, name: str, *, now: datetime) -> TrustSummary:
    """Return the trust of the principal of that name, even if it was never seen."""
    principal = principal_named(name)
    record = await trust_record_of(state, principal, now=now)
    grant = grant_of(record)
    forms = {one.host: one.forms for one in await state.enrolments()}
    return TrustSummary(
        principal=name,
        is_person=is_person(name),
        # A frozen host keeps its floor, which counts again once it is unfrozen; until then it has no trust at all.
        score=0.0 if record.frozen else round(grant.score, 2),
        level=int(grant.level),
        meaning=grant.level.meaning,
        floor=record.floor,
        ceiling=record.ceiling,
        frozen=record.frozen,
        forms=forms.get(principal.host),
    )


async def known_principals(state: StateStore, user: str) -> list[str]:
    """Return, by name, the principals with a trust record, and the principals of tokens and of `user`'s hosts without one."""
    hosts = [*(one.host for one in await state.enrolments()), UNENROLLED]
    # The hosts are those of the account that serves the site, whoever of the team looks at them.
    user = os_user() if is_signed_in(user) else user
    holders = (Principal(token.name, TOKEN_HOLDER).id for token in await state.trust.tokens())
    recorded = (record.principal for record in await state.trust_records())
    return sorted({*(Principal(user, host).id for host in hosts), *holders, *recorded})
