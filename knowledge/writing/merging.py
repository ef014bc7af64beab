"""Merges as acts: what the files hold when the locks are held decides what is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import anyio.to_thread

from knowledge.errors import InvalidPath, PageGone, UnreadableDocument
from knowledge.ledger.ports import Ledger, Tracked
from knowledge.merge.confidence import USER
from knowledge.merge.cut import cut, front_matter, units
from knowledge.merge.diff import unified
from knowledge.merge.form import Taken, as_document
from knowledge.merge.model import Conflict, Cut, Evidence, MergePlan, Origin, Unit, unit_digest
from knowledge.merge.place import Similarity
from knowledge.merge.plan import Setting, made, merge
from knowledge.merge.provenance import PageFacts, trace
from knowledge.merge.undecided import Pair, undecided
from knowledge.passages import passages
from knowledge.paths import new_name
from knowledge.provenance import FETCHED_KINDS, source_kind
from knowledge.vault import LARGEST_BYTES, revision_of
from knowledge.writing.answers import Merged, Status
from knowledge.writing.model import Act, Contents, Work
from knowledge.writing.pages import Pages, front_matter_of, text_of
from knowledge.writing.requests import MergeRequest

MOST_DIFF = 6_000
MOST_BASES = 32
ASIDE_CHARACTERS = 200_000
"""Longer texts are merged on a worker thread, so that other calls are answered meanwhile."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a merge answers, and what it brought."""

    merged: Merged
    brought: Sequence[tuple[Unit, Origin]] = ()
    known: bytes | None = None
    """The page as the caller knows it now; None where it is the page as it is."""


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a merge follows from, beside the texts that have these revisions."""

    request: MergeRequest
    revision: str
    verified: tuple[str, ...]
    tracked: Tracked | None

    def __hash__(self) -> int:
        return hash((self.request, self.revision))


TAKEN_AS_SNIPPET = (
    "taken as something new to be placed, because it does not begin as the page does and keeps less than half of its words; "
    "to change what is there, name the section, or send the whole page with its first heading"
)


class Merging:
    """Builds the acts of merges."""

    def __init__(self, ledger: Ledger, pages: Pages, now: Callable[[], datetime]) -> None:
        self._ledger, self._pages, self._now = ledger, pages, now
        self._known: dict[_Ground, Work[Outcome]] = {}
        self._bases: dict[tuple[str, str], Cut] = {}

    def act(
        self,
        request: MergeRequest,
        *,
        verified: Sequence[str] = (),
        similarity: Similarity | None = None,
        earlier: Sequence[tuple[MergeRequest, Sequence[str]]] = (),
    ) -> Act[Outcome]:
        """Return the act of merging into the page at `request.path`; `verified` are the lineages that say the same.

        What is `earlier` is merged before, each with its own lineages, and all of it is one act.
        """

        async def work(contents: Contents) -> Work[Outcome]:
            raw = contents[request.path]
            if earlier:
                return await self._one_after_another([*earlier, (request, verified)], raw, similarity)
            if raw is None:
                return await self._new(request, verified)
            return await self._into(request, raw, verified, similarity)

        return Act(request.actor, (request.path,), work, intent=request.intent)

    async def undecided(
        self, request: MergeRequest, raw: bytes, verified: Sequence[str], similarity: Similarity
    ) -> tuple[Pair, ...]:
        """Return what of the request and of a page that holds `raw` is near each other and undecided by rules."""
        path = request.path
        if len(raw) + len(request.content) > ASIDE_CHARACTERS:
            return ()
        text = text_of(path, raw)
        tracked = await self._ledger.tracked(path)
        ground = _Ground(request, revision_of(raw), tuple(verified), tracked)
        setting = await self._setting(request, text, ground, similarity)
        if setting.append:
            return ()
        current = cut(text)
        taken = as_document(current, request.content, path=path, section=request.section)
        evidence = self._evidence(request, verified)
        look = partial(
            undecided,
            current,
            setting.origins,
            cut(request.content),
            evidence,
            page=setting.page,
            rules=setting.rules,
            now=setting.now,
            section=taken.section or None,
            similarity=similarity,
        )
        return await anyio.to_thread.run_sync(look)

    async def _one_after_another(
        self,
        steps: Sequence[tuple[MergeRequest, Sequence[str]]],
        before: bytes | None,
        similarity: Similarity | None,
    ) -> Work[Outcome]:
        """Return the work of several merges, each into what the one before it left."""
        path, raw, works = steps[0][0].path, before, list[Work[Outcome]]()
        for request, verified in steps:
            if raw is None:
                work = await self._new(request, verified)
            else:
                tracked = _tracked_after(works, path) or await self._ledger.tracked(path)
                work = await self._into(request, raw, verified, similarity, tracked)
            works.append(work)
            raw = work.contents.get(path, raw)
        return _as_one(works, path, before, raw)

    def _evidence(self, request: MergeRequest, verified: Sequence[str]) -> Evidence:
        return Evidence(
            source=request.source,
            observed_at=request.observed_at or self._now(),
            authority=request.authority,
            corroborated_by=tuple(verified),
            claimed_by=tuple(source for source in request.corroboration if source not in verified),
            against=request.against,
            doubts=request.judgement.doubts if request.judgement is not None else (),
        )

    async def _new(self, request: MergeRequest, verified: Sequence[str]) -> Work[Outcome]:
        path = request.path
        if request.base_revision is not None:
            raise PageGone(path, request.base_revision)
        new_name(path)
        if request.section is not None:
            raise InvalidPath(
                path, f"there is no page yet that has a section {request.section[:80]!r}; send it without"
            )
        text = _sourced(_ended(request.content), request.source)
        told = f"its front matter says that it comes from {request.source}" if text != _ended(request.content) else ""
        if origins := sorted({origin for _, origin in request.repeats}):
            text, told = _marked(text, origins[0], alone=len(origins) == 1)
        setting = await self._setting(request, "")
        plan = made(text, self._evidence(request, verified), setting)
        return self._work(request, replace(plan, note=_joined(plan.note, told) or None), "", setting)

    async def _into(
        self,
        request: MergeRequest,
        raw: bytes,
        verified: Sequence[str],
        similarity: Similarity | None,
        tracked: Tracked | None = None,
    ) -> Work[Outcome]:
        path = request.path
        if len(raw) > LARGEST_BYTES:
            raise UnreadableDocument(
                path, f"it has {len(raw) // 2**20} MiB; at most {LARGEST_BYTES // 2**20} MiB can be merged"
            )
        text, revision = text_of(path, raw), revision_of(raw)
        tracked = tracked or await self._ledger.tracked(path)
        ground = _Ground(request, revision, tuple(verified), tracked)
        if ground not in self._known:
            work = await self._worked_out(ground, text, similarity)
            # Planned, decided on, done: between the first and the last nothing has changed, as a rule.
            self._known = {ground: work}
        return self._known[ground]

    async def _worked_out(self, ground: _Ground, text: str, similarity: Similarity | None) -> Work[Outcome]:
        request, current = ground.request, cut(text)
        base = await self._base(request, current, ground.revision)
        taken = as_document(base or current, request.content, path=request.path, section=request.section)
        if request.source != USER:
            taken = Taken("snippet", request.content, taken.section)
        setting = await self._setting(request, text, ground, similarity)
        evidence = self._evidence(request, ground.verified)

        def planned() -> Work[Outcome]:
            return self._work(request, merge(base or current, current, taken, evidence, setting), text, setting)

        large = len(text) + len(request.content) > ASIDE_CHARACTERS
        work = await anyio.to_thread.run_sync(planned) if large else planned()
        if request.source == USER and taken.form == "snippet" and not setting.append:
            work = _noted(work, TAKEN_AS_SNIPPET)
        return work if base is not None else self._analysis(work, request, ground.revision)

    async def _base(self, request: MergeRequest, current: Cut, revision: str) -> Cut | None:
        asked = request.base_revision
        if asked is None:
            return None
        if asked == revision:
            return current
        if (request.path, asked) in self._bases:
            return self._bases[request.path, asked]  # what this process wrote last is what its callers go on from
        raw = await self._ledger.content(request.path, asked)
        if raw is None:
            return None
        base = cut(text_of(request.path, raw))
        self._remember(request.path, asked, base)
        return base

    def _remember(self, path: str, revision: str, base: Cut) -> None:
        if len(base.text) <= ASIDE_CHARACTERS:
            self._bases[path, revision] = base
            while len(self._bases) > MOST_BASES:
                del self._bases[next(iter(self._bases))]

    async def _setting(
        self, request: MergeRequest, text: str, ground: _Ground | None = None, similarity: Similarity | None = None
    ) -> Setting:
        path, by = request.path, request.actor.principal
        own, here = front_matter_of(text), units(cut(text)) if text else ()
        around = await self._pages.surroundings(path, own)
        tracked, revision = (ground.tracked, ground.revision) if ground else (None, None)
        origins: Sequence[Origin | None] = [None] * len(here)
        if tracked is not None:
            origins = trace(here, tracked.origins, await self._units_at(path, tracked.revision, revision, here))
        source = str(own.get("source") or USER)
        facts = PageFacts(path, source, self._pages.modified(path) or self._now(), tracked=tracked is not None)
        return Setting(facts, origins, around.rules, self._now(), revision, by, around.append, similarity)

    async def _units_at(
        self, path: str, revision: str, current: str | None, here: Sequence[Unit]
    ) -> Sequence[Unit] | None:
        """Return the units that the page had at a revision; None if that is not kept."""
        if revision == current:
            return here
        raw = await self._ledger.content(path, revision)
        return units(cut(raw.decode("utf-8", "replace"))) if raw is not None else None

    def _work(self, request: MergeRequest, plan: MergePlan, before: str, setting: Setting) -> Work[Outcome]:
        revision = setting.revision
        written = plan.text != before or revision is None
        raw = plan.text.encode()
        after = revision_of(raw) if written else revision
        if plan.cut is not None and after is not None:
            self._remember(request.path, after, plan.cut)
        flags = [
            replace(found, new=replace(found.new, path=request.path, revision=None)) for found in plan.contradictions
        ]
        conflicts = [
            *plan.conflicts,
            *(_both(found.existing.section, found.existing.text, found.new.text) for found in flags),
        ]
        status = _status(plan, written=written)
        origins = [o if o.revision else replace(o, revision=after or "") for o in plan.origins]
        merged = Merged(
            status=status,
            proposal=None,
            path=request.path,
            revision=after,
            blocks=list(plan.verdicts),
            diff=unified(before, plan.text, request.path, most_characters=MOST_DIFF) if written else "",
            conflicts=conflicts,
            verified=True if written else None,
            note=plan.note,
        )
        return Work(
            contents={request.path: raw} if written else {},
            result=Outcome(
                merged,
                _brought(plan, units(cut(before)) if before else ()) if written else (),
                _known_of(plan),
            ),
            source=request.source,
            confidence=_highest(plan),
            outcome="flagged" if flags and not written else "partial" if status == "partial" else "done",
            origins={request.path: origins},
            contradictions=flags,
            record=not written and _support(plan.origins) > _support(setting.origins),
            repeats=_repeated(request, before, plan.text) if written else (),
        )

    def _analysis(self, work: Work[Outcome], request: MergeRequest, revision: str) -> Work[Outcome]:
        """Return the work that does nothing and says what it would have done, if the caller had read the page as it is."""
        why = "unknown here" if request.base_revision else "missing"
        note = (
            f"nothing is written: base_revision is {why}. The page is at {revision}; read it, see that your change still fits, "
            "and send it again with that revision"
        )
        merged = replace(
            work.result.merged,
            status="analysis",
            revision=revision,
            verified=None,
            note=_joined(note, work.result.merged.note),
        )
        return Work(contents={}, result=Outcome(merged), source=request.source)


def _tracked_after(works: Sequence[Work[Outcome]], path: str) -> Tracked | None:
    """Return where the units of the page come from after these merges; None while nothing of it changed."""
    for work in reversed(works):
        raw = work.contents.get(path)
        if raw is not None:
            return Tracked(revision_of(raw), work.origins[path])
    return None


def _as_one(works: Sequence[Work[Outcome]], path: str, before: bytes | None, after: bytes | None) -> Work[Outcome]:
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
        note=_joined(*(one.note for one in told)) or None,
    )
    brought = [pair for work in works for pair in work.result.brought]
    return replace(
        last,
        contents={path: after} if written else {},
        result=Outcome(merged, brought, last.result.known),
        confidence=max((work.confidence for work in works if work.confidence is not None), default=None),
        outcome="partial" if conflicts and written else "done",
        contradictions=[found for work in works for found in work.contradictions],
        origins={path: tracked.origins} if written and (tracked := _tracked_after(works, path)) else last.origins,
        record=any(work.record for work in works) and not written,
        repeats=tuple(dict.fromkeys(origin for work in works for origin in work.repeats)),
    )


def _text(raw: bytes | None) -> str:
    return "" if raw is None else raw.decode("utf-8", "replace")


def _known_of(plan: MergePlan) -> bytes | None:
    return None if plan.known is None or plan.known == plan.text else plan.known.encode()


def _status(plan: MergePlan, *, written: bool) -> Status:
    held_back = bool(plan.conflicts or plan.contradictions)
    if held_back:
        return "partial" if written else "conflict"
    return "done" if written else "unchanged"


def _both(section: str, ours: str, theirs: str) -> Conflict:
    return Conflict(section, "", ours, theirs, 0)


def _support(origins: Sequence[Origin | None]) -> int:
    return sum(len(origin.corroborated_by) for origin in origins if origin is not None)


def _highest(plan: MergePlan) -> float | None:
    return max((verdict.new.confidence for verdict in plan.verdicts if verdict.new), default=None)


def _brought(plan: MergePlan, before: Sequence[Unit]) -> list[tuple[Unit, Origin]]:
    """Return the units of the merged text that were not in it before, each with its origin."""
    old = {unit_digest(unit.text) for unit in before}
    origins: Mapping[bytes, Origin] = {origin.digest: origin for origin in plan.origins}
    found = []
    for unit in units(plan.cut or cut(plan.text)):
        digest = unit_digest(unit.text)
        if digest not in old and digest in origins and unit.kind != "heading":
            found.append((unit, origins[digest]))
    return found


def _noted(work: Work[Outcome], note: str) -> Work[Outcome]:
    merged = work.result.merged
    return replace(work, result=replace(work.result, merged=replace(merged, note=_joined(note, merged.note))))


def _ended(content: str) -> str:
    """Return the text of a new page: with a line end at its end."""
    return content if content.endswith(("\n", "\r")) else content + "\n"


def _sourced(text: str, source: str) -> str:
    """Return the text of a new page; one of fetched evidence says so at its head, for nobody vouches for any of it.

    Whoever reads, finds or lists it learns from there where it comes from. A person who has checked it takes the line out.
    """
    if source_kind(source) not in FETCHED_KINDS:
        return text
    front = front_matter(text)
    if front.problem or "source" in front.metadata:
        return text
    return _with_line(text, f"source: {json.dumps(source, ensure_ascii=False)}")


def _marked(text: str, origin: str, *, alone: bool) -> tuple[str, str]:
    """Return the text of a new page that says at its head that somebody else wrote some of it, and what there is to tell.

    A page that was fetched from one place alone names that as its source.
    """
    if alone and source_kind(origin) in FETCHED_KINDS and (sourced := _sourced(text, origin)) != text:
        return sourced, f"its front matter says that it comes from {origin}, whose text it repeats"
    front = front_matter(text)
    if (
        front.problem
        or "untrusted" in front.metadata
        or source_kind(str(front.metadata.get("source"))) in FETCHED_KINDS
    ):
        return text, ""
    return _with_line(text, "untrusted: true"), f"it is marked untrusted, because it repeats text from {origin}"


def _with_line(text: str, line: str) -> str:
    """Return the text with one more line in its front matter, which can be read; with its own if it has none."""
    end = "\r\n" if "\r\n" in text else "\n"
    if not front_matter(text).body:
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        return f"{mark}---{end}{line}{end}---{end}{end}{text.removeprefix(mark)}"
    opening, mark, rest = text.partition("\n")
    return f"{opening}{mark}{line}{end}{rest}"


def _repeated(request: MergeRequest, before: str, after: str) -> tuple[str, ...]:
    """Return where sentences come from that the request brings to the page without naming it."""
    if not request.repeats:
        return ()
    new = passages(after) - passages(before)
    return tuple(dict.fromkeys(origin for digest, origin in request.repeats if digest in new))


def _joined(*notes: str | None) -> str:
    return "; ".join(note for note in notes if note)
