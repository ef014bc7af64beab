"""The script of memory: it copies a line of the previous agent's document, and keeps one learning unless it has it already."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agents.engine.evidence.learned import learning_page
from tests.support.agents.cognitive.scripts import Act, Json, Scene

LESSON = "Ask who looks after the bees before asking how many."
KNOWN: Mapping[str, Mapping[str, Json]] = {
    "LEARN": {"learned": [], "none_because": "the learnings have it"},
    "PROPOSE": {"none_because": "nothing new was learned"},
}
"""The works of a memory agent that was given the lesson as an earlier learning."""
WORKS: Mapping[str, Mapping[str, Json]] = {
    "GOAL": {
        "before": "Nobody knew what to do first.",
        "now": "It is known what to do first.",
        "nearer": "yes",
        "because": ["s1"],
        "open": [{"id": "o1", "text": "who goes up in December"}],
    },
    "LEARN": {"learned": [{"id": "l1", "text": LESSON, "from": ["s1"]}]},
    "GAPS": {
        "gaps": [{"id": "g1", "text": "Nobody asked the neighbours."}],
        "risks": [{"id": "r1", "text": "They object in May.", "answer": "Ask them in March."}],
    },
    "NEXT": {"next": "Ask the neighbours.", "who": "the person", "serves": ["g1", "r1", "o1"]},
}
LEAST, LONGEST = 15, 200
"""The length of the copy, in letters and in characters."""
LEARNING = "# What was learned\n\n## Ask who, then how many\n\n" + LESSON + "\n"


def statement(prompt: str) -> str:
    """Return a line from the prompt: of the previous agent's document, or of the brief."""
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", prompt, re.MULTILINE | re.DOTALL))
    told = sections.get("Agent output summary") or sections.get("Brief") or ""
    lines = [line.strip().removeprefix("- ").partition(" [...]")[0] for line in told.splitlines()]
    saying = (line for line in lines if not line.startswith(("#", "Left by")) and sum(map(str.isalnum, line)) > LEAST)
    first = next(saying, "")
    return first if len(first) <= LONGEST else first[:LONGEST].rpartition(" ")[0]


def page(scene: Scene) -> str:
    """Return the page on which learnings of this task are kept."""
    domain = re.search(r"domain ([^\n;]+)", scene.prompt)
    return learning_page("all", domain.group(1) if domain else "general")


def acts(phase: str, scene: Scene) -> list[Act]:
    """Return the acts in a phase of memory."""
    if phase == "OUTPUT":
        says = [{"id": "s1", "words": statement(scene.prompt)}]
        return [Act("submit", {"agent": "the one before", "summary": "It says what to do first.", "says": says})]
    learned_before = re.findall(r"^## Learned before\n(.*?)(?=^## |\Z)", scene.prompt, re.MULTILINE | re.DOTALL)
    if phase in KNOWN and any(LESSON in text for text in learned_before):
        return [Act("submit", KNOWN[phase])]
    if phase == "PROPOSE":
        merged = {"tool": "kb_merge", "path": page(scene), "content": LEARNING, "intent": "what was learned"}
        return [Act("call", merged), Act("submit", {"page": page(scene), "kept": ["l1"]})]
    return [Act("submit", WORKS[phase])]
