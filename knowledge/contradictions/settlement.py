"""A person settles a contradiction: what its pages say now, what each choice would write, and the act that writes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio.to_thread

from knowledge.contradictions.record import LONGEST_REASON, REOPEN, Contradictions, one_line, settled_sentence
from knowledge.contradictions.statement_place import (
    NoSureChange,
    StatementPlace,
    is_cut,
    nearest_block,
    places_of,
    removed,
    replaced,
    statement_text,
)
from knowledge.errors import AlreadyUndone, KnowledgeError
from knowledge.history.ports import Actor, Flag, HistoryEntry, Ledger, Settlement
from knowledge.merge.document.unit_origins import trace_origins
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import USER
from knowledge.merge.model import WHOLE_PAGE, Origin, Side, unit_digest
from knowledge.merge.unified_diff import unified_diff
from knowledge.pages.vault import Vault
from knowledge.writing.requests import MergeRequest
from knowledge.writing.undo.past_act import past_act

if TYPE_CHECKING:
    # The writer takes long to load, and a page or verb that only lists does not need it.
    from knowledge.writing.undo.past_act import PastAct
    from knowledge.writing.undo.undo import Undo, UndoPlan
    from knowledge.writing.writer import Writer

SETTLE = "contradiction.settle"
"""The name of a person's act in the audit log."""
MOST_DIFF = 6_000
LONGEST_QUOTE = 120
MOST_HISTORY = 200
"""Lines of a page's history in which the act of a settlement is looked for."""

Choice = Literal["first", "second"]
CHOICES: tuple[Choice, Choice] = ("first", "second")
SideState = Literal["here", "several", "unwritten", "changed", "gone"]
"""`here`: once in its page; `several`: more than once; `unwritten`: it was flagged before it was written; `changed`: no longer
in its page; `gone`: there is no page."""


