"""What merging would do: edits are joined, evidence is weighed. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from knowledge.merge.document.unit_origins import PageFacts, origins_after, presumed
from knowledge.merge.document.units import cut, units
from knowledge.merge.document_form import TakenContent
from knowledge.merge.evidence.confidence import USER, Rules, confidence
from knowledge.merge.evidence.merge import weigh
from knowledge.merge.evidence.placement import Similarity
from knowledge.merge.model import (
    BlockVerdict,
    Confidence,
    Conflict,
    CutDocument,
    IncomingEvidence,
    MergePlan,
    Origin,
    Unit,
    VerdictWord,
    section_name,
    unit_digest,
)
from knowledge.merge.normalise import fitted
from knowledge.merge.three_way.join import Joined, UnitChange, join

MOST_VERDICTS = 60
"""Blocks whose verdict is told one by one."""


@dataclass(frozen=True, slots=True)
class MergeSetting:
    """What a merge rests on beside the three texts.

    `origins` belong to the units of the current text; `revision` is that of the current text, None for a page that is to be
    made; `by` is the principal. `append` says that the page is a log.
    """

    page: PageFacts
    origins: Sequence[Origin | None]
    rules: Rules
    now: datetime
    revision: str | None
    by: str
    append: bool = False
    similarity: Similarity | None = None


def merge(
    base: CutDocument, current: CutDocument, incoming: TakenContent, evidence: IncomingEvidence, setting: MergeSetting
) -> MergePlan:
    """Return what becomes of `current` when `incoming`, made from `base`, is merged into it.

    A person's edit of what was read is joined three-way and always written where nobody else changed the same block.
    Evidence, and what has no place, is weighed against what the page says. Origins name no revision where they are new.
    """
    if evidence.source == USER and incoming.form in ("document", "section"):
        return _edited(base, current, incoming, evidence, setting)
    plan = weigh(
        current,
        setting.origins,
        cut(incoming.text),
        evidence,
        page=setting.page,
        rules=setting.rules,
        now=setting.now,
        section=incoming.section or None,
        append=setting.append,
        similarity=setting.similarity,
        revision=setting.revision or "",
    )
    # Who sends evidence has not read where it was put, beside what others wrote.
    known = None if base.text == current.text else base.text
    return replace(plan, origins=[_brought(origin, setting.by) for origin in plan.origins], known=known)


def _brought(origin: Origin, by: str) -> Origin:
    """Return a new origin with who brought it; older ones stay as they are."""
    return origin if origin.revision or origin.by else replace(origin, by=by)


def made(text: str, evidence: IncomingEvidence, setting: MergeSetting) -> MergePlan:
    """Return the plan of a page that is not there yet."""
    found = units(cut(text))
    weight = _weight(evidence, setting)
    reason = f"new page, confidence {_shown(weight)}"
    return MergePlan(
        text=text,
        form="document",
        verdicts=[BlockVerdict(section_name(found[0].section) if found else "", "integrate", reason, weight)],
        origins=[_new_origin(unit, evidence, weight, setting) for unit in found],
    )


def _edited(
    base: CutDocument, current: CutDocument, incoming: TakenContent, evidence: IncomingEvidence, setting: MergeSetting
) -> MergePlan:
    text, ground = fitted(incoming.text, base.text, current.text)
    joined = join(base if ground == base.text else cut(ground), current, cut(text))
    weight = _weight(evidence, setting)
    here = units(current)
    after = units(joined.cut)
    new = Origin(
        b"", (), evidence.source, weight.authority, evidence.observed_at, "", setting.by, evidence.corroborated_by
    )
    return MergePlan(
        text=joined.text,
        form=incoming.form,
        verdicts=_verdicts(joined, weight, _replaced(here, after, setting), setting),
        conflicts=joined.conflicts,
        origins=origins_after(
            after, before=here, origins=setting.origins, new=new, page=setting.page, rules=setting.rules
        ),
        note=_said(joined.changes),
        cut=joined.cut,
        known=None if ground == current.text else _known(text, joined.conflicts),
    )


def _known(incoming: str, conflicts: Sequence[Conflict]) -> str | None:
    """Return what a caller knows of the document once it has the answer: what it sent, and ours where that is contested."""
    for conflict in conflicts:
        if not conflict.theirs or incoming.count(conflict.theirs) != 1:
            return None
        incoming = incoming.replace(conflict.theirs, conflict.ours)
    return incoming


def _weight(claim: IncomingEvidence | Origin, setting: MergeSetting) -> Confidence:
    return confidence(
        claim.source,
        claim.observed_at,
        now=setting.now,
        rules=setting.rules,
        authority=claim.authority,
        corroborated_by=claim.corroborated_by,
    )


def _new_origin(unit: Unit, evidence: IncomingEvidence, weight: Confidence, setting: MergeSetting) -> Origin:
    return Origin(
        unit_digest(unit.text),
        unit.section,
        evidence.source,
        weight.authority,
        evidence.observed_at,
        "",
        setting.by,
        evidence.corroborated_by,
    )


def _replaced(here: Sequence[Unit], after: Sequence[Unit], setting: MergeSetting) -> dict[str, deque[Origin]]:
    """Return, by section and in order, the origins of the units that are not in the text any more."""
    staying = {unit_digest(unit.text) for unit in after}
    gone: dict[str, deque[Origin]] = defaultdict(deque)
    for unit, origin in zip(here, setting.origins, strict=True):
        if unit_digest(unit.text) not in staying:
            gone[section_name(unit.section)].append(origin or presumed(unit, setting.page, setting.rules))
    return gone


_WORDS: dict[str, tuple[VerdictWord, str]] = {
    "added": ("integrate", "added"),
    "changed": ("update", "replaces what you had read"),
    "removed": ("update", "removed, as in your text"),
    "moved": ("update", "moved, as in your text"),
}


def _verdicts(
    joined: Joined, weight: Confidence, gone: dict[str, deque[Origin]], setting: MergeSetting
) -> list[BlockVerdict]:
    found: list[BlockVerdict] = []
    for change in joined.changes:
        word, reason = _WORDS[change.kind]
        waiting = gone.get(change.section)
        before = waiting.popleft() if change.kind in ("changed", "removed") and waiting else None
        existing = _weight(before, setting) if before else None
        against = f" against {_shown(existing)} ({before.source})" if existing and before else ""
        told = f"{reason}; {_shown(weight)}{against}; an edit is always written"
        found.append(BlockVerdict(change.section, word, told, weight, existing))
    for conflict in joined.conflicts:
        reason = "both you and somebody else changed this since your base; it stays as it is now"
        found.append(BlockVerdict(conflict.section, "conflict", reason, weight))
    if len(found) > MOST_VERDICTS:
        rest = len(found) - MOST_VERDICTS
        found = [*found[:MOST_VERDICTS], BlockVerdict("", "update", f"and {rest} more blocks, see the diff", weight)]
    return found


def _shown(weight: Confidence) -> str:
    return (
        f"{weight.confidence:.2f} (recency {weight.recency:.2f}, authority {weight.authority:.2f}, "
        f"corroboration {weight.corroboration:.2f})"
    )


def _said(changes: Sequence[UnitChange]) -> str | None:
    removed = sum(change.kind == "removed" for change in changes)
    if removed < 3:
        return None
    return f"{removed} blocks that your text leaves out are removed; kb_revert brings them back"
