"""Takes acts back one after the other, newest first, and gives their combined result. Changes nothing."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from knowledge.merge.document.units import cut
from knowledge.merge.normalise import fit_line_ends
from knowledge.merge.three_way.join import join
from knowledge.pages.links import LinkTargets
from knowledge.pages.obsidian.canvas import is_canvas
from knowledge.writing.undo.conflict_sides import take_sides
from knowledge.writing.undo.page_places import PagePlaces, relink
from knowledge.writing.undo.past_act import PastAct, PastFile, Take, UndoConflict

Content = Callable[[str, str], Awaitable[bytes]]
"""Returns the bytes of a page, given the path that it had then and its revision."""
NOW = 2**62
"""The time after every line."""
ONLY_TOGETHER = "the text from before can't be taken here alone: take it in every conflict of this page, or leave it"


@dataclass(frozen=True, slots=True)
class _State:
    """A state of a page, None for no page: the path that it had then, the time, its revision and its bytes."""

    path: str
    time: int
    revision: str | None
    raw: bytes | None


@dataclass(slots=True)
class _Revert:
    """Changes of one page to be taken back together: from `after` to `before`. `acts` made them."""

    after: _State
    before: _State
    acts: list[PastAct]


@dataclass(frozen=True, slots=True)
class _Page:
    """A page while acts are taken back.

    `start` is its present path, "" for one that comes back. `linked` says whether its links lead to where their targets will be.
    """

    raw: bytes
    start: str
    linked: bool = False


@dataclass(slots=True)
class Composition:
    """Pages with `contents` while acts are taken back. `places` follows their moves, `names` are the present targets of links.

    After `finish`, `after` has every page that there would be, and `moved` the present paths of those that move.
    """

    contents: Mapping[str, bytes | None]
    places: PagePlaces
    names: LinkTargets
    content: Content
    take: Callable[[UndoConflict], Take]
    conflicts: list[UndoConflict] = field(default_factory=list)
    decided: list[UndoConflict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left: dict[int, PastAct] = field(default_factory=dict)
    """The acts of which a part stays, by the ids of their first lines.

    A part stays if nobody has decided its conflict, or if its page is gone and may come back with that part.
    """
    _pages: dict[str, _Page] = field(default_factory=dict)
    _reverts: defaultdict[str, list[_Revert]] = field(default_factory=lambda: defaultdict(list))
    """What is to be taken back at each path, newest first."""
    _alike: Counter[str] = field(default_factory=Counter)
    """How many conflicts of the same page had the same two sides so far."""

    def __post_init__(self) -> None:
        self._pages = {path: _Page(raw, path) for path, raw in self.contents.items() if raw is not None}

    @property
    def after(self) -> Mapping[str, bytes]:
        """The bytes of every page that there would be."""
        return {path: page.raw for path, page in self._pages.items()}

    @property
    def moved(self) -> Mapping[str, str]:
        """The present path of each page that moves, by its new one."""
        return {path: page.start for path, page in self._pages.items() if page.start not in ("", path)}

    async def take_back(self, act: PastAct) -> None:
        """Take back an act; newer ones must have been taken back before."""
        files, sources = {file.path: file for file in act.files}, act.sources
        for old, new in sources.items():
            was, now = files.get(old), files[new]
            if was is not None and was.before != now.after:
                await self._revert(act, PastFile(new, was.before, now.after), before_at=old)
        # What the act did at a path apart from moving pages there or away.
        rest = [
            PastFile(
                path, None if path in sources else file.before, None if file.moved_from is not None else file.after
            )
            for path, file in files.items()
        ]
        if sources:
            await self._move_back(act, [file for file in rest if file.path in sources and file.after is not None])
        for file in rest:
            if file.before != file.after and not (file.path in sources and file.after is not None):
                await self._revert(act, file)

    async def _revert(self, act: PastAct, file: PastFile, *, before_at: str = "") -> None:
        after = _State(file.path, act.last, file.after, await self._raw(file.path, file.after))
        before_path = before_at or file.path
        before = _State(before_path, act.first - 1, file.before, await self._raw(before_path, file.before))
        # A page that comes back is at its own path, even if another one that was there since has moved away.
        own = file.after is None or self._continues(file.path, file.after)
        path = file.path if own else self.places.of(file.path, act.last)
        if self._continues(path, file.after):
            # Consecutive changes are taken back as one, so that a conflict is shown once and with the text before all of them.
            self._reverts[path][-1].before = before
            self._reverts[path][-1].acts.append(act)
        else:
            self._reverts[path].append(_Revert(after, before, [act]))

    def _continues(self, path: str, after: str | None) -> bool:
        waiting = self._reverts.get(path, [])
        return bool(waiting) and waiting[-1].before.revision == after

    async def _raw(self, path: str, revision: str | None) -> bytes | None:
        return None if revision is None else await self.content(path, revision)

    # --- moves --------------------------------------------------------------------------------------------------------

    async def _move_back(self, act: PastAct, made: Sequence[PastFile]) -> None:
        """Return pages to the paths from which the act moved them.

        `made` are the pages that the act created at these paths.
        """
        going: dict[str, str] = {}
        for old, new in act.sources.items():
            here = self.places.of(new, act.last)
            if here not in self._pages and not self._comes_back(here):
                self._stays_removed([act], new)
            elif here == old:
                self.notes.append(f"{old} is there again already")
            elif here == new or self._returns(act, old, here, f"{new} was moved again later, to {here}"):
                going[old] = here
        for file in made:
            await self._revert(act, file)
        # A path is free if its page leaves, too. Where one can't leave, others may be unable to come.
        while blocked := [old for old in going if old not in going.values() and not self._is_free(old)]:
            for old in blocked:
                self._returns(act, old, going.pop(old), f"another page is at {old} now", choices=("now",))
        lifted = {old: (self._pages.pop(here, None), self._reverts.pop(here, [])) for old, here in going.items()}
        for old, (page, waiting) in lifted.items():
            self._pages.pop(old, None)
            self._reverts[old] = waiting
            if page is not None:
                self._pages[old] = page
            self.places.take_back(act.sources[old], act.last, old)

    def _comes_back(self, path: str) -> bool:
        waiting = self._reverts.get(path, [])
        return bool(waiting) and waiting[0].after.raw is None and waiting[-1].before.raw is not None

    def _is_free(self, path: str) -> bool:
        """Return whether no page is at the path, or only one that goes away."""
        page, waiting = self._pages.get(path), self._reverts.get(path, [])
        if page is None:
            return not self._comes_back(path)
        return len(waiting) == 1 and waiting[0].before.raw is None and page.raw == waiting[0].after.raw

    def _returns(
        self, act: PastAct, old: str, here: str, why: str, choices: tuple[Take, ...] = ("before", "now")
    ) -> bool:
        """Return whether a person has decided that a page returns to a former path all the same."""
        sentence = f"{here} can't return to {old}: {why}"
        identity = self._identity("place", act.name, old, here)
        return (
            self._decide([act], UndoConflict(identity, here, "place", sentence, old, here, choices=choices)) == "before"
        )

    def _stays_removed(self, acts: Sequence[PastAct], path: str) -> None:
        self.notes.append(f"{path} was removed later, so it stays removed")
        self._leave(acts)

    def _decide(self, acts: Sequence[PastAct], conflict: UndoConflict, *, reason: str = "") -> Take:
        """Return the side that a person chose.

        The conflict is reported if nobody chose a side, or if `reason` says that it can't be taken.
        """
        side = self.take(conflict)
        if side in conflict.choices and not reason:
            self.decided.append(replace(conflict, taken=side))
            return side
        self.conflicts.append(replace(conflict, sentence=f"{conflict.sentence}; {reason}") if reason else conflict)
        self._leave(acts)
        return ""

    def _identity(self, kind: Literal["text", "page", "place"], where: str, before: str | None, now: str | None) -> str:
        """Return a name for a conflict, made from its two sides and its number among conflicts with the same sides."""
        sides = hashlib.sha256(repr((kind, where, before, now)).encode()).hexdigest()
        self._alike[sides] += 1
        return hashlib.sha256(f"{sides} {self._alike[sides]}".encode()).hexdigest()[:8]

    def _leave(self, acts: Sequence[PastAct]) -> None:
        self.left |= {act.first: act for act in acts}

    # --- contents -----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Take back the changes of contents, and have the links of all pages lead to where their targets will be."""
        for path, waiting in self._reverts.items():
            for revert in waiting:
                self._settle(path, revert)
        for path, page in self._pages.items():
            if not page.linked:
                self._pages[path] = _Page(self._current(page), page.start, linked=True)

    def _settle(self, path: str, revert: _Revert) -> None:
        page, before, after = self._pages.get(path), revert.before, revert.after
        if page is None:
            if after.raw is None and before.raw is not None:
                self._put(path, self._then(before))
            elif after.raw is not None and (before.raw is None or self._then(before) != self._then(after)):
                # If only links changed, they are right when the page comes back.
                self._stays_removed(revert.acts, path)
        elif after.raw is not None and (page.raw == after.raw or self._current(page) == self._then(after)):
            self._put(path, None if before.raw is None else self._then(before))
        elif before.raw is None or after.raw is None:
            # A page that is there again already, or gone, needs nothing.
            if before.raw is None or self._current(page) != self._then(before):
                why = "it has changed since it was created" if before.raw is None else "another page is there now"
                sentence = f"{path} can't {'go away' if before.raw is None else 'come back'}: {why}"
                self._settle_whole(path, sentence, page.raw, None if before.raw is None else self._then(before), revert)
        else:
            self._settle_text(path, page, revert)

    def _settle_whole(self, path: str, sentence: str, now: bytes, before: bytes | None, revert: _Revert) -> None:
        """Settle a page that can only be taken whole, from before or as it is."""
        was, present = None if before is None else before.decode("utf-8", "replace"), now.decode("utf-8", "replace")
        identity = self._identity("page", revert.after.path, was, present)
        found = UndoConflict(identity, path, "page", sentence, was, present)
        if self._decide(revert.acts, found) == "before":
            self._put(path, before)

    def _settle_text(self, path: str, page: _Page, revert: _Revert) -> None:
        """Merge the change from `revert.after` back to `revert.before` into the current page."""
        after, now, before = self._then(revert.after), self._current(page), self._then(revert.before)
        if is_canvas(path):
            # Its links are right already; the lines of its JSON can't be merged.
            if after != before:
                self._settle_whole(path, f"{path} has changed since, and a canvas can't be merged", now, before, revert)
            return
        texts = [_text(raw) for raw in (after, now, before)]
        if any(text is None for text in texts):
            sentence = f"{path} has changed since, and can't be merged, because it is not UTF-8"
            self._settle_whole(path, sentence, now, before, revert)
            return
        base, ours, theirs = [text or "" for text in texts]
        if _line_ends(base) != _line_ends(ours):
            # Somebody has converted the page since.
            base, theirs = fit_line_ends(base, [ours]), fit_line_ends(theirs, [ours])
        joined = join(cut(base), cut(ours), cut(theirs))
        sentence = f"{path} has changed since at the same place"
        conflicts = [
            UndoConflict(
                self._identity("text", revert.after.path, one.theirs, one.ours),
                path,
                "text",
                sentence,
                one.theirs,
                one.ours,
                one.section,
                one.line,
            )
            for one in joined.conflicts
        ]
        wanted = [self.take(conflict) == "before" for conflict in conflicts]
        text, taken = take_sides(base, ours, theirs, joined, wanted)
        for conflict, wants, takes in zip(conflicts, wanted, taken, strict=True):
            self._decide(revert.acts, conflict, reason=ONLY_TOGETHER if wants and not takes else "")
        self._put(path, text.encode())

    def _put(self, path: str, raw: bytes | None) -> None:
        page = self._pages.pop(path, None)
        if raw is not None:
            self._pages[path] = _Page(raw, page.start if page is not None else "", linked=True)

    def _then(self, state: _State) -> bytes:
        """Return the bytes of the state, with links that follow what has moved since."""
        return self._relinked(state.raw or b"", state.path, state.time)

    def _current(self, page: _Page) -> bytes:
        """Return the bytes of the page, with links that follow what returns."""
        return page.raw if page.linked else self._relinked(page.raw, page.start, NOW)

    def _relinked(self, raw: bytes, page: str, time: int) -> bytes:
        moved = self.places.since(time)
        text = _text(raw) if moved else None
        if text is None:
            return raw
        also = frozenset(path for path in self._pages if self.contents.get(path) is None)
        return relink(text, page, moved, self.names, also).encode()


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _line_ends(text: str) -> frozenset[str]:
    windows = text.count("\r\n")
    counts = {"\r\n": windows, "\n": text.count("\n") - windows, "\r": text.count("\r") - windows}
    return frozenset(end for end, count in counts.items() if count)
