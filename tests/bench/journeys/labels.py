"""Labelled questions, and how an answer is scored against them. Pure.

A line of a file is an object: `question`; `answers`, a list of objects with the `page` (and optionally a `quote`) that answers it;
`expect`, strings of which a right answer has one. `"answerable": false`, or no label at all: the knowledge base has no answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question with the pages that answer it and the strings that a right answer may have."""

    id: str
    question: str
    pages: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()

    @property
    def answerable(self) -> bool:
        """Whether the knowledge base has an answer."""
        return bool(self.pages or self.expect)

    def is_right(self, answer: str, *, achieved: bool) -> bool:
        """Return whether an answer is right: it has an expected string, or without those, it names a right page.

        Where there is no answer, an honest refusal is right.
        """
        if not self.answerable:
            return not achieved
        folded = _folded(answer)
        return achieved and (any(_folded(one) in folded for one in self.expect) if self.expect else self.cites(answer))

    def cites(self, answer: str) -> bool:
        """Return whether an answer names one of the pages."""
        folded = _folded(answer)
        return any(page.casefold().removesuffix(".md") in folded for page in self.pages)


def load(path: Path, most: int | None = None) -> Sequence[LabelledQuestion]:
    """Return the questions of a JSON Lines file, at most that many.

    Raises:
        ValueError: a line is no object with a question.
    """
    questions = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict) or not isinstance(row.get("question"), str):
                raise ValueError(f"{path}, line {number}: it has no question")
            labels = row.get("answers", []) if row.get("answerable", True) else []
            pages = tuple(dict.fromkeys(label["page"] for label in labels))
            questions.append(
                LabelledQuestion(str(row.get("id", number)), row["question"], pages, tuple(row.get("expect", ())))
            )
    return questions[:most]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