class CannotSettle(KnowledgeError):
    """The contradiction can't be settled like that; the message says why, and what to do. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class SideNow:
    """A side of a contradiction in its page as it is now. `places` are those of the statement, from top to bottom.

    `origin` is the recorded origin of the block that has the statement. `instead` is the most similar block if the
    statement is gone.
    """

    side: Side
    state: SideState
    text: str
    revision: str | None
    places: Sequence[StatementPlace] = ()
    origin: Origin | None = None
    instead: StatementPlace | None = None


@dataclass(frozen=True, slots=True)
class KeepChoice:
    """The effect of keeping one side. `pages` has the new text of each page that changes, and may be empty.

    `why_not` says why the other side can't be replaced without a guess, "" if it can.
    """

    pages: Mapping[str, str]
    diff: str
    why_not: str = ""
    kept: tuple[bytes, Side] | None = None
    """The digest of the block that would consist of the kept statement alone, and the side whose source that block then gets."""


@dataclass(frozen=True, slots=True)
class EditableBlock:
    """A paragraph, list item or row that has a statement. `sides` are the numbers of the statements in it, 0 and 1."""

    path: str
    sides: tuple[int, ...]
    place: StatementPlace


@dataclass(frozen=True, slots=True)
class ContradictionNow:
    """A contradiction with both sides as their pages are now. `shown` identifies everything that a person decides on."""

    flag: Flag
    sides: tuple[SideNow, SideNow]
    keeps: Mapping[Choice, KeepChoice]
    blocks: Sequence[EditableBlock]
    shown: str


@dataclass(frozen=True, slots=True)
class Settled:
    """A settled or reopened contradiction. `diff` is what was written to the `pages`, "" if nothing had to be written.

    `record` is the number of the audit record of that act.
    """

    flag: Flag
    diff: str
    pages: Sequence[str]
    record: int | None = None


class Settlements:
    """Settles contradictions of one knowledge base for a person, and takes that back."""

    def __init__(
        self,
        *,
        vault: Vault,
        ledger: Ledger,
        contradictions: Contradictions,
        writer: Writer,
        undo: Undo,
        now: Callable[[], datetime],
    ) -> None:
        self._vault, self._ledger, self._now = vault, ledger, now
        self._contradictions, self._writer, self._undo = contradictions, writer, undo

    async def look(self, flag: Flag) -> ContradictionNow:
        """Return the contradiction as its pages are now. Changes nothing."""
        tracked = {}
        for path in {flag.contradiction.existing.path, flag.contradiction.new.path}:
            tracked[path] = await self._ledger.tracked(path)
        texts = await anyio.to_thread.run_sync(lambda: {path: self._read(path) for path in tracked})
        before = {}
        for path, found in tracked.items():
            kept = None if found is None else await self._ledger.content(path, found.revision)
            before[path] = None if kept is None else kept.decode("utf-8", "replace")

        # In a thread: cutting and comparing long pages takes a while.
        def looked() -> ContradictionNow:
            sides = []
            for side in (flag.contradiction.existing, flag.contradiction.new):
                now, known = _side_now(side, *texts[side.path]), tracked[side.path]
                if now.places and known is not None:
                    here, then = units(cut(now.text)), before[side.path]
                    origins = trace_origins(here, known.origins, None if then is None else units(cut(then)))
                    now = replace(now, origin=origins[now.places[0].number])
                sides.append(now)
            first, second = sides
            keeps = {choice: _keep(sides, number) for number, choice in enumerate(CHOICES)}
            return ContradictionNow(flag, (first, second), keeps, _blocks(sides), _shown(flag, sides))

        return await anyio.to_thread.run_sync(looked)

    async def keep(self, flag_id: int, choice: Choice, *, by: str, shown: str | None = None) -> Settled:
        """Keep one side: write it in place of the other one, as the person's act, and settle the contradiction.

        If both are in one page, the other one is removed. If the other one was never written, the contradiction is dismissed, so that
        it is not raised again. `shown` is the value that the contradiction had when the person saw it.

        Raises:
            NotOpen, CannotSettle: nothing was changed.
            KnowledgeError: the pages can't be written.
        """
        now = await self._seen(flag_id, shown)
        keep = now.keeps[choice]
        if keep.why_not:
            raise CannotSettle(f"contradiction {flag_id} can't be settled like that: {keep.why_not}")
        number = CHOICES.index(choice)
        quote = f"keeps “{_quoted(now.sides[number].side)}”"
        if not keep.pages:
            flag = await self._contradictions.dismiss(flag_id, "existing", by=by, reason=quote)
            return Settled(flag, "", ())
        return await self._written(now, keep.pages, choice, by=by, what=quote, kept=keep.kept)

    async def edit(self, flag_id: int, texts: Mapping[int, str], *, by: str, shown: str | None = None) -> Settled:
        """Write blocks as the person wrote them, by their number in `ContradictionNow.blocks`, and settle the contradiction.

        An empty text removes its block.

        Raises:
            NotOpen, CannotSettle: nothing was changed.
            KnowledgeError: the pages can't be written.
        """
        now = await self._seen(flag_id, shown)
        pages = edited_pages(now, texts)
        return await self._written(now, pages, "edited", by=by, what=f"edits {' and '.join(pages)}")

    async def undo(self, flag_id: int, *, by: str) -> Settled:
        """Take a person's decision back: reopen a dismissal, or revert what a settlement wrote, keeping later edits.

        Raises:
            NotOpen: it is open.
            CannotSettle: later edits are in the way, or its act is no longer on record. Nothing was changed.
        """
        flag = await self._contradictions.found(flag_id)
        if flag.settlement is None:
            await self._contradictions.reopen(flag_id, by=by)
            return Settled(await self._contradictions.found(flag_id), "", ())
        plan = await self._undo_plan(flag, by)
        done = await self._undo.execute(plan, decision=f"decided by {by}")
        why = f"{_prefix(flag)} settlement taken back"
        await self._ledger.revive(
            flag_id, HistoryEntry(self._now(), Actor(by, REOPEN, ""), intent=why, outcome="reopened")
        )
        diff = "\n".join(file.diff for file in plan.files)
        return Settled(await self._contradictions.found(flag_id), diff, done.answer.pages, done.record)

    async def undo_diff(self, flag_id: int, *, by: str) -> str:
        """Return the difference that taking a settlement back would make now. Changes nothing.

        Raises:
            NotOpen, CannotSettle: as `undo`.
        """
        plan = await self._undo_plan(await self._contradictions.found(flag_id), by)
        return "\n".join(file.diff for file in plan.files)

    async def _undo_plan(self, flag: Flag, by: str) -> UndoPlan:
        acts = await self._act_of(flag)
        if not acts:
            raise CannotSettle(
                f"contradiction {flag.id} can't be reopened, because no choice of a person settled it: "
                f"{settled_sentence(flag)}. It opens again by itself once its pages have both statements again"
            )
        try:
            plan = await self._undo.plan(await self._undo.of_change(acts[0].name), by=_principal(by))
        except AlreadyUndone as error:
            raise CannotSettle(f"contradiction {flag.id} can't be reopened, because {error}") from None
        if plan.answer.conflicts or plan.configures or plan.unmarks:
            where = ", ".join(dict.fromkeys(one.path for one in plan.answer.conflicts)) or "its page"
            raise CannotSettle(
                f"contradiction {flag.id} can't be reopened as a whole, because {where} was changed in the same place since; "
                f"undo change {acts[0].name} to choose between both texts"
            )
        return plan

    async def _seen(self, flag_id: int, shown: str | None) -> ContradictionNow:
        """Return an open contradiction as its pages are now, if that is what the person saw."""
        now = await self.look(await self._contradictions.one(flag_id))
        if shown is not None and shown != now.shown:
            raise CannotSettle(
                f"the pages of contradiction {flag_id} have changed since you looked at it; look at it again and decide then"
            )
        return now

    async def _written(
        self,
        now: ContradictionNow,
        pages: Mapping[str, str],
        how: Literal["first", "second", "edited"],
        *,
        by: str,
        what: str,
        kept: tuple[bytes, Side] | None = None,
    ) -> Settled:
        flag = now.flag
        revisions = {side.side.path: side.revision for side in now.sides}
        intent = f"{_prefix(flag)} {what}"
        asked = hashlib.sha256(json.dumps([intent, dict(pages)]).encode("utf-8", "surrogatepass")).hexdigest()
        actor = Actor(_principal(by), SETTLE, asked)
        requests = [
            MergeRequest(actor, path, text, USER, WHOLE_PAGE, revisions[path], intent=intent)
            for path, text in pages.items()
        ]
        # Two people may settle at the same time: a person who keeps the first statement must not find that somebody has
        # rewritten it.
        premises = {
            side.side.path: partial(_says, side.side)
            for side in now.sides
            if side.places and side.side.path not in pages
        }
        plan = await self._writer.plan_edits(requests, _adopting(kept) if kept else None, premises)
        if plan.stakes.configures or plan.stakes.unmarks:
            raise CannotSettle(
                f"contradiction {flag.id} can't be settled here, because this would change the server's configuration or remove "
                "a mark of where text comes from; edit the page instead"
            )
        done, record = await self._writer.edit(plan)
        if record is None:
            late = [merged.path for merged in done if merged.status != "done"] or sorted(premises)
            raise CannotSettle(
                f"{' or '.join(late)} was changed in the same place meanwhile; look at contradiction {flag.id} again"
            )
        await self._ledger.settle([flag.id], Settlement(how, by, self._now(), what[:LONGEST_REASON]))
        diff = "\n".join(merged.diff for merged in done)
        return Settled(await self._contradictions.found(flag.id), diff, tuple(pages), record)

    async def written(self, flag: Flag) -> Mapping[str, str]:
        """Return the difference that a person's settlement made to each page, by path; empty if it wrote nothing."""
        found: dict[str, str] = {}
        for act in await self._act_of(flag) if flag.settlement is not None else ():
            for file in act.files:
                before, after = [
                    b"" if revision is None else await self._ledger.content(file.path, revision) or b""
                    for revision in (file.before, file.after)
                ]
                old, new = (raw.decode("utf-8", "replace") for raw in (before, after))
                found[file.path] = unified_diff(old, new, file.path, most_characters=MOST_DIFF)
        return found

    async def _act_of(self, flag: Flag) -> Sequence[PastAct]:
        """Return the act by which a person settled the contradiction, newest first; empty if there is none."""
        found: list[int] = []
        for path in dict.fromkeys((flag.contradiction.existing.path, flag.contradiction.new.path)):
            lines = await self._ledger.history(path, limit=MOST_HISTORY)
            found += [
                line.seq for line in lines if line.seq and line.tool == SETTLE and line.intent.startswith(_prefix(flag))
            ]
        act = await self._ledger.act(str(max(found))) if found else None
        return [past_act(act)] if act is not None else ()

    def _read(self, path: str) -> tuple[str, str | None]:
        try:
            file = self._vault.read(path)
            return file.raw.decode("utf-8"), file.revision
        except (KnowledgeError, UnicodeDecodeError):
            return "", None


