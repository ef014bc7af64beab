"""Pages that somebody moved outside the server, and the links that lead nowhere since: rewritten when a person says so."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import anyio.to_thread

from knowledge.errors import KnowledgeError, NoSuchChange
from knowledge.history.acts import FOLLOW
from knowledge.history.ports import Actor, ActsWanted, Ledger, RecordedAct
from knowledge.pages.vault import Vault
from knowledge.writing.effect import FileEffect
from knowledge.writing.requests import Approval, RelinkRequest

if TYPE_CHECKING:
    # The writer takes long to load.
    from knowledge.writing.answers import ChangeAnswer
    from knowledge.writing.writer import WritePlan, Writer

RELINK = "relink"
"""The tool of the record of an act that rewrites links after such a move."""
OFFERED = timedelta(days=30)
MOST_ACTS = 500


@dataclass(frozen=True, slots=True)
class FollowedMove:
    """A move outside the server: `change` is its name in the history. `old` is free, and the page is at `new`."""

    change: str
    old: str
    new: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RelinkPlan:
    """What rewriting the links would do now: the changes of files, each with its diff. `refused` says why it can't be done here."""

    move: FollowedMove
    files: Sequence[FileEffect]
    digest: str
    refused: str
    write: WritePlan[RelinkRequest, ChangeAnswer]


class FollowedMoves:
    """Offers to rewrite links; nothing is written before `execute`."""

    def __init__(self, vault: Vault, ledger: Ledger, writer: Writer, now: Callable[[], datetime]) -> None:
        self._vault, self._ledger, self._writer, self._now = vault, ledger, writer, now

    async def recent(self, *, most: int) -> Sequence[FollowedMove]:
        """Return the newest moves of the last thirty days whose former path is still free, newest first."""
        wanted = ActsWanted(who="", since=self._now() - OFFERED)
        found: dict[str, FollowedMove] = {}
        for act in await self._ledger.timeline(wanted, limit=MOST_ACTS):
            move = _move_in(act)
            # The newest move away from a path is the one that broke its links.
            if move is not None and move.old not in found and await anyio.to_thread.run_sync(self._is_so, move):
                found[move.old] = move
            if len(found) == most:
                break
        return list(found.values())

    async def plan(self, change: str, *, by: str) -> RelinkPlan:
        """Return what rewriting the links to the page of this move would do. Changes nothing.

        Raises:
            NoSuchChange: there is no such move, or a page is at the former path again.
            KnowledgeError: a page can't be read.
        """
        act = await self._ledger.act(change)
        move = None if act is None else _move_in(act)
        if move is None or not await anyio.to_thread.run_sync(self._is_so, move):
            raise NoSuchChange("moves outside the server", change)
        return await self._planned(move, by)

    async def _planned(self, move: FollowedMove, by: str) -> RelinkPlan:
        asked = hashlib.sha256(f"{move.old} {move.new}".encode("utf-8", "surrogatepass")).hexdigest()
        write = await self._writer.plan_relink(RelinkRequest(Actor(by, RELINK, asked), move.old, move.new))
        if write.effect is None:
            raise TypeError("rewriting links is always rehearsed")
        refused = ""
        if write.stakes.configures or write.stakes.unmarks:
            refused = "this would change the server's configuration or remove a mark of where text comes from; edit the pages instead"
        return RelinkPlan(move, write.effect.files, write.effect.digest, refused, write)

    async def offers(self, *, most: int, by: str) -> Sequence[RelinkPlan]:
        """Return the plans for the newest moves that left broken links, newest first."""
        found: list[RelinkPlan] = []
        for move in await self.recent(most=most):
            try:
                plan = await self._planned(move, by)
            except KnowledgeError:  # one page that can't be read must not hide the others
                continue
            if plan.files:
                found.append(plan)
        return found

    async def execute(self, plan: RelinkPlan, *, decision: str) -> int | None:
        """Rewrite the links as planned, as one act; return the number of its record, None if nothing was written.

        Raises:
            EffectChanged: by now it would do something else than planned. Nothing was changed.
        """
        _, record = await self._writer.relink(plan.write, Approval("", decision, plan.digest))
        return record

    def _is_so(self, move: FollowedMove) -> bool:
        return self._vault.find(move.old) is None and self._vault.find(move.new) is not None


def _move_in(act: RecordedAct) -> FollowedMove | None:
    line = next((line for line in act.lines if line.tool == FOLLOW and line.moved_from), None)
    return None if line is None else FollowedMove(str(line.seq), line.moved_from or "", line.path, line.at)
