"""Finds a question in a text as it was written: an identifier, a line of an error message, an entry of a table of contents. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from functools import cached_property

from knowledge.search.query.analysis import is_part_of_a_run, word_groups

FEWEST_WORDS = 4
"""Words that a question must have to be looked for in sentences. Fewer words follow each other in many texts by chance."""
FEWEST_LISTED = 2
"""Words that it must have to be looked for in tables of contents. Many have entries of one word, such as *Overview*."""
FEWEST_UNSPACED = 12
"""The same for words that are cut out of a script without spaces: letters and pairs of letters."""
LONGEST = 1_000
"""Characters of a question. A longer one is a pasted text, of which no chunk has all."""
_MARKUP = str.maketrans("", "", "`*")
_EDGES = re.compile(r"^[^\w&@#$<./-]+|[^\w)\]}>;]+$")
_LINKED = re.compile(r"\[\[[^\[\]]*\]\]|\[[^\[\]]*\](?=[\[(])")
"""The text of a link. It names another page or section, which is the one that is asked for."""
_ENTRY = re.compile(r"\[([^\[\]]*)\]\(#")
"""A link to a section of the page itself."""
_RUN = re.compile(r"[^\W_]+")


class Phrase:
    """A question as it was written: without case, Markdown's marks, line breaks and quotation marks around it."""

    def __init__(self, text: str, *, tells: bool = True) -> None:
        self._text = text
        self.tells = tells
        """Whether it tells pages apart wherever it is: it is an identifier, or has many words."""
        self._runs = sorted(set(_RUN.findall(text)), key=len, reverse=True)
        self._without_case = [run for run in self._runs if run.upper() == run.lower()]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Made when a text has all of its words: that takes longer than to look through all texts of most searches."""
        text = self._text
        # Not inside of a longer word; but where words are written without spaces, letters on both sides say nothing.
        before = r"(?<!\w)" if text[0].isascii() and (text[0].isalnum() or text[0] == "_") else ""
        after = r"(?!\w)" if text[-1].isascii() and (text[-1].isalnum() or text[-1] == "_") else ""
        return re.compile(before + re.escape(text) + after, re.ASCII)

    def __repr__(self) -> str:
        return f"Phrase({self._text!r})"

    def is_in(self, text: str) -> bool:
        """Return whether `text` has it, in other places than in the text of a link."""
        folded = self._with_all_words(text)
        return bool(folded) and self._pattern.search(_plain(_LINKED.sub("[]", folded))) is not None

    def is_listed_in(self, text: str) -> bool:
        """Return whether `text` links to a section of its own page by exactly these words, as a table of contents does."""
        if "](#" not in text:
            return False
        folded = self._with_all_words(text)
        return any(_EDGES.sub("", _plain(entry)) == self._text for entry in _ENTRY.findall(folded))

    def _with_all_words(self, text: str) -> str:
        """Return `text` without case; "" if a word is missing."""
        # Few texts have all words, and looking for these is fast.
        if not all(run in text for run in self._without_case):
            return ""
        folded = text.casefold()
        return folded if all(run in folded for run in self._runs) else ""


def core_of(query: str, is_stop_word: Callable[[str], bool], particles: Container[tuple[str, str]] = ()) -> str:
    """Return `query` without marks and stop words at both ends: `get started` of *How do I get started?*; "" if nothing is left.

    Pairs of `particles` stay together (*log in*), and so do words with a capital letter within the sentence (*install Everything*).
    """
    if len(query) > LONGEST:
        return ""

    def asks(word: str) -> bool:
        return (word.islower() or len(word) == 1 or query.isupper()) and is_stop_word(word.casefold())

    words = [word for word in map(_bare, query.split()) if word]
    if words and is_stop_word(words[0].casefold()):
        del words[0]
        while words and asks(words[0]):
            del words[0]
    while words and asks(words[-1]) and (words[-2].casefold() if words[1:] else "", words[-1]) not in particles:
        del words[-1]
    return " ".join(words)


def _bare(word: str) -> str:
    # Not by `_EDGES`, which would make `C` of `C++`.
    return word.strip("\"'`\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb()[]\u00bf\u00a1").rstrip("?!.,;:\"'\u201d\u2026")


def phrases_of(query: str, core: str) -> tuple[Phrase, ...]:
    """Return the phrases to look for, longest first: `query` and its `core`.

    One that is too short or too long to be looked for as it was written is left out.
    """
    if len(query) > LONGEST:
        return ()
    texts = dict.fromkeys(_EDGES.sub("", _plain(text)) for text in (query, core))
    return tuple(phrase for phrase in map(_phrase, texts) if phrase is not None)


def _phrase(text: str) -> Phrase | None:
    groups = word_groups(text)
    if not groups or not _RUN.search(text):
        return None
    unspaced = sum(is_part_of_a_run(whole) for whole, *_ in groups)
    is_identifier = " " not in text and not unspaced and (len(groups) > 1 or len(groups[0]) > 1)
    tells = is_identifier or len(groups) >= (FEWEST_UNSPACED if 2 * unspaced >= len(groups) else FEWEST_WORDS)
    return Phrase(text.casefold(), tells=tells) if tells or len(groups) >= FEWEST_LISTED else None


def _plain(text: str) -> str:
    return " ".join(text.translate(_MARKUP).split())
