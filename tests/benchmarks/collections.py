"""How well the default engine finds, on public test collections: `python -m tests.benchmarks.collections PATH...`.

Each is written as a knowledge base, indexed and asked through the real engines: words alone (plain BM25), vectors alone,
and the whole search; the whole search also with one typing error in every question. The measures are of pages, a page
standing where its first chunk stands. Grades are used as they are (linear gain). Questions are halved at random, the
same way each time: parameters are chosen on the first half, and the second one has the last word.
"""

from __future__ import annotations

import random
import re
import string
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from knowledge.evaluate.metrics import mean, ndcg, recall, reciprocal_rank
from knowledge.find.analysis import is_stop_word, stem, words
from knowledge.find.question import Questions
from knowledge.find.ranking import Ranker, Within
from knowledge.index.ports import QueryTerm
from knowledge.storage.ports import Filters
from mcp_server.base import KnowledgeBase, Vocabularies, open_base
from mcp_server.cli.indexing import bring_up_to_date, held_lease
from mcp_server.settings import Settings
from tests.benchmarks.collections_read import Collection, read

SHOWN = 50
"""Chunks asked for; 20 pages must be among them."""
SPLIT_SEED, TYPO_SEED = 7, 1
_WORD = re.compile(r"[A-Za-z]{4,}")

Search = Callable[[str], Awaitable[Sequence[str]]]
"""Returns names of pages, best first."""


def mistyped(query: str, chance: random.Random) -> str:
    """Return `query` with one edit of one letter in one of its words of four or more letters."""
    found = list(_WORD.finditer(query))
    if not found:
        return query
    word = chance.choice(found)
    return query[: word.start()] + _edited(word.group(), chance) + query[word.end() :]


def _edited(word: str, chance: random.Random) -> str:
    at, letter = chance.randrange(len(word)), chance.choice(string.ascii_lowercase)
    made = chance.choice(
        [
            word[:at] + letter + word[at:],
            word[:at] + word[at + 1 :],
            word[:at] + letter + word[at + 1 :],
            word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :],
        ]
    )
    return made if made != word else _edited(word, chance)


def halves(queries: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the half that parameters are chosen on, and the one that is held out."""
    shuffled = sorted(queries)
    random.Random(SPLIT_SEED).shuffle(shuffled)
    middle = len(shuffled) // 2
    return frozenset(shuffled[:middle]), frozenset(shuffled[middle:])


async def measure(collection: Collection, folder: Path) -> None:
    """Print a row for each way of searching."""
    names = {f"{number:06}.md": page for number, page in enumerate(collection.pages)}
    kb = folder / "kb"
    kb.mkdir()
    for name, page in names.items():
        (kb / name).write_text(collection.pages[page].markdown, encoding="utf-8", errors="replace")
    async with open_base(replace(Settings(kb=kb), state_dir=folder / "state")) as base:
        async with held_lease(base) as lease:
            if lease is None:
                raise RuntimeError("somebody else indexes this folder")
            await bring_up_to_date(base, lease)
        chance = random.Random(TYPO_SEED)
        asked = {query: text for query, text in collection.queries.items() if collection.grades.get(query)}
        wrong = {query: mistyped(text, chance) for query, text in asked.items()}
        print(f"\n{collection.name}: {len(names):,} pages, {len(asked)} questions\n")
        print(
            "| search | nDCG@10 | tuned on | held out | recall@20 | MRR |\n| --- | ---: | ---: | ---: | ---: | ---: |"
        )
        for label, search, questions in [
            ("words alone (BM25)", by_words(base), asked),
            ("vectors alone", by_vectors(base), asked),
            ("whole search", whole(base), asked),
            ("BM25, one typing error", by_words(base), wrong),
            ("whole search, one typing error", whole(base), wrong),
        ]:
            ranked = {query: [names[name] for name in await search(text)] for query, text in questions.items()}
            print(row(label, ranked, collection.grades), flush=True)


def row(label: str, ranked: Mapping[str, Sequence[str]], grades: Mapping[str, Mapping[str, float]]) -> str:
    """Return the line of a table: nDCG@10 over all questions and over each half, then recall and reciprocal rank."""
    first, second = halves(list(ranked))
    gain = {query: ndcg(pages, grades[query], 10) for query, pages in ranked.items()}
    values = [
        mean(list(gain.values())),
        mean([gain[query] for query in first]),
        mean([gain[query] for query in second]),
        mean([recall(pages, grades[query].keys(), 20) for query, pages in ranked.items()]),
        mean([reciprocal_rank(pages, grades[query].keys()) for query, pages in ranked.items()]),
    ]
    return f"| {label} | {' | '.join(f'{value:.4f}' for value in values)} |"


def by_words(base: KnowledgeBase) -> Search:
    """Search for the stems, in the commonest language here, of the words that are no stop words, by BM25 and nothing else."""

    async def search(query: str) -> Sequence[str]:
        languages = await base.index.languages()
        asked = list(dict.fromkeys(words(query)))
        content = [word for word in asked if not is_stop_word(word, languages)] or asked
        terms = [QueryTerm(word, ((stem(word, languages[0]), 1.0),)) for word in content]
        return await _paths(base, [hit.seq for hit in await (await base.engines()).keyword.search(terms, limit=SHOWN)])

    return search


def by_vectors(base: KnowledgeBase) -> Search:
    """Search by the angle between vectors alone."""

    async def search(query: str) -> Sequence[str]:
        engines = await base.engines()
        embedder = await engines.embedder((await base.index.space()).identity)
        vector = (await embedder.embed([query]))[0]
        return await _paths(base, [hit.seq for hit in await engines.vectors.search(base.index, vector, limit=SHOWN)])

    return search


def whole(base: KnowledgeBase) -> Search:
    """Search as the tool does, short of cutting the list to what an answer has room for."""
    questions, ranker = Questions(base.index, Vocabularies().near), Ranker(base.index, base.engines)

    async def search(query: str) -> Sequence[str]:
        names = await base.index.named(query, limit=20)
        ranking = await ranker.rank(await questions.ask(query), names, Within(None, Filters()), room=SHOWN)
        return list(dict.fromkeys(ranking.rows[seq].path for seq in ranking.ranked))

    return search


async def _paths(base: KnowledgeBase, ranked: Sequence[int]) -> list[str]:
    rows = await base.index.chunks(ranked)
    return list(dict.fromkeys(rows[seq].path for seq in ranked if seq in rows))


def main() -> None:
    """Measure each collection."""
    for path in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            anyio.run(measure, read(Path(path)), Path(folder))


if __name__ == "__main__":
    main()
