"""The first phases of every cognitive agent: the route, earlier learnings, and the knowns and unknowns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.engine.agent import MET, NOT_MET, Condition, ConditionFinding, Learning, Look, SubmitFacts
from agents.engine.events import Json, Note, QuestionAdded
from agents.engine.work.answers import unanswered
from agents.engine.work.form import blank, ids, items_in
from agents.library.cognitive.model import (
    JOHARI_DISCOVERY,
    LEAST_FOCUS,
    LEAST_TERMS,
    MOST_FOCUS,
    MOST_TERMS,
    NOTHING_TO_ASK,
    QUESTIONS_TO_ASK,
    Cognitive,
)
from agents.library.cognitive.setting import PhaseSetting
from agents.spec.yaml.field_path import same
from knowledge.tokens import count_tokens

LEARNINGS_SHARE = 5
"""Learnings may take a fifth of an agent's input budget."""
FOCUS_PHRASES, FOCUS_SECTIONS, LONGEST_FOCUS = 3, 1, 120
GENERAL = "general"
"""The domain if none is named."""
ASK = "ask"
LISTS = ("share", ASK, "acknowledge", "explore")


async def routed(name: str, following: str, facts: SubmitFacts, look: Look) -> Mapping[str, Json]:
    """Return the work of ROUTING: how the server would search for the brief's question, and which agents work on it."""
    return {"route": await look.route(facts.brief), "agents": [name, *([following] if following else [])]}


async def learned(cognitive: Cognitive, setting: PhaseSetting, facts: SubmitFacts, look: Look) -> Mapping[str, Json]:
    """Return the work of LEARNING_INJECTION: the learnings that fit, nearest first, and the pages and terms to start from."""
    given = facts.inputs.get("domain")
    domain = (given.strip() if isinstance(given, str) and not blank(given) else "") or setting.domain or GENERAL
    found = await look.learnings(cognitive.name, domain)
    fitting = _fitting(found, cognitive.budget.tokens_in // LEARNINGS_SHARE)
    return {
        "task": facts.journey,
        "domain": domain,
        "learnings": [{"path": one.path, "section": one.section, "text": one.text} for one in fitting],
        "left_out": len(found) - len(fitting),
        "focus": await _focus(cognitive, setting, facts, look),
        "terms": await _terms(cognitive, setting, facts, look),
    }


def _fitting(found: Sequence[Learning], tokens: int) -> Sequence[Learning]:
    """Return the learnings that fit completely: half a learning may say the opposite."""
    kept = []
    for one in found:
        size = count_tokens(f"{one.path} {one.section} {one.text}")
        if size <= tokens:
            kept.append(one)
            tokens -= size
    return kept


async def _focus(cognitive: Cognitive, setting: PhaseSetting, facts: SubmitFacts, look: Look) -> list[str]:
    """Return the areas that the skill chose, or else the person.

    If they are too few, they are filled up: with the terms of the brief, then with sections near it, then with the
    agent's own areas.
    """
    chosen = _distinct([*setting.focus]) or _distinct(_texts(facts.inputs.get("focus")))
    if len(chosen) >= LEAST_FOCUS:
        return chosen[:MOST_FOCUS]
    subjects = [phrase for phrase in await look.terms(facts.brief, FOCUS_PHRASES) if not blank(phrase)]
    of_brief = [f"in this task: {', '.join(subjects)}"[:LONGEST_FOCUS]] if subjects else []
    near = [f"what is said in {section}"[:LONGEST_FOCUS] for section in await look.near(facts.brief, FOCUS_SECTIONS)]
    # Chosen areas are only filled up to the least number: more would dilute them.
    areas = _distinct([*chosen, *of_brief, *near, *cognitive.focus])
    return areas[: LEAST_FOCUS if chosen else MOST_FOCUS]


async def _terms(cognitive: Cognitive, setting: PhaseSetting, facts: SubmitFacts, look: Look) -> list[str]:
    """Return the terms of the skill and the person, then those found in the brief; if they are too few, then the agent's own."""
    chosen = _distinct([*setting.terms, *_texts(facts.inputs.get("terms"))])
    if len(chosen) < MOST_TERMS:
        chosen = _distinct([*chosen, *await look.terms(facts.brief, MOST_TERMS)])
    chosen = chosen[:MOST_TERMS]
    return chosen if len(chosen) >= LEAST_TERMS else _distinct([*chosen, *cognitive.terms])[:LEAST_TERMS]


def _texts(value: Json) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _distinct(texts: Sequence[str]) -> list[str]:
    found: dict[str, str] = {}
    for text in texts:
        if not blank(text):
            found.setdefault(same(text), " ".join(text.split()))
    return list(found.values())


async def questions_to_ask(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """The person has open questions, none of them asked twice and none answered elsewhere."""
    asked = _open(facts)
    wrong = [f"{id_} asks nothing: word the question, or drop {id_}" for id_, text in asked.items() if blank(text)]
    wrong += _asked_again(facts, asked)
    return ConditionFinding(bool(asked) and not wrong, tuple(wrong))


async def nothing_to_ask(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """Something is known, and no question is open."""
    if _open(facts):
        return NOT_MET
    # Questions that are no longer open were answered by the person, so something is known.
    if facts.work.get(ASK) or any(not blank(text) for name in LISTS for text in _texts(facts.work.get(name))):
        return MET
    names = ", ".join(f"`{name}`" for name in LISTS)
    missing = f"say something in one of {names}: at least acknowledge what the work rests on"
    return ConditionFinding(met=False, missing=(missing,))


CONDITIONS: Mapping[str, Condition] = {QUESTIONS_TO_ASK: questions_to_ask, NOTHING_TO_ASK: nothing_to_ask}


def _open(facts: SubmitFacts) -> Mapping[str, str]:
    return unanswered(items_in(facts.work, ASK), facts.answers.get(JOHARI_DISCOVERY, {}))


def _asked_again(facts: SubmitFacts, asked: Mapping[str, str]) -> list[str]:
    """Return a sentence for each question whose answer is known, or that is asked twice."""
    known = {
        same(one.get("question", "")): phase.removeprefix(".")
        for phase, of_phase in facts.answers.items()
        for id_, one in of_phase.items()
        # A question of this work with the same id is being reworded, and its old answer no longer counts.
        if phase != JOHARI_DISCOVERY or id_ not in asked
    }
    told, before = [], dict[str, str]()
    for id_, text in asked.items():
        if same(text) in known:
            where = known[same(text)]
            told.append(f"{id_} was answered by the person before ({where}): read the answer, and drop {id_}")
        elif same(text) in before:
            told.append(f"{id_} asks the same as {before[same(text)]}: drop one of them")
        before.setdefault(same(text), id_)
    return told


def notes(before: Json, after: Json) -> Sequence[Note]:
    """Return the questions that are new in the work."""
    known = ids(items_in(before, ASK)) if isinstance(before, dict) else []
    return [QuestionAdded(str(q["id"]), str(q["question"])) for q in items_in(after, ASK) if q["id"] not in known]
