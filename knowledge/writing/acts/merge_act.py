"""Merges as acts: computed from the contents of the files once their locks are held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import anyio.to_thread

from knowledge.errors import InvalidPath, PageGone, UnreadableDocument, UnresolvedConflict
from knowledge.history.acts import PERSONS
from knowledge.history.ports import Ledger, Tracked
from knowledge.merge.evidence.place.placement import Similarity
from knowledge.merge.evidence.undecided import Pair
from knowledge.merge.model import WHOLE_PAGE, Dismissal, Origin
from knowledge.merge.unified_diff import unified_diff
from knowledge.offload import InlineRunner, StepRunner
from knowledge.pages.markdown.conflict_markers import conflicts_in
from knowledge.pages.paths import new_name
from knowledge.pages.vault import LARGEST_BYTES, revision_of
from knowledge.writing.acts.merge_work import (
    MOST_DIFF,
    MergeBasis,
    MergeOutcome,
    merge_into_new_page,
    merge_into_page,
    status_of,
    undecided_pairs,
)
from knowledge.writing.answers import join_notes
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.related.moved_dismissals import moved_dismissals
from knowledge.writing.related.target_page import PageLookup, text_of
from knowledge.writing.requests import MergeRequest

MOST_BASES = 32
MOST_KNOWN = 4
"""Computed merges that are cached, because the same merge is usually planned first and carried out soon after."""
LONGEST_BASE = 200_000
"""Longest text, in characters, that is cached as a base."""
LONGEST_JUDGED = 200_000
"""Characters of page and content; if there are more, no model is asked about the statements that rules can't decide."""


@dataclass(frozen=True, slots=True)
class _MergeInputs:
    """Everything that a merge depends on, with revisions in place of the texts: the key of the cache."""

    request: MergeRequest
    revision: str | None
    verified: tuple[str, ...]
    tracked: Tracked | None
    dismissals: Mapping[bytes, Dismissal]

    def __hash__(self) -> int:
        # `tracked` and `dismissals` are compared and not hashed: a long page has thousands of origins.
        return hash((self.request, self.revision))


