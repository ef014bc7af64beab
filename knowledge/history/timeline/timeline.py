"""The timeline of the knowledge base: every change of its pages, newest first, as terminal and web pages show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, Protocol

from knowledge.errors import NoSuchChange, NoSuchPath
from knowledge.history.acts import APPROVED_BY, FOLLOW, act_name, lines_changed
from knowledge.history.ports import ActsWanted, Ledger, RecordedAct, Revision
from knowledge.history.timestamps import aware, micros, moment
from knowledge.pages.paths import clean_path
from knowledge.wire.cursors import question, seal, unseal

ChangeKind = Literal["created", "edited", "moved", "removed", "found"]
"""`found`: the page was changed outside the server, and its earlier state, if it had one, is not known."""


class TimelinePlaces(Protocol):
    """Finds pages and folders by their names."""

    async def place(self, path: str) -> Literal["page", "directory", ""]:
        """Return the page or directory at exactly that path."""

    async def locate(self, asked: str) -> str:
        """Return the path of the page with that path, title, alias or file name."""


@dataclass(frozen=True, slots=True)
class ChangedPage:
    """What a change did to one page: its revisions before and after, None where there was no page or it is not known.

    `path` is where the page is after it, or was before it was removed. `added` and `removed` count lines; None if they can't be
    counted.
    """

    path: str
    kind: ChangeKind
    before: str | None
    after: str | None
    added: int | None
    removed: int | None
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One act with everything that it changed at once.

    `id` names it everywhere: the number of its audit record, or for a change made outside the server `e` and a number.
    `by` is the principal: a host (`user@host`), a person (`user (terminal)`), or "" for a change made outside the server, in an
    editor. `approved_by` is the person who approved it, and how (`user (page, signed)`), "" for nobody. `call` names the
    call of a run, `undoes` the changes that it took back.
    """

    id: str
    at: datetime
    by: str
    approved_by: str
    tool: str
    source: str
    intent: str
    confidence: float | None
    outcome: str
    proposal: str | None
    call: str
    undoes: Sequence[str]
    pages: Sequence[ChangedPage]

    @property
    def outside(self) -> bool:
        """Whether it was made outside the server."""
        return not self.by or self.tool == FOLLOW

    def of(self, path: str | None) -> ChangedPage:
        """Return its effect on the page that is or was at `path`; if it did not change that page, its effect on the first page."""
        return next((page for page in self.pages if path in (page.path, page.moved_from)), self.pages[0])


@dataclass(frozen=True, slots=True)
class Changes:
    """A part of a timeline, newest first. `path` is the page or folder, "" for everything."""

    path: str
    is_page: bool
    changes: Sequence[Change]
    next_cursor: str | None


