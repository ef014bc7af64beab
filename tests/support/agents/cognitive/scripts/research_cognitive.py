"""The script of research: two questions, of which pages answer one; the other is a gap."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.agents.agent_harness import FLOWERS, VARROA, WINTER
from tests.support.agents.cognitive.scripts import Act, Json, Scene

QUESTIONS: Mapping[str, Json] = {
    "questions": [
        {
            "id": "q1",
            "text": "What do colonies die of in winter?",
            "why": "it decides what is done in autumn",
            "done_when": "a cause is named, and how it is known",
        },
        {
            "id": "q2",
            "text": "What does a hive cost today?",
            "why": "it decides how many there are",
            "done_when": "a price with a date",
        },
    ]
}
PLAN: Mapping[str, Json] = {
    "searches": [
        {"id": "s1", "question": "q1", "query": "winter losses mite", "aim": "find", "where": "notes"},
        {"id": "s2", "question": "q1", "query": "colony starved stored honey", "aim": "refute", "where": "notes"},
        {"id": "s3", "question": "q2", "query": "price hive euro", "aim": "find", "where": "everywhere"},
    ]
}
GATHER: Mapping[str, Json] = {
    "evidence": [
        {"id": "e1", "question": "q1", "search": "s1", "claim": "Mites are the main cause.", "quotes": [VARROA]},
        {"id": "e2", "question": "q1", "search": "s2", "claim": "Stores of honey are eaten.", "quotes": [WINTER]},
    ],
    "nothing": [
        {"id": "n1", "question": "q2", "tried": ["zqxv gloop price", "zqxv gloop euro"], "nearest": [FLOWERS]},
    ],
}
WEIGH: Mapping[str, Json] = {
    "sources": [
        {"id": "so1", "page": "notes/bees.md", "kind": "primary", "trust": "high", "why": "the keepers' own notes"}
    ],
    "contradictions": [
        {
            "id": "k1",
            "between": ["e1", "e2"],
            "about": "whether mites or hunger come first",
            "settled": "nearer",
            "how": "the note on losses is about losses",
        }
    ],
}
FIND: Mapping[str, Json] = {
    "findings": [
        {
            "id": "f1",
            "question": "q1",
            "text": "Colonies die of mites; stores decide only after that.",
            "evidence": ["e1", "e2"],
            "confidence": "high",
        }
    ],
    "gaps": [{"id": "g1", "about": "q2", "what": "what a hive costs", "next": "ask the beekeepers' shop"}],
}
WORKS: Mapping[str, Mapping[str, Json]] = {
    "QUESTIONS": QUESTIONS,
    "PLAN": PLAN,
    "GATHER": GATHER,
    "WEIGH": WEIGH,
    "FIND": FIND,
}
CALLS: Mapping[str, list[Act]] = {
    "GATHER": [
        Act("call", {"tool": "kb_search", "query": query})
        for query in ("winter losses mite", "zqxv gloop price", "zqxv gloop euro")
    ],
    "WEIGH": [Act("call", {"tool": "kb_contradictions"})],
}


def acts(phase: str, _scene: Scene) -> list[Act]:
    """Return the acts in a phase of research."""
    return [*CALLS.get(phase, []), Act("submit", WORKS[phase])]
