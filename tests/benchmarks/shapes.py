"""The Markdown shapes that people's notes are made of. Every block is a list of lines; nothing here touches a disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

Draw = Callable[[int], list[str]]
"""Returns this many words of the page's topic."""

CALLOUTS = ("note", "tip", "warning", "important", "info", "question")
LANGUAGES = ("python", "bash", "json", "yaml", "sql", "")


def sentence(rng: Random, words: list[str], links: Sequence[str]) -> str:
    """Return `words` as a sentence, occasionally with emphasis, code, or a wiki link to one of `links`."""
    words[0] = words[0].capitalize()
    at = rng.randrange(len(words))
    ornament = rng.random()
    if ornament < 0.08:
        words[at] = f"**{words[at]}**"
    elif ornament < 0.15:
        words[at] = f"`{words[at]}`"
    elif ornament < 0.22 and links:
        words[at] = f"[[{rng.choice(links)}|{words[at]}]]"
    elif ornament < 0.26:
        words[at] = f"[{words[at]}](https://example.org/{words[at]})"
    return " ".join(words) + "."


def paragraph(rng: Random, draw: Draw, links: Sequence[str], words: int) -> list[str]:
    """Return about `words` words as sentences on one line, as editors with soft wrapping store them."""
    drawn = draw(words)
    parts = []
    while drawn:
        length = rng.randint(7, 19)
        parts.append(sentence(rng, drawn[:length], links))
        drawn = drawn[length:]
    return [" ".join(parts)]


def bullets(rng: Random, draw: Draw, links: Sequence[str]) -> list[str]:
    """Return a list of one or two levels."""
    lines = []
    for _ in range(rng.randint(3, 7)):
        lines.append("- " + sentence(rng, draw(rng.randint(4, 12)), links))
        if rng.random() < 0.25:
            lines.append("  - " + " ".join(draw(rng.randint(3, 8))))
    return lines


def steps(rng: Random, draw: Draw, links: Sequence[str]) -> list[str]:
    """Return a numbered list."""
    return [f"{n}. {sentence(rng, draw(rng.randint(5, 14)), links)}" for n in range(1, rng.randint(4, 8))]


def tasks(rng: Random, draw: Draw, _links: Sequence[str]) -> list[str]:
    """Return a task list, half of it done."""
    return [f"- [{rng.choice(' x')}] {' '.join(draw(rng.randint(3, 9)))}" for _ in range(rng.randint(3, 6))]


def table(rng: Random, draw: Draw, _links: Sequence[str]) -> list[str]:
    """Return a GFM table of three to five columns."""
    columns = rng.randint(3, 5)
    lines = ["| " + " | ".join(draw(columns)) + " |", "|" + " --- |" * columns]
    for _ in range(rng.randint(3, 9)):
        cells = [*draw(columns - 1), str(rng.randint(1, 9999))]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def fence(rng: Random, draw: Draw, _links: Sequence[str]) -> list[str]:
    """Return a code fence; some contain lines like headings and blank lines, where it must not be cut."""
    lines = ["```" + rng.choice(LANGUAGES)]
    for _ in range(rng.randint(3, 12)):
        first, second = draw(2)
        lines.append(f"{first}_{second} = {rng.randint(0, 999)}" if rng.random() < 0.8 else "")
    return [*lines, f"# {' '.join(draw(3))}", "```"]


def callout(rng: Random, draw: Draw, links: Sequence[str]) -> list[str]:
    """Return an Obsidian callout."""
    head = f"> [!{rng.choice(CALLOUTS)}] {' '.join(draw(3)).capitalize()}"
    return [head, *("> " + sentence(rng, draw(rng.randint(8, 18)), links) for _ in range(rng.randint(1, 3)))]


BLOCKS = (bullets, steps, tasks, table, fence, callout)
