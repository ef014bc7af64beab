"""Moves, deletions and returns to earlier states, as acts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowledge.errors import NoSuchPath, PageExists, PageGone, UnknownRevision
from knowledge.history.ports import Ledger
from knowledge.merge.document.links import relocated, retargeted
from knowledge.merge.document.unit_origins import trace
from knowledge.merge.document.units import cut, units
from knowledge.merge.model import Conflict, Origin, unit_digest
from knowledge.merge.normalise import fitted
from knowledge.merge.three_way.join import join
from knowledge.merge.unified_diff import unified
from knowledge.pages.vault import revision_of
from knowledge.writing.answers import ChangeAnswer, Status
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.related.backlinks import Linking
from knowledge.writing.related.target_page import text_of
from knowledge.writing.requests import DeleteRequest, MoveRequest, RevertRequest

MOST_DIFF = 6_000
MOVE = "kb_move"
LOOKED_BACK = 500
"""Lines of history in which a revision is looked for."""


@dataclass(frozen=True, slots=True)
class Undoing:
    """An act over several files that is to be taken back: what each file was before and after it."""

    changes: Sequence[tuple[str, str | None, str | None]]


class Moving:
    """Builds acts; the paths in requests are real ones by now."""

    def __init__(self, ledger: Ledger, linking: Linking) -> None:
        self._ledger, self._linking = ledger, linking

    def move(self, request: MoveRequest, linking: Sequence[str]) -> PageAct[ChangeAnswer]:
        """Return the act that moves a page and rewrites the links to it in `linking`."""
        old, new = request.path, request.to

        async def work(contents: Contents) -> ActWork[ChangeAnswer]:
            raw = contents[old]
            if raw is None:
                raise NoSuchPath(old)
            if contents[new] is not None:
                raise PageExists(new)
            before = {old: text_of(old, raw)}
            for page in linking:
                found = contents[page]
                if found is not None:
                    before[page] = text_of(page, found)
            names = await self._linking.names(before.values(), known={old: before[old]}, comes=new)
            after = {new: relocated(before[old], old=old, new=new, names=names)}
            for page in before.keys() - {old}:
                after[page] = retargeted(before[page], page=page, old=old, new=new, names=names)
            after = {page: text for page, text in after.items() if page == new or text != before[page]}
            pairs = [(old, new), *((page, page) for page in sorted(after) if page != new)]
            written: dict[str, bytes | None] = {page: text.encode() for page, text in after.items()}
            changed = ChangeAnswer(
                status="done",
                proposal=None,
                path=new,
                revision=revision_of(after[new].encode()),
                changed=sorted(after),
                diff=_diffs([(was, now, before[was], after[now]) for was, now in pairs]),
                conflicts=(),
                verified=True,
                note=_rewritten(len(after) - 1),
            )
            return ActWork(
                contents={old: None, **written},
                result=changed,
                origins={now: await self._carried(was, before[was], after[now]) for was, now in pairs},
                moved={new: old},
            )

        return PageAct(request.actor, tuple(dict.fromkeys((old, new, *linking))), work, intent=f"move {old} to {new}")

    async def _carried(self, path: str, before: str, after: str) -> Sequence[Origin]:
        """Return the origins of the units of `before` for those of `after`, which differ in links only."""
        tracked = await self._ledger.tracked(path)
        if tracked is None:
            return ()
        then, now = units(cut(before)), units(cut(after))
        kept = await self._ledger.content(path, tracked.revision)
        past = units(cut(kept.decode("utf-8", "replace"))) if kept is not None else None
        found = trace(then, tracked.origins, past)
        if len(then) != len(now):
            return [origin for origin in trace(now, tracked.origins, past) if origin is not None]
        return [
            _as(origin, unit_digest(unit.text), unit.section)
            for origin, unit in zip(found, now, strict=True)
            if origin is not None
        ]

    def delete(self, request: DeleteRequest, linking: Sequence[str]) -> PageAct[ChangeAnswer]:
        """Return the act that removes a page which is still what the caller read; `linking` are pages that link to it."""
        path = request.path

        async def work(contents: Contents) -> ActWork[ChangeAnswer]:
            raw = contents[path]
            if raw is None:
                raise NoSuchPath(path)
            revision = revision_of(raw)
            known = revision == request.base_revision
            note = _left_dangling(linking)
            if not known:
                note = f"nothing is deleted: the page is at {revision} and not at the revision you name; read it again"
            changed = ChangeAnswer(
                status="done" if known else "analysis",
                proposal=None,
                path=path,
                revision=None if known else revision,
                changed=[path] if known else [],
                diff=unified(raw.decode("utf-8", "replace"), "", path, most_characters=MOST_DIFF) if known else "",
                conflicts=(),
                verified=True if known else None,
                note=note,
            )
            return ActWork(contents={path: None} if known else {}, result=changed)

        return PageAct(request.actor, (path,), work, intent=f"delete {path}")

    async def revert(self, request: RevertRequest) -> PageAct[ChangeAnswer]:
        """Return the act that brings a page back to a revision; if a move lies just between, it is taken back whole.

        Raises:
            UnknownRevision: the page never was at that revision, or it is not kept any more.
        """
        undoing = await self._move_after(request.path, request.revision)
        if undoing is not None:
            return self._undo(request, undoing)
        path = request.path
        wanted = await self._ledger.content(path, request.revision)
        if wanted is None:
            raise UnknownRevision(path, request.revision, await self._newest(path))

        async def work(contents: Contents) -> ActWork[ChangeAnswer]:
            raw = contents[path]
            same = raw == wanted
            before = raw.decode("utf-8", "replace") if raw is not None else ""
            after = wanted.decode("utf-8", "replace")
            changed = ChangeAnswer(
                status="unchanged" if same else "done",
                proposal=None,
                path=path,
                revision=revision_of(wanted),
                changed=[] if same else [path],
                diff=unified(before, after, path, most_characters=MOST_DIFF),
                conflicts=(),
                verified=None if same else True,
            )
            return ActWork(
                contents={} if same else {path: wanted},
                result=changed,
                origins={path: await self._known_of(path, after)},
            )

        return PageAct(request.actor, (path,), work, intent=f"back to {request.revision}")

    async def _newest(self, path: str) -> str:
        lines = await self._ledger.history(path, limit=1)
        return (lines[0].revision if lines else None) or "none: the page is gone"

    async def _known_of(self, path: str, text: str) -> Sequence[Origin]:
        tracked = await self._ledger.tracked(path)
        if tracked is None:
            return ()
        kept = await self._ledger.content(path, tracked.revision)
        past = units(cut(kept.decode("utf-8", "replace"))) if kept is not None else None
        return [origin for origin in trace(units(cut(text)), tracked.origins, past) if origin is not None]

    async def _move_after(self, path: str, revision: str) -> Undoing | None:
        """Return the move that ended the page's time at `revision`, if that is how it ended."""
        for line in await self._ledger.history(path, limit=LOOKED_BACK):
            if line.tool == MOVE and line.seq is not None:
                undoing = await self._act_of(line.seq, path)
                if undoing is not None and revision in [
                    before for _, before, after in undoing.changes if after is None
                ]:
                    return undoing
            if line.revision == revision:
                return None
        return None

    async def _act_of(self, seq: int, path: str) -> Undoing | None:
        """Return the move on record under that number, if `path` is the page that moved, by its old place or its new one."""
        records = await self._ledger.records(after=seq - 1, limit=1)
        if not records or records[0].seq != seq:
            return None
        changes: list[dict[str, Any]] = json.loads(records[0].body)["changes"]
        moved = [change for change in changes if change["before"] is None or change["after"] is None]
        if path not in [change["path"] for change in moved]:
            return None  # a page that only had a link rewritten goes back alone
        return Undoing([(change["path"], change["before"], change["after"]) for change in changes])

    def _undo(self, request: RevertRequest, undoing: Undoing) -> PageAct[ChangeAnswer]:
        """Return the act that takes a move back in every file; what was written there since stays."""
        gone = [path for path, before, _ in undoing.changes if before is None]
        back = [path for path, _, after in undoing.changes if after is None]

        async def work(contents: Contents) -> ActWork[ChangeAnswer]:
            written: dict[str, bytes | None] = {}
            diffs: list[tuple[str, str, str, str]] = []
            conflicts: list[Conflict] = []
            for path, before, after in undoing.changes:
                if path in gone:
                    written[path] = None
                    continue
                source = gone[0] if path in back else path
                was = await self._content(path, before)
                then = await self._content(source, _after_of(undoing, source) if path in back else after)
                now = contents[source]
                if now is None:
                    if path in back:
                        raise PageGone(source, request.revision)
                    continue  # a page that was removed since stays removed
                if path in back and contents[path] is not None:
                    raise PageExists(path)
                text, found = _rejoined(then, text_of(source, now), was)
                conflicts += found
                if text.encode() != contents[path]:
                    written[path] = text.encode()
                    diffs.append((source, path, text_of(source, now), text))
            status: Status = "partial" if conflicts else "done"
            new = back[0]
            raw = written.get(new)
            changed = ChangeAnswer(
                status=status,
                proposal=None,
                path=new,
                revision=revision_of(raw) if raw is not None else None,
                changed=sorted(path for path, found_raw in written.items() if found_raw is not None),
                diff=_diffs(diffs),
                conflicts=conflicts,
                verified=True,
                note=f"the move is taken back: the page is at {new} again",
            )
            return ActWork(
                contents=written,
                result=changed,
                origins={now: await self._carried(was, before, after) for was, now, before, after in diffs},
                moved={new: gone[0]},
            )

        paths = tuple(path for path, _, _ in undoing.changes)
        return PageAct(request.actor, paths, work, intent=f"take back the move to {gone[0]}")

    async def _content(self, path: str, revision: str | None) -> str:
        raw = await self._ledger.content(path, revision) if revision else None
        if raw is None:
            raise UnknownRevision(path, revision or "none", await self._newest(path))
        return raw.decode("utf-8", "replace")


