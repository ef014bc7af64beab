"""Why what was submitted or answered cannot be taken where a journey stands, in words that say what to do. Pure."""

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
    """Return what the person answered to each question that is asked, with its words.

    Raises:
        NotToDecide: some are left open, or answers belong to no question.
    """
    asked = questions_asked(state)
    what: list[str] = []
    if unknown := [id_ for id_ in changes if id_ not in asked]:
        known = (
            f"those asked are {', '.join(asked)}"
            if asked
            else "nothing is asked here, so their words belong in the note"
        )
        what.append(f"there is no question {', '.join(repr(id_[:60]) for id_ in unknown)}; {known}")
    if wrong := [id_ for id_ in asked if id_ in changes and not _says_something(changes[id_])]:
        what.append(
            f"the answer to {', '.join(wrong)[:200]} is no text: give the person's words, `they do not know` is an answer too"
        )
    left = [id_ for id_ in asked if id_ not in changes]
    if left and blank(note) and not what:
        open_ = "; ".join(f"{id_}: {asked[id_]}" for id_ in left)
        what.append(f"not answered yet: {open_[:1_500]}; ask the person, `they do not know` is an answer too")
    if what:
        raise NotToDecide(journey, "answer", "; ".join(what))
    said = {id_: str(answer) for id_, answer in changes.items()}
    if left:  # one answer for several questions is told once
        said |= {left[0]: note, **dict.fromkeys(left[1:], f"(see the answer to {left[0]})")}
    return {id_: {"question": asked[id_], "answer": said[id_]} for id_ in asked}


def _says_something(said: Json) -> bool:
    return isinstance(said, str) and not blank(said)


def elsewhere(agent: Agent, state: JourneyState, given: Mapping[str, Json]) -> list[str]:
    """Return a sentence if what was given is work of another phase: phases are worked on in their order."""
    others = [(name, form) for name, form in agent.forms.items() if given and name != state.phase]
    fits = [name for name, form in others if not form.problems(given)]
    if not fits:
        return []
    return [
        (
            f"it looks like work of {' or '.join(fits[:3])}, but the journey is in {state.phase}: no phase can be skipped, "
            "and to an earlier one only a person sends it back (`revisit`)"
        )
    ]


def over_budget(agent: Agent, state: JourneyState, work: Mapping[str, Json]) -> list[str]:
    """Return why the work is too long for its phase."""
    most = agent.budgets.get(state.phase, Budget()).tokens_out
    if not most or (size := _tokens(work)) <= most:
        return []
    sizes = sorted(((_tokens(value), name) for name, value in work.items()), reverse=True)
    parts = ", ".join(f"{name[:60]} {tokens:,}" for tokens, name in sizes[:3])
    return [
        (
            f"the work of {state.phase} has {size:,} tokens, its output budget is {most:,}; shorten it, most of it is in {parts} "
            "(tokens). Put what must stay long on a page with kb_merge, and name the page"
        )
    ]


def _tokens(value: Json) -> int:
    """Return the tokens of a value as its writer sees it: a letter of any language is one character."""
    return count_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
