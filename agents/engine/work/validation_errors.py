"""Why a work or an answer cannot be taken in the present state, in sentences that say what to do. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agents.engine.agent import Agent
from agents.engine.events import Json
from agents.engine.state import JourneyState
from agents.engine.work.form import blank
from agents.errors import NotToDecide
from agents.prompts.context import Budget
from agents.prompts.prompt import questions_asked
from knowledge.tokens import count_tokens


def answers(journey: str, state: JourneyState, changes: Mapping[str, Json], note: str) -> dict[str, dict[str, str]]:
    """Return the person's answer to each open question, with the words of the question.

    `note` answers all questions that `changes` does not.

    Raises:
        NotToDecide: some questions are not answered, or answers belong to no question.
    """
    asked = questions_asked(state)
    problems: list[str] = []
    if unknown := [id_ for id_ in changes if id_ not in asked]:
        open_ = (
            f"the open ones are {', '.join(asked)}" if asked else "nothing is asked here, so put their words in note"
        )
        problems.append(f"there is no question {', '.join(repr(id_[:60]) for id_ in unknown)}; {open_}")
    given = {id_: changes[id_] for id_ in asked if id_ in changes}
    if wrong := [id_ for id_, answer in given.items() if not isinstance(answer, str) or blank(answer)]:
        problems.append(
            f"the answer to {', '.join(wrong)[:200]} is not text: give the person's words; `they do not know` is an answer too"
        )
    left = [id_ for id_ in asked if id_ not in changes]
    if left and blank(note) and not problems:
        words = "; ".join(f"{id_}: {asked[id_]}" for id_ in left)
        problems.append(f"not answered yet: {words[:1_500]}; ask the person, `they do not know` is an answer too")
    if problems:
        raise NotToDecide(journey, "answer", "; ".join(problems))
    if left:  # prompts repeat every answer, so one for several questions is recorded once
        given |= {left[0]: note, **dict.fromkeys(left[1:], f"(see the answer to {left[0]})")}
    return {id_: {"question": asked[id_], "answer": given[id_]} for id_ in asked}


def other_phase(agent: Agent, state: JourneyState, given: Mapping[str, Json]) -> list[str]:
    """Return a sentence if the submission fits other phases, because hosts try to skip one."""
    others = [(name, form) for name, form in agent.forms.items() if given and name != state.phase]
    names = [name for name, form in others if not form.problems(given)]
    if not names:
        return []
    return [
        (
            f"it looks like work for {' or '.join(names[:3])}, but the journey is in {state.phase}: no phase can be skipped, "
            "and only a person can send it back to an earlier one (`revisit`)"
        )
    ]


def budget_excess(agent: Agent, state: JourneyState, work: Mapping[str, Json]) -> list[str]:
    """Return a sentence if the work is too long for its phase."""
    most = agent.budgets.get(state.phase, Budget()).tokens_out
    if not most or (size := _tokens(work)) <= most:
        return []
    sizes = sorted(((_tokens(value), name) for name, value in work.items()), reverse=True)
    parts = ", ".join(f"{name[:60]} {tokens:,}" for tokens, name in sizes[:3])
    return [
        (
            f"the work of {state.phase} has {size:,} tokens, its output budget is {most:,}; shorten it, most of it is in {parts} "
            "(tokens). Put long parts on a page with kb_merge, and name the page"
        )
    ]


def _tokens(value: Json) -> int:
    # Not `canonical`, which would count six characters for a letter of some languages.
    return count_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