def edited_pages(now: ContradictionNow, texts: Mapping[int, str]) -> Mapping[str, str]:
    """Return the new text of each page with these blocks, by their number; an empty text removes its block.

    Raises:
        CannotSettle: nothing would change, or both statements would still be on their pages.
    """
    pages = {side.side.path: side.text for side in now.sides}
    if strange := [number for number in texts if not 0 <= number < len(now.blocks)]:
        raise CannotSettle(f"there is no text {strange[0] + 1} to edit; there are {len(now.blocks)}")
    # From the bottom up, so that the places above stay where they are.
    for number in sorted(texts, key=lambda one: -now.blocks[one].place.block_start):
        block = now.blocks[number]
        old, end = block.place.block, block.place.block_start + len(block.place.block)
        new = texts[number].replace("\r\n", "\n").strip("\n")
        if new == old.replace("\r\n", "\n").strip("\n"):
            continue
        newline = "\r\n" if "\r\n" in old else "\n"
        ending = old[len(old.rstrip("\r\n")) :]
        written = new.replace("\n", newline) + ending if new.strip() else ""
        text = pages[block.path]
        pages[block.path] = text[: block.place.block_start] + written + text[end:]
    changed = {side.side.path: pages[side.side.path] for side in now.sides if pages[side.side.path] != side.text}
    if not changed:
        raise CannotSettle("nothing was changed: the texts are as they were")
    if all(any(place.whole for place in places_of(pages[one.side.path], one.side)) for one in now.sides):
        raise CannotSettle(
            "both statements would still be on their pages; change one of them, or dismiss the contradiction if both hold"
        )
    return changed


