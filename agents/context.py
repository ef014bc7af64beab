"""What a prompt tells beside its instructions, within a budget: what matters least is trimmed first, and the prompt says so. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.tokens import count_tokens

LEAST_TOKENS = 40
"""Less of a section than this says nothing: it is left out."""
NOTE_TOKENS = 60
"""Kept free for saying what was trimmed."""
CUT = " [...]"
MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Budget:
    """What a phase may take: tokens of prompt and schema that come in, tokens of one phase's work that go out; 0 is the usual."""

    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a prompt. The higher its `priority` number, the sooner it is trimmed; one of priority 0 never is.

    `bare`: it is told without its title as a heading.
    """

    title: str
    text: str
    priority: int = 0
    bare: bool = False


def fitted(sections: Sequence[Section], tokens: int) -> str:
    """Return the sections as Markdown, in their order, within so many tokens.

    Room goes to priority 0 first, whole, whatever it costs; then to each priority in turn. A section that does not fit whole is
    cut at its end, or left out, and a last line says which were.
    """
    told = [section for section in sections if section.text.strip()]
    whole = "\n\n".join(_shown(section, section.text) for section in told)
    if count_tokens(whole) <= tokens:
        return whole
    left = tokens - NOTE_TOKENS - sum(count_tokens(_shown(s, s.text)) for s in told if s.priority == 0)
    texts: dict[int, str] = {}
    for number in sorted(range(len(told)), key=lambda n: told[n].priority):
        section = told[number]
        if section.priority == 0:
            texts[number] = section.text
            continue
        texts[number] = _within(section, left)
        left -= count_tokens(_shown(section, texts[number])) if texts[number] else 0
    shown = [_shown(told[n], text) for n, text in sorted(texts.items()) if text]
    return "\n\n".join([*shown, _trimmed(told, texts, tokens)])


def _within(section: Section, tokens: int) -> str:
    """Return as much of the section as fits: to the end of a line where that leaves most of it, nothing if it is too little."""
    if count_tokens(_shown(section, section.text)) <= tokens:
        return section.text
    room = tokens - count_tokens(_shown(section, "")) - count_tokens(CUT)
    if room < LEAST_TOKENS:
        return ""
    text = section.text[: room * 4]
    while text and count_tokens(text) > room:
        text = text[: len(text) * 9 // 10]
    line_end = text.rfind("\n")
    return text[: line_end if line_end > len(text) // 2 else len(text)].rstrip() + CUT


def _shown(section: Section, text: str) -> str:
    return text if section.bare or not section.title else f"## {section.title}\n{text}"


def _trimmed(told: Sequence[Section], texts: dict[int, str], tokens: int) -> str:
    cut = [told[n].title for n, text in sorted(texts.items()) if text and text != told[n].text]
    gone = [told[n].title for n, text in sorted(texts.items()) if not text]
    said = [f"{what}: {_named(titles)}" for what, titles in (("cut", cut), ("left out", gone)) if titles]
    return f"(Context budget of {tokens:,} tokens; {'; '.join(said)}. journey_status(view='report') has all of it.)"


def _named(titles: Sequence[str]) -> str:
    more = len(titles) - MOST_NAMED
    return ", ".join(titles[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
