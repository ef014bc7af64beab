"""The open questions of a journey to a person, for everything that shows them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.engine.events import canonical
from agents.engine.state import JourneyState
from agents.engine.work.form import items_in
from agents.prompts.prompt import cut, questions_asked
from knowledge.tokens import count_tokens

LENGTHS = (2_000, 300, 150, 75, 40, 20)
"""The lengths to which questions are cut, in tokens, until all of them fit together."""
AROUND_TOKENS = 8
"""The tokens of the names of a question's fields."""


@dataclass(frozen=True, slots=True)
class WorkQuestion:
    """A question of a work. `why` says what the answer changes; "" if the work does not say it."""

    id: str
    question: str
    why: str = ""


def open_questions(state: JourneyState) -> Sequence[WorkQuestion]:
    """Return the unanswered questions of the open checkpoint, in order; none if there is no checkpoint with questions."""
    asked = questions_asked(state)
    if not asked or state.checkpoint is None:
        return ()
    content = state.work[state.checkpoint.phase].content
    items = items_in(content, state.checkpoint.asks) if isinstance(content, Mapping) else ()
    whys = {str(item.get("id", "")): str(item.get("why") or "") for item in items}
    return [WorkQuestion(id_, text, whys.get(id_, "")) for id_, text in asked.items()]


def within(questions: Sequence[WorkQuestion], tokens: int) -> Sequence[WorkQuestion]:
    """Return the questions, all cut to the same length, so that together they have at most this many tokens.

    If even a few words of each do not fit, only the first are returned.
    """
    for most in LENGTHS:
        shorter = [WorkQuestion(one.id, cut(one.question, most), cut(one.why, most // 2)) for one in questions]
        if sum(map(_tokens, shorter)) <= tokens:
            return shorter
    kept = 0
    for one in shorter:
        tokens -= _tokens(one)
        if tokens < 0:
            break
        kept += 1
    return shorter[:kept]


def _tokens(one: WorkQuestion) -> int:
    return count_tokens(canonical([one.id, one.question, one.why])) + AROUND_TOKENS
