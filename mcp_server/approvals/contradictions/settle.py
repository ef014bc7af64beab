"""A person settles a contradiction, on the page or in a terminal; the proposals that this answers are closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.contradictions.settlement import CHOICES, Choice, Settled
from knowledge.merge.model import Ruling
from mcp_server.approvals.approvers import Approvals, Approver
from mcp_server.approvals.contradictions.claims import answer_claims
from mcp_server.ports import WebServices


@dataclass(frozen=True, slots=True)
class SettledContradiction:
    """A contradiction that a person settled, and the ids of the proposals that this answered."""

    settled: Settled
    closed: Sequence[str] = ()


class ContradictionDecisions:
    """The decisions of one person on contradictions. All of them can be taken back with `reopen`."""

    def __init__(self, services: WebServices, approvals: Approvals, person: Approver) -> None:
        self._services, self._approvals, self._person = services, approvals, person
        self._by = f"{person.name} ({person.channel})"

    async def keep(self, flag_id: int, choice: Choice, *, shown: str | None = None) -> SettledContradiction:
        """Keep one side, as `Settlements.keep` does."""
        done = await self._services.settlements.keep(flag_id, choice, by=self._by, shown=shown)
        kept = "first" if choice == CHOICES[0] else "second"
        return await self._answered(done, f"the {kept} statement was kept")

    async def edit(self, flag_id: int, texts: Mapping[int, str], *, shown: str | None = None) -> SettledContradiction:
        """Write blocks of its pages, as `Settlements.edit` does."""
        done = await self._services.settlements.edit(flag_id, texts, by=self._by, shown=shown)
        return await self._answered(done, f"{' and '.join(done.pages)} was edited")

    async def dismiss(self, flag_id: int, ruling: Ruling, reason: str) -> SettledContradiction:
        """Dismiss it: both statements hold, or the existing one does. A claim that holds too may still be approved."""
        flag = await self._services.contradictions.dismiss(flag_id, ruling, by=self._by, reason=reason)
        done = Settled(flag, "", ())
        return SettledContradiction(done) if ruling == "both" else await self._answered(done, reason)

    async def reopen(self, flag_id: int) -> SettledContradiction:
        """Take a decision back, as `Settlements.undo` does."""
        return SettledContradiction(await self._services.settlements.undo(flag_id, by=self._by))

    async def _answered(self, done: Settled, what: str) -> SettledContradiction:
        note = f"contradiction {done.flag.id} was settled: {what}"
        found = done.flag.contradiction
        return SettledContradiction(
            done, await answer_claims(self._services.state, self._approvals, found, self._person, note)
        )
