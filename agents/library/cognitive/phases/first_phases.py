"""What every cognitive agent begins with: the route, what was learned before, and what is known and not known. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from agents.engine.agent import MET, Condition, ConditionFinding, Learning, Look, Provide, SubmitFacts
from agents.engine.events import Json, Note, QuestionAdded
from agents.engine.graph import Phase, Transition
from agents.engine.work.form import ids, listed, unanswered
from agents.engine.work.substance import blank
from agents.library.cognitive.model import (
    JOHARI_DISCOVERY,
    LEARNING_INJECTION,
    LEAST_FOCUS,
    LEAST_TERMS,
    MOST_FOCUS,
    MOST_TERMS,
    NOTHING_TO_ASK,
    QUESTIONS_TO_ASK,
    ROUTING,
    Cognitive,
)
from agents.library.cognitive.setting import PhaseSetting
from agents.spec.schema.work_form import SchemaForm
from agents.spec.yaml.field_path import same
from knowledge.tokens import count_tokens

LEARNINGS_SHARE = 5
"""Learnings may take the fifth part of what an agent takes in."""
GENERAL = "general"
"""The domain where none is named."""
NAVIGATION = "navigation"
ASK = "ask"
LISTS = ("share", ASK, "acknowledge", "explore")
MOST_QUESTIONS, MOST_LINES = 5, 12
READING = ("kb_map", "kb_search", "kb_read")


def _lines() -> dict[str, Json]:
    return {"type": "array", "maxItems": MOST_LINES, "items": {"type": "string", "minLength": 1, "maxLength": 400}}


_QUESTION: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": 60},
        "question": {"type": "string", "minLength": 1, "maxLength": 400},
        "why": {"type": "string", "minLength": 1, "maxLength": 400},
    },
    "required": ["id", "question", "why"],
}
JOHARI_FORM = SchemaForm(
    {
        "type": "object",
        "properties": {
            "share": _lines(),
            ASK: {"type": "array", "maxItems": MOST_QUESTIONS, "items": _QUESTION},
            "acknowledge": _lines(),
            "explore": _lines(),
        },
    }
)


def phases(cognitive: Cognitive, setting: PhaseSetting) -> Sequence[Phase]:
    """Return the phases that come before the agent's own. In agent mode nothing is routed."""
    routing = Phase(ROUTING, purpose="how the server would look for it", automatic=True)
    learning = Phase(
        LEARNING_INJECTION,
        purpose="what was learned before",
        exit="Learnings that fit the budget, focus areas and research terms are on record.",
        automatic=True,
    )
    johari = Phase(
        JOHARI_DISCOVERY,
        purpose="what is known, what is not, and by whom",
        exit="No question to the person is open.",
        tools=READING,
        work_schema=JOHARI_DISCOVERY,
        prompt=JOHARI_DISCOVERY,
        prompt_again=f"{JOHARI_DISCOVERY}_again",
        # Each pass of an agent begins in a context of its own.
        speaker=cognitive.name,
        fresh=True,
    )
    return [learning, johari] if setting.agent_mode else [routing, learning, johari]


def ways(cognitive: Cognitive, setting: PhaseSetting) -> Sequence[Transition]:
    """Return the ways through them to the agent's first step."""
    first = cognitive.own.graph.initial
    routed = [] if setting.agent_mode else [Transition(ROUTING, LEARNING_INJECTION)]
    return [
        *routed,
        Transition(LEARNING_INJECTION, JOHARI_DISCOVERY),
        Transition(JOHARI_DISCOVERY, first, QUESTIONS_TO_ASK, priority=10, asks=ASK),
        Transition(JOHARI_DISCOVERY, first, NOTHING_TO_ASK),
    ]


def provides(cognitive: Cognitive, setting: PhaseSetting, following: str) -> Mapping[str, Provide]:
    """Return what does the work of the automatic phases. `following` is the agent that runs afterwards, "" if none does."""
    learning: dict[str, Provide] = {LEARNING_INJECTION: partial(_learned, cognitive, setting)}
    return learning if setting.agent_mode else {ROUTING: partial(_routed, cognitive.name, following), **learning}


async def _routed(name: str, following: str, facts: SubmitFacts, look: Look) -> Mapping[str, Json]:
    """Return how the server would look for what the brief asks, and which agents work on it."""
    return {"route": await look.route(facts.brief), "agents": [name, *([following] if following else [])]}


