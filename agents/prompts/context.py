"""The sections of a prompt within a token budget: the least important is trimmed first, and the prompt says so. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from knowledge.tokens import count_tokens

LEAST_TOKENS = 40
"""A section is left out if fewer of its tokens fit: a shorter cut would say nothing."""
NOTE_TOKENS = 60
"""The room kept free for the line that says what was trimmed."""
CUT = " [...]"
APART = "\n\n"
MOST_NAMED, MOST_TITLE = 6, 60
LEAST_FENCE = 3
_LIKE_OURS = re.compile(r"^ {0,3}(?:#{1,2}(?:\s|$)|```|~~~)", re.MULTILINE)
"""A line that looks like a heading of the prompt, or that opens a block which may not be closed before the next section."""
_TILDES = re.compile(r"~{3,}")


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of a phase: tokens of its prompt and schema (in), and of its work (out); 0 is the usual budget."""

    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True)
class PromptSection:
    """A part of a prompt. The higher its `priority` number, the sooner it is trimmed; one of priority 0 never is.

    `bare`: without its title as a heading. `quoted`: the text is somebody else's, so it gets a fence if it has lines
    that look like those of the prompt itself. `least`: the tokens that earlier sections leave free for it. `once`: a
    host that continues its conversation does not need the section again, even if its text has changed: the text changes
    only with the phase, or through the host's own work.
    """

    title: str
    text: str
    priority: int = 0
    bare: bool = False
    quoted: bool = False
    least: int = 0
    once: bool = False


def fitted(sections: Sequence[PromptSection], tokens: int, *, budget: int = 0) -> str:
    """Return the sections as Markdown, in their order, in at most this many tokens.

    Sections of priority 0 are always complete, whatever they cost. Then each priority in turn gets the room that is
    left, of which at most half is kept free for later ones. A section that does not fit is cut at its end or left out.
    A last line names these sections and the budget: `budget`, or else `tokens`.
    """
    return _fit(sections, tokens, budget)[0]


def whole(sections: Sequence[PromptSection], tokens: int) -> Mapping[str, str]:
    """Return the texts of the sections that `fitted` shows without a cut, by title."""
    cut = _fit(sections, tokens, 0)[1]
    return {section.title: section.text for section in sections if section.title not in cut}


def _fit(sections: Sequence[PromptSection], tokens: int, budget: int) -> tuple[str, Collection[str]]:
    """Return the sections as Markdown, and the titles of those that are cut or left out."""
    filled = [section for section in sections if section.text.strip()]
    full = APART.join(_shown(section, section.text) for section in filled)
    if count_tokens(full) <= tokens:
        return full, ()
    # The last line grows with what it names, so the room for it is found by trying.
    kept_free = NOTE_TOKENS
    while True:
        texts = _texts(filled, tokens - kept_free)
        shown = [_shown(filled[n], text) for n, text in sorted(texts.items()) if text]
        trimmed = APART.join([*shown, _trimmed(filled, texts, budget or tokens)])
        over = count_tokens(trimmed) - tokens
        if over <= 0 or not any(texts[n] for n, section in enumerate(filled) if section.priority):
            return trimmed, [filled[n].title for n, text in texts.items() if text != filled[n].text]
        kept_free += over


def _texts(filled: Sequence[PromptSection], left: int) -> dict[int, str]:
    """Return the text of each section, by its number, so that together they fit the tokens."""
    texts = {number: section.text for number, section in enumerate(filled) if section.priority == 0}
    left -= sum(_cost(filled[number], text) for number, text in texts.items())
    waiting = sorted((n for n in range(len(filled)) if n not in texts), key=lambda n: filled[n].priority)
    kept_free = {number: min(filled[number].least, _cost(filled[number], filled[number].text)) for number in waiting}
    if (most := max(0, left) // 2) < (wanted := sum(kept_free.values())):
        kept_free = {number: tokens * most // wanted for number, tokens in kept_free.items()}
    following = sum(kept_free.values())
    for number in waiting:
        following -= kept_free[number]
        texts[number] = _within(filled[number], left - following)
        left -= _cost(filled[number], texts[number])
    return texts


def _cost(section: PromptSection, text: str) -> int:
    return count_tokens(_shown(section, text) + APART) if text else 0


def _within(section: PromptSection, tokens: int) -> str:
    """Return as much of the section as fits, up to the end of a line if that keeps most of it; "" if too little would fit."""
    if _cost(section, section.text) <= tokens:
        return section.text
    room = tokens - count_tokens(_shown(section, "") + APART) - count_tokens(CUT)
    if room < LEAST_TOKENS:
        return ""
    # `count_tokens` estimates four characters to a token.
    text = section.text[: room * 4]
    line_end = text.rfind("\n")
    return text[: line_end if line_end > len(text) // 2 else len(text)].rstrip() + CUT


def _shown(section: PromptSection, text: str) -> str:
    if section.quoted and _LIKE_OURS.search(text):
        # Longer than any fence inside the text, which could close it.
        longest = max((len(tildes) for tildes in _TILDES.findall(text)), default=LEAST_FENCE - 1)
        fence = "~" * (longest + 1)
        text = f"{fence}\n{text}\n{fence}"
    return text if section.bare or not section.title else f"## {section.title}\n{text}"


def _trimmed(filled: Sequence[PromptSection], texts: dict[int, str], budget: int) -> str:
    titles = [section.title[:MOST_TITLE] or "a part" for section in filled]
    cut = [titles[n] for n, text in sorted(texts.items()) if text and text != filled[n].text]
    left_out = [titles[n] for n, text in sorted(texts.items()) if not text]
    if not cut and not left_out:
        return f"(Context budget of {budget:,} tokens: the fixed parts have more.)"
    lists = [f"{what}: {_named(names)}" for what, names in (("cut", cut), ("left out", left_out)) if names]
    return f"(Context budget of {budget:,} tokens; {'; '.join(lists)}. journey_status(view='report') has everything.)"


def _named(titles: Sequence[str]) -> str:
    more = len(titles) - MOST_NAMED
    return ", ".join(titles[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
