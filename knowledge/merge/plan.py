"""Plans a merge: edits are joined three-way, evidence is weighed. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowledge.merge.document.reference_labels import renaming_note, with_own_labels
from knowledge.merge.document.unit_origins import origins_after, presumed_origin
from knowledge.merge.document.units import cut, units
from knowledge.merge.document_form import TakenContent
from knowledge.merge.evidence.confidence import USER, confidence_in
from knowledge.merge.evidence.merge import weigh
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
from knowledge.merge.normalise import fit_to_page
from knowledge.merge.setting import MergeSetting
from knowledge.merge.three_way.join import Joined, join

MOST_VERDICTS = 60
"""The most blocks whose verdicts are listed one by one."""
MANY_REMOVED = 3
"""From this many removed blocks on, the answer says how to restore them: a host may have sent a page that it had read only in part."""

_WORDS: Mapping[str, tuple[VerdictWord, str]] = {
    "added": ("integrate", "added"),
    "changed": ("update", "replaces the text you read"),
    "removed": ("update", "removed, as in your text"),
    "moved": ("update", "moved, as in your text"),
}


def merge(
    base: CutDocument, current: CutDocument, incoming: TakenContent, evidence: IncomingEvidence, setting: MergeSetting
) -> MergePlan:
    """Return the plan for merging `incoming`, made from `base`, into `current`. New origins name no revision yet.

    A person's edit of the page or section they read is joined three-way and always written where nobody else changed the same
    block. Evidence, and text without a place, is weighed against the page.
    """
    if evidence.source == USER and incoming.form in ("document", "section"):
        return _edited(base, current, incoming, evidence, setting)
    plan = weigh(current, cut(incoming.text), evidence, setting, section=incoming.section or None)
    origins = [one if one.revision or one.by else replace(one, by=setting.by) for one in plan.origins]
    # The sender of evidence knows the base at most, not where the evidence went or what others wrote since.
    return replace(plan, origins=origins, known=None if base.text == current.text else base.text)


def plan_new_page(text: str, evidence: IncomingEvidence, setting: MergeSetting) -> MergePlan:
    """Return the plan for a new page."""
    found = units(cut(text))
    weight = confidence_in(evidence, now=setting.now, rules=setting.rules)
    section = section_name(found[0].section) if found else ""
    new = _new_origin(evidence, weight, setting)
    return MergePlan(
        text=text,
        form="document",
        verdicts=[BlockVerdict(section, "integrate", f"new page, confidence {weight}", weight)],
        origins=[replace(new, digest=unit_digest(unit.text), section=unit.section) for unit in found],
    )


def _new_origin(evidence: IncomingEvidence, weight: Confidence, setting: MergeSetting) -> Origin:
    return Origin(
        b"", (), evidence.source, weight.authority, evidence.observed_at, "", setting.by, evidence.corroborated_by
    )


def _edited(
    base: CutDocument, current: CutDocument, incoming: TakenContent, evidence: IncomingEvidence, setting: MergeSetting
) -> MergePlan:
    text, fitted_base = fit_to_page(incoming.text, base.text, current.text)
    read = base if fitted_base == base.text else cut(fitted_base)
    # Of two footnotes that were both added as `[^3]`, only the first would be shown, for both sentences.
    theirs, labels = with_own_labels(cut(text), current, base=read)
    joined = join(read, current, theirs)
    weight = confidence_in(evidence, now=setting.now, rules=setting.rules)
    before, after = units(current), units(joined.cut)
    removed = sum(change.kind == "removed" for change in joined.changes)
    notes = [renaming_note(labels)] if labels else []
    if removed >= MANY_REMOVED:
        notes.append(f"{removed} blocks that your text omits are removed; kb_revert restores them")
    return MergePlan(
        text=joined.text,
        form=incoming.form,
        verdicts=_verdicts(joined, weight, _replaced_origins(before, after, setting), setting),
        conflicts=joined.conflicts,
        origins=origins_after(
            after,
            before=before,
            origins=setting.origins,
            new=_new_origin(evidence, weight, setting),
            page=setting.page,
            rules=setting.rules,
        ),
        note="; ".join(notes) or None,
        cut=joined.cut,
        known=None if fitted_base == current.text else _known(text, joined.conflicts),
    )


def _known(incoming: str, conflicts: Sequence[Conflict]) -> str | None:
    """Return the document as the caller knows it after the reply: its own text, with `ours` of each conflict for `theirs`.

    None if the conflicting parts can't be located in the text.
    """
    for conflict in conflicts:
        # A text that occurs twice, or is empty, does not show where the conflict is.
        if not conflict.theirs or incoming.count(conflict.theirs) != 1:
            return None
        incoming = incoming.replace(conflict.theirs, conflict.ours)
    return incoming


def _replaced_origins(before: Sequence[Unit], after: Sequence[Unit], setting: MergeSetting) -> dict[str, deque[Origin]]:
    """Return, by section and in order, the origins of the units that are no longer in the text."""
    kept = {unit_digest(unit.text) for unit in after}
    gone: dict[str, deque[Origin]] = defaultdict(deque)
    for unit, origin in zip(before, setting.origins, strict=True):
        # By section, because a change names only the section of a unit that it replaced.
        if unit_digest(unit.text) not in kept:
            gone[section_name(unit.section)].append(origin or presumed_origin(unit, setting.page, setting.rules))
    return gone


def _verdicts(
    joined: Joined, weight: Confidence, gone: dict[str, deque[Origin]], setting: MergeSetting
) -> list[BlockVerdict]:
    found: list[BlockVerdict] = []
    for change in joined.changes:
        word, reason = _WORDS[change.kind]
        existing, against = None, ""
        if change.kind in ("changed", "removed") and (replaced := gone.get(change.section)):
            origin = replaced.popleft()
            existing = confidence_in(origin, now=setting.now, rules=setting.rules)
            against = f" against {existing} ({origin.name})"
        reason = f"{reason}; {weight}{against}; an edit is always written"
        found.append(BlockVerdict(change.section, word, reason, weight, existing))
    for conflict in joined.conflicts:
        reason = "you and somebody else both changed this since your base revision; the page keeps its current text"
        found.append(BlockVerdict(conflict.section, "conflict", reason, weight))
    if len(found) > MOST_VERDICTS:
        rest = f"and {len(found) - MOST_VERDICTS} more blocks, see the diff"
        found = [*found[:MOST_VERDICTS], BlockVerdict("", "update", rest, weight)]
    return found
