"""The script of analysis: two parts, two drivers, two options, one of which breaks a constraint."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.agents.agent_harness import VARROA, WATER
from tests.support.agents.cognitive.scripts import Act, Json, Scene, naming

DECOMPOSE: Mapping[str, Json] = {
    "question": "How do two colonies get through their first winter?",
    "parts": [
        {"id": "p1", "text": "What makes colonies die", "needs": []},
        {"id": "p2", "text": "Who does what, and when", "needs": ["p1"]},
    ],
}
BOUND: Mapping[str, Json] = {
    "constraints": [{"id": "c1", "part": "p2", "text": "No bee drowns.", "evidence": [WATER]}],
    "assumptions": [
        {"id": "a1", "part": "p1", "text": "The winter is an ordinary one.", "if_wrong": "stores are weighed earlier"}
    ],
}
DRIVERS: Mapping[str, Json] = {
    "drivers": [
        {
            "id": "d1",
            "part": "p1",
            "text": "Mites weaken the brood.",
            "because": "nobody treats before December",
            "rests_on": "evidence",
            "evidence": [VARROA],
        },
        {
            "id": "d2",
            "part": "p2",
            "text": "Nobody feels responsible in winter.",
            "because": "there is nothing to harvest",
            "rests_on": "assumption",
            "assumption": "a1",
        },
    ]
}
WEIGH: Mapping[str, Json] = {
    "options": [
        {"id": "o1", "text": "Treat in December, by turns."},
        {"id": "o2", "text": "Change nothing."},
    ],
    "trade_offs": [
        {"id": "t1", "option": "o1", "driver": "d1", "gains": "fewer mites in spring", "costs": "a cold afternoon"},
        {
            "id": "t2",
            "option": "o1",
            "driver": "d2",
            "gains": "a name for each month",
            "costs": "somebody keeps the list",
        },
        {"id": "t3", "option": "o2", "driver": "d1", "gains": "no work", "costs": "a colony in three"},
    ],
    "broken": [{"id": "b1", "option": "o2", "constraint": "c1"}],
}
THIRD: Mapping[str, Mapping[str, Json]] = {
    "options": {"id": "move", "text": "Move the hives to the garden before winter."},
    "trade_offs": {
        "id": "moved",
        "option": "move",
        "driver": "d2",
        "gains": "neighbours look in",
        "costs": "two days of work",
    },
}
"""What a third option adds to `WEIGH`."""
CONCLUDE: Mapping[str, Json] = {
    "conclusions": [
        {
            "id": "n1",
            "part": "p1",
            "text": "Mites decide.",
            "rests_on": ["d1", "t1"],
            "confidence": 85,
            "would_change": "a colony without mites that dies all the same",
        },
        {
            "id": "n2",
            "part": "p2",
            "text": "Turns keep somebody on the roof.",
            "rests_on": ["d2"],
            "confidence": 60,
            "would_change": "a month in which nobody went up",
        },
    ],
    "recommended": {"option": "o1", "because": "t1 outweighs a cold afternoon"},
    "risks": [{"id": "k1", "text": "Somebody falls ill in December.", "likely": "medium", "answer": "a second name"}],
}
WORKS: Mapping[str, Mapping[str, Json]] = {
    "DECOMPOSE": DECOMPOSE,
    "BOUND": BOUND,
    "DRIVERS": DRIVERS,
    "WEIGH": WEIGH,
    "CONCLUDE": CONCLUDE,
}


def acts(phase: str, scene: Scene) -> list[Act]:
    """Return the acts in a phase of analysis: three options are weighed, and given constraints apply, too."""
    if phase == "WEIGH":
        return [Act("submit", {**WEIGH, **{name: [*WEIGH[name], added] for name, added in THIRD.items()}})]
    if phase == "CONCLUDE" and scene.requirements:
        named = naming(CONCLUDE["conclusions"], scene.requirements, "bears_on")
        return [Act("submit", {**CONCLUDE, "conclusions": named})]
    if phase != "BOUND":
        return [Act("submit", WORKS[phase])]
    texts = enumerate(scene.inputs.get("constraints", []), 1)
    given = [{"id": f"g{number}", "part": "p2", "text": text, "words": text} for number, text in texts]
    return [Act("submit", {**BOUND, "constraints": [*BOUND["constraints"], *given]})]
