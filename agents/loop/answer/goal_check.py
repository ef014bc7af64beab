"""Whether the last text of a run addresses its goal, by measures of what it says beyond the goal. Pure.

An answer that carries something has words that the goal has not, and most have words of what the run has read. A refusal, a plan
and an echo of the goal have few of either, in any language. Word lists (`phrases.toml`) only say which sentences to look at twice.
"""

from __future__ import annotations

import pkgutil
import re
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge.pages.markdown.language import detect
from knowledge.search.query.analysis import is_part_of_a_run, is_stop_word, stem, words

Lack = Literal["nothing", "bare", "call", "loop", "goal", "question", "unknown", "plan"]

WHY: dict[Lack, str] = {
    "nothing": "the answer has no words",
    "bare": "the answer says nothing about what was found or done",
    "call": "the answer is a tool call written as text",
    "loop": "the answer repeats itself",
    "goal": "the answer only repeats the goal",
    "question": "the answer is a question",
    "unknown": "the answer says that it is not known",
    "plan": "the answer only says what would be done next",
}
DO: dict[Lack, str] = {
    "nothing": "say what was found or done",
    "bare": "say what was found or done, and what that is based on",
    "call": "call the tool instead of writing the call",
    "loop": "say it once",
    "goal": "say what was found or done",
    "question": "call ask_user to ask the person",
    "unknown": "call give_up and say why",
    "plan": "do it now: call the tool, or say what was found",
}
"""A sentence that tells the model what it can do about it."""

