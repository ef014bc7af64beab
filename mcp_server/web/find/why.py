"""An explanation of a search in plain words, from the numbers that ranked it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PARTS: Mapping[str, str] = {
    "exact name": "Its name is the question",
    "passage": "Words in the passage",
    "page": "Words on the whole page",
    "names": "Words in title, aliases and path",
    "meaning": "Similar meaning",
    "properties": "Words in the front matter",
    "shared words": "Words that the best passages share",
    "words present": "Number of the question's words",
    "neighbours": "Words that are neighbours in the question, too",
    "as written": "The question as it was written",
    "mentioned": "The question names its page",
    "page of a series": "The newest or first such page, by its file name",
    "place by words": "Place in the list by words",
    "place by meaning": "Place in the list by meaning",
    "place by reranker": "Place given by the reranker",
}
"""The name of each part of a rank score, as the page shows it."""


@dataclass(frozen=True, slots=True)
class ScorePart:
    """A part of a hit's rank score; `percent` is its share of the score, 0 to 100."""

    title: str
    value: float
    percent: int


@dataclass(frozen=True, slots=True)
class WordReason:
    """A word of the question: what the passage has instead ("" for the word itself), and what it adds to the rank score."""

    word: str
    found: str
    added: float


@dataclass(frozen=True, slots=True)
class Why:
    """Why a hit has its place: sentences, the parts of its rank score, the largest first, and the words of the question."""

    score: float
    sentences: Sequence[str]
    parts: Sequence[ScorePart]
    words: Sequence[WordReason]
    pairs: Sequence[str]
    learnt: Sequence[str]
    cosine: float | None


@dataclass(frozen=True, slots=True)
class WhyAll:
    """How the question was read, as pairs of a name and a text, and the reasons of the first hits in their order."""

    reading: Sequence[tuple[str, str]]
    hits: Sequence[Why]
    note: str


def why_of(explanation: Mapping[str, Any] | None) -> WhyAll | None:
    """Return the explanation of an answer in plain words; None if there is none."""
    if explanation is None:
        return None
    return WhyAll(
        _reading(explanation.get("question", {})),
        [_why(hit) for hit in explanation.get("hits", ())],
        str(explanation.get("note", "")),
    )


def _reading(question: Mapping[str, Any]) -> list[tuple[str, str]]:
    near = question.get("corrections", {})
    told = {
        "Searched words": ", ".join(question.get("words", ())),
        "Languages": ", ".join(question.get("languages", ())),
        "Taken as misspelt": "; ".join(f"{word} for {' or '.join(found)}" for word, found in near.items()),
        "The last word may begin": ", ".join(question.get("completions", ())),
        "Found": "; ".join(question.get("engines", ())),
        "Filters": question.get("filters", ""),
        "Weights": question.get("weights", ""),
    }
    return [(name, text) for name, text in told.items() if text]


def _why(hit: Mapping[str, Any]) -> Why:
    score = float(hit["rank_score"])
    parts = sorted(hit.get("parts", {}).items(), key=lambda part: -part[1])
    return Why(
        score=score,
        sentences=[text[:1].upper() + text[1:] for text in str(hit.get("text", "")).split("; ") if text],
        parts=[ScorePart(PARTS.get(name, name), value, _percent(value, score)) for name, value in parts],
        words=[_word(word) for word in hit.get("words", ())],
        pairs=hit.get("pairs", ()),
        learnt=[f"{one['word']} (from {', '.join(one.get('learnt_from', ()))})" for one in hit.get("learnt", ())],
        cosine=hit.get("cosine"),
    )


def _word(word: Mapping[str, Any]) -> WordReason:
    added = sum(value for name, value in word.items() if name not in ("word", "found"))
    return WordReason(str(word["word"]), str(word.get("found", "")), added)


def _percent(value: float, score: float) -> int:
    return max(0, min(100, round(100 * value / score))) if score > 0 else 0
