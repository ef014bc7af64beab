"""Takes changes back: finds the acts, rehearses the undo, and carries it out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio.to_thread

from knowledge.errors import AlreadyUndone, NoSuchChange, NoSuchPath, TooManyChanges
from knowledge.history.acts import act_name
from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import Actor, ActsWanted, AuditRecord, AuditScan, Ledger, RecordedAct, Revision
from knowledge.pages.paths import clean_path
from knowledge.pages.vault import Vault
from knowledge.writing.effect import FileEffect
from knowledge.writing.related.target_page import PageNames
from knowledge.writing.requests import Approval
from knowledge.writing.undo.past_act import UNDO, PastAct, Take, UndoAnswer, UndoRequest, past_act
from knowledge.writing.writer import WritePlan, Writer

MOST_ACTS = 2_000
BATCH = 1_000
TAKES_BACK = '"undoes":['
"""Only a record of an act that takes others back has this text outside a string."""


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What an undo would do, rehearsed on the pages as they are. Nothing has changed yet.

    `acts` are those to be taken back, newest first. `answer` is what `Undo.execute` would return, with the conflicts; `files` are the
    changes of files, each with its diff; `digest` identifies that effect. `configures` says that the server's configuration would
    change, and `unmarks` has a phrase for each text that would no longer be marked with its origin.
    """

    acts: Sequence[PastAct]
    answer: UndoAnswer
    files: Sequence[FileEffect]
    digest: str
    configures: bool
    unmarks: Sequence[str]
    write: WritePlan[UndoRequest, UndoAnswer]

    @property
    def changes_nothing(self) -> bool:
        """Whether no page would change: all of it is in conflict, or nothing is left to take back."""
        return not self.files


@dataclass(frozen=True, slots=True)
class UndoDone:
    """The outcome, and the number of the undo's own audit record; None if nothing was written."""

    answer: UndoAnswer
    record: int | None

    @property
    def change(self) -> str:
        """The name of the undo, by which it can be taken back in turn; "" if nothing was written."""
        return "" if self.record is None else str(self.record)


