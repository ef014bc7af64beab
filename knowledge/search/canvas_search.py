"""Searches canvases by their name and the text of their cards.

Canvases are in no index. In the index they would count as pages: in maps, in the health of pages, and in the word
frequencies by which all pages are ranked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from knowledge.index.page_rows import DirectoryTrust
from knowledge.pages.obsidian.canvas import Canvas
from knowledge.pages.obsidian.canvases import Canvases
from knowledge.pages.paths import parent, within
from knowledge.pages.vault import Vault
from knowledge.search.query.analysis import words
from knowledge.search.snippet import SHORTEST_STEM, same_word

MOST_FOUND = 5
MOST_CHARACTERS = 200
"""The most canvases that are found, and the most characters that their paths may take in an answer for hosts."""
LONGEST_SEARCHED = 40_000
"""Characters of a canvas that are searched."""
LEAST_SHARE = 2 / 3
"""The least share of a question's words that a canvas must have."""
TRUSTED_S = 5.0
"""Seconds for which the canvases found on disk are used again: finding them takes 20 ms for 10,000 files, and a
search follows each typed letter."""


@dataclass(frozen=True, slots=True)
class FoundCanvas:
    """A canvas that has words of a question, and the card that has most of them, "" if only the name has some."""

    path: str
    card: str
    untrusted: bool


@dataclass(frozen=True, slots=True)
class _SearchedText:
    """A text and its words, by their beginnings."""

    text: str
    by_start: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, text: str) -> _SearchedText:
        by_start: dict[str, set[str]] = {}
        for word in words(text):
            by_start.setdefault(word[:SHORTEST_STEM], set()).add(word)
        return cls(text, {start: frozenset(found) for start, found in by_start.items()})

    @classmethod
    def of_all(cls, texts: Sequence[_SearchedText]) -> _SearchedText:
        """Return the words of several texts together."""
        by_start: dict[str, frozenset[str]] = {}
        for text in texts:
            for start, found in text.by_start.items():
                by_start[start] = by_start.get(start, frozenset()) | found
        return cls("", by_start)

    def having(self, asked: Sequence[str]) -> frozenset[str]:
        """Return the words that the text has, in any inflection with the same beginning."""
        return frozenset(
            word for word in asked if any(same_word(word, one) for one in self.by_start.get(word[:SHORTEST_STEM], ()))
        )


@dataclass(frozen=True, slots=True)
class _SearchedCanvas:
    """A canvas with the words of its name, of each card, and of all of them together."""

    canvas: Canvas
    name: _SearchedText
    cards: tuple[_SearchedText, ...]
    whole: _SearchedText

    def best_card(self, asked: Sequence[str]) -> str:
        """Return the text of the card that has most of the words, "" if none has any."""
        having = [(len(card.having(asked)), card.text) for card in self.cards]
        count, text = max(having, key=lambda one: one[0], default=(0, ""))
        return text if count else ""


@dataclass
class CanvasSearch:
    """Searches the canvases of a folder of Obsidian; elsewhere it finds none, and costs nothing."""

    vault: Vault
    _canvases: Canvases = field(init=False)
    _searched: dict[str, _SearchedCanvas] = field(default_factory=dict)
    _until: float = float("-inf")

    def __post_init__(self) -> None:
        self._canvases = Canvases(self.vault)

    @property
    def has_any(self) -> bool:
        """Whether there may be canvases at all."""
        return self.vault.is_obsidian()

    async def find(self, asked: Sequence[str], *, path: str = "") -> list[FoundCanvas]:
        """Return the canvases at or below `path` that have most of these words, best first.

        They are ordered by the number of these words in the canvas, then by the number in its name.
        """
        asked = tuple(dict.fromkeys(asked))
        if not asked or not self.has_any:
            return []
        if anyio.current_time() >= self._until:
            self._searched = await anyio.to_thread.run_sync(self._looked_at, self._searched)
            self._until = anyio.current_time() + TRUSTED_S
        found: list[tuple[int, int, str]] = []
        for place, one in self._searched.items():
            if not within(place, path):
                continue
            all_words = one.whole.having(asked)
            if len(all_words) >= LEAST_SHARE * len(asked):
                found.append((-len(all_words), -len(one.name.having(asked)), place))
        best_first = [place for *_, place in sorted(found)[:MOST_FOUND]]
        cards = [self._searched[place].best_card(asked) for place in best_first]
        trust = DirectoryTrust(self.vault)
        untrusted = await anyio.to_thread.run_sync(lambda: [trust.untrusted(parent(place)) for place in best_first])
        return [FoundCanvas(*one) for one in zip(best_first, cards, untrusted, strict=True)]

    def _looked_at(self, known: Mapping[str, _SearchedCanvas]) -> dict[str, _SearchedCanvas]:
        """Return the canvases as they are now.

        A canvas that has not changed stays the same object, whose words are already known.
        """
        now = self._canvases.all()
        return {
            path: known[path] if path in known and known[path].canvas is canvas else _searched(path, canvas)
            for path, canvas in now.items()
        }


def note_on_canvases(paths: Sequence[str]) -> str:
    """Return what an answer for hosts says about the canvases that were found: their paths, as many as have room."""
    shown, room = list[str](), MOST_CHARACTERS
    for path in paths:
        room -= len(path) + 4
        if room < 0 and shown:
            break
        shown.append(repr(path[:MOST_CHARACTERS]))
    return f"also on canvases, which are read by their paths: {', '.join(shown)}"


def _searched(path: str, canvas: Canvas) -> _SearchedCanvas:
    room, cards = LONGEST_SEARCHED, list[_SearchedText]()
    for card in canvas.cards:
        text = card.content[: max(0, room)]
        room -= len(card.content)
        if text.strip():
            cards.append(_SearchedText.of(text))
    name = _SearchedText.of(path.rpartition("/")[2].rpartition(".")[0])
    return _SearchedCanvas(canvas, name, tuple(cards), _SearchedText.of_all([name, *cards]))