async def _learned(cognitive: Cognitive, setting: PhaseSetting, facts: SubmitFacts, look: Look) -> Mapping[str, Json]:
    """Return the learnings that fit, the nearest first, and what to look at and to search for."""
    domain = _text(facts.inputs.get("domain")) or setting.domain or GENERAL
    found = await look.learnings(cognitive.name, domain)
    fitting = _fitting(found, cognitive.budget.tokens_in // LEARNINGS_SHARE)
    return {
        "task": facts.journey,
        "domain": domain,
        "learnings": [{"path": one.path, "section": one.section, "text": one.text} for one in fitting],
        "left_out": len(found) - len(fitting),
        "focus": _focus(cognitive, setting, facts),
        "terms": await _terms(cognitive, setting, facts, look),
    }


def _fitting(found: Sequence[Learning], tokens: int) -> Sequence[Learning]:
    """Return those that fit whole, each where those before it leave room: half a learning may say the opposite."""
    kept = []
    for one in found:
        size = count_tokens(f"{one.path} {one.section} {one.text}")
        if size <= tokens:
            kept.append(one)
            tokens -= size
    return kept


def _focus(cognitive: Cognitive, setting: PhaseSetting, facts: SubmitFacts) -> list[str]:
    chosen = _distinct([*setting.focus]) or _distinct(_texts(facts.inputs.get("focus")))
    if len(chosen) >= LEAST_FOCUS:
        return chosen[:MOST_FOCUS]
    return _distinct([*chosen, *cognitive.focus])[: max(LEAST_FOCUS, 0 if chosen else MOST_FOCUS)]


async def _terms(cognitive: Cognitive, setting: PhaseSetting, facts: SubmitFacts, look: Look) -> list[str]:
    """Return what the skill and the person say is worth searching for, then what the task says; the agent's own fill up to enough."""
    chosen = _distinct([*setting.terms, *_texts(facts.inputs.get("terms"))])
    if len(chosen) < MOST_TERMS:
        chosen = _distinct([*chosen, *await look.terms(facts.brief, MOST_TERMS)])
    chosen = chosen[:MOST_TERMS]
    return chosen if len(chosen) >= LEAST_TERMS else _distinct([*chosen, *cognitive.terms])[:LEAST_TERMS]


def _texts(value: Json) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _text(value: Json) -> str:
    return value.strip() if isinstance(value, str) and not blank(value) else ""


def _distinct(texts: Sequence[str]) -> list[str]:
    return list({same(text): " ".join(text.split()) for text in reversed(texts) if not blank(text)}.values())[::-1]


async def questions_to_ask(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """Return whether there are questions that the person did not answer yet: none asked twice, and none answered elsewhere."""
    asked = _open(facts)
    empty = [f"{id_} asks nothing: word the question, or drop {id_}" for id_, text in asked.items() if blank(text)]
    wrong = [*empty, *_asked_again(facts, asked)]
    return ConditionFinding(bool(asked) and not wrong, tuple(wrong))


async def nothing_to_ask(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """Return whether something is known and nothing is to be asked."""
    if _open(facts):
        return ConditionFinding(met=False)
    if facts.work.get(ASK) or any(not blank(text) for name in LISTS for text in _texts(facts.work.get(name))):
        return MET
    names = ", ".join(f"`{name}`" for name in LISTS)
    return ConditionFinding(
        met=False, missing=(f"say something in one of {names}: at least acknowledge what the work rests on",)
    )


CONDITIONS: Mapping[str, Condition] = {QUESTIONS_TO_ASK: questions_to_ask, NOTHING_TO_ASK: nothing_to_ask}


def _open(facts: SubmitFacts) -> Mapping[str, str]:
    return unanswered(listed(facts.work, ASK), facts.answers.get(JOHARI_DISCOVERY, {}))


def _asked_again(facts: SubmitFacts, asked: Mapping[str, str]) -> list[str]:
    """Return a sentence for each question whose answer is known, or that is there twice."""
    known = {
        same(said.get("question", "")): phase.removeprefix(".")
        for phase, of_phase in facts.answers.items()
        for id_, said in of_phase.items()
        if (phase, id_) not in {(JOHARI_DISCOVERY, one) for one in asked}
    }
    told, before = [], dict[str, str]()
    for id_, text in asked.items():
        if same(text) in known:
            told.append(
                f"{id_} was answered by the person before ({known[same(text)]}): read the answer, and drop {id_}"
            )
        elif same(text) in before:
            told.append(f"{id_} asks the same as {before[same(text)]}: drop one of them")
        before.setdefault(same(text), id_)
    return told


def told(before: Json, after: Json) -> Sequence[Note]:
    """Return the questions that are new in the work."""
    known = ids(listed(before, ASK)) if isinstance(before, dict) else []
    return [QuestionAdded(str(q["id"]), str(q["question"])) for q in listed(after, ASK) if q["id"] not in known]
