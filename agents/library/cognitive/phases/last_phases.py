"""The last phases of every cognitive agent: a memory document, without which it is not complete. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from agents.engine.agent import ConditionFinding, Look, SubmitFacts
from agents.engine.state import JourneyState
from agents.library.cognitive.model import CLOSING, LEARNING_INJECTION, Cognitive
from agents.library.cognitive.phases.material import Material
from agents.library.cognitive.phases.memory_document import Expected, problems, skeleton

DOCUMENT = "document"
ABOUT_CHARS, REQUEST_CHARS = 80, 240
SOUND_KEPT = 64
"""The number of cached verdicts on documents: in a skill, every step checks the documents of all earlier agents."""


async def document_sound(cognitive: Cognitive, facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """The memory document has its sections, names its steps, and is closed by its marker."""
    # A fork continues the task that its learnings were injected for; its own id names the same work.
    recorded = facts.works.get(LEARNING_INJECTION, {}).get("task")
    tasks = [str(task) for task in (recorded, facts.journey) if task]
    wrong = problems(str(facts.work.get(DOCUMENT, "")), expected(cognitive, tasks))
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


def filled_skeleton(material: Material) -> str:
    """Return the document as far as the server can write it: the agent, the task, and the documents that were loaded."""
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
