"""The lightest agent that is enough for a brief, or none, with the reason. Pure: nothing is started by it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from agents.engine.agent import ScentLevel

LOOK_UP = "kb_search"
"""The tool that is enough for a question that the knowledge base answers."""
MAP = "kb_map"
"""The tool that is enough for a question about what is where."""
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
    """What a search for the brief found: whether it is enough, and the best page, "" if there is none.

    `place` is the page or directory whose contents the brief asks for; "" if it does not ask what is where.
    """

    scent: ScentLevel = "lost"
    page: str = ""
    section: str = ""
    place: str = ""


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
    """The words by which a brief asks for an agent, and the agent's class. `signs.toml` explains the fields.

    No words of a brief ask for an agent without a `pattern`.
    """

    agent: str
    weight: str
    why: str
    pattern: re.Pattern[str] | None
    look_up: bool
    tool: str
    for_questions: bool
    for_demands: bool


@cache
def signs() -> tuple[AgentSigns, ...]:
    """Return the signs of each agent, the lightest agent first."""
    table = tomllib.loads(files("agents.choice").joinpath("signs.toml").read_text(encoding="utf-8"))
    return tuple(
        AgentSigns(
            one["name"],
            one["class"],
            one["why"],
            re.compile("|".join(rf"(?:\b|^){sign}\b" for sign in one["signs"])) if one["signs"] else None,
            one.get("look_up", True),
            one.get("tool", ""),
            one.get("for_questions", False),
            one.get("for_demands", False),
        )
        for one in table["agent"]
    )


def by_class() -> str:
    """Return the built-in agents, lightest class first, in one line for a prompt."""
    classes: dict[str, list[str]] = {}
    for one in signs():
        classes.setdefault(one.weight, []).append(one.agent)
    return "; ".join(f"{weight}: {', '.join(agents)}" for weight, agents in classes.items())


def proposed(brief: str, near: NearBrief, agents: Collection[str]) -> AgentProposal:
    """Return the proposal for a brief. `agents` are the names of all agents that can be started; `near` is what search found."""
    text = _POLITE.sub("", " ".join(brief.casefold().split()))
    for name in agents:
        if re.match(rf"(?:use |with |run |start )?{re.escape(name)}\b\s*(?:[:,-]|to\b|for\b)", text):
            return AgentProposal(Suggestion("the brief names it", agent=name))
    there = [one for one in signs() if one.agent in agents]
    found = [(match.start(), one) for one in there if one.pattern and (match := one.pattern.search(text))]
    # The earliest sign is what the brief asks for first; of two at one place the lighter agent counts.
    fitting = [one for _, one in sorted(found, key=lambda pair: pair[0])]
    demands = len(_DEMAND.findall(text))
    suggestions = _without_agent(text, near, fitting[0] if fitting else None)
    if demands >= MANY_DEMANDS:
        why = f"the brief makes {demands} demands, each of which is to be met and judged"
        suggestions += [Suggestion(why, one.agent) for one in there if one.for_demands]
    if not fitting and (why := _why_questions(text)):
        suggestions += [Suggestion(why, one.agent) for one in there if one.for_questions]
    ranked: dict[tuple[str, str], Suggestion] = {}
    for one in [*suggestions, *(Suggestion(one.why, one.agent) for one in fitting)]:
        ranked.setdefault((one.agent, one.tool), one)
    if not ranked:
        return AgentProposal(Suggestion("nothing in the brief says what kind of work it is"))
    first, *others = ranked.values()
    return AgentProposal(first, tuple(others[:MOST_OTHERS]))


def _without_agent(text: str, near: NearBrief, first: AgentSigns | None) -> list[Suggestion]:
    """Return the tool that is enough, if the knowledge base already shows that it is."""
    if near.place and _is_question(text) and (first is None or first.look_up):
        return [Suggestion(f"it asks what is where, and the map of {near.place} shows it", tool=MAP)]
    if near.scent != "sufficient" or not near.page or len(text.split()) > LONGEST_SMALL:
        return []
    at = near.page + (f" > {near.section}" if near.section else "")
    if _is_question(text) and (first is None or first.look_up):
        return [Suggestion(f"it is one question, and a search finds enough for it, best in {at}", tool=LOOK_UP)]
    if first is not None and first.tool:
        return [Suggestion(f"it is a short change, and a search finds its page, {at}", tool=first.tool)]
    return []


def _why_questions(text: str) -> str:
    """Return why the brief counts as a list of questions; "" if it is none."""
    if text.count("?") > 1:
        return f"it asks {text.count('?')} questions"
    return "it is a question for which a single search does not find enough" if _is_question(text) else ""


def _is_question(text: str) -> bool:
    return text.count("?") <= 1 and (text.endswith("?") or bool(_QUESTION.match(text)))
