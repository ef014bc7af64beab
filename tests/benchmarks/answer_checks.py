"""How many honest answers the measures of `agents/engine/evidence/substance.py` refuse, and how many unrelated quotes.

`python -m tests.benchmarks.answer_checks XQUAD`: a folder with `xquad.LANGUAGE.json` of github.com/google-deepmind/xquad.
An honest work is a question, the bare answer, and the sentence that has it; an unrelated one has a sentence of another text.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agents.engine.evidence.substance import emptiness, unsupported

ASKED = 500
SHORTEST = 20
_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f\u0964])\s*(?=\S)")


class _Answered(NamedTuple):
    context: str
    question: str
    answer: str
    at: int

    @property
    def sentence(self) -> str:
        """The sentence of the text that has the answer."""
        begin = 0
        for end in _END.finditer(self.context):
            if end.start() >= self.at + len(self.answer):
                return self.context[begin : end.start()]
            if end.end() <= self.at:
                begin = end.end()
        return self.context[begin:]


def _answered(file: Path) -> Iterator[_Answered]:
    for article in json.loads(file.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                answer = asked["answers"][0]
                yield _Answered(paragraph["context"], asked["question"], answer["text"], answer["answer_start"])


def refused(asked: Sequence[_Answered], chance: random.Random) -> tuple[int, int, int]:
    """Return how many answers are refused as unrelated to their quote, how many as empty, and how many unrelated quotes are."""
    unrelated = empty = caught = 0
    contexts = sorted({one.context for one in asked})
    for one in asked:
        unrelated += bool(unsupported(one.answer, [one.sentence], question=one.question, around=one.context))
        empty += bool(emptiness(one.answer))
        other = chance.choice([context for context in contexts if context != one.context])
        sentence = chance.choice([part for part in _END.split(other) if len(part) > SHORTEST] or [other])
        caught += bool(unsupported(one.answer, [sentence], question=one.question, around=other))
    return unrelated, empty, caught


def main(folder: str) -> None:
    """Print the figures, a line for each language."""
    for file in sorted(Path(folder).glob("xquad.*.json")):
        chance = random.Random(2)
        asked = chance.sample(list(_answered(file)), ASKED)
        unrelated, empty, caught = refused(asked, chance)
        of = f"of {ASKED} honest answers refused: {unrelated} as unrelated, {empty} as empty"
        print(f"{file.suffixes[0][1:]}: {of}; of {ASKED} unrelated quotes refused: {caught}")


if __name__ == "__main__":
    main(sys.argv[1])
