"""What a prompt tells beside its instructions, within a budget: what matters least is trimmed first, and the prompt says so. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.tokens import count_tokens

LEAST_TOKENS = 40
"""Less of a section than this says nothing: it is left out."""
NOTE_TOKENS = 60
"""Kept free for saying what was trimmed."""
CUT = " [...]"
APART = "\n\n"
MOST_NAMED, MOST_TITLE = 6, 60
LEAST_FENCE = 3
_LIKE_OURS = re.compile(r"^ {0,3}(?:#{1,2}(?:\s|$)|```|~~~)", re.MULTILINE)
"""A line that would pass for a heading of the prompt, or that begins a block which may not end before the next section."""
_TILDES = re.compile(r"~{3,}")


@dataclass(frozen=True, slots=True)
class Budget:
    """What a phase may take: tokens of prompt and schema that come in, tokens of one phase's work that go out; 0 is the usual."""

    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True)
class PromptSection:
    """A part of a prompt. The higher its `priority` number, the sooner it is trimmed; one of priority 0 never is.

    `bare`: it is told without its title as a heading. `quoted`: the text is somebody else's; where it has lines that would pass
    for those of the prompt itself, it is told between fences. `least`: so many tokens of it are kept free, or what it has, while
    sections that go before it take the rest.
    """

    title: str
    text: str
    priority: int = 0
    bare: bool = False
    quoted: bool = False
    least: int = 0


def fitted(sections: Sequence[PromptSection], tokens: int, *, budget: int = 0) -> str:
    """Return the sections as Markdown, in their order, within so many tokens.

    Room goes to priority 0 first, whole, whatever it costs; then to each priority in turn, while what is kept free for those that
    follow takes at most half of it. A section that does not fit whole is cut at its end, or left out, and a last line says which
    were, and by what `budget`, where that is for more than these.
    """
    told = [section for section in sections if section.text.strip()]
    whole = _joined([_shown(section, section.text) for section in told])
    if count_tokens(whole) <= tokens:
        return whole
    kept_free = NOTE_TOKENS
    while True:
        texts = _texts(told, tokens - kept_free)
        shown = _joined(
            [
                *(_shown(told[n], text) for n, text in sorted(texts.items()) if text),
                _trimmed(told, texts, budget or tokens),
            ]
        )
        over = count_tokens(shown) - tokens
        if over <= 0 or not any(texts[n] for n, section in enumerate(told) if section.priority):
            return shown
        kept_free += over


def _texts(told: Sequence[PromptSection], left: int) -> dict[int, str]:
    """Return what is told of each section, by its place, so that all of them have so many tokens."""
    texts = {number: section.text for number, section in enumerate(told) if section.priority == 0}
    left -= sum(_cost(told[number], text) for number, text in texts.items())
    waiting = sorted((n for n in range(len(told)) if n not in texts), key=lambda n: told[n].priority)
    kept_free = {number: min(told[number].least, _cost(told[number], told[number].text)) for number in waiting}
    if (most := max(0, left) // 2) < (asked := sum(kept_free.values())):
        kept_free = {number: tokens * most // asked for number, tokens in kept_free.items()}
    following = sum(kept_free.values())
    for number in waiting:
        following -= kept_free[number]
        texts[number] = _within(told[number], left - following)
        left -= _cost(told[number], texts[number])
    return texts


def _cost(section: PromptSection, text: str) -> int:
    """Return the tokens that so much of the section takes."""
    return count_tokens(_shown(section, text) + APART) if text else 0


def _joined(parts: Sequence[str]) -> str:
    return APART.join(parts)


def _within(section: PromptSection, tokens: int) -> str:
    """Return as much of the section as fits: to the end of a line where that leaves most of it, nothing if it is too little."""
    if count_tokens(_shown(section, section.text) + APART) <= tokens:
        return section.text
    room = tokens - count_tokens(_shown(section, "") + APART) - count_tokens(CUT)
    if room < LEAST_TOKENS:
        return ""
    text = section.text[: room * 4]
    line_end = text.rfind("\n")
    return text[: line_end if line_end > len(text) // 2 else len(text)].rstrip() + CUT


def _shown(section: PromptSection, text: str) -> str:
    shown = _between_fences(text) if section.quoted and _LIKE_OURS.search(text) else text
    return shown if section.bare or not section.title else f"## {section.title}\n{shown}"


def _between_fences(text: str) -> str:
    """Return the text between fences that are longer than any inside it."""
    longest = max((len(tildes) for tildes in _TILDES.findall(text)), default=LEAST_FENCE - 1)
    fence = "~" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _trimmed(told: Sequence[PromptSection], texts: dict[int, str], budget: int) -> str:
    cut = [_title(told[n]) for n, text in sorted(texts.items()) if text and text != told[n].text]
    gone = [_title(told[n]) for n, text in sorted(texts.items()) if not text]
    if not cut and not gone:
        return f"(Context budget of {budget:,} tokens: what must be told has more.)"
    said = [f"{what}: {_named(titles)}" for what, titles in (("cut", cut), ("left out", gone)) if titles]
    return f"(Context budget of {budget:,} tokens; {'; '.join(said)}. journey_status(view='report') has all of it.)"


def _title(section: PromptSection) -> str:
    return section.title[:MOST_TITLE] or "a part"


def _named(titles: Sequence[str]) -> str:
    more = len(titles) - MOST_NAMED
    return ", ".join(titles[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