def _side_now(side: Side, text: str, revision: str | None) -> SideNow:
    places = places_of(text, side)
    if places:
        return SideNow(side, "here" if len(places) == 1 else "several", text, revision, places)
    if side.revision is None:
        return SideNow(side, "unwritten", text, revision)
    state: SideState = "gone" if revision is None else "changed"
    return SideNow(side, state, text, revision, instead=nearest_block(text, side))


def _keep(sides: Sequence[SideNow], number: int) -> KeepChoice:
    """Return the effect of keeping the side with that number."""
    kept, other = sides[number], sides[1 - number]
    try:
        text, page = _kept_text(kept), other.side.path
        if other.state == "unwritten":
            return KeepChoice({}, "")
        if other.state != "here":
            return KeepChoice({}, "", _not_here(other))
        place = other.places[0]
        if page == kept.side.path and kept.places:
            new = removed(other.text, place)
        else:
            new = replaced(other.text, place, text, page=page, comes_from=kept.side.path)
    except NoSureChange as why:
        return KeepChoice({}, "", str(why))
    diff = unified_diff(other.text, new, page, most_characters=MOST_DIFF)
    if not place.fills_block or page == kept.side.path:
        return KeepChoice({page: new}, diff)
    block = new[place.block_start : len(new) - len(other.text) + place.block_start + len(place.block)]
    return KeepChoice({page: new}, diff, kept=(unit_digest(block), kept.side))


def _kept_text(kept: SideNow) -> str:
    """Return the statement that is kept, as its page has it.

    Raises:
        NoSureChange: it is not known, or is no longer there.
    """
    if kept.places:
        place = kept.places[0]
        return kept.text[place.start : place.end]
    if kept.state != "unwritten":
        raise NoSureChange(_not_here(kept))
    if is_cut(kept.side):
        raise NoSureChange("only the beginning of the new statement is on record")
    return kept.side.text


def _not_here(side: SideNow) -> str:
    path = side.side.path
    return {
        "several": f"{path} has this statement {len(side.places)} times",
        "gone": f"there is no page {path} now",
        "unwritten": f"the statement was never written to {path}",
    }.get(side.state, f"{path} no longer has this statement")


def _blocks(sides: Sequence[SideNow]) -> Sequence[EditableBlock]:
    """Return the blocks that have one of the statements, from top to bottom, those of the first side's page first."""
    found: dict[tuple[str, int], EditableBlock] = {}
    for number, side in enumerate(sides):
        for place in side.places:
            key = side.side.path, place.block_start
            before = found[key].sides if key in found else ()
            found[key] = EditableBlock(side.side.path, (*before, number) if number not in before else before, place)
    paths = list(dict.fromkeys(side.side.path for side in sides))
    return sorted(found.values(), key=lambda block: (paths.index(block.path), block.place.block_start))


def _shown(flag: Flag, sides: Sequence[SideNow]) -> str:
    """Return a digest of everything that a person decides on: both statements and the blocks that have them."""
    told = [[side.side.path, side.side.text, side.state, [place.block for place in side.places]] for side in sides]
    return hashlib.sha256(json.dumps([flag.id, told]).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _adopting(kept: tuple[bytes, Side]) -> Callable[[Origin], Origin]:
    """Return a function for origins: it gives the block of the kept statement the statement's source, confirmed by the person."""
    digest, side = kept

    def adopt(origin: Origin) -> Origin:
        if origin.digest != digest or side.source == USER:
            return origin
        observed_at = side.observed_at or origin.observed_at
        return replace(
            origin, source=side.source, authority=side.authority, observed_at=observed_at, corroborated_by=(USER,)
        )

    return adopt


def _says(side: Side, raw: bytes) -> bool:
    """Return whether a page still has the statement."""
    return bool(places_of(raw.decode("utf-8", "replace"), side))


def _prefix(flag: Flag) -> str:
    return f"contradiction {flag.id}:"


def _principal(by: str) -> str:
    """Return the principal (`ana@page`) of a person whom dismissals name as `ana (page)`."""
    name, _, channel = by.removesuffix(")").partition(" (")
    return f"{name}@{channel}" if channel else name


def _quoted(side: Side) -> str:
    text = one_line(statement_text(side)).replace("”", "'")
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."