class MergeActs:
    """Builds the acts of merges; large ones are computed by `runner`."""

    def __init__(
        self,
        ledger: Ledger,
        pages: PageLookup,
        now: Callable[[], datetime],
        runner: StepRunner | None = None,
        *,
        in_conflict: Callable[[str], bool] | None = None,
    ) -> None:
        self._ledger, self._pages, self._now, self._runner = ledger, pages, now, runner or InlineRunner()
        self._in_conflict = in_conflict
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
        """Return the act of merging into the page at `request.path`; `verified` are the lineages found to say the same.

        The requests in `earlier`, each with its own lineages, are merged before it, in the same act.
        """

        async def work(contents: Contents) -> ActWork[MergeOutcome]:
            before = raw = contents[request.path]
            works: list[ActWork[MergeOutcome]] = []
            for step, lineages in (*earlier, (request, verified)):
                # Earlier merges of this act are not in the ledger yet, so their origins are handed on.
                tracked = _tracked_after(works, request.path)
                works.append(await self._merge(step, raw, lineages, similarity, tracked))
                raw = works[-1].contents.get(request.path, raw)
            return _combined(works, request.path, before, raw) if earlier else works[0]

        return PageAct(request.actor, (request.path,), work, intent=request.intent)

    def edits(
        self,
        requests: Sequence[MergeRequest],
        adopt: Callable[[Origin], Origin] | None = None,
        premises: Mapping[str, Callable[[bytes], bool]] | None = None,
    ) -> PageAct[Sequence[MergeOutcome]]:
        """Return the act of making these edits of different pages: all of them, or none if one can't be made as a whole.

        After the edits, `adopt` gets each origin of the edited pages and returns the origin to record instead.
        `premises` are other pages that the edits rest on, each with a function that checks its bytes under its lock. If
        one of these functions returns False, nothing is written.
        """
        acts = [self.act(request) for request in requests]

        async def work(contents: Contents) -> ActWork[Sequence[MergeOutcome]]:
            works = [await act.work(contents) for act in acts]
            outcomes = [one.result for one in works]
            hold = all(premise(contents[path] or b"") for path, premise in (premises or {}).items())
            if not hold or any(outcome.merged.status != "done" for outcome in outcomes):
                return ActWork({}, outcomes)
            return ActWork(
                contents={path: raw for one in works for path, raw in one.contents.items()},
                result=outcomes,
                origins={
                    path: [adopt(origin) if adopt else origin for origin in origins]
                    for one in works
                    for path, origins in one.origins.items()
                },
            )

        paths = dict.fromkeys((*(request.path for request in requests), *(premises or {})))
        return PageAct(requests[0].actor, tuple(paths), work, intent=requests[0].intent)

    async def undecided(
        self, request: MergeRequest, raw: bytes, verified: Sequence[str], similarity: Similarity
    ) -> tuple[Pair, ...]:
        """Return the pairs of similar statements, of the page with these bytes and of the request, that rules can't decide."""
        if len(raw) + len(request.content) > LONGEST_JUDGED:
            return ()
        known = _MergeInputs(
            request,
            revision_of(raw),
            tuple(verified),
            await self._ledger.tracked(request.path),
            await self._ledger.dismissals(request.path),
        )
        basis = await self._basis(known, raw, similarity)
        return await self._runner.run(undecided_pairs, basis, size=basis.size, what=_description(request))

    async def _merge(
        self,
        request: MergeRequest,
        raw: bytes | None,
        verified: Sequence[str],
        similarity: Similarity | None,
        tracked: Tracked | None,
    ) -> ActWork[MergeOutcome]:
        """Return the work of merging into a page with these bytes, or of creating it if `raw` is None."""
        path = request.path
        await self._require_no_conflict(request, raw)
        if raw is None:
            if request.base_revision is not None:
                raise PageGone(path, request.base_revision)
            new_name(path)
            if request.section is not None and request.section != WHOLE_PAGE:
                raise InvalidPath(
                    path, f"no page has a section {request.section[:80]!r} yet; send the call without `section`"
                )
        elif len(raw) > LARGEST_BYTES:
            raise UnreadableDocument(
                path, f"it has {len(raw) // 2**20} MiB; at most {LARGEST_BYTES // 2**20} MiB can be merged"
            )
        if raw is not None:
            tracked = tracked or await self._ledger.tracked(path)
        # A merge is computed for its plan and again under the lock; usually nothing has changed, so the cached one is used.
        dismissals = {} if raw is None else await self._ledger.dismissals(path)
        revision = None if raw is None else revision_of(raw)
        known = _MergeInputs(request, revision, tuple(verified), tracked, dismissals)
        work = await self._computed(known, raw, similarity)
        if moved := await moved_dismissals(self._ledger, self._pages.is_gone, work.contradictions):
            work = await self._computed(replace(known, dismissals={**moved, **dismissals}), raw, similarity)
        return work

    async def _computed(
        self, known: _MergeInputs, raw: bytes | None, similarity: Similarity | None
    ) -> ActWork[MergeOutcome]:
        request, path = known.request, known.request.path
        if known not in self._known:
            basis = await self._basis(known, raw, similarity)
            step = merge_into_new_page if raw is None else merge_into_page
            work = await self._runner.run(step, basis, size=basis.size, what=_description(request))
            self._known[known] = work
            while len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
            written, after = work.contents.get(path), work.result.merged.revision
            if written is not None and after is not None and len(written) <= LONGEST_BASE:
                self._remember(path, after, written.decode())
        return self._known[known]

    async def _require_no_conflict(self, request: MergeRequest, raw: bytes | None) -> None:
        """Check that neither the new text nor the page has a conflict of Git in it.

        If a person writes, only the text is checked: the person may be resolving the conflict in the page.

        Raises:
            UnresolvedConflict: one has.
        """
        path = request.path
        if found := conflicts_in(request.content):
            first, last = found[0]
            where = f"the content has a Git conflict in its lines {first} to {last}"
            raise UnresolvedConflict(path, where, "send one text without marks, or put an example into a code fence")
        if raw is None or request.actor.principal.rpartition("@")[2] in PERSONS:
            return
        if found := conflicts_in(text_of(path, raw)):
            where = f"lines {found[0].first} to {found[0].last} of the page are a Git conflict"
            raise UnresolvedConflict(path, where, "ask the person to resolve it, and send this call again")
        is_unmerged = False
        if self._in_conflict is not None:
            is_unmerged = await anyio.to_thread.run_sync(self._in_conflict, path)
        if is_unmerged:
            mend = "ask the person to resolve it and to run git add, and send this call again"
            raise UnresolvedConflict(path, "Git has an unresolved conflict in the page", mend)

    async def _basis(self, known: _MergeInputs, raw: bytes | None, similarity: Similarity | None) -> MergeBasis:
        request, revision, tracked = known.request, known.revision, known.tracked
        path = request.path
        text = "" if raw is None else text_of(path, raw)
        tracked_text = None
        if tracked is not None and tracked.revision == revision:
            tracked_text = text
        elif tracked is not None and (kept := await self._ledger.content(path, tracked.revision)) is not None:
            tracked_text = kept.decode("utf-8", "replace")
        return MergeBasis(
            request=replace(request, earlier=()),
            verified=known.verified,
            text=text,
            revision=revision,
            base=text if request.base_revision == revision else await self._base(path, request.base_revision),
            tracked=tracked,
            tracked_text=tracked_text,
            around=await self._pages.surroundings(path),
            modified=self._pages.modified(path) or self._now(),
            now=self._now(),
            similarity=similarity,
            dismissals=known.dismissals,
        )

    async def _base(self, path: str, revision: str | None) -> str | None:
        """Return the text of the page at a revision; None if it is unknown."""
        if revision is None:
            return None
        # The last text that this process wrote is usually the base of its callers' next merge.
        if (path, revision) in self._bases:
            return self._bases[path, revision]
        raw = await self._ledger.content(path, revision)
        if raw is None:
            return None
        base = text_of(path, raw)
        self._remember(path, revision, base)
        return base

    def _remember(self, path: str, revision: str, base: str) -> None:
        if len(base) <= LONGEST_BASE:
            self._bases[path, revision] = base
            while len(self._bases) > MOST_BASES:
                del self._bases[next(iter(self._bases))]


