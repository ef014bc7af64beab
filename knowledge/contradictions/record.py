"""Contradictions on record: listed, dismissed by a person, and reopened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.history.ports import Actor, Flag, HistoryEntry, Ledger
from knowledge.merge.document.units import cut, units
from knowledge.merge.model import CUT_MARK, Dismissal, Ruling, Side
from knowledge.pages.paths import clean_path
from knowledge.pages.vault import Vault
from knowledge.wire.cursors import question, seal, unseal
from knowledge.writing.answers import Disagreement, Disagreements, DismissalLine

FLAGS_AT_ONCE = 200
"""Flags that are read at a time; those that no longer hold are settled as they are read."""
LONGEST_REASON = 500
DISMISS, REOPEN = "contradiction.dismiss", "contradiction.reopen"
"""The names of a person's acts in the audit log."""


class NotOpen(KnowledgeError):
    """There is no such contradiction, or it is not in the state that the act needs. Nothing was changed."""

    def __init__(self, flag_id: int, found: Flag | None) -> None:
        self.id = flag_id
        if found is None:
            why = f"there is no contradiction {flag_id}; list them to see their numbers"
        elif found.settled_at is not None:
            why = f"contradiction {flag_id} is settled: its pages no longer say both, or a person has decided on it"
        elif found.dismissal is not None:
            why = f"contradiction {flag_id} was already dismissed by {found.dismissal.by}"
        else:
            why = f"contradiction {flag_id} is open: it was not dismissed"
        super().__init__(why)


class NoReason(KnowledgeError):
    """A contradiction can't be dismissed without a reason."""

    def __init__(self) -> None:
        super().__init__(
            "a dismissal needs a reason: say in a sentence why both claims hold, or why the existing one stays"
        )


class Contradictions:
    """Contradictions on record in one knowledge base."""

    def __init__(self, vault: Vault, ledger: Ledger, now: Callable[[], datetime]) -> None:
        self._vault, self._ledger, self._now = vault, ledger, now

    async def listed(
        self, place: str | None, *, limit: int, cursor: str | None, dismissed: bool = False
    ) -> Disagreements:
        """Return open or dismissed contradictions at or below `place`, those of the highest confidence first.

        Open ones that changed on one side are settled along the way.

        Raises:
            BadCursor: it belongs to another query.
        """
        path = clean_path(place) if place else None
        key = question({"of": "contradictions", "path": path, "dismissed": dismissed})
        after = _place(cursor, key)
        found: list[Flag] = []
        while len(found) <= limit:
            flags = await self._ledger.flags(path, limit=FLAGS_AT_ONCE, after=after, dismissed=dismissed)
            valid = flags if dismissed else await self._valid(flags)
            found += valid
            gone = {flag.id for flag in flags} - {flag.id for flag in valid}
            if gone:
                await self._ledger.settle(sorted(gone), at=self._now())
            if len(flags) < FLAGS_AT_ONCE:
                break
            after = flags[-1].rank, flags[-1].id
        shown = found[:limit]
        return Disagreements(
            [disagreement(flag) for flag in shown],
            seal(key, (shown[-1].rank, shown[-1].id)) if len(found) > limit else None,
        )

    async def one(self, flag_id: int) -> Flag:
        """Return the contradiction if it is open. Raises: NotOpen: it is not open."""
        flag = await self._ledger.flag(flag_id)
        if flag is None or flag.settled_at is not None or flag.dismissal is not None:
            raise NotOpen(flag_id, flag)
        return flag

    async def dismiss(
        self,
        flag_id: int,
        ruling: Ruling,
        *,
        by: str,
        reason: str,
        actor: Actor | None = None,
        proposal: str | None = None,
        decision: str | None = None,
    ) -> Flag:
        """Record that a person dismissed the contradiction, and return it. It is not raised again for the same two statements.

        `actor` is the principal that asked for it, by default the person; with a `proposal`, the act executes that proposal.

        Raises:
            NotOpen: it is not open.
            NoReason: the reason is empty.
            ProposalSettled: the proposal was carried out already.
        """
        flag, why, now = await self.one(flag_id), one_line(reason)[:LONGEST_REASON], self._now()
        if not why:
            raise NoReason
        entry = HistoryEntry(
            now, actor or Actor(by, DISMISS, ""), intent=why, outcome="dismissed", proposal=proposal, decision=decision
        )
        dismissal = Dismissal(ruling, by, now, why)
        if not await self._ledger.dismiss(flag_id, dismissal, entry):
            raise NotOpen(flag_id, await self._ledger.flag(flag_id))
        return replace(flag, dismissal=dismissal)

    async def reopen(self, flag_id: int, *, by: str) -> None:
        """Undo a dismissal.

        Raises: NotOpen: the contradiction is not dismissed.
        """
        entry = HistoryEntry(self._now(), Actor(by, REOPEN, ""), outcome="reopened")
        if not await self._ledger.reopen(flag_id, entry):
            raise NotOpen(flag_id, await self._ledger.flag(flag_id))

    async def _valid(self, flags: Sequence[Flag]) -> list[Flag]:
        """Return the flags whose two sides are still in their pages."""
        texts: dict[str, list[str]] = {}
        for side in _written_sides(flags):
            if side.path not in texts:
                texts[side.path] = await anyio.to_thread.run_sync(self._units_of, side.path)

        def is_there(side: Side) -> bool:
            # As a unit, or a sentence of one; only the beginning of a long text is on record.
            wanted = one_line(side.text.removesuffix(CUT_MARK))
            return any(wanted in unit for unit in texts[side.path])

        return [flag for flag in flags if all(map(is_there, _written_sides([flag])))]

    def _units_of(self, path: str) -> list[str]:
        try:
            here = units(cut(self._vault.read(path).raw.decode("utf-8", "replace")))
        except KnowledgeError:
            return []
        return [one_line(unit.text) for unit in here]


def _written_sides(flags: Iterable[Flag]) -> list[Side]:
    """Return the sides that are on a page; text that was flagged before it was written is on none, and has no revision."""
    both = [side for flag in flags for side in (flag.contradiction.existing, flag.contradiction.new)]
    return [side for side in both if side.revision is not None]


def one_line(text: str) -> str:
    """Return the text on one line."""
    return " ".join(text.split())


def disagreement(flag: Flag) -> Disagreement:
    """Return the contradiction as lists show it."""
    found, word = flag.contradiction, flag.dismissal
    return Disagreement(
        id=flag.id,
        kind=found.kind,
        subject=found.subject,
        reason=found.reason,
        flagged_at=_iso(flag.at),
        confidence=round(found.confidence, 2),
        existing=found.existing,
        new=found.new,
        dismissed=None if word is None else DismissalLine(word.ruling, word.by, _iso(word.at), word.reason),
    )


def _place(cursor: str | None, key: str) -> tuple[int, int] | None:
    """Return the rank and id after which the list continues, None without a cursor."""
    if cursor is None:
        return None
    rank, id_ = unseal(cursor, key, int, int)
    return int(rank), int(id_)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
