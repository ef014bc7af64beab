"""A host's acts in the phases that all cognitive agents share."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.agents.cognitive.scripts import Act, Json, Scene

PHASES = ("JOHARI_DISCOVERY", "CLOSING")
ASKING = ("clarification", "generation")
"""Agents that ask the person something on their first visit; the others have no questions."""

CLOSING: Mapping[str, Json] = {
    "firm": ["The recorded steps were done with the sources that they name."],
    "not_firm": [{"what": "how windy the roof is in March", "why": "nobody measured it"}],
    "surprises": ["A wet May."],
    "directives": ["Set up the hive on the south side in April."],
}


def acts(agent: str, phase: str, scene: Scene) -> list[Act]:
    """Return the acts in a shared phase."""
    return _johari(agent, scene) if phase == "JOHARI_DISCOVERY" else [Act("submit", CLOSING)]


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
