"""Merges as acts: what the files hold when the locks are held decides what is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from knowledge.errors import InvalidPath, PageGone, UnreadableDocument
from knowledge.history.ports import Ledger, Tracked
from knowledge.merge.evidence.placement import Similarity
from knowledge.merge.evidence.undecided import Pair
from knowledge.merge.unified_diff import unified
from knowledge.offload import Aside, Here
from knowledge.pages.paths import new_name
from knowledge.pages.vault import LARGEST_BYTES, revision_of
from knowledge.writing.acts.merge_work import (
    MOST_DIFF,
    MergeBasis,
    MergeOutcome,
    joined,
    undecided,
    worked_out,
    worked_out_new,
)
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.related.target_page import PageLookup, text_of
from knowledge.writing.requests import MergeRequest

MOST_BASES = 32
MOST_KNOWN = 4
"""Merges that were worked out and whose act may follow."""
LONGEST_BASE = 200_000
"""Characters of a text that is remembered as a base."""
LONGEST_DOUBTED = 200_000
"""Characters of page and content up to which a model is asked what rules cannot decide."""


@dataclass(frozen=True, slots=True)
class _MergeInputs:
    """What a merge follows from, beside the texts that have these revisions."""

    request: MergeRequest
    revision: str | None
    verified: tuple[str, ...]
    tracked: Tracked | None

    def __hash__(self) -> int:
        return hash((self.request, self.revision))


class Merging:
    """Builds the acts of merges; large ones are worked out `aside`."""

    def __init__(
        self, ledger: Ledger, pages: PageLookup, now: Callable[[], datetime], aside: Aside | None = None
    ) -> None:
        self._ledger, self._pages, self._now, self._aside = ledger, pages, now, aside or Here()
        self._known: dict[_MergeInputs, ActWork[MergeOutcome]] = {}
        self._bases: dict[tuple[str, str], str] = {}

    def act(
        self,
        request: MergeRequest,
        *,
        verified: Sequence[str] = (),
        similarity: Similarity | None = None,
        earlier: Sequence[tuple[MergeRequest, Sequence[str]]] = (),
    ) -> PageAct[MergeOutcome]:
        """Return the act of merging into the page at `request.path`; `verified` are the lineages that say the same.

        What is `earlier` is merged before, each with its own lineages, and all of it is one act.
        """

        async def work(contents: Contents) -> ActWork[MergeOutcome]:
            raw = contents[request.path]
            if earlier:
                return await self._one_after_another([*earlier, (request, verified)], raw, similarity)
            return await self._one(request, raw, verified, similarity)

        return PageAct(request.actor, (request.path,), work, intent=request.intent)

    async def undecided(
        self, request: MergeRequest, raw: bytes, verified: Sequence[str], similarity: Similarity
    ) -> tuple[Pair, ...]:
        """Return what of the request and of a page that holds `raw` is near each other and undecided by rules."""
        path = request.path
        if len(raw) + len(request.content) > LONGEST_DOUBTED:
            return ()
        tracked = await self._ledger.tracked(path)
        ground = await self._ground(request, raw, verified=verified, tracked=tracked, similarity=similarity)
        return await self._aside.run(undecided, ground, size=ground.size, what=_named(request))

    async def _one_after_another(
        self,
        steps: Sequence[tuple[MergeRequest, Sequence[str]]],
        before: bytes | None,
        similarity: Similarity | None,
    ) -> ActWork[MergeOutcome]:
        """Return the work of several merges, each into what the one before it left."""
        path, raw, works = steps[0][0].path, before, list[ActWork[MergeOutcome]]()
        for request, verified in steps:
            work = await self._one(request, raw, verified, similarity, _tracked_after(works, path))
            works.append(work)
            raw = work.contents.get(path, raw)
        return _as_one(works, path, before, raw)

    async def _one(
        self,
        request: MergeRequest,
        raw: bytes | None,
        verified: Sequence[str],
        similarity: Similarity | None,
        tracked: Tracked | None = None,
    ) -> ActWork[MergeOutcome]:
        """Return the work of merging into a page that holds `raw`, or of making it."""
        path = request.path
        if raw is None:
            _check_new(request)
        elif len(raw) > LARGEST_BYTES:
            raise UnreadableDocument(
                path, f"it has {len(raw) // 2**20} MiB; at most {LARGEST_BYTES // 2**20} MiB can be merged"
            )
        revision = None if raw is None else revision_of(raw)
        if raw is not None:
            tracked = tracked or await self._ledger.tracked(path)
        known = _MergeInputs(request, revision, tuple(verified), tracked)
        if known not in self._known:
            ground = await self._ground(request, raw, verified=verified, tracked=tracked, similarity=similarity)
            step = worked_out_new if raw is None else worked_out
            work = await self._aside.run(step, ground, size=ground.size, what=_named(request))
            # Planned, decided on, done: between the first and the last nothing has changed, as a rule.
            self._known[known] = work
            while len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._remember_written(path, work)
        return self._known[known]

    async def _ground(
        self,
        request: MergeRequest,
        raw: bytes | None,
        *,
        verified: Sequence[str],
        tracked: Tracked | None,
        similarity: Similarity | None,
    ) -> MergeBasis:
        path = request.path
        text, revision = ("", None) if raw is None else (text_of(path, raw), revision_of(raw))
        return MergeBasis(
            request=replace(request, earlier=()),
            verified=tuple(verified),
            text=text,
            revision=revision,
            base=await self._base(request, text, revision),
            tracked=tracked,
            tracked_text=None if tracked is None else await self._text_at(path, tracked.revision, revision, text),
            around=await self._pages.surroundings(path),
            modified=self._pages.modified(path) or self._now(),
            now=self._now(),
            similarity=similarity,
        )

    async def _base(self, request: MergeRequest, text: str, revision: str | None) -> str | None:
        asked = request.base_revision
        if asked is None:
            return None
        if asked == revision:
            return text
        if (request.path, asked) in self._bases:
            return self._bases[request.path, asked]  # what this process wrote last is what its callers go on from
        raw = await self._ledger.content(request.path, asked)
        if raw is None:
            return None
        base = text_of(request.path, raw)
        self._remember(request.path, asked, base)
        return base

    def _remember_written(self, path: str, work: ActWork[MergeOutcome]) -> None:
        raw, after = work.contents.get(path), work.result.merged.revision
        if raw is not None and after is not None and len(raw) <= LONGEST_BASE:
            self._remember(path, after, raw.decode())

    def _remember(self, path: str, revision: str, base: str) -> None:
        if len(base) <= LONGEST_BASE:
            self._bases[path, revision] = base
            while len(self._bases) > MOST_BASES:
                del self._bases[next(iter(self._bases))]

    async def _text_at(self, path: str, revision: str, current: str | None, text: str) -> str | None:
        """Return the text that the page had at a revision; None if that is not kept."""
        if revision == current:
            return text
        raw = await self._ledger.content(path, revision)
        return raw.decode("utf-8", "replace") if raw is not None else None


def _named(request: MergeRequest) -> str:
    """Return what messages call the merge."""
    return f"merging {len(request.content):,} characters into {request.path}"


def _check_new(request: MergeRequest) -> None:
    """Raise if no page can be made of the request."""
    path = request.path
    if request.base_revision is not None:
        raise PageGone(path, request.base_revision)
    new_name(path)
    if request.section is not None:
        raise InvalidPath(path, f"there is no page yet that has a section {request.section[:80]!r}; send it without")


def _tracked_after(works: Sequence[ActWork[MergeOutcome]], path: str) -> Tracked | None:
    """Return where the units of the page come from after these merges; None while nothing of it changed."""
    for work in reversed(works):
        raw = work.contents.get(path)
        if raw is not None:
            return Tracked(revision_of(raw), work.origins[path])
    return None


def _as_one(
    works: Sequence[ActWork[MergeOutcome]], path: str, before: bytes | None, after: bytes | None
) -> ActWork[MergeOutcome]:
    """Return one work that does what these do one after another."""
    told = [work.result.merged for work in works]
    conflicts = [conflict for merged in told for conflict in merged.conflicts]
    written = before != after and after is not None
    last = works[-1]
    merged = replace(
        told[-1],
        status="partial" if conflicts and written else "conflict" if conflicts else "done" if written else "unchanged",
        revision=None if after is None else revision_of(after),
        blocks=[verdict for one in told for verdict in one.blocks],
        diff=unified(_text(before), _text(after), path, most_characters=MOST_DIFF),
        conflicts=conflicts,
        verified=True if written else None,
        note=joined(*(one.note for one in told)) or None,
    )
    brought = [pair for work in works for pair in work.result.brought]
    return replace(
        last,
        contents={path: after} if written else {},
        result=MergeOutcome(merged, brought, last.result.known),
        confidence=max((work.confidence for work in works if work.confidence is not None), default=None),
        outcome="partial" if conflicts and written else "done",
        contradictions=[found for work in works for found in work.contradictions],
        origins={path: tracked.origins} if written and (tracked := _tracked_after(works, path)) else last.origins,
        record=any(work.record for work in works) and not written,
        repeats=tuple(dict.fromkeys(origin for work in works for origin in work.repeats)),
    )


def _text(raw: bytes | None) -> str:
    return "" if raw is None else raw.decode("utf-8", "replace")


__all__ = ["MergeOutcome", "Merging"]
