"""How often search says `sufficient` in manuals, and how often that is right.

    python -m tests.benchmarks.docs_corpus FOLDER MIRROR... --sources tests/benchmarks/questions/manuals_corpus.json
    python -m tests.benchmarks.manuals FOLDER

Each manual is a knowledge base of its own. It is asked its own questions (`questions/manuals.jsonl`), near misses, which it does not
answer (`pages` is empty), and the questions about the others, except those that name it under `elsewhere` (`*` is any manual):
it may answer them. The constants of scent were fitted on the manuals in `FITTED`; the others were only measured.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.benchmarks.served import served

QUESTIONS = Path(__file__).parent / "questions" / "manuals.jsonl"
FITTED = frozenset({"cargo", "fastapi", "helm", "uv"})
ANY = "*"


@dataclass(frozen=True)
class ManualQuestion:
    """A question about a manual, and the pages that answer it; none for a near miss."""

    manual: str
    question: str
    pages: Sequence[str]
    elsewhere: Sequence[str] = ()

    def suits(self, manual: str) -> bool:
        """Return whether it is clear what `manual` should answer: its own question, or one that it surely doesn't answer."""
        return manual == self.manual or (bool(self.pages) and not {manual, ANY} & {*self.elsewhere})


@dataclass(frozen=True)
class Answered:
    """The answer of one manual: its verdict, and the paths of its pages, best first."""

    asked: ManualQuestion
    manual: str
    level: str
    pages: Sequence[str]

    @property
    def own(self) -> bool:
        """Whether the manual answers the question."""
        return self.manual == self.asked.manual and bool(self.asked.pages)

    @property
    def right(self) -> bool:
        """Whether the first page answers it."""
        return self.own and not {*self.pages[:1]}.isdisjoint(self.asked.pages)


def questions() -> list[ManualQuestion]:
    """Return the labelled questions."""
    return [ManualQuestion(**json.loads(line)) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


async def ask(folders: Sequence[Path]) -> list[Answered]:
    """Ask the manual in each folder all questions that suit it; the folder has its name."""
    found: list[Answered] = []
    for folder in folders:
        manual = folder.name
        with tempfile.TemporaryDirectory() as state:
            async with served(folder, Path(state)) as server:
                for asked in [one for one in questions() if one.suits(manual)]:
                    said = (await server.call("kb_search", query=asked.question)).said
                    pages = list(dict.fromkeys(hit["path"] for hit in said["hits"]))
                    found.append(Answered(asked, manual, said["scent"]["level"], pages))
    return found


def row(label: str, answers: Sequence[Answered]) -> str:
    """Return the line of the table for these answers."""
    own = [one for one in answers if one.own]
    right = [one for one in own if one.right]
    sure = [one for one in own if one.level == "sufficient"]
    three = [one for one in own if {*one.pages[:3]} & {*one.asked.pages}]
    near = [one for one in answers if not one.asked.pages]
    others = [one for one in answers if one.asked.pages and not one.own]
    cells = [
        str(len(own)),
        str(len(right)),
        f"{sum(one.level == 'sufficient' for one in right) / max(1, len(right)):.0%}",
        f"{sum(one.right for one in sure)} of {len(sure)}",
        f"{sum(one.level == 'lost' for one in three) / max(1, len(three)):.0%}",
        *(f"{sum(one.level == 'sufficient' for one in some)} of {len(some)}" for some in (near, others)),
    ]
    return f"| {label} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.manuals", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.absolute()
    answers = anyio.run(ask, sorted(path for path in folder.iterdir() if path.is_dir()))
    print(
        "| manual | questions | first page right | of these sufficient | right of sufficient | right in three, lost "
        "| near misses sufficient | others' questions sufficient |\n| --- |" + " ---: |" * 7
    )
    for manual in dict.fromkeys(one.manual for one in answers):
        print(row(manual, [one for one in answers if one.manual == manual]))
    print(row("fitted", [one for one in answers if one.manual in FITTED]))
    print(row("only measured", [one for one in answers if one.manual not in FITTED]))
    print(row("all", answers))


if __name__ == "__main__":
    main()
