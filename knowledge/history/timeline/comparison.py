"""Two states of a page: what one change did to it, or the page at any two changes, revisions or times."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

import anyio.to_thread

from knowledge.errors import InvalidPath, KnowledgeError, NoSuchPath, UnknownRevision
from knowledge.history.acts import act_name
from knowledge.history.ports import Ledger, Revision
from knowledge.history.timeline.timeline import Timeline
from knowledge.history.timestamps import utc_text
from knowledge.pages.vault import Vault

NOW = "now"
BATCH = 200


class NoSuchState(KnowledgeError):
    """The page's history has no such state."""

    def __init__(self, path: str, asked: str, why: str) -> None:
        self.path, self.asked = path, asked
        super().__init__(f"{why}; knowledge-forge history {path} lists its changes")


@dataclass(frozen=True, slots=True)
class PageState:
    """A page at one moment. `raw` and `revision` are None where there was no page.

    `change` is the id of the change that made this state, "" if that is not known; `at` is that change's time, None for now.
    """

    revision: str | None
    raw: bytes | None
    change: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two states of the page at `path`. `change` is set if they are the states before and after this change.

    `begins`: the earlier state of the page, if it had one, is not known.
    """

    path: str
    before: PageState
    after: PageState
    change: str = ""
    begins: bool = False


class Comparisons:
    """Finds states of pages by the id of a change, a revision, a time, or `now`."""

    def __init__(self, vault: Vault, ledger: Ledger, timeline: Timeline) -> None:
        self._vault, self._ledger, self._timeline = vault, ledger, timeline

    async def change(self, name: str, change: str = "") -> Comparison:
        """Return the page before and after a change, by default its newest one.

        Raises:
            NoSuchPath, InvalidPath, AmbiguousName: the name is not that of one page.
            NoSuchState: the page has no such change.
        """
        path = await self._page(name)
        async for line in self._lines(path):
            if change in ("", act_name(line)):
                return await self._of_line(path, line)
        why = f"the history of {path} has no change {change}" if change else f"nobody has changed {path} yet"
        raise NoSuchState(path, change, why)

    async def between(self, name: str, before: str | datetime, after: str | datetime = NOW) -> Comparison:
        """Return the page in two states: after a change, at a revision, at a time, or now.

        Raises:
            NoSuchPath, InvalidPath, AmbiguousName: the name is not that of one page.
            NoSuchState: the page's history has no such change, or does not go back to that time.
            UnknownRevision: the page never was at that revision, or it is no longer kept.
        """
        path = await self._page(name)
        return Comparison(path, await self._state(path, before), await self._state(path, after))

    async def _page(self, name: str) -> str:
        path, is_page = await self._timeline.place(name)
        if not is_page:
            raise InvalidPath(name, "it is a folder; name a page")
        return path

    async def _lines(self, path: str) -> AsyncIterator[Revision]:
        """Yield the lines of the page's history, newest first."""
        before: int | None = None
        while lines := await self._ledger.history(path, limit=BATCH, before=before):
            for line in lines:
                yield line
            before = lines[-1].id

    async def _of_line(self, path: str, line: Revision) -> Comparison:
        before, begins = line.before, line.before is None and line.how == "outside"
        if line.moved_from is not None:
            # The old path's line of the same act has the state before.
            act = await self._ledger.act(act_name(line))
            gone = [one for one in act.lines if one.path == line.moved_from and one.revision is None] if act else []
            before = gone[0].before if gone else before
        return Comparison(
            path,
            PageState(before, await self._content(path, before)),
            PageState(line.revision, await self._content(path, line.revision), act_name(line), line.at),
            act_name(line),
            begins,
        )

    async def _state(self, path: str, asked: str | datetime) -> PageState:
        if isinstance(asked, datetime):
            return await self._at(path, asked)
        if asked == NOW:
            return await self._now(path)
        async for line in self._lines(path):
            if asked in (act_name(line), line.revision):
                return await self._after(path, line)
        if (raw := await self._ledger.content(path, asked)) is not None:
            return PageState(asked, raw)
        raise NoSuchState(path, asked, f"the history of {path} has neither a change nor a revision {asked}")

    async def _at(self, path: str, at: datetime) -> PageState:
        oldest: Revision | None = None
        async for line in self._lines(path):
            if line.at <= at:
                return await self._after(path, line)
            oldest = line
        if oldest is not None and (oldest.before is not None or oldest.how == "written"):
            return PageState(oldest.before, await self._content(path, oldest.before))
        begins = "is empty" if oldest is None else f"begins at {utc_text(oldest.at)[:16]} UTC"
        raise NoSuchState(path, utc_text(at), f"it is not known what {path} was then: its history {begins}")

    async def _after(self, path: str, line: Revision) -> PageState:
        return PageState(line.revision, await self._content(path, line.revision), act_name(line), line.at)

    async def _now(self, path: str) -> PageState:
        try:
            file = await anyio.to_thread.run_sync(self._vault.read, path)
        except NoSuchPath:
            return PageState(None, None)
        return PageState(file.revision, file.raw)

    async def _content(self, path: str, revision: str | None) -> bytes | None:
        """Return the bytes of that state, None for no page. Raises: UnknownRevision: they are no longer kept."""
        if revision is None:
            return None
        raw = await self._ledger.content(path, revision)
        if raw is None:
            current = await self._now(path)
            raise UnknownRevision(path, revision, current.revision or "none")
        return raw
