"""The script of clarification: one doubt is put to the person, one is assumed.

The brief must say `bees on the roof`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.agents.cognitive.scripts import Act, Json, Scene

WORDS = "bees on the roof"
"""Words that the brief must contain."""
READ: Mapping[str, Json] = {
    "goal": "The town has honey of its own and somebody who looks after the bees.",
    "points": [{"id": "p1", "words": WORDS, "means": "hives stand on the roof of the building"}],
}
DOUBT: Mapping[str, Json] = {
    "unclear": [
        {
            "id": "u1",
            "point": "p1",
            "what": "how many hives",
            "readings": ["one, to try it", "as many as the roof bears"],
            "matters": "what the roof has to bear",
        },
        {
            "id": "u2",
            "point": "p1",
            "what": "which bees",
            "readings": ["honey bees", "wild bees in nesting boxes"],
            "matters": "whether anybody has to look after them",
        },
    ]
}
ASK: Mapping[str, Json] = {
    "questions": [{"id": "q1", "about": "u1", "question": "How many hives at most?", "why": "it decides on the roof"}],
    "assumptions": [{"id": "a1", "about": "u2", "text": "Honey bees are meant.", "because": "honey is spoken of"}],
}
ANSWERED: Mapping[str, str] = {"q1": "Two. More would frighten the neighbours."}
SETTLE: Mapping[str, Json] = {
    "settled": [
        {"id": "s1", "question": "q1", "words": "More would frighten the neighbours", "means": "two hives, not more"}
    ]
}
SPECIFY: Mapping[str, Json] = {
    "goal": "Two hives of honey bees live through their first winter on the roof.",
    "requirements": [
        {
            "id": "r1",
            "text": "At most two hives stand on the roof.",
            "from": ["p1", "s1"],
            "test": "Count the hives on the roof on the first of May: one or two.",
        },
        {
            "id": "r2",
            "text": "They are honey bees.",
            "from": ["a1"],
            "test": "A beekeeper opens each hive and names what lives there.",
        },
    ],
    "left_out": [],
}
WORKS: Mapping[str, Mapping[str, Json]] = {
    "READ": READ,
    "DOUBT": DOUBT,
    "ASK": ASK,
    "SETTLE": SETTLE,
    "SPECIFY": SPECIFY,
}


def requirements(inputs: Mapping[str, Json]) -> list[Json]:
    """Return the requirements of the script: its own two, and one for each given constraint."""
    kept = [
        {"id": f"r{id_}", "text": f"Kept: {text}", "from": [id_], "test": f"Somebody looks for: {text}"}
        for id_, text in _given(inputs).items()
    ]
    return [*SPECIFY["requirements"], *kept]


def _given(inputs: Mapping[str, Json]) -> dict[str, str]:
    return {f"g{number}": text for number, text in enumerate(inputs.get("constraints", []), 1)}


def acts(phase: str, scene: Scene) -> list[Act]:
    """Return the acts in a phase of clarification: given constraints are points, and kept."""
    given = _given(scene.inputs)
    if phase == "READ":
        points = [{"id": id_, "words": text, "means": text} for id_, text in given.items()]
        return [Act("submit", {**READ, "points": [*READ["points"], *points]})]
    if phase == "SPECIFY":
        return [Act("submit", {**SPECIFY, "requirements": requirements(scene.inputs)})]
    answer = [Act("answer", ANSWERED)] if phase == "ASK" else []
    return [Act("submit", WORKS[phase]), *answer]
