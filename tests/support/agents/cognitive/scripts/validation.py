"""The script of validation: two criteria from pages and all given ones, each shown by a page that was read."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.agents.agent_harness import VARROA, WATER, WINTER
from tests.support.agents.cognitive.scripts import Act, Json, Scene, naming

CRITERIA: list[Json] = [
    {"id": "k1", "text": "Names the cause of losses.", "weight": "must", "test": "read it", "evidence": [VARROA]},
    {"id": "k2", "text": "Says how bees drink.", "weight": "should", "test": "read it", "evidence": [WATER]},
]
EVIDENCE: list[Json] = [
    {"id": "v1", "criterion": "k1", "shows": "holds", "text": "mites are named", "quotes": [VARROA], "tool": "kb_read"},
    {"id": "v2", "criterion": "k2", "shows": "holds", "text": "a bowl is named", "quotes": [WATER]},
]


def criteria(scene: Scene) -> list[Json]:
    """Return the criteria: two from pages, and every given criterion and constraint."""
    given = [*scene.inputs.get("criteria", []), *scene.inputs.get("constraints", [])]
    more = [
        {"id": f"g{n}", "text": f"{n}: {text}", "weight": "should", "test": "one looks", "words": text}
        for n, text in enumerate(given, 1)
    ]
    return naming([*CRITERIA, *more], scene.requirements)


def evidence(scene: Scene) -> list[Json]:
    """Return evidence that every criterion holds."""
    more = [
        {"id": f"w{c['id']}", "criterion": c["id"], "shows": "holds", "text": "it is said there", "quotes": [WINTER]}
        for c in criteria(scene)[2:]
    ]
    return [*EVIDENCE, *more]


def verdicts(scene: Scene, failed: Sequence[str] = ()) -> list[Json]:
    """Return a verdict on every criterion: those named are not met, all others are."""
    return [
        {
            "id": e["criterion"],
            "verdict": "not_met" if e["criterion"] in failed else "met",
            "rests_on": [e["id"]],
            "why": "its evidence says so",
        }
        for e in evidence(scene)
    ]


def acts(phase: str, scene: Scene) -> list[Act]:
    """Return the acts in a phase of validation that ends with `pass`."""
    works: dict[str, Json] = {
        "CRITERIA": {"criteria": criteria(scene)},
        "EXAMINE": {"evidence": evidence(scene)},
        "JUDGE": {"verdicts": verdicts(scene)},
        "CONCLUDE": {"verdict": "pass", "summary": "All of it holds.", "drop": ["d1"]},
    }
    lead = [Act("call", {"tool": "kb_read", "path": "notes/bees.md"})] if phase == "EXAMINE" else []
    return [*lead, Act("submit", works[phase])]


def failing(phase: str, scene: Scene) -> list[Act]:
    """Return the acts in a phase of validation that ends with `fail`: a must is not met."""
    fails = [{**EVIDENCE[0], "shows": "fails", "text": "no cause is named"}, *evidence(scene)[1:]]
    works: dict[str, Json] = {
        "EXAMINE": {"evidence": fails},
        "JUDGE": {"verdicts": verdicts(scene, ["k1"])},
        "CONCLUDE": {
            "verdict": "fail",
            "summary": "The cause is missing.",
            "to_do": [{"id": "d1", "criterion": "k1", "what": "Name the mites."}],
        },
    }
    if phase not in works:
        return acts(phase, scene)
    return [*acts(phase, scene)[:-1], Act("submit", works[phase])]
