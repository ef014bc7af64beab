"""Undoing as an act on pages: computed from their contents once their locks are held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal

import anyio.to_thread

from knowledge.errors import EffectChanged, UnknownRevision
from knowledge.history.ports import Ledger, Revision
from knowledge.merge.document.unit_origins import trace_origins
from knowledge.merge.document.units import cut, units
from knowledge.merge.model import Origin
from knowledge.pages.links import LinkTargets
from knowledge.pages.obsidian.canvas import is_canvas
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.related.backlinks import Backlinks, linking_text
from knowledge.writing.undo.composition import Composition
from knowledge.writing.undo.page_places import PagePlaces
from knowledge.writing.undo.past_act import PastAct, UndoAnswer, UndoRequest

BATCH = 1_000


class UndoActs:
    """Builds the acts; the page names in requests are those on record."""

    def __init__(self, ledger: Ledger, backlinks: Backlinks) -> None:
        self._ledger, self._backlinks = ledger, backlinks

    async def act(self, request: UndoRequest) -> PageAct[UndoAnswer]:
        """Return the act that takes these acts back and keeps what came later.

        Raises:
            UnknownRevision: a state of a page is no longer kept; raised when the act is rehearsed or carried out.
        """
        begin = min(act.first for act in request.acts) - 1
        moves = await self._moves(begin)
        places = PagePlaces(moves)
        paths = dict.fromkeys(request_path for act in request.acts for request_path in _paths_of(act, places))
        for act in request.acts:
            for old, new in act.sources.items():
                present = places.in_fact(new, act.last)
                paths |= dict.fromkeys((old, present, *await self._backlinks.to(present)))

        async def work(contents: Contents) -> ActWork[UndoAnswer]:
            # The paths of this act were chosen by the moves on record. After another move, they may be different.
            if await self._moves(begin) != moves:
                raise EffectChanged(request.path)
            return await self._composed(request, contents, moves)

        return PageAct(request.actor, tuple(paths), work, intent=request.intent)

    async def _composed(
        self, request: UndoRequest, contents: Contents, moves: Sequence[Revision]
    ) -> ActWork[UndoAnswer]:
        present = {
            path: linking_text(path, raw.decode("utf-8", "replace"))
            for path, raw in contents.items()
            if raw is not None
        }
        names = LinkTargets(lambda _: False)
        if moves:  # otherwise no link has to follow anything
            past = await self._past_texts(request.acts)
            names = await self._backlinks.names([*present.values(), *past], known=present)
        made = Composition(contents, PagePlaces(moves), names, self._content, request.side_of)
        for act in request.acts:
            await made.take_back(act)
        # On another thread, because merging many long pages takes seconds.
        await anyio.to_thread.run_sync(made.finish)
        after = made.after
        written: dict[str, bytes | None] = {
            path: after.get(path)
            for path in dict.fromkeys((*contents, *after))
            if after.get(path) != contents.get(path)
        }
        moved = {path: start for path, start in made.moved.items() if path in after}
        for path in moved:
            # A page that has the bytes of the one that was there before still moves.
            written[path] = after[path]
        undone = [act for act in request.acts if act.first not in made.left]
        pages = sorted(path for path, raw in written.items() if raw is not None)
        gone = sorted(path for path, raw in written.items() if raw is None and path not in moved.values())
        answer = UndoAnswer(
            _status(written=bool(written), conflicts=bool(made.conflicts)),
            pages,
            gone,
            undone,
            made.conflicts,
            list(dict.fromkeys(made.notes)),
            made.decided,
        )
        return ActWork(
            contents=written,
            result=answer,
            outcome="partial" if answer.status == "partial" else "done",
            origins={path: await self._origins(moved.get(path, path), after[path]) for path in pages},
            moved=moved,
            undoes=tuple(act.seq for act in undone if act.seq is not None),
        )

    async def _moves(self, begin: int) -> Sequence[Revision]:
        found: list[Revision] = []
        while batch := await self._ledger.lines_after(found[-1].id if found else begin, limit=BATCH, moves=True):
            found += batch
        return found

    async def _past_texts(self, acts: Sequence[PastAct]) -> Sequence[str]:
        """Return every text that the acts found or left, for the links in them."""
        states = [
            (file.path, revision)
            for act in acts
            for file in act.files
            for revision in (file.before, file.after)
            if revision
        ]
        found = [(path, await self._content(path, revision)) for path, revision in dict.fromkeys(states)]
        return [linking_text(path, raw.decode("utf-8", "replace")) for path, raw in found]

    async def _content(self, path: str, revision: str) -> bytes:
        raw = await self._ledger.content(path, revision)
        if raw is None:
            lines = await self._ledger.history(path, limit=1)
            raise UnknownRevision(path, revision, (lines[0].revision if lines else None) or "none: the page is gone")
        return raw

    async def _origins(self, path: str, raw: bytes) -> Sequence[Origin]:
        """Return the known origins of the units in `raw`, the bytes of the page that was at `path`."""
        if is_canvas(path):
            return ()
        tracked = await self._ledger.tracked(path)
        if tracked is None:
            return ()
        kept = await self._ledger.content(path, tracked.revision)
        before = None if kept is None else units(cut(kept.decode("utf-8", "replace")))
        here = units(cut(raw.decode("utf-8", "replace")))
        return [origin for origin in trace_origins(here, tracked.origins, before) if origin is not None]


def _status(*, written: bool, conflicts: bool) -> Literal["done", "partial", "conflict", "unchanged"]:
    if conflicts:
        return "partial" if written else "conflict"
    return "done" if written else "unchanged"


def _paths_of(act: PastAct, places: PagePlaces) -> Mapping[str, None]:
    """Return every path that the act concerns: those that it names, and where their pages are by now."""
    named = [file.path for file in act.files]
    return dict.fromkeys(chain.from_iterable((path, places.in_fact(path, act.last)) for path in named))
