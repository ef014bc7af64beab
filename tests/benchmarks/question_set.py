"""Labelled questions: the question, its corpus, and the phrase that contains the answer, or none.

    python -m tests.benchmarks.question_set kb=kb docs=FOLDER

checks that every phrase is on each of its pages.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).parent / "questions"
MOST_QUOTED_WORDS = 12
Half = Literal["calibrate", "test"]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question. `answers` are pages and, for each, a phrase on it with the answer; none if the corpus has none.

    `distance` says how far an unanswerable question is from the corpus: `far` another world, `domain` the same trade,
    `near` shares words with pages that don't answer it.
    """

    id: str
    question: str
    corpus: str
    answerable: bool
    answers: tuple[tuple[str, str], ...]
    distance: str

    @property
    def half(self) -> Half:
        """Return which half it belongs to, permanently: the hash of its id decides."""
        return "test" if hashlib.sha256(self.id.encode()).digest()[0] & 1 else "calibrate"

    def answered_by(self, path: str, text: str) -> bool:
        """Return whether `text`, shown from the page at `path`, contains the answer."""
        quotes = [quote for page, quote in self.answers if page == path]
        seen = plain(text) if quotes else ""
        return any(plain(quote) in seen for quote in quotes)


def load(corpus: str) -> list[Labelled]:
    """Return all questions to `corpus`, in the order of the file."""
    lines = (FOLDER / f"{corpus}.jsonl").read_text(encoding="utf-8").splitlines()
    return [_labelled(line) for line in lines if line.strip()]


def plain(text: str) -> str:
    """Return `text` with every run of white space as one space: a quote may be broken over lines."""
    return " ".join(text.split())


def wrong(questions: Sequence[Labelled], folder: Path) -> list[str]:
    """Return the wrong labels of `questions` about the pages below `folder`, a sentence each."""
    found = []
    for asked in questions:
        if asked.answerable != bool(asked.answers):
            found.append(f"{asked.id}: an answerable question has answers, another has none")
        for path, quote in asked.answers:
            file = folder / path
            if not 0 < len(quote.split()) <= MOST_QUOTED_WORDS:
                found.append(f"{asked.id}: quotes {len(quote.split())} words, not 1 to {MOST_QUOTED_WORDS}")
            if not file.is_file():
                found.append(f"{asked.id}: no page {path}")
            elif plain(quote) not in plain(file.read_text(encoding="utf-8", errors="replace")):
                found.append(f"{asked.id}: {path} does not say {quote!r}")
    if len({asked.id for asked in questions}) < len(questions):
        found.append("two questions have the same id")
    return found


def _labelled(line: str) -> Labelled:
    row = json.loads(line)
    return Labelled(
        row["id"],
        row["question"],
        row["corpus"],
        row["answerable"],
        tuple((answer["page"], answer["quote"]) for answer in row.get("answers", ())),
        row.get("distance", ""),
    )


def main(arguments: Sequence[str]) -> int:
    """Check the named corpora and print what is wrong; 1 if anything is."""
    problems = []
    for argument in arguments:
        corpus, _, folder = argument.partition("=")
        questions = load(corpus)
        problems += wrong(questions, Path(folder))
        answerable = sum(asked.answerable for asked in questions)
        print(f"{corpus}: {answerable} questions with an answer, {len(questions) - answerable} without")
    print("\n".join(problems) or "every quote is on its page")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
