"""Computes the effect of a merge on a page from its texts and their recorded origins. Pure: another process may run it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from knowledge.history.ports import Tracked
from knowledge.merge.document.unit_origins import PageFacts, trace_origins
from knowledge.merge.document.units import cut, front_matter, units
from knowledge.merge.document_form import TakenContent, as_document, is_entry
from knowledge.merge.evidence.confidence import USER
from knowledge.merge.evidence.place.placement import Similarity
from knowledge.merge.evidence.undecided import Pair, undecided
from knowledge.merge.model import (
    ADDS_TO,
    Conflict,
    Dismissal,
    IncomingEvidence,
    MergePlan,
    OfferedPlace,
    Origin,
    pair_digest,
    unit_digest,
)
from knowledge.merge.plan import merge, plan_new_page
from knowledge.merge.setting import MergeSetting
from knowledge.merge.unified_diff import unified_diff
from knowledge.offload import comparison_size
from knowledge.pages.claim_source import FETCHED_KINDS, source_kind
from knowledge.pages.markdown.passages import passages
from knowledge.pages.vault import revision_of
from knowledge.writing.answers import Merged, Status, join_notes
from knowledge.writing.model import ActWork
from knowledge.writing.related.target_page import Surroundings, front_matter_of
from knowledge.writing.requests import MergeRequest

MOST_DIFF = 6_000
TAKEN_AS_SNIPPET = (
    "treated as new text to be placed, because it does not begin like the page and keeps less than half of its words; to "
    "change existing text, name the section, or send the whole page with its first heading"
)

TAKEN_AS_SUBSECTION = (
    "added to the section, because it begins with a heading below the section's and does not keep half of its words and "
    "half of its subsections; to replace the section, send it with its own heading"
)
WHOLE_OR_PART = (
    "nothing is written: it is not clear whether this is the whole page or a part of it, because it keeps less than half of the "
    "page's words or headings. kb_read shows only the beginning of a long page, unless it is asked for view='full'. To replace the "
    'page, send the call again with section="*"; to change a part, name the section; to add to one, write "+ " before its name'
)
RELATION_UNSURE = (
    "some statements are not written, because they may be other versions of statements on the page; repeat this call with "
    "`answers` to `questions`: same, replaces, both (both hold) or contradicts"
)
PLACE_UNSURE = (
    "some text is not written, because its place would be a guess; repeat this call with the arguments of one of `places`, "
    "or with the right heading above the text"
)


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """The answer to a merge, and the texts of the units that it added to the page."""

    merged: Merged
    brought: Sequence[str] = ()
    known: bytes | None = None
    """The page as the caller knows it now; None if that is its current content."""


@dataclass(frozen=True, slots=True)
class MergeBasis:
    """Everything that a merge depends on.

    `text` is the text of the page, and `revision` its revision, None for a new page. `base` is the text that the caller
    had read, None if that is unknown. `tracked` are the recorded origins. `tracked_text` is the text of the page that
    they belong to, None if it is no longer kept.
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
    dismissals: Mapping[bytes, Dismissal] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The amount of work of the merge, which decides whether another process does it."""
        # Base and page are often the same object, which is parsed only once.
        texts = {id(text): len(text) for text in (self.text, self.base, self.tracked_text) if text is not None}
        content = len(self.request.content)
        return comparison_size(len(self.text), content, read=sum(texts.values()) + content)


def merge_into_page(basis: MergeBasis) -> ActWork[MergeOutcome]:
    """Return the work of merging into an existing page."""
    request, setting = basis.request, _setting(basis)
    current = cut(basis.text)
    base = current if basis.base is None else cut(basis.base)
    taken = as_document(base, request.content, path=request.path, section=request.section)
    # Evidence and entries of a log are never a whole page, so there is nothing to ask.
    if taken.form == "unclear" and (request.source != USER or setting.append):
        taken = taken._replace(form="snippet")
    if setting.append and request.section is None and is_entry(base, request.content, is_known=basis.base is not None):
        taken = taken._replace(form="snippet")
    if taken.form == "unclear":
        return unwritten(request, basis.revision, WHOLE_OR_PART)
    if request.source != USER:
        # Evidence never counts as the whole page or section, because what it leaves out would then be removed.
        taken = TakenContent("snippet", request.content, taken.section)
    work = _work(request, merge(base, current, taken, _evidence(basis), setting), basis.text, setting)
    merged = work.result.merged
    if request.source == USER and taken.form == "snippet" and not setting.append:
        merged = replace(merged, note=join_notes(_taken(request.section), merged.note) or None)
    # An entry of a log is only added, so its sender need not have read the page.
    if basis.base is not None or (setting.append and taken.form == "snippet"):
        return replace(work, result=replace(work.result, merged=merged))
    # Without a base nobody knows what the caller removed on purpose, so it only learns what would have happened.
    why = "unknown here" if request.base_revision else "missing"
    note = (
        f"nothing is written: base_revision is {why}. The page is at {basis.revision}; read it, check that your change still "
        "fits, and send it again with that revision"
    )
    analysis = replace(
        merged,
        status="analysis",
        revision=basis.revision,
        verified=None,
        note=join_notes(note, merged.note),
    )
    return ActWork(contents={}, result=MergeOutcome(analysis), source=request.source)


def _taken(section: str | None) -> str | None:
    """Return what to say about content that was taken as an addition; None if the caller said that it is one."""
    if section is None:
        return TAKEN_AS_SNIPPET
    return None if section.startswith(ADDS_TO) else TAKEN_AS_SUBSECTION


def status_of(*, written: bool, conflicts: Sequence[Conflict], asks: bool) -> Status:
    """Return the status of a merge; `asks` says that some text waits for the caller to choose a place or to answer."""
    if conflicts or asks:
        return "partial" if written else "conflict" if conflicts else "analysis"
    return "done" if written else "unchanged"


def unwritten(
    request: MergeRequest, revision: str | None, note: str, places: Sequence[OfferedPlace] = ()
) -> ActWork[MergeOutcome]:
    """Return work that writes nothing, tells the caller why, and offers these places."""
    answer = Merged(
        status="analysis",
        proposal=None,
        path=request.path,
        revision=revision,
        blocks=[],
        diff="",
        conflicts=[],
        verified=None,
        places=places,
        note=note,
    )
    return ActWork(contents={}, result=MergeOutcome(answer), source=request.source)


def merge_into_new_page(basis: MergeBasis) -> ActWork[MergeOutcome]:
    """Return the work of creating the page."""
    request, setting = basis.request, _setting(basis)
    content = request.content if request.content.endswith(("\n", "\r")) else request.content + "\n"
    text = _with_source(content, request.inherits or request.source)
    if request.inherits and text == content:
        text, _ = _with_mark(content, request.inherits, alone=False)
    note = f"its front matter says that it comes from {request.source}" if text != content else ""
    if origins := sorted({origin for _, origin in request.repeats}):
        text, note = _with_mark(text, origins[0], alone=len(origins) == 1)
    plan = plan_new_page(text, _evidence(basis), setting)
    return _work(request, replace(plan, note=join_notes(plan.note, note) or None), "", setting)


def undecided_pairs(basis: MergeBasis) -> tuple[Pair, ...]:
    """Return the pairs of similar statements of the page and the request that rules can't decide."""
    request, setting = basis.request, _setting(basis)
    if setting.append:
        return ()
    current = cut(basis.text)
    taken = as_document(current, request.content, path=request.path, section=request.section)
    return undecided(current, cut(request.content), _evidence(basis), setting, section=taken.section or None)