MOST_MEASURED, MOST_COMPARED = 8_000, 100_000
"""Characters of an answer that are measured, and of the newest texts that the run has read. Nobody is served in the meantime."""
_NEAR = 5
"""Words between a negation and what it denies."""
_ENOUGH = 3.0
"""The weight that the words of an answer need, in addition to a sentence that denies or announces something."""
_UNGROUNDED = 0.25
"""The weight of a word that is neither in the goal nor in what was read; one that was read weighs 1."""
_ECHO = 0.5
"""The share of the goal's words that an echo of it has. A choice among words of the goal has fewer."""
_FEWEST_GOAL = 3
"""The fewest words of a goal that an echo repeats: "Moved." confirms that "Move it" was done."""
_LOOPING_CHARS, _LOOPING_TIMES, _LOOPING_RATIO = 200, 4, 0.12
_SENTENCE = re.compile("(?<=[.!?])\\s+|(?<=[\u3002\uff01\uff1f\u0964\u061f])|\n+")
_NUMBER = re.compile(r"^\s*\d{1,2}[.)]\s", re.MULTILINE)
_ASKS = ("?", "\uff1f", "\u061f")
_MARKS = "*_`#>-~ \t\"'\u201c\u201d\u201e\u00ab\u00bb"
_CALL = re.compile(
    r"<\|?/?(?:tool_call|function_call|tool_calls|python_tag|tool_code)|\[/?TOOL_CALLS\]|<function[=\s>]|```tool_(?:code|call)"
    r'|"(?:name|function|tool|tool_name|action)"\s*:\s*"[^"]+"\s*,\s*"(?:arguments|parameters|args|input|action_input)"\s*:',
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer can be measured by: the goal, the texts that the run has read, and what its tools are called and do."""

    goal: str
    read: Sequence[str] = ()
    tools: Sequence[str] = ()
    acted: bool = False
    """Whether a tool that was called answered."""


def lack(answer: str, about: Answered) -> Lack | None:
    """Return why the answer does not address the goal, or None if it does as far as measures can tell."""
    text = _NUMBER.sub("", answer.strip()[:MOST_MEASURED])
    if not any(character.isalnum() for character in text):
        return "nothing"
    if _is_call(text, about.tools):
        return "call"
    if repeats_itself(text):
        return "loop"
    terms = _Terms(detect(text) or detect(about.goal))
    goal, talk, said = terms.of(about.goal), terms.of(*about.tools), terms.of(text)
    new = {term for term in said - goal if _carries(term)}
    if not new or set(words(text)) <= _BARE:
        return _echo_or_bare(text, about, goal, said)
    sentences = [part for part in (part.strip(_MARKS) for part in _SENTENCE.split(text)) if part]
    doubts = [doubt for sentence in sentences if (doubt := _doubt(sentence)) is not None]
    if not doubts:
        # Before any tool answered, words about tools alone say what they would do; afterwards, what they did.
        return None if about.acted or new - talk - _SPOKEN else "plan"
    known, heavy, weight = terms.of(*_newest(about.read)), set[str](), 0.0
    for sentence in sentences:
        doubt = _doubt(sentence)
        beyond = {term for term in terms.of(sentence) - goal if _carries(term)} - heavy
        heavy |= beyond
        grounded = beyond & known
        if doubt is None:
            weight += len(grounded) + _UNGROUNDED * len(beyond - grounded)
        elif doubt != "question":
            # A sentence that denies or announces weighs only by what it took from what was read.
            weight += len(grounded - talk - _SPOKEN)
        if weight >= _ENOUGH:
            return None
    return Counter(doubts).most_common(1)[0][0]


def _newest(texts: Sequence[str]) -> Sequence[str]:
    """Return the newest of these texts, as much as is compared."""
    newest, room = list[str](), MOST_COMPARED
    for text in reversed(texts):
        newest.append(text[:room])
        room -= len(newest[-1])
    return newest


def repeats_itself(text: str) -> bool:
    """Return whether most of a text is the same few lines or words again and again, as small models write until they are cut off."""
    if len(text) < _LOOPING_CHARS:
        return False
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) >= _LOOPING_TIMES and len(set(lines)) * _LOOPING_TIMES <= len(lines):
        return True
    # A text without a loop is compressed to a third; a table of similar rows to a sixth.
    end = text[-4_000:].encode()
    return len(zlib.compress(end, 9)) < _LOOPING_RATIO * len(end)


def _echo_or_bare(text: str, about: Answered, goal: set[str], said: set[str]) -> Lack | None:
    """Return what is wrong with an answer without a new word; None if it chooses among words of the goal."""
    shared, written = said & goal, set(words(text))
    if shared:
        # A choice among words of the goal, or a confirmation, has few of them.
        short = about.acted and len(goal) < _FEWEST_GOAL
        return "goal" if len(shared) >= _ECHO * len(goal) and not short else None
    if written <= set(words(about.goal)) or (about.acted and written <= _COMPLETED):
        return None
    return "bare"


def _doubt(sentence: str) -> Lack | None:
    if sentence.endswith(_ASKS):
        return "question"
    lowered = sentence.casefold().replace("\u2019", "'")
    if any(phrase in lowered for phrase in _ALONE) or _denies(lowered):
        return "unknown"
    return "plan" if _ANNOUNCES.search(lowered) else None


def _denies(lowered: str) -> bool:
    """Return whether a word for knowing is near a negation."""
    found = re.findall(r"[^\W_]+(?:'[^\W_]+)?", lowered)
    knows = [place for place, word in enumerate(found) if word in _KNOWING or word.startswith(_KNOWING_STEMS)]
    denies = [place for place, word in enumerate(found) if word in _NEGATIONS]
    return any(abs(one - other) <= _NEAR and one != other for one in knows for other in denies)


def _is_call(text: str, tools: Iterable[str]) -> bool:
    """Return whether the text is a call: it has the marks of one, or begins with a tool's name and arguments."""
    if _CALL.search(text):
        return True
    head = text.lstrip("`( \n").removeprefix("python\n").removeprefix("print(")
    names = [tool.split(":", 1)[0] for tool in tools]
    return any(head.startswith(f"{name}(") and len(text) < 400 for name in names if name)


class _Terms:
    """Terms of texts in one language, so that words of all of them can be compared."""

    def __init__(self, language: str) -> None:
        # English as well: tools and pages are often written in it.
        self._language, self._stopped = language or "en", (language, "en")

    def of(self, *texts: str) -> set[str]:
        """Return the terms of the texts, without stop words."""
        found = {word for text in texts for word in words(text) if not is_stop_word(word, self._stopped)}
        return {stem(word, self._language) for word in found}


def _carries(term: str) -> bool:
    """Return whether a term can carry something: `x`, `aaa` and `_` do not."""
    return term.isdecimal() or is_part_of_a_run(term) or len(set(term)) > 1


_PHRASES = tomllib.loads((pkgutil.get_data(__name__, "phrases.toml") or b"").decode())
_NEGATIONS = frozenset(_PHRASES["deny"]["negations"].split())
_KNOWING = frozenset(word for word in _PHRASES["deny"]["knowing"].split() if not word.endswith("*"))
_KNOWING_STEMS = tuple(word[:-1] for word in _PHRASES["deny"]["knowing"].split() if word.endswith("*"))
_ALONE = tuple(one.strip() for one in re.split(r"[;\n]", _PHRASES["deny"]["alone"]) if one.strip())
_ANNOUNCING = [one.strip() for one in re.split(r"[;\n]", _PHRASES["announce"]["phrases"]) if one.strip()]
# A phrase in a script with spaces is one of whole words.
_ANNOUNCES = re.compile(
    "|".join(rf"\b{re.escape(one)}\b" if one[0] < "\u0500" else re.escape(one) for one in _ANNOUNCING)
)
_COMPLETED = frozenset(words(_PHRASES["bare"]["completed"]))
_BARE = _COMPLETED | frozenset(words(_PHRASES["bare"]["words"]))
_SPOKEN = {stem(word, "en") for word in _KNOWING | {one.rstrip("*") for one in _KNOWING_STEMS}}