def _description(request: MergeRequest) -> str:
    return f"merging {len(request.content):,} characters into {request.path}"


def _tracked_after(works: Sequence[ActWork[MergeOutcome]], path: str) -> Tracked | None:
    """Return the origins of the page's units after these merges; None if none of them wrote the page."""
    for work in reversed(works):
        raw = work.contents.get(path)
        if raw is not None:
            return Tracked(revision_of(raw), work.origins[path])
    return None


def _combined(
    works: Sequence[ActWork[MergeOutcome]], path: str, before: bytes | None, after: bytes | None
) -> ActWork[MergeOutcome]:
    """Return one work that has the combined result of `works`, which are carried out one after another."""
    answers = [work.result.merged for work in works]
    conflicts = [conflict for merged in answers for conflict in merged.conflicts]
    places = [place for merged in answers for place in merged.places]
    questions = [question for merged in answers for question in merged.questions]
    written = before != after and after is not None
    status = status_of(written=written, conflicts=conflicts, asks=bool(places or questions))
    last = works[-1]
    old, new = ["" if raw is None else raw.decode("utf-8", "replace") for raw in (before, after)]
    merged = replace(
        answers[-1],
        status=status,
        revision=None if after is None else revision_of(after),
        blocks=[verdict for one in answers for verdict in one.blocks],
        diff=unified_diff(old, new, path, most_characters=MOST_DIFF),
        conflicts=conflicts,
        verified=True if written else None,
        places=places,
        questions=questions,
        note=join_notes(*(one.note for one in answers)) or None,
    )
    brought = [text for work in works for text in work.result.brought]
    return replace(
        last,
        contents={path: after} if written else {},
        result=MergeOutcome(merged, brought, last.result.known),
        confidence=max((work.confidence for work in works if work.confidence is not None), default=None),
        outcome="partial" if status == "partial" else "done",
        contradictions=[found for work in works for found in work.contradictions],
        origins={path: tracked.origins} if written and (tracked := _tracked_after(works, path)) else last.origins,
        record=any(work.record for work in works) and not written,
        repeats=tuple(dict.fromkeys(origin for work in works for origin in work.repeats)),
        judgements=tuple(dict.fromkeys(one for work in works for one in work.judgements)),
    )
