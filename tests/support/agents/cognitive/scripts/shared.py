"""A host's acts in the phases that all cognitive agents share."""

from __future__ import annotations

import re

from agents.library.cognitive.phases.memory_document import UNFILLED
from tests.support.agents.cognitive.scripts import Act, Scene

PHASES = ("JOHARI_DISCOVERY", "CLOSING")
ASKING = ("clarification", "generation")
"""Agents that ask the person something on their first visit; the others have no questions."""
_SKELETON = re.compile(r"~~~markdown\n(.*?)\n~~~", re.DOTALL)
_STEP = re.compile(rf"^- (\w+): {re.escape(UNFILLED)}$", re.MULTILINE)


def acts(agent: str, phase: str, scene: Scene) -> list[Act]:
    """Return the acts in a shared phase."""
    return _johari(agent, scene) if phase == "JOHARI_DISCOVERY" else _closing(scene)


def _johari(agent: str, scene: Scene) -> list[Act]:
    known = {
        "share": ["Bees on a roof need water within 200 metres."],
        "acknowledge": ["The roof belongs to the house."],
        "explore": ["How much wind there is on the roof in March."],
    }
    if agent not in ASKING or scene.visit > 1:
        return [Act("submit", known)]
    why = "the hive stands elsewhere if not"
    asked = {"id": "q1", "question": f"May a hive stand on the south side, for all that {agent} does?", "why": why}
    return [Act("submit", {**known, "ask": [asked]}), Act("answer", {"q1": "Yes, the whole south side is free."})]


def _closing(scene: Scene) -> list[Act]:
    """Fill in the prompt's skeleton."""
    found = _SKELETON.search(scene.prompt)
    assert found is not None, "the prompt has the skeleton of the document"
    return [Act("submit", {"document": filled(found.group(1))})]


def filled(skeleton: str) -> str:
    """Return the document, filled in from its skeleton."""
    with_steps = _STEP.sub(lambda step: f"- {step.group(1)}: done as recorded, nothing left open.", skeleton)
    return with_steps.replace(UNFILLED, "Set up the hive on the south side in April.")
