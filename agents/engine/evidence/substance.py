"""Measures of whether a text says anything, and whether texts are about the same thing. Pure; for any language and script.

They count words and compare them; nothing is judged by meaning. Where a measure is unsure it lets the text pass: a refused honest
answer costs more than an idle one that a person or a judge still sees.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from unicodedata import category

from agents.engine.events import Json
from agents.engine.work.gaps import folded
from knowledge.pages.document import shortened
from knowledge.pages.markdown.language import detect
from knowledge.search.query.analysis import is_part_of_a_run, is_stop_word, word_groups, words

TELLING_LETTERS = 3
SHORTEST_ROOT = 4
"""Two words count as the same if their beginnings share at least this many letters, or if one has that many and is
inside the other, a compound."""
ROOT_SHARE = 0.6
LONGEST_ENDING = 3
MONOTONE_LETTERS = 4
LITTLE = 4
"""This many different words say something, even if all of them are common ones, as in `who does what, and when`."""
COPIED_WORDS, COPIED_LETTERS = 4, 20
REPEATED = 3
FEWEST_SIGNS, CODE_SIGNS = 3, "&*/\\{}[]()$#@%^_;`"
LOREM_SHARE = 0.5
_LOREM = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna aliqua"
LOREM = frozenset(_LOREM.split())
_FILLERS = (
    "yes no ok okay todo tbd na n a done fine good test x xx xxx foo bar baz asdf placeholder correct true false "
    "ja nein oui non si evet hayir da 是 否 好 はい いいえ"
)
FILLERS = frozenset(_FILLERS.split())
"""Words that answer nothing by themselves. A short, fixed list: everything else is measured."""
_DIGIT = re.compile(r"\d")
_SENTENCE_END = re.compile(r"[.!?\n\u3002\uff01\uff1f\u0964]+")


@lru_cache(maxsize=4_096)
def telling(text: str) -> frozenset[str]:
    """Return the words that carry the subject of a text: no stop words, no fillers, no single letters; numbers count."""
    language = detect(text, fewest=1)
    languages = (language,) if language else ()
    return frozenset(
        word for word in words(text) if word not in FILLERS and not is_stop_word(word, languages) and _long_enough(word)
    )


def _long_enough(word: str) -> bool:
    if is_part_of_a_run(word):
        return len(word) > 1
    return len(word) >= TELLING_LETTERS or _DIGIT.search(word) is not None


def in_common(one: Collection[str], other: Collection[str]) -> bool:
    """Return whether two sets of words share one: equal, with another ending, or one inside the other (a compound)."""
    if not set(one).isdisjoint(other):
        return True
    return any(_related(a, b) for a in one for b in other)


def _related(one: str, other: str) -> bool:
    if is_part_of_a_run(one) or is_part_of_a_run(other):
        return False
    short, long = sorted((one, other), key=len)
    # Another number is another fact: `15` is neither `150` nor `2015`.
    if short.isdecimal() or long.isdecimal() or len(short) < TELLING_LETTERS:
        return False
    if long.startswith(short) and len(long) - len(short) <= LONGEST_ENDING:
        return True
    if len(short) < SHORTEST_ROOT:
        return False
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(short, long, strict=False)))
    return short in long or shared >= max(SHORTEST_ROOT, ROOT_SHARE * len(short))


def same_words(one: str, other: str) -> bool:
    """Return whether two texts have the same words, in whatever order, apart from stop words, case and punctuation."""
    return _essence(one) == _essence(other)


@lru_cache(maxsize=1_024)
def _essence(text: str) -> tuple[str, ...]:
    found = _words(text)
    return tuple(sorted({word for word in found if not is_stop_word(word, ("en",))})) or tuple(found)


def comparable(one: str, other: str) -> bool:
    """Return whether two texts can be compared word by word, because they are not known to be in different languages."""
    languages = detect(one, fewest=2), detect(other, fewest=2)
    return not all(languages) or languages[0] == languages[1]


def emptiness(text: str, *, name: str = "", told: str = "") -> str:
    """Return why a text says nothing; "" if it says something.

    The reason completes a sentence that begins with the text's place.

    `name` is the name of the text's field, and `told` the instructions for the work: a copy of either says nothing.
    """
    found = _words(text)
    if not found:
        return "has no word in it: write a sentence"
    if not telling(text) and len(set(found)) < LITTLE and not _is_code(text):
        return f"is only {shortened(text, 40)!r}: say it in words of the subject"
    if _is_monotone(text):
        return "says the same over and over: write it once"
    if len(found) >= COPIED_WORDS and sum(word in LOREM for word in found) > LOREM_SHARE * len(found):
        return "is placeholder text: write the real one"
    if name and _words(name.replace("_", " ")) == found:
        return "repeats the name of its field: fill it in"
    if _is_copied(text, found, told):
        return "is copied from the instructions: write your own words about this task"
    return ""


def _words(text: str) -> list[str]:
    """Return the words of a text as written, each once: `words` also has the parts of a word."""
    return [group[0] for group in word_groups(text)]


def _is_code(text: str) -> bool:
    """Return whether a good part of a text is signs, as in a formula or a command."""
    signs = sum(category(c) == "Sm" or c in CODE_SIGNS for c in text)
    return signs >= FEWEST_SIGNS and signs * LITTLE > len(text)


def _is_monotone(text: str) -> bool:
    """Return whether a text is one letter, a few words or the same sentences over and over.

    The share of different words does not show that, because it is low in every long text.
    """
    written = folded(text).split()
    distinct = set(written)
    if len(distinct) <= LITTLE and len(written) >= REPEATED * len(distinct) and not any(map(str.isdecimal, written)):
        return True
    letters = [c for c in text.casefold() if c.isalpha()]
    if len(letters) >= MONOTONE_LETTERS and len(set(letters)) == 1:
        return True
    sentences = [said for one in _SENTENCE_END.split(text) if len((said := folded(one)).split()) >= REPEATED]
    return len(sentences) >= LITTLE and len(set(sentences)) * LITTLE <= len(sentences)


def _is_copied(text: str, found: Sequence[str], told: str) -> bool:
    long = len(found) >= COPIED_WORDS and sum(map(str.isalnum, text)) >= COPIED_LETTERS
    return bool(told) and long and f" {folded(text)} " in _folded(told)


@lru_cache(maxsize=64)
def _folded(told: str) -> str:
    return f" {folded(told)} "


def without(text: str, question: str) -> str:
    """Return the words of an answer without a copy of its question, which answers nothing."""
    asked, answer = f" {folded(question)} ", f" {folded(text)} "
    return answer.replace(asked, " ").strip() if len(_words(question)) >= LITTLE and asked in answer else text


def unsupported(text: str, quotes: Sequence[str], *, question: str = "", around: str = "") -> str:
    """Return why a text does not rest on its quotes, as the rest of a sentence; "" if it may rest on them.

    `around` is the text around the quotes: their sections with the headings. A text and quotes in two languages are not compared.
    """
    quoted = [telling(quote) for quote in quotes]
    own, asked = telling(without(text, question)), telling(question)
    if not own or not all(quoted) or not comparable(f"{question} {text}", " ".join(quotes)):
        return ""
    if not in_common(own, frozenset[str]().union(*quoted)):
        return "has no word in common with its quotes: quote the sentence that says it, or say what the quote says"
    idle = next((n for n, found in enumerate(quoted, 1) if not in_common(own | asked, found)), 0)
    if idle:
        which = f"quote number {idle}" if len(quotes) > 1 else "its quote"
        return f"has nothing to do with {which}: leave that out, or quote the sentence that says it"
    if asked and not in_common(asked, own | telling(around).union(*quoted)):
        return "has no word of its question, and neither have its quotes: quote what answers the question"
    return ""


def idle_answer(text: str, quotes: Sequence[str], *, question: str, around: str, told: str = "") -> str:
    """Return why an answer says nothing about its question, as the rest of a sentence; "" if it says something.

    A word or number that is in a quote may be the whole answer.
    """
    answer = without(text, question)
    if not answer.strip():
        return "only repeats the question: say what the quotes say about it"
    copied = any(f" {folded(answer)} " in f" {folded(quote)} " for quote in quotes)
    return ("" if copied else emptiness(answer, told=told)) or unsupported(
        text, quotes, question=question, around=around
    )


def idle_texts(items: Sequence[Mapping[str, Json]], *names: str, told: str = "") -> Iterator[str]:
    """Yield a sentence for each text in these fields of the items that says nothing."""
    for item in items:
        for name in names:
            text = item.get(name)
            if isinstance(text, str) and text.strip() and (why := emptiness(text, name=name, told=told)):
                yield f"{str(item.get('id'))[:60]}: `{name}` {why}"


def repetitions(answers: Sequence[tuple[str, str, Sequence[str]]]) -> Iterator[str]:
    """Yield a sentence for each answer (id of its question, text, quotes) that repeats the answer to another question."""
    same = set(repeated([(id_, text) for id_, text, _ in answers]))
    for id_, earlier in sorted(same):
        yield f"{id_} has the same answer as {earlier}: answer what it asks, or name {earlier} in the text and say why it is the same"
    for id_, earlier in idle_repetitions(answers):
        if (id_, earlier) not in same:
            yield f"{id_} rests on the same words of the same quotes as {earlier}: quote what answers it, or name {earlier}"


def repeated(texts: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the ids of texts that have the same words as an earlier one; a text that names the other's id explains itself."""
    yield from _alike([(id_, text, _essence(text)) for id_, text in texts])


def idle_repetitions(answers: Sequence[tuple[str, str, Sequence[str]]]) -> Iterator[tuple[str, str]]:
    """Yield the ids of answers (id, text, quotes) that rest on the same quotes as an earlier one and take nothing else from them.

    One sentence may answer two questions: then each answer takes words from it that the other does not take.
    """
    found = []
    for id_, text, quotes in answers:
        own = telling(text)
        taken = sorted(word for word in telling(" ".join(quotes)) if in_common((word,), own))
        found.append((id_, text, (*sorted(map(folded, quotes)), *taken)))
    yield from _alike(found)


def _alike(texts: Sequence[tuple[str, str, tuple[str, ...]]]) -> Iterator[tuple[str, str]]:
    first: dict[tuple[str, ...], tuple[str, str]] = {}
    for id_, text, key in texts:
        earlier, before = first.setdefault(key, (id_, text))
        if earlier != id_ and not (names(text, earlier) or names(before, id_)):
            yield id_, earlier


def names(text: str, id_: str) -> bool:
    """Return whether a text has that id as a word."""
    return bool(id_) and f" {folded(id_)} " in f" {folded(text)} "