def _after_of(undoing: Undoing, wanted: str) -> str | None:
    return next(after for path, _, after in undoing.changes if path == wanted)


def _rejoined(base: str, current: str, incoming: str) -> tuple[str, Sequence[Conflict]]:
    """Return `current` with the step from `base` to `incoming` joined in, and what could not be joined."""
    incoming, base = fitted(incoming, base, current)
    joined = join(cut(base), cut(current), cut(incoming))
    return joined.text, joined.conflicts


def rejoin(before: bytes, current: bytes, after: bytes) -> bytes:
    """Return `current` with the step from `before` to `after` joined in; where both changed the same, `current` stays."""
    try:
        text, _ = _rejoined(before.decode(), current.decode(), after.decode())
    except UnicodeDecodeError:
        return current
    return text.encode()


def _as(origin: Origin, digest: bytes, section: tuple[str, ...]) -> Origin:
    return replace(origin, digest=digest, section=section)


def _diffs(pages: Sequence[tuple[str, str, str, str]]) -> str:
    """Return the differences of several pages, the first ones in full as far as there is room."""
    room, parts = MOST_DIFF, []
    for was, now, before, after in pages:
        if before == after:
            parts.append(f"{was} -> {now}\n")
            continue
        part = unified(before, after, now, most_characters=max(room, 200))
        room -= len(part)
        parts.append(part)
        if room <= 0:
            parts.append(f"... and {len(pages) - len(parts)} more pages\n" if len(pages) > len(parts) else "")
            break
    return "".join(parts)


def _rewritten(pages: int) -> str | None:
    return f"links in {pages} other page{'s' if pages > 1 else ''} lead to the new place" if pages else None


def _left_dangling(linking: Sequence[str]) -> str | None:
    if not linking:
        return None
    shown = ", ".join(linking[:5]) + (f" and {len(linking) - 5} more" if len(linking) > 5 else "")
    return f"links to it are left in {shown}"
