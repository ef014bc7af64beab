"""What a person is asked to answer in words at a checkpoint, for everything that shows it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.engine.events import canonical
from agents.engine.state import JourneyState
from agents.engine.work.form import items_in
from agents.prompts.prompt import cut, questions_asked
from knowledge.tokens import count_tokens

LENGTHS = (2_000, 300, 150, 75, 40, 20)
"""How many tokens of a question are told, until all of them fit together."""
AROUND_TOKENS = 8
"""What the names of its fields take."""


@dataclass(frozen=True, slots=True)
class WorkQuestion:
    """A question of a work. `why` says what the answer changes, "" where the work does not say it."""

    id: str
    question: str
    why: str = ""


def open_questions(state: JourneyState) -> Sequence[WorkQuestion]:
    """Return what a person is asked in words and did not answer yet, in order; nothing where no such checkpoint is open."""
    asked = questions_asked(state)
    if not asked or state.checkpoint is None:
        return ()
    content = state.work[state.checkpoint.phase].content
    items = items_in(content, state.checkpoint.asks) if isinstance(content, Mapping) else ()
    whys = {str(item.get("id", "")): str(item.get("why") or "") for item in items}
    return [WorkQuestion(id_, text, whys.get(id_, "")) for id_, text in asked.items()]


def within(questions: Sequence[WorkQuestion], tokens: int) -> Sequence[WorkQuestion]:
    """Return the questions with their words cut, all to the same length, so that together they have at most so many tokens.

    Of so many that even a few words of each do not fit, the first are returned.
    """
    for most in LENGTHS:
        told = [WorkQuestion(one.id, cut(one.question, most), cut(one.why, most // 2)) for one in questions]
        if sum(map(_tokens, told)) <= tokens:
            return told
    kept = 0
    for one in told:
        tokens -= _tokens(one)
        if tokens < 0:
            break
        kept += 1
    return told[:kept]


def _tokens(one: WorkQuestion) -> int:
    return count_tokens(canonical([one.id, one.question, one.why])) + AROUND_TOKENS
