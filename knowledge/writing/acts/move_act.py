"""Moves, deletions and returns to earlier states, as acts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowledge.errors import NoSuchPath, PageExists, PageGone, UnknownRevision
from knowledge.history.acts import act_name
from knowledge.history.ports import Ledger
from knowledge.merge.document.link_spans import LinkSpan
from knowledge.merge.document.links import resolve, update_links
from knowledge.merge.document.unit_origins import trace_origins
from knowledge.merge.document.units import cut, units
from knowledge.merge.model import Conflict, Origin, Unit, unit_digest
from knowledge.merge.normalise import fit_to_page
from knowledge.merge.three_way.join import join
from knowledge.merge.unified_diff import unified_diff
from knowledge.pages.links import LinkTargets
from knowledge.pages.obsidian.canvas import is_canvas, read_canvas
from knowledge.pages.vault import revision_of
from knowledge.writing.answers import ChangeAnswer, Status
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.related.backlinks import Backlinks, linking_text
from knowledge.writing.related.target_page import text_of
from knowledge.writing.requests import DeleteRequest, MoveRequest, RelinkRequest, RevertRequest
from knowledge.writing.undo.page_places import relink
from knowledge.writing.undo.past_act import PastAct, UndoRequest, past_act
from knowledge.writing.undo.undo_acts import UndoActs

MOST_DIFF = 6_000
LEAST_DIFF = 200
MOST_DANGLING = 5
MOVE = "kb_move"
MOST_HISTORY = 500
"""Lines of history in which a revision is searched for."""


class MoveActs:
    """Builds the acts; the paths in requests must be real paths, with links resolved."""

    def __init__(self, ledger: Ledger, backlinks: Backlinks, undoing: UndoActs) -> None:
        self._ledger, self._backlinks, self._undoing = ledger, backlinks, undoing

    def move(self, request: MoveRequest, linking: Sequence[str]) -> PageAct[ChangeAnswer]:
        """Return the act that moves a page and rewrites the links to it in the pages `linking`."""
        old, new = request.path, request.to

        async def work(contents: Contents) -> ActWork[ChangeAnswer]:
            raw = contents[old]
            if raw is None:
                raise NoSuchPath(old)
            if contents[new] is not None:
                raise PageExists(new)
            before = {old: text_of(old, raw)}
            for page in linking:
                # None: deleted since its links were looked up.
                found = contents[page]
                if found is not None:
                    before[page] = text_of(page, found)
            texts = [linking_text(page, text) for page, text in before.items()]
            names = await self._backlinks.names(texts, known={old: before[old]}, comes=new)
            moves = {old: new}
            after = {
                moves.get(page, page): update_links(text, page=page, moves=moves, names=names)
                for page, text in before.items()
            }
            after = {page: text for page, text in after.items() if page == new or text != before[page]}
            pairs = [(old, new), *((page, page) for page in sorted(after) if page != new)]
            others = len(after) - 1
            note = f"links in {others} other page{'s' if others > 1 else ''} now lead to the new path"
            diff = _diffs([(was, now, before[was], after[now]) for was, now in pairs])
            revision = revision_of(after[new].encode())
            return ActWork(
                contents={old: None, **{page: text.encode() for page, text in after.items()}},
                result=_answer("done", new, revision, sorted(after), diff, note=note if others else None),
                origins={now: await self._carried(was, before[was], after[now]) for was, now in pairs},
                moved={new: old},
            )

        return PageAct(request.actor, tuple(dict.fromkeys((old, new, *linking))), work, intent=f"move {old} to {new}")

    def relink(self, request: RelinkRequest, linking: Sequence[str]) -> PageAct[ChangeAnswer]:
        """Return the act that rewrites links to a page that has moved already, in the pages `linking` and in itself.

        Only links that lead nowhere now are rewritten: one that leads to another page may be meant like that.
        """
        old, new = request.old, request.new

        async def work(contents: Contents) -> ActWork[ChangeAnswer]:
            moved = contents[new]
            if moved is None:
                raise NoSuchPath(new)
            if contents[old] is not None:
                raise PageExists(old)
            before = {page: text_of(page, raw) for page, raw in contents.items() if raw is not None}
            present = await self._backlinks.names(before.values(), known=before)
            after = {page: _followed(text, page, old, new, present) for page, text in before.items()}
            changed = sorted(page for page, text in after.items() if text != before[page])
            diff = _diffs([(page, page, before[page], after[page]) for page in changed])
            status: Status = "done" if changed else "unchanged"
            return ActWork(
                contents={page: after[page].encode() for page in changed},
                result=_answer(status, new, revision_of(after[new].encode()), changed, diff),
                origins={page: await self._carried(page, before[page], after[page]) for page in changed},
            )

        intent = f"links follow the move of {old} to {new}"
        return PageAct(request.actor, tuple(dict.fromkeys((new, old, *linking))), work, intent=intent)

    def delete(self, request: DeleteRequest, linking: Sequence[str]) -> PageAct[ChangeAnswer]:
        """Return the act that removes a page if it is still as the caller read it; `linking` are pages that link to it."""
        path = request.path

        async def work(contents: Contents) -> ActWork[ChangeAnswer]:
            raw = contents[path]
            if raw is None:
                raise NoSuchPath(path)
            revision = revision_of(raw)
            if revision != request.base_revision:
                note = f"nothing is deleted: the page is at {revision} and not at the revision you name; read it again"
                return ActWork({}, _answer("analysis", path, revision, [], "", note=note))
            more = len(linking) - MOST_DANGLING
            shown = ", ".join(linking[:MOST_DANGLING]) + (f" and {more} more" if more > 0 else "")
            diff = unified_diff(raw.decode("utf-8", "replace"), "", path, most_characters=MOST_DIFF)
            note = f"links to it are left in {shown}"
            return ActWork({path: None}, _answer("done", path, None, [path], diff, note=note if linking else None))

        return PageAct(request.actor, (path,), work, intent=f"delete {path}")

    async def revert(self, request: RevertRequest) -> PageAct[ChangeAnswer]:
        """Return the act that restores a page to a revision; a move right after that revision is undone as a whole.

        Raises:
            UnknownRevision: the page never was at that revision, or it is no longer kept.
        """
        moved = await self._move_after(request.path, request.revision)
        if moved is not None:
            return await self._undo_move(request, moved)
        path = request.path
        wanted = await self._ledger.content(path, request.revision)
        if wanted is None:
            raise UnknownRevision(path, request.revision, await self._newest(path))

        async def work(contents: Contents) -> ActWork[ChangeAnswer]:
            raw = contents[path]
            same = raw == wanted
            before, after = [(one or b"").decode("utf-8", "replace") for one in (raw, wanted)]
            diff = unified_diff(before, after, path, most_characters=MOST_DIFF)
            changed = [] if same else [path]
            answer = _answer("unchanged" if same else "done", path, revision_of(wanted), changed, diff)
            origins = {path: await self._known(path, units(cut(after)))}
            return ActWork({} if same else {path: wanted}, answer, origins=origins)

        return PageAct(request.actor, (path,), work, intent=f"restore revision {request.revision}")

    async def _move_after(self, path: str, revision: str) -> PastAct | None:
        """Return the move that directly followed `revision`, None if another act did."""
        for line in await self._ledger.history(path, limit=MOST_HISTORY):
            act = await self._ledger.act(act_name(line)) if line.tool == MOVE else None
            if act is not None:
                move = past_act(act)
                places = {place for pair in move.sources.items() for place in pair}
                # A page in which the move only rewrote a link is restored alone.
                if path in places and revision in move.left:
                    return move
            if line.revision == revision:
                return None
        return None

    async def _undo_move(self, request: RevertRequest, move: PastAct) -> PageAct[ChangeAnswer]:
        """Return the act that undoes a move in every file; later edits in these files stay."""
        ((old, new),) = move.sources.items()
        undo = await self._undoing.act(UndoRequest(request.actor, request.path, (move,)))

        async def work(contents: Contents) -> ActWork[ChangeAnswer]:
            done = await undo.work(contents)
            if done.moved.get(old) is None:
                if contents.get(old) is not None:
                    raise PageExists(old)
                raise PageGone(new, request.revision)
            raw = done.contents[old]
            pages = [(done.moved.get(path, path), path) for path in done.result.pages]
            texts = [(was, now, _decoded(contents[was]), _decoded(done.contents[now])) for was, now in pages]
            note = f"the move is undone: the page is at {old} again"
            revision = revision_of(raw) if raw is not None else None
            answer = _answer("done", old, revision, done.result.pages, _diffs(texts), note=note)
            conflicts = [
                Conflict(one.section, "", one.now or "", one.before or "", one.line) for one in done.result.conflicts
            ]
            return ActWork(
                contents=done.contents,
                result=replace(answer, status="partial" if conflicts else "done", conflicts=conflicts),
                origins={now: await self._carried(was, before, after) for was, now, before, after in texts},
                moved=done.moved,
                undoes=done.undoes,
            )

        return PageAct(request.actor, undo.paths, work, intent=f"undo the move to {new}")

    async def _newest(self, path: str) -> str:
        lines = await self._ledger.history(path, limit=1)
        return (lines[0].revision if lines else None) or "none: the page is gone"

    async def _carried(self, path: str, before: str, after: str) -> Sequence[Origin]:
        """Return the origins of the units of `after`, taken over from `before`, which differs only in links; a canvas has none."""
        if is_canvas(path):
            return ()
        then, now = units(cut(before)), units(cut(after))
        # A new link text changed how the page is cut, so the units do not correspond one by one.
        if len(then) != len(now):
            return await self._known(path, now)
        found = await self._traced(path, then)
        # Not strict: `found` is empty if nothing is recorded about the page.
        return [
            replace(origin, digest=unit_digest(unit.text), section=unit.section)
            for origin, unit in zip(found, now, strict=False)
            if origin is not None
        ]

    async def _known(self, path: str, here: Sequence[Unit]) -> Sequence[Origin]:
        return [origin for origin in await self._traced(path, here) if origin is not None]

    async def _traced(self, path: str, here: Sequence[Unit]) -> Sequence[Origin | None]:
        """Return the recorded origin of each of these units of the page; empty if nothing is recorded about it."""
        tracked = await self._ledger.tracked(path)
        if tracked is None:
            return ()
        kept = await self._ledger.content(path, tracked.revision)
        return trace_origins(
            here, tracked.origins, units(cut(kept.decode("utf-8", "replace"))) if kept is not None else None
        )


def _answer(
    status: Status, path: str, revision: str | None, changed: Sequence[str], diff: str, *, note: str | None = None
) -> ChangeAnswer:
    # `verified`: the transaction has read back what it wrote, or undone it and raised.
    return ChangeAnswer(status, None, path, revision, changed, diff, (), True if changed else None, note)


def _followed(text: str, page: str, old: str, new: str, present: LinkTargets) -> str:
    """Return the text of `page` with its links repaired after the move from `old` to `new`.

    Broken links to `old` lead to `new`. If `page` is the moved page itself, its other broken links lead to where they
    led before.
    """

    def is_broken(link: LinkSpan) -> bool:
        # The index may still know the page at its former path.
        return resolve(page, link, present) in (None, old)

    def led_elsewhere(link: LinkSpan) -> bool:
        return is_broken(link) and resolve(old, link, present) not in (None, old)

    if page == new:
        text = relink(text, old, {old: (new, new)}, present, only=led_elsewhere)
    return relink(text, page, {old: (new, new)}, present, only=is_broken)


def _decoded(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


def _rejoined(base: str, current: str, incoming: str) -> tuple[str, Sequence[Conflict]]:
    """Return `current` with the changes from `base` to `incoming` merged in, and those that conflict."""
    incoming, base = fit_to_page(incoming, base, current)
    joined = join(cut(base), cut(current), cut(incoming))
    return joined.text, joined.conflicts


def rejoin(before: bytes, current: bytes, after: bytes) -> bytes:
    """Return `current` with the changes from `before` to `after` merged in; where both changed the same text, `current` wins.

    A canvas stays `current`: it is no text that lines could be merged into.
    """
    if current.lstrip()[:1] == b"{" and read_canvas(current) is not None:
        return current
    try:
        text, _ = _rejoined(before.decode(), current.decode(), after.decode())
    except UnicodeDecodeError:
        return current
    return text.encode()


def _diffs(pages: Sequence[tuple[str, str, str, str]]) -> str:
    """Return the diffs of several pages, as many as fit, with a note on how many are left out."""
    room, parts = MOST_DIFF, []
    for was, now, before, after in pages:
        if before == after:
            parts.append(f"{was} -> {now}\n")
            continue
        part = unified_diff(before, after, now, most_characters=max(room, LEAST_DIFF))
        room -= len(part)
        parts.append(part)
        if room <= 0:
            parts.append(f"... and {len(pages) - len(parts)} more pages\n" if len(pages) > len(parts) else "")
            break
    return "".join(parts)
