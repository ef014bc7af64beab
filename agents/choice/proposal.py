"""The lightest agent that is enough for a brief, or none, with the reason. Pure: nothing is started by it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from agents.engine.agent import ScentLevel

LOOK_UP, CHANGE = "kb_search", "kb_merge"
"""The tools that are enough for a question that the knowledge base answers, and for a small change of a page."""
LONGEST_SMALL = 60
"""The most words of a brief for which a tool alone can be enough."""
MANY_DEMANDS = 3
MOST_OTHERS = 3
_QUESTION = re.compile(r"(?:what|where|when|who|whom|whose|which|how|is|are|does|do|did|can|has|have|was|were|will)\b")
_DEMAND = re.compile(r"\b(?:must|shall|should|has to|have to|needs? to|never|at (?:least|most))\b")
_POLITE = re.compile(
    r"^(?:please|could you|can you|would you|i (?:want|need|would like) (?:you )?to|let us|let's|we (?:want|need) to)[ ,]+"
)


@dataclass(frozen=True, slots=True)
class NearBrief:
    """What a search for the brief found: whether it is enough, and the best page, "" if there is none."""

    scent: ScentLevel = "lost"
    page: str = ""
    section: str = ""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An agent, or `tool` if no agent is needed, and why. Both are "" if nothing in the brief says which."""

    why: str
    agent: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class AgentProposal:
    """The proposal for a brief, and what else fits, lightest first."""

    first: Suggestion
    others: tuple[Suggestion, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentSigns:
    """The words by which a brief asks for an agent, and its class. No `pattern`: it is not proposed."""

    agent: str
    weight: str
    why: str
    pattern: re.Pattern[str] | None


@cache
def signs() -> tuple[AgentSigns, ...]:
    """Return the signs of each agent, the lightest agent first."""
    table = tomllib.loads(files("agents.choice").joinpath("signs.toml").read_text(encoding="utf-8"))
    return tuple(AgentSigns(one["name"], one["class"], one["why"], _pattern(one["signs"])) for one in table["agent"])


def _pattern(expressions: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(rf"(?:\b|^){one}\b" for one in expressions)) if expressions else None


def by_class() -> str:
    """Return the built-in agents, lightest class first, in one line for a prompt."""
    classes: dict[str, list[str]] = {}
    for one in signs():
        classes.setdefault(one.weight, []).append(one.agent)
    return "; ".join(f"{weight}: {', '.join(agents)}" for weight, agents in classes.items())


def proposed(brief: str, near: NearBrief, agents: Collection[str]) -> AgentProposal:
    """Return the proposal for a brief. `agents` are the names of all agents that can be started; `near` is what search found."""
    text = _POLITE.sub("", " ".join(brief.casefold().split()))
    if named := [
        name
        for name in agents
        if re.match(rf"(?:use |with |run |start )?{re.escape(name)}\b\s*(?:[:,-]|to\b|for\b)", text)
    ]:
        return AgentProposal(Suggestion("the brief names it", agent=named[0]))
    found = [
        (match.start(), one)
        for one in signs()
        if one.agent in agents and one.pattern and (match := one.pattern.search(text))
    ]
    # The earliest sign is what the brief asks for first; of two at one place the lighter agent counts.
    fitting = [Suggestion(one.why, agent=one.agent) for _, one in sorted(found, key=lambda pair: pair[0])]
    demands = len(_DEMAND.findall(text))
    if demands >= MANY_DEMANDS and "orchestrate" in agents and not any(one.agent == "deliver" for one in fitting[:1]):
        fitting.insert(
            0, Suggestion(f"the brief makes {demands} demands, each of which is to be met and judged", "orchestrate")
        )
    lighter = _without_agent(text, near, fitting)
    heavier = _for_questions(text, fitting, agents)
    ranked = _distinct([*lighter, *heavier, *fitting])
    if not ranked:
        return AgentProposal(Suggestion("nothing in the brief says what kind of work it is"))
    return AgentProposal(ranked[0], tuple(ranked[1 : MOST_OTHERS + 1]))


def _without_agent(text: str, near: NearBrief, fitting: Sequence[Suggestion]) -> list[Suggestion]:
    """Return the tool that is enough, if the knowledge base already shows that it is."""
    if near.scent != "sufficient" or not near.page or len(text.split()) > LONGEST_SMALL:
        return []
    at = near.page + (f" > {near.section}" if near.section else "")
    first = fitting[0].agent if fitting else ""
    if _is_question(text) and first not in ("decide-well", "assess", "analysis", "clarification"):
        return [Suggestion(f"it is one question, and a search finds enough for it, best in {at}", tool=LOOK_UP)]
    if first == "curate":
        return [Suggestion(f"it is a short change, and a search finds its page, {at}", tool=CHANGE)]
    return []


def _for_questions(text: str, fitting: Sequence[Suggestion], agents: Collection[str]) -> list[Suggestion]:
    """Return research for questions that no other agent is asked for."""
    if "research" not in agents or fitting:
        return []
    if text.count("?") > 1:
        return [Suggestion(f"it asks {text.count('?')} questions", agent="research")]
    if _is_question(text):
        return [Suggestion("it is a question for which a single search does not find enough", agent="research")]
    return []


def _is_question(text: str) -> bool:
    return text.count("?") <= 1 and (text.endswith("?") or bool(_QUESTION.match(text)))


def _distinct(suggestions: Sequence[Suggestion]) -> list[Suggestion]:
    return list({(one.agent, one.tool): one for one in reversed(suggestions)}.values())[::-1]
