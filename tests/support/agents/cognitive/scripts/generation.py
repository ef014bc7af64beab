"""The script of generation: a calendar of two parts, made as text, one of which is corrected after a first review."""

from __future__ import annotations

from tests.support.agents.agent_harness import VARROA, WINTER
from tests.support.agents.cognitive.scripts import Act, Json, Scene, naming

ITEMS: list[Json] = [
    {"id": "s1", "text": "Says when mites are treated.", "check": "a month is named", "evidence": [VARROA]},
    {"id": "s2", "text": "Says how much they eat.", "check": "a weight is named", "evidence": [WINTER]},
]
PLAN: list[Json] = [
    {"id": "m1", "what": "The treatment", "items": ["s1"], "as": "text"},
    {"id": "m2", "what": "The stores", "items": ["s2"], "as": "text"},
]
TREATMENT: Json = {"id": "m1", "as": "text", "text": "In December the hives are treated with oxalic acid."}
STORES: Json = {"id": "m2", "as": "text", "text": "Each colony has 15 kilograms of honey in October."}
VAGUE: Json = {**STORES, "text": "Each colony has enough honey."}
MET: list[Json] = [
    {"id": "s1", "result": "met", "why": "December is named", "words": "In December the hives are treated"},
    {"id": "s2", "result": "met", "why": "15 kilograms are named", "words": "15 kilograms of honey in October"},
]
FAILED: list[Json] = [
    MET[0],
    {"id": "s2", "result": "failed", "why": "no weight is named", "words": "Each colony has enough honey"},
]
NOTES: list[Json] = [
    {"id": "n1", "part": "m1", "use": "Hang it up in November."},
    {"id": "n2", "part": "m2", "use": "Weigh in October."},
]


def items(scene: Scene) -> list[Json]:
    """Return the requirements: two from pages, and every given constraint."""
    given = scene.inputs.get("constraints", [])
    more = [{"id": f"g{n}", "text": text, "check": "one looks", "words": text} for n, text in enumerate(given, 1)]
    return naming([*ITEMS, *more], scene.requirements)


def plan(scene: Scene) -> list[Json]:
    """Return a plan that meets every item."""
    return [PLAN[0], {**PLAN[1], "items": [item["id"] for item in items(scene)[1:]]}]


def reviews(scene: Scene) -> list[Json]:
    """Return a review in which every item is met."""
    more = [{**MET[1], "id": item["id"], "why": "nothing is against it"} for item in items(scene)[2:]]
    return [*MET, *more]


def acts(phase: str, scene: Scene) -> list[Act]:
    """Return the acts in a phase of generation. The first text is vague; a second visit improves it."""
    first = scene.visit == 1
    works: dict[str, Json] = {
        "SPECIFY": {"items": items(scene)},
        "PLAN": {"parts": plan(scene)},
        "PRODUCE": {"made": [VAGUE] if first else [STORES]},
        "REVIEW": {"reviews": [*FAILED, *reviews(scene)[2:]] if first else reviews(scene)},
        "DELIVER": {"summary": "A calendar of two lines.", "notes": NOTES, "limits": ["It knows one roof only."]},
    }
    before: dict[str, list[Act]] = {
        "SPECIFY": [Act("call", {"tool": "kb_search", "query": "winter stores"})],
        "PRODUCE": [Act("submit", {"made": [TREATMENT]})] if first else [],
    }
    return [*before.get(phase, ()), Act("submit", works[phase])]
