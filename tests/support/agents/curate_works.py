"""Correct works of the curate agent, and the changes that make them wrong."""

from __future__ import annotations

from collections.abc import Mapping

from agents.engine.agent import Called, Fate
from agents.engine.events import Json
from agents.library.curate.record import DEEP_DIVE, REASON, ROUTE
from tests.support.agents.agent_harness import VARROA, WINTER, Pages, revision

Work = Mapping[str, Json]

BEES, GARDEN = "notes/bees.md", "notes/garden.md"
ASKED = "When are the mites treated?"
MISSING = "the price of oxalic acid"


def place(id_: str, path: str) -> dict[str, Json]:
    return {"id": id_, "path": path, "why": "its summary names it"}


def evidence(id_: str, citation: Work, says: str = "Bees, mites and stores in winter.") -> dict[str, Json]:
    return {"id": id_, "says": says, "citation": dict(citation)}


def chosen(kind: str, path: str | None = None, why: str = "the page lacks it") -> dict[str, Json]:
    return {"kind": kind, "path": path, "why": why}


def deed(id_: str, tool: str, path: str | None = None, proposal: str | None = None) -> dict[str, Json]:
    return {"id": id_, "tool": tool, "path": path, "proposal": proposal}


def now(id_: str, path: str, at: str, says: Work | None = None) -> dict[str, Json]:
    return {"id": id_, "path": path, "revision": at, "says": dict(says) if says else None}


def call(tool: str, path: str = "", status: str = "", **more: str) -> Called:
    facts = {"path": path, "status": status, **more}
    return Called(tool, "", {name: value for name, value in facts.items() if value})


ROUTED: Work = {"question": ASKED, "mode": "navigation", "place": "notes"}
SOUGHT: Work = {"question": ASKED, "mode": "discovery", "place": None}
ORIENTED: Work = {"candidates": [place("c1", "notes"), place("c2", GARDEN)]}
TARGETED: Work = {"pages": [place("p1", BEES)]}
DIVED: Work = {"evidence": [evidence("e1", VARROA), evidence("e2", WINTER)]}


def reasoned(kind: str, path: str | None = None, *rests_on: str) -> dict[str, Json]:
    return {
        "conclusion": "Treat the bees in December.",
        "rests_on": list(rests_on or ("e1",)),
        "act": chosen(kind, path),
    }


FOUND: Mapping[str, Work] = {ROUTE: SOUGHT, DEEP_DIVE: DIVED}


def deciding(kind: str, path: str | None = None) -> Mapping[str, Work]:
    """Return the works recorded when ACT begins."""
    return {**FOUND, REASON: reasoned(kind, path)}


AT_BEES, AT_GARDEN = revision(Pages().texts[BEES]), revision(Pages().texts[GARDEN])
PENDING = Fate("kb_merge", "pending", path=BEES)
MERGED_BEES = call("kb_merge", BEES, "done")
REFUSED = Fate("kb_merge", "rejected", "say who measured it", BEES)
