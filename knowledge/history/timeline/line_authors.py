"""Who wrote each line of a page, when and why: the recorded origin of the text, and the change that brought it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from knowledge.history.acts import act_name
from knowledge.history.page_history import PageHistory
from knowledge.history.ports import Ledger, Revision
from knowledge.history.timeline.timeline import Change, change_of
from knowledge.merge.document.units import split_lines
from knowledge.writing.answers import OriginLine

MOST_STATES = 500
"""States of a page, from the newest, in which a line that an editor wrote is searched for."""


@dataclass(frozen=True, slots=True)
class AuthoredLines:
    """Consecutive lines with the same author. `change` brought them; None if it is not on record."""

    first: int
    lines: Sequence[str]
    change: Change | None
    origin: OriginLine


@dataclass(frozen=True, slots=True)
class AuthoredPage:
    """All lines of a page with their authors; none if it was removed."""

    path: str
    revision: str | None
    runs: Sequence[AuthoredLines]


@dataclass(frozen=True, slots=True)
class _AuthoredLine:
    number: int
    text: str
    origin: OriginLine
    by: Revision | None


class LineAuthors:
    """Finds the authors of lines."""

    def __init__(self, ledger: Ledger, page_history: PageHistory) -> None:
        self._ledger, self._page_history = ledger, page_history

    async def of(self, name: str) -> AuthoredPage:
        """Return the page's lines with their authors.

        Raises:
            NoSuchPath: there is no such page, and never was.
            KnowledgeError: it is not a text.
        """
        path, raw, revision = await self._page_history.present(name)
        if raw is None:
            return AuthoredPage(path, None, ())
        history = await self._ledger.history(path, limit=MOST_STATES)
        # The oldest line with a revision is the change that brought it.
        made = {line.revision: line for line in history}
        lines: list[_AuthoredLine] = []
        for run in await self._page_history.written_by(path, raw):
            by = made.get(run.origin.revision) if run.origin.by and run.origin.revision else None
            texts = [text.rstrip("\r\n") for text in split_lines(run.text)]
            lines += [_AuthoredLine(run.first + n, text, run.origin, by) for n, text in enumerate(texts)]
        lines = await self._with_editors(path, lines, history)
        return AuthoredPage(path, revision, await self._runs(lines))

    async def _with_editors(
        self, path: str, lines: Sequence[_AuthoredLine], history: Sequence[Revision]
    ) -> list[_AuthoredLine]:
        """Return the lines with authors.

        A line without a known one gets the oldest change since which every state has the line.
        """
        wanted = {line.text for line in lines if line.by is None and line.text.strip()}
        found: dict[str, Revision] = {}
        for state in history:
            raw = None if state.revision is None else await self._ledger.content(path, state.revision)
            there = {text.rstrip("\r\n") for text in split_lines((raw or b"").decode("utf-8", "replace"))}
            wanted &= there
            if not wanted:
                break
            found.update(dict.fromkeys(wanted, state))
        authored: list[_AuthoredLine] = []
        for line in lines:
            by = line.by or found.get(line.text)
            if by is None and not line.text.strip() and authored and authored[-1].origin == line.origin:
                by = authored[-1].by  # an empty line belongs to the text before it
            authored.append(_AuthoredLine(line.number, line.text, line.origin, by))
        return authored

    async def _runs(self, lines: Sequence[_AuthoredLine]) -> Sequence[AuthoredLines]:
        changes: dict[str, Change | None] = {"": None}
        runs: list[AuthoredLines] = []
        for (name, origin), group in groupby(lines, lambda line: (act_name(line.by) if line.by else "", line.origin)):
            part = list(group)
            if name not in changes:
                act = await self._ledger.act(name)
                changes[name] = None if act is None else change_of(act)
            runs.append(AuthoredLines(part[0].number, [line.text for line in part], changes[name], origin))
        return runs
