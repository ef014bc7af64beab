"""What every cognitive agent ends with: a memory document, without which it is not complete. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

from agents.engine.agent import Condition, ConditionFinding, Look, SubmitFacts
from agents.engine.graph import Phase, Transition
from agents.engine.state import JourneyState
from agents.library.cognitive.model import (
    CLOSING,
    COMPLETE,
    DOCUMENT_SOUND,
    LEARNING_INJECTION,
    Cognitive,
)
from agents.library.cognitive.phases.material import Material
from agents.library.cognitive.phases.memory_document import Expected, problems, skeleton
from agents.spec.schema.work_form import SchemaForm

DOCUMENT = "document"
ABOUT_CHARS, REQUEST_CHARS = 80, 240
SOUND_KEPT = 64
"""Documents of which it is remembered whether they are sound."""
CLOSING_FORM = SchemaForm(
    {
        "type": "object",
        "properties": {
            DOCUMENT: {"type": "string", "minLength": 1, "maxLength": 60_000, "description": "Markdown, whole."}
        },
        "required": [DOCUMENT],
    },
    # Who comes back has done more since: what was written before closes nothing.
    asks=frozenset({DOCUMENT}),
)


def phases(cognitive: Cognitive) -> Sequence[Phase]:
    """Return the phases that come after the agent's own."""
    closing = Phase(
        CLOSING,
        purpose="a memory document for whoever goes on from here",
        exit="The memory document has all its sections and its closing marker.",
        tools=("kb_read",),
        work_schema=CLOSING,
        prompt=CLOSING,
        prompt_again=f"{CLOSING}_again",
        speaker=cognitive.name,
    )
    return [closing, Phase(COMPLETE, prompt=COMPLETE)]


def ways() -> Sequence[Transition]:
    """Return the way to the end."""
    return [Transition(CLOSING, COMPLETE, DOCUMENT_SOUND)]


def conditions(cognitive: Cognitive) -> Mapping[str, Condition]:
    """Return what lets the agent be complete."""
    return {DOCUMENT_SOUND: partial(_sound, cognitive)}


async def _sound(cognitive: Cognitive, facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """Return whether the document is in its form, and what to do if it is not."""
    # A fork goes on with the task that its learnings were injected for; its own id names the same work.
    recorded = facts.works.get(LEARNING_INJECTION, {}).get("task")
    tasks = [str(task) for task in (recorded, facts.journey) if task]
    wrong = problems(str(facts.work.get(DOCUMENT, "")), expected(cognitive, tasks))
    return ConditionFinding(not wrong, tuple(wrong))


def sound_document(cognitive: Cognitive, state: JourneyState) -> str:
    """Return the agent's memory document, "" if none is recorded that could close it."""
    work = state.work.get(CLOSING)
    content = work.content if work is not None and isinstance(work.content, Mapping) else {}
    document = str(content.get(DOCUMENT, ""))
    # Whose task it names was looked at when it was let pass.
    return document if document and _closes(document, expected(cognitive, ("",))) else ""


@lru_cache(maxsize=SOUND_KEPT)
def _closes(document: str, asked: Expected) -> bool:
    """Return whether nothing is wrong with the document: in a skill each step looks at those of all agents before."""
    return not problems(document, asked)


def expected(cognitive: Cognitive, tasks: Sequence[str]) -> Expected:
    """Return what a document of the agent must name."""
    return Expected(cognitive.title, cognitive.marker, tuple(cognitive.own_steps), tuple(tasks))


def filled_skeleton(material: Material) -> str:
    """Return the document as far as the server can write it: whose it is, and what was loaded."""
    cognitive, setting = material.cognitive, material.setting
    brief = " ".join(material.state.brief.split())
    loaded = [f"{one.predecessor.phase or one.predecessor.agent}" for one in material.loaded()]
    pages = dict.fromkeys(str(one["path"]) for one in material.learned.get("learnings", ()))
    lines = [
        f"Task: {material.task}",
        f"Skill: {setting.skill or 'none'}, phase: {setting.phase or 'none'}, domain: {material.learned.get('domain', '')}",
        f"Request: {_cut(brief, REQUEST_CHARS)}",
        f"Memory loaded: {', '.join(loaded) or 'none'}; learnings: {', '.join(pages) or 'none'}",
    ]
    return skeleton(expected(cognitive, [material.task]), lines, _cut(brief, ABOUT_CHARS))


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 3].rstrip() + "..."
