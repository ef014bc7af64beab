"""Contradictions on record: listed, dismissed by a person, and reopened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import anyio.to_thread

from knowledge.contradictions.statement_place import may_say, places_of
from knowledge.errors import KnowledgeError, NotOpen
from knowledge.history.ports import Actor, Flag, HistoryEntry, Ledger, Settlement
from knowledge.merge.document.units import cut, units
from knowledge.merge.model import CUT_MARK, Dismissal, Ruling, Side
from knowledge.pages.paths import clean_path
from knowledge.pages.vault import Vault
from knowledge.wire.cursors import question, seal, unseal
from knowledge.writing.acts.audit_entries import SERVER
from knowledge.writing.answers import Disagreement, Disagreements, DismissalLine

FLAGS_AT_ONCE = 200
"""Flags that are read at a time; those that no longer hold are settled as they are read."""
REVISITED = 100
"""How many of the newest settled contradictions a list checks again: the change that settled them may have been undone."""
LONGEST_REASON = 500
DISMISS, REOPEN = "contradiction.dismiss", "contradiction.reopen"
"""The names of a person's acts in the audit log."""


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
        """Return open or dismissed contradictions at or below `place` as hosts see them; see `flags`."""
        shown, after = await self.flags(place, limit=limit, cursor=cursor, dismissed=dismissed)
        return Disagreements([disagreement(flag) for flag in shown], after)

    async def flags(
        self, place: str | None, *, limit: int, cursor: str | None, dismissed: bool = False
    ) -> tuple[Sequence[Flag], str | None]:
        """Return open or dismissed contradictions at or below `place`, those of the highest confidence first, and a cursor.

        Open ones that changed on one side are settled along the way; settled ones whose statements are all back are opened.

        Raises:
            BadCursor: it belongs to another query.
        """
        path = clean_path(place) if place else None
        if not dismissed:
            await self._revive(path)
        key = question({"of": "contradictions", "path": path, "dismissed": dismissed})
        after = _place(cursor, key)
        found: list[Flag] = []
        while len(found) <= limit:
            flags = await self._ledger.flags(path, limit=FLAGS_AT_ONCE, after=after, dismissed=dismissed)
            valid = flags if dismissed else await self._valid(flags)
            found += valid
            gone = {flag.id for flag in flags} - {flag.id for flag in valid}
            if gone:
                why = "a page no longer has one of the statements"
                await self._ledger.settle(sorted(gone), Settlement("changed", SERVER, self._now(), why))
            if len(flags) < FLAGS_AT_ONCE:
                break
            after = flags[-1].rank, flags[-1].id
        shown = found[:limit]
        return shown, seal(key, (shown[-1].rank, shown[-1].id)) if len(found) > limit else None

    async def settled(self, place: str | None, *, limit: int) -> Sequence[Flag]:
        """Return settled contradictions at or below `place`, newest first: with who settled them, how and when."""
        path = clean_path(place) if place else None
        await self._revive(path)
        return await self._ledger.settled(path, limit=limit)

    async def found(self, flag_id: int) -> Flag:
        """Return the contradiction, open or not.

        Raises: NotOpen: there is none with that number.
        """
        flag = await self._ledger.flag(flag_id)
        if flag is not None and flag.settlement is not None:
            await self._revive_those([flag])
            flag = await self._ledger.flag(flag_id)
        if flag is None:
            raise _not_open(flag_id, None)
        return flag

    async def one(self, flag_id: int) -> Flag:
        """Return the contradiction if it is open. Raises: NotOpen: it is not open."""
        flag = await self._ledger.flag(flag_id)
        if flag is None or flag.settled_at is not None or flag.dismissal is not None:
            raise _not_open(flag_id, flag)
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
            raise _not_open(flag_id, await self._ledger.flag(flag_id))
        return replace(flag, dismissal=dismissal)

    async def reopen(self, flag_id: int, *, by: str) -> None:
        """Undo a dismissal.

        Raises: NotOpen: the contradiction is not dismissed.
        """
        entry = HistoryEntry(self._now(), Actor(by, REOPEN, ""), outcome="reopened")
        if not await self._ledger.reopen(flag_id, entry):
            raise _not_open(flag_id, await self._ledger.flag(flag_id))

    async def _revive(self, path: str | None) -> None:
        """Open settled contradictions again whose statements are all back, because the change that settled them was undone."""
        await self._revive_those(await self._ledger.settled(path, limit=REVISITED))

    async def _revive_those(self, flags: Sequence[Flag]) -> None:
        for flag in flags:
            if await anyio.to_thread.run_sync(self._is_back, flag):
                why = f"contradiction {flag.id}: its statements are on their pages again"
                entry = HistoryEntry(self._now(), Actor(SERVER, REOPEN, ""), intent=why, outcome="reopened")
                await self._ledger.revive(flag.id, entry)

    def _is_back(self, flag: Flag) -> bool:
        """Return whether each statement that was on a page is on it again, word for word and not as a part of a sentence."""
        sides = [(side, self._text_of(side.path)) for side in _written_sides([flag])]
        # Usually one is gone, which is seen without parsing any page.
        if not sides or not all(may_say(text, side) for side, text in sides):
            return False
        return all(any(place.whole for place in places_of(text, side)) for side, text in sides)

    def _text_of(self, path: str) -> str:
        try:
            return self._vault.read(path).raw.decode("utf-8", "replace")
        except KnowledgeError:
            return ""

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
        return [one_line(unit.text) for unit in units(cut(self._text_of(path)))]


def _written_sides(flags: Iterable[Flag]) -> list[Side]:
    """Return the sides that are on a page; text that was flagged before it was written is on none, and has no revision."""
    both = [side for flag in flags for side in (flag.contradiction.existing, flag.contradiction.new)]
    return [side for side in both if side.revision is not None]


def one_line(text: str) -> str:
    """Return the text on one line."""
    return " ".join(text.split())


def _not_open(flag_id: int, found: Flag | None) -> NotOpen:
    if found is None:
        why = f"there is no contradiction {flag_id}; list them to see their numbers"
    elif found.settled_at is not None:
        why = f"contradiction {flag_id} is settled: {settled_sentence(found)}"
    elif found.dismissal is not None:
        why = f"contradiction {flag_id} was already dismissed by {found.dismissal.by}"
    else:
        why = f"contradiction {flag_id} is open: it was not dismissed"
    return NotOpen(flag_id, why)


def settled_sentence(flag: Flag) -> str:
    """Return how a settled contradiction ended, and by whom, in a few words without the time."""
    end = flag.settlement
    if end is None:
        return "its pages no longer say both, or a person has decided on it"
    return {
        "first": f"{end.by} kept the first statement",
        "second": f"{end.by} kept the second statement",
        "edited": f"{end.by} edited its pages",
        "approved": f"{end.by or 'a person'} approved the new statement",
        "changed": "a page no longer has one of the statements",
    }[end.how]


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
