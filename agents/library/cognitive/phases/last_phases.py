"""The last phases of every cognitive agent: a judgement, and the memory document that the server writes with it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from agents.engine.agent import ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.state import JourneyState
from agents.engine.work.form import blank, items_in
from agents.library.cognitive.model import CLOSING, DOCUMENT, JOHARI_DISCOVERY, LEARNING_INJECTION, Cognitive
from agents.library.cognitive.phases.material import Material
from agents.library.cognitive.phases.memory_document import LABELS, Expected, document_of, problems
from agents.library.cognitive.setting import PhaseSetting
from agents.spec.description import lines_of

FIRM, NOT_FIRM, SURPRISES, DIRECTIVES = "firm", "not_firm", "surprises", "directives"
ABOUT_CHARS, REQUEST_CHARS = 80, 240
STEP_LINES, RESULT_LINES = 2, 10
"""The most lines of a step in a memory document, and of the last step, which has the result."""
KNOWN_CHARS = 900
"""The most characters of the knowns, and of the unknowns, in a memory document: the discovery may have listed many."""
SOUND_KEPT = 64
"""The number of cached verdicts on documents: in a skill, every step checks the documents of all earlier agents."""


async def document_sound(cognitive: Cognitive, facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """The result is judged, and the memory document has its sections, names its steps, and is closed by its marker."""
    document = str(facts.work.get(DOCUMENT, ""))
    if not document:
        return ConditionFinding(met=False, missing=tuple(_unsaid(facts.work)))
    # A fork continues the task that its learnings were injected for; its own id names the same work.
    recorded = facts.works.get(LEARNING_INJECTION, {}).get("task")
    tasks = [str(task) for task in (recorded, facts.journey) if task]
    wrong = problems(document, expected(cognitive, tasks))
    return ConditionFinding(not wrong, tuple(wrong))


def sound_document(cognitive: Cognitive, state: JourneyState) -> str:
    """Return the agent's memory document; "" if no sound one is recorded."""
    work = state.work.get(CLOSING)
    content = work.content if work is not None and isinstance(work.content, Mapping) else {}
    document = str(content.get(DOCUMENT, ""))
    # Its task was checked when it was submitted, so any task matches here.
    return document if document and _closes(document, expected(cognitive, ("",))) else ""


@lru_cache(maxsize=SOUND_KEPT)
def _closes(document: str, asked: Expected) -> bool:
    return not problems(document, asked)


def expected(cognitive: Cognitive, tasks: Sequence[str]) -> Expected:
    """Return the required parts of a document of the agent."""
    return Expected(cognitive.title, cognitive.marker, tuple(cognitive.own_steps), tuple(tasks))


def completed(
    cognitive: Cognitive, setting: PhaseSetting, state: JourneyState, work: Mapping[str, Json]
) -> Mapping[str, Json]:
    """Return the closing work with the memory document, which the server writes from the record and the judgement in the work.

    A host of an older version submits the document itself, without a judgement.
    """
    judged = any(work.get(name) for name in (FIRM, NOT_FIRM, SURPRISES, DIRECTIVES))
    if state.phase != CLOSING or not judged:
        return work
    own = {name: value for name, value in work.items() if name != DOCUMENT}
    if any(_unsaid(own)):
        return own
    return {**own, DOCUMENT: _document(Material(cognitive, setting, state), own)}


def _unsaid(work: Mapping[str, Json]) -> Iterator[str]:
    """Yield the parts that a judgement lacks."""
    if not _texts(work, FIRM) and not _not_firm(work):
        yield "say in `firm` what in the result is certain, or in `not_firm` what is not, and why"
    if not _texts(work, DIRECTIVES):
        yield "give the next agents at least one instruction in `directives`"


def _texts(work: Mapping[str, Json], name: str) -> Sequence[str]:
    found = work.get(name)
    return [text for text in found if isinstance(text, str) and not blank(text)] if isinstance(found, list) else []


def _not_firm(work: Mapping[str, Json]) -> Sequence[str]:
    said = [(str(one.get("what", "")), str(one.get("why", ""))) for one in items_in(work, NOT_FIRM)]
    return [f"{what} ({why})" for what, why in said if not blank(what)]


def _document(material: Material, work: Mapping[str, Json]) -> str:
    """Return the memory document: its first sections from the record, the judgement, and the directives."""
    cognitive = material.cognitive
    brief = " ".join(material.state.brief.split())
    # Answers to other agents are in the documents of those.
    answers = material.answers((JOHARI_DISCOVERY, *cognitive.own_steps))
    known = [*_texts(work, FIRM), *material.quadrant("open"), *material.quadrant("hidden"), *answers]
    unknown = [*_not_firm(work), *material.quadrant("unknown")]
    summary = [
        _labelled(label, texts) for label, texts in zip(LABELS, (known, unknown, _texts(work, SURPRISES)), strict=True)
    ]
    *steps, last = cognitive.own_steps
    before = [line for step in steps for line in _recorded(material, step, STEP_LINES)]
    sections = [_context(material, brief), before, summary, _texts(work, DIRECTIVES)]
    about = _cut(brief, ABOUT_CHARS) if any(map(str.isalnum, brief[:ABOUT_CHARS])) else material.task
    return document_of(expected(cognitive, [material.task]), about, sections, _recorded(material, last, RESULT_LINES))


def _context(material: Material, brief: str) -> Sequence[str]:
    setting, inputs = material.setting, ", ".join(material.state.inputs)
    loaded = [f"{one.predecessor.phase or one.predecessor.agent}" for one in material.loaded()]
    pages = dict.fromkeys(str(one["path"]) for one in material.learned.get("learnings", ()))
    return [
        f"Task: {material.task}",
        f"Skill: {setting.skill or 'none'}, phase: {setting.phase or 'none'}, domain: {material.learned.get('domain', '')}",
        f"Request: {_cut(brief, REQUEST_CHARS)}",
        *([f"Inputs: {inputs}"] if inputs else []),
        f"Memory loaded: {', '.join(loaded) or 'none'}; learnings: {', '.join(pages) or 'none'}",
    ]


def _recorded(material: Material, step: str, most: int) -> Sequence[str]:
    """Return the recorded work of a step in at most `most` short lines, and a line on how many are left out."""
    kept = material.state.work.get(step)
    lines = list(lines_of(step, kept.content)) if kept else []
    left = len(lines) - most
    more = [f"{step}: {left} more in journey_status(view='report')"] if left > 0 else []
    return [*lines[:most], *more] or [f"{step}: nothing to record"]


def _labelled(label: str, texts: Sequence[str]) -> str:
    # The number keeps a label from being empty when its first text is the name of another label.
    folded = "; ".join(" ".join(text.split()).rstrip(".;") for text in texts)
    return f"{label} ({len(texts)}): {_cut(folded, KNOWN_CHARS)}" if texts else f"{label}: none was named"


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 3].rstrip() + "..."
