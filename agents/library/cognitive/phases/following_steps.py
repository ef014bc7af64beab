"""Steps whose work follows from the record, so that the server does them instead of a host. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from agents.engine.agent import Look, Provide, SubmitFacts
from agents.engine.events import Json
from agents.library.cognitive.model import DOCUMENT, JOHARI_DISCOVERY, Cognitive, FollowingStep
from agents.library.cognitive.phases import memory_document
from agents.library.cognitive.setting import PhaseSetting, Predecessor
from agents.library.cognitive.sources import DOWNSTREAM_DIRECTIVES, JOHARI_SUMMARY, STEP_OVERVIEW, Source
from agents.spec.yaml.field_path import located

MOST_STATEMENTS, STATEMENT_CHARS, SUMMARY_CHARS = 3, 200, 400
"""How many statements are taken from each of two sections of a memory document, and the most characters of a statement
and of the summary."""
LEAST_LETTERS = 15
"""A shorter line says too little to be a statement."""


def provides(cognitive: Cognitive, setting: PhaseSetting) -> Mapping[str, Provide]:
    """Return the functions that do the work of steps when it follows from the record."""
    found: dict[str, Provide] = {
        step: partial(_copied, follows) for step, follows in cognitive.follows.items() if not follows.previous
    }
    if setting.looks_back and setting.predecessors:
        before = setting.predecessors[0]
        found[JOHARI_DISCOVERY] = partial(_nothing_to_discover, before)
        found |= {step: partial(_statements, before) for step, one in cognitive.follows.items() if one.previous}
    return found


async def _copied(follows: FollowingStep, facts: SubmitFacts, _look: Look) -> Mapping[str, Json] | None:
    if follows.empty is None or _field(facts, follows.empty):
        return None
    return {**follows.work, **{name: _field(facts, source) for name, source in follows.copies.items()}}


def _field(facts: SubmitFacts, source: Source) -> Json:
    """Return the field of a step that the source names; "" if it has nothing."""
    values = [value for _, value in located(facts.works.get(source.name, {}), source.part.split("."))]
    return values[0] if values else ""


async def _nothing_to_discover(before: Predecessor, facts: SubmitFacts, _look: Look) -> Mapping[str, Json] | None:
    """Return the discovery of an agent that looks back: everything it works on is in the document of its predecessor."""
    if not _document(before, facts):
        return None
    return {"acknowledge": [f"The work of {before.phase or before.agent} is recorded in its memory document."]}


async def _statements(before: Predecessor, facts: SubmitFacts, _look: Look) -> Mapping[str, Json] | None:
    """Return what the predecessor's document says: a summary, and its most important lines, word for word."""
    document = _document(before, facts)
    directives = _lines(document, DOWNSTREAM_DIRECTIVES)[:MOST_STATEMENTS]
    # The last steps have the result.
    results = _lines(document, STEP_OVERVIEW)[-MOST_STATEMENTS:]
    words = list(dict.fromkeys([*directives, *results]))
    if not words:
        return None
    summary = next(iter(_lines(document, JOHARI_SUMMARY)), words[0])
    return {
        "agent": before.agent,
        "summary": summary[:SUMMARY_CHARS],
        "says": [{"id": f"s{number}", "words": text} for number, text in enumerate(words, 1)],
    }


def _document(before: Predecessor, facts: SubmitFacts) -> str:
    return str(facts.works.get(before.closing, {}).get(DOCUMENT, ""))


def _lines(document: str, heading: str) -> Sequence[str]:
    """Return the lines of a section that say something, without the marks of lists, cut at the end of a word."""
    found = []
    for line in memory_document.section(document, heading).splitlines():
        text = line.strip().removeprefix("- ")
        if len(text) > STATEMENT_CHARS:
            text = text[:STATEMENT_CHARS].rpartition(" ")[0]
        if not text.startswith(("#", "`", "~")) and sum(map(str.isalnum, text)) >= LEAST_LETTERS:
            found.append(text)
    return found