def _evidence(basis: MergeBasis) -> IncomingEvidence:
    request = basis.request
    return IncomingEvidence(
        source=request.source,
        observed_at=request.observed_at or basis.now,
        authority=request.authority,
        corroborated_by=basis.verified,
        against=request.against,
        doubts=request.judgement.doubts if request.judgement is not None else (),
        answers=request.answers,
        # A person changes what a section says with an edit of it. Others name a section so too: evidence is never an edit.
        only_adds=request.source == USER and (request.section or "").startswith(ADDS_TO),
    )


def _setting(basis: MergeBasis) -> MergeSetting:
    own, here = front_matter_of(basis.text), units(cut(basis.text)) if basis.text else ()
    origins: Sequence[Origin | None] = [None] * len(here)
    if basis.tracked is not None:
        before = None if basis.tracked_text is None else units(cut(basis.tracked_text))
        origins = trace_origins(here, basis.tracked.origins, before)
    source = str(own.get("source") or USER)
    facts = PageFacts(basis.request.path, source, basis.modified, tracked=basis.tracked is not None)
    by, append = basis.request.actor.principal, basis.around.appends(own)
    return MergeSetting(
        page=facts,
        origins=origins,
        rules=basis.around.rules,
        now=basis.now,
        revision=basis.revision,
        by=by,
        append=append,
        similarity=basis.similarity,
        dismissals=basis.dismissals,
    )