class Undo:
    """Takes changes of pages back and keeps what came later. Used by the command line and by the page.

    First `of_page` or `of_host` finds the acts, then `plan` shows what taking them back would do, then `execute` does exactly that:

        acts = await undo.of_page("notes/tea.md", "412")            # or of_change("412"), of_host("laptop", since)
        plan = await undo.plan(acts, by="ada@page")
        plan = await undo.plan(acts, by="ada@page", take_at={conflict.id: "before"})  # for one of `plan.answer.conflicts`
        done = await undo.execute(plan, decision="approved by ada (page, by word)")
        acts = await undo.of_change(done.change)                    # to undo the undo

    People use it through `mcp_server.approvals.undo`, which decides whether a person's word is enough for what it does.
    """

    def __init__(
        self, vault: Vault, ledger: Ledger, names: PageNames, writer: Writer, now: Callable[[], datetime]
    ) -> None:
        self._vault, self._ledger, self._names, self._writer, self._now = vault, ledger, names, writer, now

    async def of_page(self, name: str, change: str = "") -> Sequence[PastAct]:
        """Return a change of the page: the newest one, or the one with that name.

        A change is named as the timeline names it (`acts.act_name`), or by the revision that it made. It is a whole
        act, so a move includes the pages whose links it rewrote. The page may be gone by now.

        Raises:
            NoSuchPath: there is no such page, and never was.
            NoSuchChange: the history of the page has no such change, or does not know what was before it.
            AlreadyUndone: it was taken back, and that still holds.
        """
        path = await self._path(name)
        before: int | None = None
        while lines := await self._ledger.history(path, limit=BATCH, before=before):
            for line in lines:
                if change in ("", act_name(line), line.revision):
                    return await self._selected(path, change, await self._act(line))
            before = lines[-1].id
        raise NoSuchChange(path, change)

    async def of_change(self, change: str) -> Sequence[PastAct]:
        """Return the act with that name, on whatever pages.

        Raises:
            NoSuchChange: there is no such change, or it is not known what was before it.
            AlreadyUndone: it was taken back, and that still holds.
        """
        act = await self._ledger.act(change)
        if act is None:
            raise NoSuchChange("the knowledge base", change)
        return await self._selected("the knowledge base", change, past_act(act))

    async def of_call(self, call: str) -> Sequence[PastAct]:
        """Return what was changed under this `call` (`Actor.call`) and nobody has taken back, newest first, however many acts."""
        found: list[AuditRecord] = []
        before = (await self._ledger.chain_end())[0] + 1
        while batch := await self._ledger.scan(AuditScan(before, 1, ((f'"call":"{call}"',),)), limit=BATCH):
            before = batch[-1].seq
            found += (one for one in batch if (fields := fields_of(one)).get("call") == call and fields.get("changes"))
        undone = await self._undone(found[-1].seq) if found else {}
        acts: list[PastAct] = []
        for record in found:
            act = await self._ledger.act(str(record.seq)) if record.seq not in undone else None
            if act is not None and (past := past_act(act)).files and act.outcome != "undone":
                acts.append(past)
        return acts

    async def _selected(self, where: str, change: str, act: PastAct) -> Sequence[PastAct]:
        if not act.files:
            raise NoSuchChange(where, change)
        if act.seq is not None and (by := (await self._undone(act.seq)).get(act.seq)) is not None:
            raise AlreadyUndone(act.name, str(by))
        return [act]

    async def _undone(self, first: int) -> Mapping[int, int]:
        """Return the acts from record `first` on that were taken back, each with the record of its undo.

        An undo that was taken back itself does not count.
        """
        by: dict[int, int] = {}
        before = (await self._ledger.chain_end())[0] + 1
        while found := await self._ledger.scan(AuditScan(before, first + 1, ((TAKES_BACK,),)), limit=BATCH):
            before = found[-1].seq
            for record in found:
                taken_back = fields_of(record).get("undoes")
                if record.seq not in by and isinstance(taken_back, list):
                    by.update({one: record.seq for one in taken_back if one not in by})
        return by

    async def after(self, name: str, revision: str) -> Sequence[PastAct]:
        """Return the changes of the page since it was at that revision, newest first; all of them if its history has no such line.

        Raises:
            NoSuchPath: there is no such page, and never was.
        """
        path = await self._path(name)
        acts: dict[int, PastAct] = {}
        before: int | None = None
        while lines := await self._ledger.history(path, limit=BATCH, before=before):
            for line in lines:
                # A move that rewrote no link in the page left the revision as it was, and returning to that takes the move back.
                if line.revision == revision and (
                    line.moved_from is None or revision not in (await self._act(line)).left
                ):
                    return list(acts.values())
                if not any(act.first <= line.id <= act.last for act in acts.values()):
                    acts[line.id] = await self._act(line)
            before = lines[-1].id
        return list(acts.values())

    async def of_host(self, host: str, since: datetime) -> Sequence[PastAct]:
        """Return what this host changed since then and nobody has taken back, on all pages, newest first; often empty.

        `host` is its name (`laptop`), which means it under every account, or its principal (`ada@laptop`).

        Raises:
            TooManyChanges: one act can't take back so many.
        """
        undone: set[int] = set()
        acts: list[PastAct] = []
        after: tuple[datetime, int] | None = None
        while batch := await self._ledger.timeline(ActsWanted(since=since), limit=BATCH, after=after):
            after = batch[-1].place
            for found in batch:
                act = past_act(found)
                if act.seq in undone or act.seq is None:
                    continue
                undone.update(act.undoes)
                if _is_by(act.by, host):
                    acts.append(act)
            if len(acts) > MOST_ACTS:
                raise TooManyChanges(MOST_ACTS)
        # In the order in which they were recorded, because clocks of several machines differ.
        return sorted(acts, key=lambda act: -act.last)

    async def plan(
        self,
        acts: Sequence[PastAct],
        *,
        by: str,
        take: Take = "",
        take_at: Mapping[str, Take] | None = None,
    ) -> UndoPlan:
        """Return what taking these acts back would do now. Changes nothing.

        `by` is the person's principal. `take` decides all conflicts; `take_at` decides single ones, by id, or all of a page, by path:
        `before` writes the text from before the change, `now` leaves the current text. Where neither decides, the rest is taken back
        and the conflict is in `answer.conflicts`.

        Raises:
            UnknownRevision: a state of a page is no longer kept.
        """
        names = [act.name for act in acts]
        asked = json.dumps([names, take, sorted((take_at or {}).items())]).encode()
        actor = Actor(by, UNDO, hashlib.sha256(asked).hexdigest())
        request = UndoRequest(actor, acts[0].files[0].path, tuple(acts), take, take_at)
        write = await self._writer.plan_undo(request)
        if write.answer is None or write.effect is None:
            raise TypeError("an undo is always rehearsed")
        files = write.effect.files
        return UndoPlan(
            acts, write.answer, files, write.effect.digest, write.stakes.configures, write.stakes.unmarks, write
        )

    async def execute(self, plan: UndoPlan, *, decision: str, proposal: str = "") -> UndoDone:
        """Take the acts back as planned, as one act that is written completely or not at all.

        `decision` says in the record who decided it and where; `proposal` is the one that a person approved, "" without.

        Raises:
            EffectChanged: by now it would do something else than planned. Nothing was changed; plan it again.
        """
        answer, record = await self._writer.undo(plan.write, Approval(proposal, decision, plan.digest))
        return UndoDone(answer, record)

    async def _path(self, name: str) -> str:
        """Return the path of the page, or of a removed one, and record a save that nobody has recorded yet."""
        try:
            path = await self._names.locate(name)
            file = await anyio.to_thread.run_sync(self._vault.read, path)
        except NoSuchPath as error:
            for candidate in (clean_path(name), f"{clean_path(name)}.md"):
                if await self._ledger.history(candidate, limit=1):
                    return candidate
            raise error from None
        newest = await self._ledger.history(path, limit=1)
        if newest and newest[0].revision != file.revision:
            await self._ledger.keep(path, file.raw, how="outside", at=self._now())
        return path

    async def _act(self, line: Revision) -> PastAct:
        return past_act(await self._ledger.act(act_name(line)) or RecordedAct((line,)))


def _is_by(principal: str, host: str) -> bool:
    user, at, name = principal.rpartition("@")
    return host in ((principal, name) if at and user else (principal,))
