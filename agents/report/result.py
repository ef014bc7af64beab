"""The result of a journey for people: what it says, what it leaves open, and the pages that it rests on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agents.engine.agent import Citation
from agents.engine.events import Json
from agents.engine.state import JourneyState
from agents.engine.work.gaps import citations_in
from agents.engine.work.markdown import one_line
from agents.engine.work.result import AgentResult, part_lines
from agents.prompts.prompt import questions_asked

RESULT, SOURCES = "Result", "Sources"
MOST_RESULT, MOST_OPEN, MOST_SOURCES, MOST_PLACE = 24_000, 8_000, 60, 300
"""Characters of a result and of what it leaves open, how many sources are listed, and characters of one."""


def result_lines(result: AgentResult, state: JourneyState) -> list[str]:
    """Return the result as Markdown lines, with a note if the work is not complete."""
    lines = part_lines(result.parts, MOST_RESULT)
    if state.status == "complete":
        return [f"{result.title}:", "", *lines] if lines else ["None is recorded."]
    return ["The work is not complete. Recorded so far:", "", *lines] if lines else ["None yet."]


def open_lines(result: AgentResult, state: JourneyState) -> list[str]:
    """Return what the result leaves open, and the questions that a person has not answered yet."""
    asked = [f"- {one_line(text, MOST_PLACE)} (asked, not answered yet)" for text in questions_asked(state).values()]
    return [*asked, *part_lines(result.left_open, MOST_OPEN)]


def sources(state: JourneyState) -> Sequence[Citation]:
    """Return the places that the recorded work quotes, each once, the oldest work first."""
    found: dict[tuple[str, str], Citation] = {}
    for _, kept in sorted(state.work.items(), key=lambda kept: kept[1].seq):
        for _, citation in citations_in(kept.content):
            found.setdefault((citation.path, citation.section), citation)
    return list(found.values())


def source_lines(state: JourneyState) -> list[str]:
    """Return the quoted places as a list, of many the first."""
    found = sources(state)
    lines = [
        f"- {one_line(f'{one.path} > {one.section}' if one.section else one.path, MOST_PLACE)}"
        for one in found[:MOST_SOURCES]
    ]
    return [*lines, f"- and {len(found) - MOST_SOURCES} more"] if len(found) > MOST_SOURCES else lines


def result_fields(result: AgentResult, state: JourneyState) -> dict[str, Json]:
    """Return the result as plain JSON: its kind, its recorded parts by their places, what is open, and the quoted places."""
    return {
        "kind": result.kind,
        "complete": state.status == "complete",
        "parts": {part.source: part.value for part in result.parts},
        "open": {part.source: part.value for part in result.left_open},
        "sources": [{"path": one.path, "section": one.section} for one in sources(state)[:MOST_SOURCES]],
    }
