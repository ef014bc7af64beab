"""Selects the words of a text that are worth searching for. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from knowledge.pages.markdown.language import detect
from knowledge.search.query.analysis import is_part_of_a_run, is_stop_word, stem, words

_VAGUE = (
    "against among between during within without through until toward towards upon via per every much many make makes made "
    "need needs want wants please use uses using used does did done do doing get gets got let lets first next new way ways one two "
    "gegen zwischen ohne bis durch jede jeder jedes soll sollen muss bitte brauchen machen macht neue neuen "
    "contre entre sans chaque faire fait doit doivent nouveau nouvelle cada hacer debe deben nuevo nueva"
)
VAGUE = frozenset(_VAGUE.split())
"""Words that are frequent in briefs and say nothing about their subject. Searches use fewer stop words: any word may matter."""
LONGEST_TEXT = 20_000
"""Characters of a text whose words are counted."""
SHORTEST = 2
MOST_WORDS, LONGEST_TERM = 5, 60
"""Words and characters of a term; a heading, title or tag with more is a sentence."""
LONGEST_PHRASE = 3
_CLAUSE = re.compile(r"[.,;:!?()\[\]{}\"\n|/]+(?:\s|$)|\n")
_JOINED = re.compile(r"[.-]")
LOOKED_AT = 4
"""Candidates considered for each returned word."""


def content_words(text: str) -> Sequence[str]:
    """Return the meaningful words of a text, in order, repetitions included.

    Without stop words of the text's language (of any language, if it is unclear), single letters and bare numbers.
    """
    sample = text[:LONGEST_TEXT].encode(errors="replace").decode()
    language = detect(sample)
    languages = (language,) if language else ()
    return [
        word
        for word in words(sample)
        if len(word) >= SHORTEST and not word.isdecimal() and word not in VAGUE and not is_stop_word(word, languages)
    ]


def keywords(text: str, most: int, frequencies: Mapping[str, int] | None = None) -> Sequence[str]:
    """Return at most `most` words of a text, the most significant first.

    Significant words are frequent in the text and rare in the knowledge base: `frequencies` has the number of chunks with
    each word. For words with the same stem the first is returned; ties keep the order of the text.
    """
    language = detect(text[:LONGEST_TEXT])
    content = content_words(text)
    known = frequencies or {}
    every = max(known.values(), default=1)
    first = {stem(word, language): word for word in reversed(content)}
    counts = Counter(stem(word, language) for word in content)

    def weight(term: str) -> float:
        rarity = 1 + math.log((1 + every) / (1 + known.get(first[term], 0)))
        return (1 + math.log(counts[term])) * rarity

    # `counts` has the terms in the order of the text.
    best = [first[term] for term in sorted(counts, key=weight, reverse=True)[: most * LOOKED_AT]]
    # In a script without spaces, drop what is part of a longer candidate.
    parts = {w for w in best if is_part_of_a_run(w) and any(w in other and w != other for other in best)}
    return [word for word in best if word not in parts][:most]


def key_phrases(text: str, most: int, frequencies: Mapping[str, int] | None = None) -> Sequence[str]:
    """Return at most `most` phrases of a text: its keywords, each with the neighbours that it has in the text.

    A phrase has up to three content words that follow each other within a clause; a keyword that is in a phrase before it is not
    repeated. In a script without spaces the keywords themselves are returned.
    """
    best = keywords(text, most * 2, frequencies)
    if any(is_part_of_a_run(word) for word in best):
        return best[:most]
    language = detect(text[:LONGEST_TEXT])
    first = {stem(word, language): place for place, word in enumerate(best)}
    found: dict[int, str] = {}
    content = set(content_words(text))
    for clause in _CLAUSE.split(text[:LONGEST_TEXT].encode(errors="replace").decode()):
        for run in _runs(clause, content):
            places = [first[root] for word in run if (root := stem(word, language)) in first]
            # The best word of a run stands for it, and the first run with that word is taken.
            if places and min(places) not in found:
                found[min(places)] = " ".join(run)
    phrases, known = list[str](), set[str]()
    for place in sorted(found):
        roots = {stem(word, language) for word in found[place].split()}
        if not roots <= known:
            phrases.append(found[place])
            known |= roots
    return phrases[:most]


def _runs(clause: str, content: Collection[str]) -> Iterator[list[str]]:
    """Yield the longest runs of content words in a clause.

    A run that is too long is cut into several, beginning at its end.
    """
    run, parts = list[str](), set[str]()
    for word in [*words(clause), ""]:
        # After `on-call` the words of its parts follow, which are no neighbours of it.
        if word in parts:
            continue
        parts = set(_JOINED.split(word)) - {word, ""}
        if word in content:
            run.append(word)
            continue
        while run:
            yield run[-LONGEST_PHRASE:]
            run = run[:-LONGEST_PHRASE]


def near_terms(text: str, labels: Sequence[str], most: int, *, beside: Sequence[str] = ()) -> Sequence[str]:
    """Return at most `most` of the labels (headings, titles, tags) that add a word to those in `beside`, each once.

    `text` determines their language.
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