def _work(request: MergeRequest, plan: MergePlan, before: str, setting: MergeSetting) -> ActWork[MergeOutcome]:
    path, revision = request.path, setting.revision
    written = plan.text != before or revision is None
    raw = plan.text.encode()
    after = revision_of(raw) if written else revision
    flags = [replace(found, new=replace(found.new, path=path, revision=None)) for found in plan.contradictions]
    conflicts = [
        *plan.conflicts,
        *(Conflict(found.existing.section, "", found.existing.text, found.new.text, 0) for found in flags),
    ]
    unsure = (PLACE_UNSURE if plan.places else None, RELATION_UNSURE if plan.questions else None)
    note = join_notes(*unsure, plan.note) or None
    merged = Merged(
        status=status_of(written=written, conflicts=conflicts, asks=bool(plan.places or plan.questions)),
        proposal=None,
        path=path,
        revision=after,
        blocks=list(plan.verdicts),
        diff=unified_diff(before, plan.text, path, most_characters=MOST_DIFF) if written else "",
        conflicts=conflicts,
        verified=True if written else None,
        places=list(plan.places),
        questions=list(plan.questions),
        note=note,
    )
    known = None if plan.known is None or plan.known == plan.text else plan.known.encode()
    repeats: tuple[str, ...] = ()
    if written and request.repeats:
        new = passages(plan.text) - passages(before)
        repeats = tuple(dict.fromkeys(origin for digest, origin in request.repeats if digest in new))
    return ActWork(
        contents={path: raw} if written else {},
        result=MergeOutcome(merged, _brought(plan, before) if written else (), known),
        source=request.source,
        confidence=max((verdict.new.confidence for verdict in plan.verdicts if verdict.new), default=None),
        outcome="flagged" if flags and not written else "partial" if merged.status == "partial" else "done",
        origins={path: [o if o.revision else replace(o, revision=after or "") for o in plan.origins]},
        contradictions=flags,
        record=not written and _support(plan.origins) > _support(setting.origins),
        repeats=repeats,
        judgements=tuple((pair_digest(one.existing, one.new).hex(), one.answer) for one in request.answers),
    )


def _support(origins: Sequence[Origin | None]) -> int:
    return sum(len(origin.corroborated_by) for origin in origins if origin is not None)


def _brought(plan: MergePlan, before: str) -> list[str]:
    """Return the texts that the merge added to the page, unit by unit, without headings."""
    old = {unit_digest(unit.text) for unit in units(cut(before))} if before else set()
    return [
        unit.text
        for unit in units(plan.cut or cut(plan.text))
        if unit.kind != "heading" and unit_digest(unit.text) not in old
    ]


def _with_source(text: str, source: str) -> str:
    """Return the text of a new page, with its source in the front matter if it was fetched and so nobody has checked it.

    The line shows readers, searches and listings where the page comes from. A person who has checked the page removes
    the line.
    """
    if source_kind(source) not in FETCHED_KINDS:
        return text
    front = front_matter(text)
    # A line added to broken front matter would not be read, and a source that the text names itself stays.
    if front.problem or "source" in front.metadata:
        return text
    return with_front_line(text, f"source: {json.dumps(source, ensure_ascii=False)}")


def _with_mark(text: str, origin: str, *, alone: bool) -> tuple[str, str]:
    """Return the text of a new page, marked because it repeats somebody else's text, and a note for the caller.

    If all of it was fetched from one place, that becomes its source.
    """
    if alone and source_kind(origin) in FETCHED_KINDS and (sourced := _with_source(text, origin)) != text:
        return sourced, f"its front matter says that it comes from {origin}, whose text it repeats"
    front = front_matter(text)
    has_source = source_kind(str(front.metadata.get("source"))) in FETCHED_KINDS
    if front.problem or has_source or "untrusted" in front.metadata:
        return text, ""
    return with_front_line(text, "untrusted: true"), f"it is marked untrusted, because it repeats text from {origin}"


def with_front_line(text: str, line: str) -> str:
    """Return the text with one more line in its front matter, or with new front matter if it has none."""
    end = "\r\n" if "\r\n" in text else "\n"
    if not front_matter(text).body:
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        return f"{mark}---{end}{line}{end}---{end}{end}{text.removeprefix(mark)}"
    opening, newline, rest = text.partition("\n")
    return f"{opening}{newline}{line}{end}{rest}"
