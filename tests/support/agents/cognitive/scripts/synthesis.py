"""The script of synthesis: two positions on the winter, one on the flowers, and one design."""

from __future__ import annotations

from tests.support.agents.agent_harness import FLOWERS, VARROA, WATER, WINTER
from tests.support.agents.cognitive.scripts import Act, Json, Scene, naming

TOPICS: list[Json] = [
    {"id": "t1", "text": "What do the bees need in winter?"},
    {"id": "t2", "text": "What do they live on in summer?"},
]
POSITIONS: list[Json] = [
    {"id": "p1", "topic": "t1", "text": "Stores decide.", "source": "notes/bees.md", "evidence": [WINTER]},
    {"id": "p2", "topic": "t1", "text": "Mites decide.", "source": "notes/bees.md", "evidence": [VARROA]},
    {"id": "p3", "topic": "t2", "text": "Phacelia is sown.", "source": "notes/garden.md", "evidence": [FLOWERS]},
]
DROWNING: Json = {"id": "c1", "text": "No bee drowns.", "evidence": [WATER]}
SETTLED: list[Json] = [
    {
        "id": "t1",
        "relation": "conflict",
        "keeps": ["p2"],
        "gives_up": ["p1"],
        "holds": "Mites are treated first; stores come second.",
        "because": "Stores do not help a colony that is ill.",
    },
    {"id": "t2", "relation": "alone", "keeps": ["p3"], "holds": "Phacelia feeds them in July."},
]
PARTS: list[Json] = [
    {"id": "d1", "text": "Treat in December, weigh in October.", "settles": ["t1"]},
    {"id": "d2", "text": "Sow phacelia in May, with a bowl of stones beside it.", "settles": ["t2"]},
]
DECISIONS: list[Json] = [
    {
        "id": "e1",
        "part": "d1",
        "text": "Treat with oxalic acid before anything is fed.",
        "because": "Losses come from mites.",
        "rests_on": ["p2"],
        "instead_of": "Feeding more.",
        "reconsider_when": "no mite falls in December",
    },
    {
        "id": "e2",
        "part": "d2",
        "text": "Sow phacelia in May.",
        "because": "Nothing else flowers in July.",
        "rests_on": ["p3"],
        "instead_of": "Sugar.",
    },
]


def constraints(scene: Scene) -> list[Json]:
    """Return the requirements: one from a page, and all given ones."""
    given = scene.inputs.get("constraints", [])
    return [DROWNING, *({"id": f"g{n}", "text": text, "words": text} for n, text in enumerate(given, 1))]


def checks(scene: Scene) -> list[Json]:
    """Return a review in which every constraint is kept."""
    return [{"id": c["id"], "result": "kept", "parts": ["d2"], "how": "d2 sees to it"} for c in constraints(scene)]


def acts(phase: str, scene: Scene) -> list[Act]:
    """Return the acts in a phase of synthesis."""
    works: dict[str, Json] = {
        "COLLECT": {
            "topics": naming(TOPICS, scene.requirements),
            "positions": POSITIONS,
            "constraints": constraints(scene),
        },
        "RECONCILE": {"topics": SETTLED},
        "INTEGRATE": {"design": "Healthy bees first, then food, in one calendar.", "parts": PARTS},
        "CONSTRAIN": {"checks": checks(scene)},
        "DECIDE": {"decisions": DECISIONS, "open": ["Who opens the hive in December?"]},
    }
    lead = [Act("call", {"tool": "kb_read", "path": "notes/bees.md"})] if phase == "COLLECT" else []
    return [*lead, Act("submit", works[phase])]
