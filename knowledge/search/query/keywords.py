"""Which words of a text are worth searching for. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from knowledge.pages.markdown.language import detect
from knowledge.search.query.analysis import is_part_of_a_run, is_stop_word, stem, words

_LITTLE = (
    "against among between during within without through until toward towards upon via per every much many make makes made "
    "need needs want wants please use uses using used does did done do doing get gets got let lets first next new way ways one two "
    "gegen zwischen ohne bis durch jede jeder jedes soll sollen muss bitte brauchen machen macht neue neuen "
    "contre entre sans chaque faire fait doit doivent nouveau nouvelle cada hacer debe deben nuevo nueva"
)
"""Words that briefs are full of and no search is about; the stop words of searches are fewer, for there every word may count."""
LITTLE = frozenset(_LITTLE.split())
LONGEST_TEXT = 20_000
"""Characters of a text whose words are counted."""
SHORTEST = 2
MOST_WORDS, LONGEST_TERM = 5, 60
"""Of a heading, title or tag that is a term."""
LOOKED_AT = 4
"""So many candidates are looked at for each word that is returned."""


def content_words(text: str) -> Sequence[str]:
    """Return the words of a text that say something, each as often as it stands there, in order.

    Without stop words of the text's own language (of any, where that is not clear), single letters and bare numbers.
    """
    sample = text[:LONGEST_TEXT].encode(errors="replace").decode()
    language = detect(sample)
    spoken = (language,) if language else ()
    return [word for word in words(sample) if _says_something(word) and not is_stop_word(word, spoken)]


def _says_something(word: str) -> bool:
    return len(word) >= SHORTEST and not word.isdecimal() and word not in LITTLE


def keywords(text: str, most: int, frequencies: Mapping[str, int] | None = None) -> Sequence[str]:
    """Return at most so many words of a text, the most telling first.

    Those tell most that the text says often and the knowledge base seldom: `frequencies` says in how many of its chunks each
    word stands. Of words with one stem the one that stands first is returned. Equals are in the order of the text.
    """
    language = detect(text[:LONGEST_TEXT])
    said = content_words(text)
    known = frequencies or {}
    every = max(known.values(), default=1)
    first = {stem(word, language): word for word in reversed(said)}
    counts = Counter(stem(word, language) for word in said)
    weights = {term: _weight(counts[term], known.get(word, 0), every) for term, word in first.items()}
    order = {term: place for place, term in enumerate(dict.fromkeys(stem(word, language) for word in said))}
    best = sorted(order, key=lambda term: (-weights[term], order[term]))
    return _apart([first[term] for term in best[: most * LOOKED_AT]])[:most]


def _weight(count: int, chunks: int, every: int) -> float:
    return (1 + math.log(count)) * (1 + math.log((1 + every) / (1 + chunks)))


def _apart(found: Sequence[str]) -> list[str]:
    """Return the words, of a script without blanks without those that are a part of a longer one."""
    return [w for w in found if not (is_part_of_a_run(w) and any(w in other and w != other for other in found))]


def near_terms(text: str, labels: Sequence[str], most: int, *, beside: Sequence[str] = ()) -> Sequence[str]:
    """Return at most so many of the labels (headings, titles, tags), each once, that say something beyond the words `beside`.

    `text` says which language they are in. A label that is a whole sentence is no term.
    """
    language = detect(text[:LONGEST_TEXT])
    known = {stem(word, language) for word in beside}
    found: dict[str, str] = {}
    for label in labels:
        term = " ".join(label.split())
        new = {stem(word, language) for word in content_words(term)} - known
        if new and len(term.split()) <= MOST_WORDS and len(term) <= LONGEST_TERM:
            found.setdefault(term.casefold(), term)
    return list(found.values())[:most]