class Timeline:
    """Lists changes of pages and finds one by its id."""

    def __init__(self, ledger: Ledger, places: TimelinePlaces) -> None:
        self._ledger, self._places = ledger, places

    async def changes(
        self,
        path: str = "",
        *,
        who: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> Changes:
        """Return changes of a page (its path, title or alias), of a folder, or of everything, newest first.

        `who` is as in `ActsWanted`. Removed pages and folders have a history too.

        Raises:
            NoSuchPath: nothing is there, and never was.
            InvalidPath, AmbiguousName: the path names no page or folder, or more than one.
            BadCursor: it belongs to another query.
        """
        at, is_page = await self.place(path)
        wanted = ActsWanted(at if is_page else None, "" if is_page else at, who, since, until)
        times = [None if time is None else micros(aware(time)) for time in (since, until)]
        key = question({"of": "timeline", "path": at, "who": who, "since": times[0], "until": times[1]})
        # One more than is shown tells whether the list continues.
        acts = await self._ledger.timeline(wanted, limit=limit + 1, after=_after(cursor, key))
        shown = [await self._counted(change_of(act)) for act in acts[:limit]]
        cursor = None
        if len(acts) > limit:
            time, line = acts[limit - 1].place
            cursor = seal(key, (micros(time), line))
        return Changes(at, is_page, shown, cursor)

    async def change(self, change_id: str) -> Change:
        """Return the change with that id.

        Raises:
            NoSuchChange: there is none.
        """
        act = await self._ledger.act(change_id)
        if act is None:
            raise NoSuchChange("the knowledge base", change_id)
        return await self._counted(change_of(act))

    async def contents(self, page: ChangedPage) -> tuple[bytes | None, bytes | None]:
        """Return the page before and after this change, None where there was none or it is not known."""
        before, after = page.before, page.after
        # After a move both are states of the page where it is now.
        old = None if before is None else await self._ledger.content(page.path, before)
        return old, None if after is None else await self._ledger.content(page.path, after)

    async def _counted(self, change: Change) -> Change:
        """Return the change with the lines counted that the ledger did not count: of edits outside, and of pages that moved."""
        pages = [await self._with_counts(page) if page.added is None else page for page in change.pages]
        return replace(change, pages=pages)

    async def _with_counts(self, page: ChangedPage) -> ChangedPage:
        if page.kind == "found":
            return page
        before, after = await self.contents(page)
        if None in (page.before and before, page.after and after):
            return page
        added, removed = lines_changed(before, after)
        return replace(page, added=added, removed=removed)

    async def place(self, path: str) -> tuple[str, bool]:
        """Return the path of the page or folder that is meant, now or before it was removed, and whether it is a page.

        Raises:
            NoSuchPath: nothing is there, and never was.
            InvalidPath, AmbiguousName: the path names no page or folder, or more than one.
        """
        if not path.strip("/ "):
            return "", False
        clean = clean_path(path)
        if await self._places.place(clean) == "directory":
            return clean, False
        try:
            return await self._places.locate(path), True
        except NoSuchPath as error:
            # What was removed can no longer be found by name, but its history is kept under its path.
            for page in (clean, f"{clean}.md"):
                if await self._ledger.history(page, limit=1):
                    return page, True
            if await self._ledger.timeline(ActsWanted(folder=clean), limit=1):
                return clean, False
            raise error from None


def change_of(act: RecordedAct) -> Change:
    """Return the act as people see it: a page that moved is one page, not one that came and one that went."""
    first = act.lines[0]
    moves = {line.moved_from: line for line in act.lines if line.moved_from is not None}
    gone = {line.path: line for line in act.lines if line.revision is None}
    pages = [_page(line, moves, gone) for line in act.lines]
    approved = act.decision.removeprefix(APPROVED_BY) if act.decision.startswith(APPROVED_BY) else ""
    return Change(
        id=act_name(first),
        at=first.at,
        by=first.principal,
        approved_by=approved,
        tool=first.tool,
        source=first.source,
        intent=first.intent,
        confidence=first.confidence,
        outcome=act.outcome,
        proposal=first.proposal,
        call=act.call,
        undoes=[str(record) for record in act.undoes],
        pages=[page for page in pages if page is not None],
    )


def _page(line: Revision, moves: Mapping[str, Revision], gone: Mapping[str, Revision]) -> ChangedPage | None:
    """Return what the line says happened to its page; None if another line says where the page went."""
    if line.revision is None and line.path in moves:
        return None
    left = gone.get(line.moved_from or "")
    counts: tuple[int | None, int | None] = (line.lines_added, line.lines_removed)
    if line.how == "outside" or line.moved_from is not None:
        counts = (None, None)
    before = left.before if left is not None else line.before
    return ChangedPage(line.path, _kind(line), before, line.revision, *counts, line.moved_from)


def _kind(line: Revision) -> ChangeKind:
    if line.moved_from is not None:
        return "moved"
    if line.revision is None:
        return "removed"
    if line.before is None:
        return "found" if line.how == "outside" else "created"
    return "edited"


def _after(cursor: str | None, key: str) -> tuple[datetime, int] | None:
    """Return the place after which the list continues, None without a cursor."""
    if cursor is None:
        return None
    at, line = unseal(cursor, key, int, int)
    return moment(int(at)), int(line)
