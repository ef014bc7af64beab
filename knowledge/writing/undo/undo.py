"""Taking changes back: finds them, rehearses it, and does it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio.to_thread

from knowledge.errors import NoSuchChange, NoSuchPath, TooManyChanges
from knowledge.history.acts import act_name
from knowledge.history.ports import Actor, Ledger, Revision
from knowledge.pages.paths import clean_path
from knowledge.pages.vault import Vault
from knowledge.writing.effect import FileEffect
from knowledge.writing.related.target_page import PageNames
from knowledge.writing.requests import Approval
from knowledge.writing.undo.past_act import UNDO, PastAct, PastFile, Take, UndoAnswer, UndoRequest
from knowledge.writing.writer import WritePlan, Writer

MOST_ACTS = 2_000
BATCH = 1_000


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
        """Whether no page would change: all of it is in conflict, or is as if taken back already."""
        return not self.files


@dataclass(frozen=True, slots=True)
class UndoDone:
    """The outcome, and the number of its own audit record, by which it can be taken back in turn; None if nothing was written."""

    answer: UndoAnswer
    record: int | None


class Undo:
    """Takes changes of pages back and keeps what came later. Used by the command line and by the page.

    First `of_page` or `of_host` finds the acts, then `plan` shows what taking them back would do, then `execute` does exactly that:

        acts = await undo.of_page("notes/tea.md", "412")
        plan = await undo.plan(acts, by="ada@page")
        plan = await undo.plan(acts, by="ada@page", take="before")  # if `plan.answer.conflicts` needs a choice
        done = await undo.execute(plan, decision="decided by ada on the page")
        acts = await undo.of_act(done.record)                       # to undo the undo

    `mcp_server.approvals.undo` says what level that needs and whether a person's word is enough for it.
    """

    def __init__(
        self, vault: Vault, ledger: Ledger, names: PageNames, writer: Writer, now: Callable[[], datetime]
    ) -> None:
        self._vault, self._ledger, self._names, self._writer, self._now = vault, ledger, names, writer, now

    async def of_page(self, name: str, change: str = "") -> Sequence[PastAct]:
        """Return a change of the page: the newest one, or the one with that name.

        A change is named as the timeline names it (`acts.act_name`), or by the revision that it made.
        It is a whole act, so a move has the pages whose links it rewrote. The page may be gone by now.

        Raises:
            NoSuchPath: there is no such page, and never was.
            NoSuchChange: the history of the page has no such change, or does not know what was before it.
        """
        path = await self._path(name)
        before: int | None = None
        while lines := await self._ledger.history(path, limit=BATCH, before=before):
            for line in lines:
                if change in ("", act_name(line), line.revision):
                    act = await self._act(line)
                    if not act.files:
                        raise NoSuchChange(path, change)
                    return [act]
            before = lines[-1].id
        raise NoSuchChange(path, change)

    async def of_act(self, seq: int) -> Sequence[PastAct]:
        """Return the act with that audit record.

        Raises:
            NoSuchChange: it changed no page.
        """
        files, _ = await self._recorded(seq)
        for path in dict.fromkeys(file.path for file in files):
            before: int | None = None
            while lines := await self._ledger.history(path, limit=BATCH, before=before):
                if found := [line for line in lines if line.seq == seq]:
                    return [await self._act(found[0])]
                before = lines[-1].id
        raise NoSuchChange("the knowledge base", str(seq))

    async def of_host(self, host: str, since: datetime) -> Sequence[PastAct]:
        """Return what this host changed since then and nobody has taken back, on all pages, newest first; often empty.

        `host` is its name (`laptop`), which means it under every account, or its principal (`ada@laptop`).

        Raises:
            TooManyChanges: one act can't take back so many.
        """
        lines: list[Revision] = []
        after = 0
        while batch := await self._ledger.lines_after(after, limit=BATCH, since=since):
            after = batch[-1].id
            lines += [line for line in batch if line.tool == UNDO or _is_by(line, host)]
        newest: dict[int, list[Revision]] = {}
        for line in reversed(lines):
            if line.seq is not None:
                newest.setdefault(line.seq, []).append(line)
        undone: set[int] = set()
        acts: list[PastAct] = []
        for seq, own in newest.items():
            if seq in undone:
                continue
            files, undoes = await self._recorded(seq)
            undone.update(undoes)
            if _is_by(own[0], host) and files:
                acts.append(_past_act(own, files, undoes))
            if len(acts) > MOST_ACTS:
                raise TooManyChanges(MOST_ACTS)
        return acts

    async def plan(
        self,
        acts: Sequence[PastAct],
        *,
        by: str,
        take: Take = "",
        take_at: Mapping[str, Take] | None = None,
    ) -> UndoPlan:
        """Return what taking these acts back would do now. Changes nothing.

        `by` is the person's principal. `take` decides all conflicts, `take_at` those of single pages: `before` writes the text from
        before the change, `now` leaves the current text. Where neither decides, the rest is taken back and the conflict is in
        `answer.conflicts`.

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
        """Return the act of a line; without files if it is not known what was before it."""
        if line.seq is None:
            # Without a state before it, the line is only the first that the server saw of the page.
            own = [PastFile(line.path, line.before, line.revision)] if line.before is not None else []
            return _past_act([line], tuple(own), ())
        files, undoes = await self._recorded(line.seq)
        # The lines of an act follow one another, so its first and last are near this one.
        near = await self._ledger.lines_after(line.id - len(files) - 1, limit=2 * len(files) + 1)
        return _past_act([one for one in near if one.seq == line.seq], files, undoes)

    async def _recorded(self, seq: int) -> tuple[tuple[PastFile, ...], tuple[int, ...]]:
        """Return the files that the act of this record changed, and the records that it took back."""
        records = await self._ledger.records(after=seq - 1, limit=1)
        body = json.loads(records[0].body) if records and records[0].seq == seq else {}
        files = [PastFile(c["path"], c["before"], c["after"], c["moved_from"]) for c in body.get("changes", ())]
        changed = [file for file in files if file.before != file.after or file.moved_from is not None]
        return tuple(changed), tuple(body.get("undoes", ()))


def _past_act(lines: Iterable[Revision], files: tuple[PastFile, ...], undoes: tuple[int, ...]) -> PastAct:
    own = sorted(lines, key=lambda line: line.id)
    line = own[0]
    ids = line.id, own[-1].id
    return PastAct(line.seq, *ids, line.at, line.principal, line.tool, line.intent, line.proposal, files, undoes)


def _is_by(line: Revision, host: str) -> bool:
    return line.principal == host or (
        "@" not in host and line.principal.rpartition("@")[2] == host and "@" in line.principal
    )
