"""What a merge would do to a page, from its texts and what is recorded of them. Pure: another process may work it out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from knowledge.history.ports import Tracked
from knowledge.merge.document.unit_origins import PageFacts, trace
from knowledge.merge.document.units import cut, front_matter, units
from knowledge.merge.document_form import TakenContent, as_document
from knowledge.merge.evidence.confidence import USER
from knowledge.merge.evidence.placement import Similarity
from knowledge.merge.evidence.undecided import Pair
from knowledge.merge.evidence.undecided import undecided as near_each_other
from knowledge.merge.model import Conflict, IncomingEvidence, MergePlan, Origin, Unit, unit_digest
from knowledge.merge.plan import MergeSetting, made, merge
from knowledge.merge.unified_diff import unified
from knowledge.pages.claim_source import FETCHED_KINDS, source_kind
from knowledge.pages.markdown.passages import passages
from knowledge.pages.vault import revision_of
from knowledge.writing.answers import Merged, Status
from knowledge.writing.model import ActWork
from knowledge.writing.related.target_page import Surroundings, front_matter_of
from knowledge.writing.requests import MergeRequest

MOST_DIFF = 6_000
COMPARED_LIKE_ONE = 500
"""Pairs of characters of page and content that cost as much as one that is only read."""
TAKEN_AS_SNIPPET = (
    "taken as something new to be placed, because it does not begin as the page does and keeps less than half of its words; "
    "to change what is there, name the section, or send the whole page with its first heading"
)


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """What a merge answers, and what it brought."""

    merged: Merged
    brought: Sequence[tuple[Unit, Origin]] = ()
    known: bytes | None = None
    """The page as the caller knows it now; None where it is the page as it is."""


@dataclass(frozen=True, slots=True)
class MergeBasis:
    """What a merge follows from.

    `text` is the page, `revision` its own, None for a page that is to be made; `base` is what the caller had read, None if
    that is not known. `tracked` are the recorded origins, `tracked_text` the page that they belong to, None if that is not kept.
    """

    request: MergeRequest
    verified: tuple[str, ...]
    text: str
    revision: str | None
    base: str | None
    tracked: Tracked | None
    tracked_text: str | None
    around: Surroundings
    modified: datetime
    now: datetime
    similarity: Similarity | None

    @property
    def size(self) -> int:
        """Return how many characters have to be read, where page and content are held against each other more of them."""
        texts = {id(text): len(text) for text in (self.text, self.base, self.tracked_text) if text is not None}
        content = len(self.request.content)
        return max(sum(texts.values()) + content, len(self.text) * content // COMPARED_LIKE_ONE)


def worked_out(ground: MergeBasis) -> ActWork[MergeOutcome]:
    """Return the work of merging into the page."""
    request, setting, evidence = ground.request, _setting(ground), _evidence(ground)
    current = cut(ground.text)
    base = current if ground.base is None else cut(ground.base)
    taken = as_document(base, request.content, path=request.path, section=request.section)
    if request.source != USER:
        taken = TakenContent("snippet", request.content, taken.section)
    work = _work(request, merge(base, current, taken, evidence, setting), ground.text, setting)
    if request.source == USER and taken.form == "snippet" and not setting.append:
        work = _noted(work, TAKEN_AS_SNIPPET)
    return work if ground.base is not None else _analysis(work, request, ground.revision or "")


def worked_out_new(ground: MergeBasis) -> ActWork[MergeOutcome]:
    """Return the work of making the page."""
    request = ground.request
    text = _sourced(_ended(request.content), request.source)
    told = f"its front matter says that it comes from {request.source}" if text != _ended(request.content) else ""
    if origins := sorted({origin for _, origin in request.repeats}):
        text, told = _marked(text, origins[0], alone=len(origins) == 1)
    setting = _setting(ground)
    plan = made(text, _evidence(ground), setting)
    return _work(request, replace(plan, note=joined(plan.note, told) or None), "", setting)


def undecided(ground: MergeBasis) -> tuple[Pair, ...]:
    """Return what of the request and of the page is near each other and undecided by rules."""
    request, setting = ground.request, _setting(ground)
    if setting.append:
        return ()
    current = cut(ground.text)
    taken = as_document(current, request.content, path=request.path, section=request.section)
    return near_each_other(
        current,
        setting.origins,
        cut(request.content),
        _evidence(ground),
        page=setting.page,
        rules=setting.rules,
        now=setting.now,
        section=taken.section or None,
        similarity=ground.similarity,
    )


def _evidence(ground: MergeBasis) -> IncomingEvidence:
    request = ground.request
    return IncomingEvidence(
        source=request.source,
        observed_at=request.observed_at or ground.now,
        authority=request.authority,
        corroborated_by=ground.verified,
        claimed_by=tuple(source for source in request.corroboration if source not in ground.verified),
        against=request.against,
        doubts=request.judgement.doubts if request.judgement is not None else (),
    )


def _setting(ground: MergeBasis) -> MergeSetting:
    own, here = front_matter_of(ground.text), units(cut(ground.text)) if ground.text else ()
    origins: Sequence[Origin | None] = [None] * len(here)
    if ground.tracked is not None:
        before = None if ground.tracked_text is None else units(cut(ground.tracked_text))
        origins = trace(here, ground.tracked.origins, before)
    source = str(own.get("source") or USER)
    facts = PageFacts(ground.request.path, source, ground.modified, tracked=ground.tracked is not None)
    by, append = ground.request.actor.principal, ground.around.appends(own)
    return MergeSetting(facts, origins, ground.around.rules, ground.now, ground.revision, by, append, ground.similarity)


def _work(request: MergeRequest, plan: MergePlan, before: str, setting: MergeSetting) -> ActWork[MergeOutcome]:
    revision = setting.revision
    written = plan.text != before or revision is None
    raw = plan.text.encode()
    after = revision_of(raw) if written else revision
    flags = [replace(found, new=replace(found.new, path=request.path, revision=None)) for found in plan.contradictions]
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
    return ActWork(
        contents={request.path: raw} if written else {},
        result=MergeOutcome(
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


def _analysis(work: ActWork[MergeOutcome], request: MergeRequest, revision: str) -> ActWork[MergeOutcome]:
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
        note=joined(note, work.result.merged.note),
    )
    return ActWork(contents={}, result=MergeOutcome(merged), source=request.source)


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


def _noted(work: ActWork[MergeOutcome], note: str) -> ActWork[MergeOutcome]:
    merged = work.result.merged
    return replace(work, result=replace(work.result, merged=replace(merged, note=joined(note, merged.note))))


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


def joined(*notes: str | None) -> str:
    """Return several notes as one."""
    return "; ".join(note for note in notes if note)
