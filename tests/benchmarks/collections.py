"""How well search finds, on public test collections: `python -m tests.benchmarks.collections [--embedder NAME] PATH...`.

`PAGES:QUESTIONS` asks the questions of one collection over the pages of another, which must have the same ids: the same
text in another language. With `--embedder` (as FORGE_EMBEDDER), the transformer is also joined with FTS5 by rank, the plainest
way to use both, and typing errors are left out.

`FORGE_QDRANT_URL` and `FORGE_MEILI_URL` in the environment let servers search instead.
Each is written as a knowledge base, indexed and asked through the real engines: words alone (plain BM25), vectors
alone, and the whole search; the last two also with one typing error in every question, five times with other errors.
The measures are of pages; a page's place is that of its first chunk. Grades are used as they are (linear gain).
Questions are halved at random, the same way each time, to show how much a number depends on the questions: parameters
were chosen on both halves, so neither is untouched.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import string
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio

from knowledge.evaluate.metrics import mean, ndcg, recall, reciprocal_rank
from knowledge.index.embed.static import StaticEmbedder
from knowledge.index.ports import QueryTerm
from knowledge.pages.markdown.chunk import indexed_text
from knowledge.search.query.analysis import is_stop_word, stem, words
from knowledge.search.query.corrections import Vocabularies
from knowledge.search.query.question import Questions
from knowledge.search.ranking.fusion import RRF_K
from knowledge.search.ranking.ranker import Ranker, SearchScope
from knowledge.state.ports import Filters, IndexPosition
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.knowledge_base import KnowledgeBase, open_base
from mcp_server.app.settings.loader import load
from tests.benchmarks.collections_read import Collection, read

SHOWN = 50
"""Chunks asked for; 20 pages must be among them."""
SPLIT_SEED, TYPO_SEEDS = 7, (1, 2, 3, 4, 5)
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
    """Return two halves of `queries`, the same ones each time."""
    shuffled = sorted(queries)
    random.Random(SPLIT_SEED).shuffle(shuffled)
    middle = len(shuffled) // 2
    return frozenset(shuffled[:middle]), frozenset(shuffled[middle:])


async def measure(collection: Collection, folder: Path, embedder: str | None = None) -> None:
    """Print a row for each way of searching."""
    names = {f"{number:06}.md": page for number, page in enumerate(collection.pages)}
    kb = folder / "kb"
    kb.mkdir()
    for name, page in names.items():
        (kb / name).write_text(collection.pages[page].markdown, encoding="utf-8", errors="replace")
    settings = load({"kb": str(kb), "state_dir": str(folder / "state"), "embedder": embedder})
    async with open_base(settings) as base:
        async with held_lease(base) as lease:
            if lease is None:
                raise RuntimeError("somebody else indexes this folder")
            await bring_up_to_date(base, lease, vectors=True)
        asked = {query: text for query, text in collection.queries.items() if collection.grades.get(query)}
        print(f"\n{collection.name}: {len(names):,} pages, {len(asked)} questions\n")
        print(
            "| search | nDCG@10 | one half | other half | recall@20 | MRR |\n| --- | ---: | ---: | ---: | ---: | ---: |"
        )

        async def gains(search: Search, questions: Mapping[str, str]) -> Mapping[str, Gain]:
            ranked = {query: [names[name] for name in await search(text)] for query, text in questions.items()}
            return {query: gain(pages, collection.grades[query]) for query, pages in ranked.items()}

        by_transformer = settings.embedder != "static"
        compared = [("words alone (BM25)", by_words(base)), ("vectors alone", by_vectors(base))]
        compared += [("FTS5 and vectors, joined by rank", await by_rank(base))] if by_transformer else []
        for label, search in compared:
            print(row(label, await gains(search, asked)), flush=True)
        clean = await gains(whole(base), asked)
        print(row("whole search", clean), flush=True)
        if by_transformer:
            return
        for label, search in [("BM25", by_words(base)), ("whole search", whole(base))]:
            found = [await gains(search, mistyped_all(asked, seed)) for seed in TYPO_SEEDS]
            print(row(f"{label}, one typing error", together(found)), flush=True)
        every = mean([one.ndcg for one in clean.values()])
        left = ", ".join(f"{mean([one.ndcg for one in one_seed.values()]) / every:.1%}" for one_seed in found)
        print(f"\nOf the clean nDCG@10 one typing error leaves, by seed: {left}")


def mistyped_all(asked: Mapping[str, str], seed: int) -> Mapping[str, str]:
    """Return the questions, each with a typing error."""
    chance = random.Random(seed)
    return {query: mistyped(text, chance) for query, text in asked.items()}


class Gain(NamedTuple):
    """The quality of the answer to a question."""

    ndcg: float
    recall: float
    reciprocal_rank: float


def gain(pages: Sequence[str], grades: Mapping[str, float]) -> Gain:
    """Return the measures of a ranked list."""
    return Gain(ndcg(pages, grades, 10), recall(pages, grades.keys(), 20), reciprocal_rank(pages, grades.keys()))


def together(runs: Sequence[Mapping[str, Gain]]) -> Mapping[str, Gain]:
    """Return for each question the mean over `runs`."""
    return {
        query: Gain(*(mean(values) for values in zip(*(run[query] for run in runs), strict=True))) for query in runs[0]
    }


def row(label: str, gains: Mapping[str, Gain]) -> str:
    """Return the line of a table: nDCG@10 over all questions and over each half, then recall and reciprocal rank."""
    first, second = halves(list(gains))
    values = [
        mean([one.ndcg for one in gains.values()]),
        mean([gains[query].ndcg for query in first]),
        mean([gains[query].ndcg for query in second]),
        mean([one.recall for one in gains.values()]),
        mean([one.reciprocal_rank for one in gains.values()]),
    ]
    return f"| {label} | {' | '.join(f'{value:.4f}' for value in values)} |"


def by_words(base: KnowledgeBase) -> Search:
    """Search for the stems, in the commonest language here, of the words that are no stop words, by BM25 and nothing else."""

    async def search(query: str) -> Sequence[str]:
        languages = list(await base.index.languages())
        asked = list(dict.fromkeys(words(query)))
        content = [word for word in asked if not is_stop_word(word, languages)] or asked
        terms = [QueryTerm(word, ((stem(word, languages[0]), 1.0),)) for word in content]
        return await _paths(base, [hit.seq for hit in await (await base.engines()).keyword.search(terms, limit=SHOWN)])

    return search


def by_vectors(base: KnowledgeBase) -> Search:
    """Search by vectors alone."""

    async def search(query: str) -> Sequence[str]:
        engines = await base.engines()
        embedder = await engines.embedder((await base.index.space()).identity)
        vector = (await embedder.embed([query]))[0]
        return await _paths(base, [hit.seq for hit in await engines.vectors.search(base.index, vector, limit=SHOWN)])

    return search


def whole(base: KnowledgeBase) -> Search:
    """Search as the tool does, without cutting the list to the room of an answer."""
    near = Vocabularies(StaticEmbedder().is_usual_word).near
    questions, ranker = Questions(base.index, near), Ranker(base.index, base.engines)

    async def search(query: str) -> Sequence[str]:
        names = await base.index.named(query, limit=20)
        ranking = await ranker.rank(await questions.ask(query), names, SearchScope(None, Filters()), room=SHOWN)
        return list(dict.fromkeys(ranking.rows[seq].path for seq in ranking.ranked))

    return search


async def by_rank(base: KnowledgeBase) -> Search:
    """Search the same passages with SQLite's FTS5 and by vectors, and join both lists by the places of pages."""
    rows = (await base.index.delta(IndexPosition("", 0), limit=1_000_000, texts=True)).texts
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE passage USING fts5(text, tokenize='porter unicode61')")
    texts = [(row.seq, indexed_text(row.section, row.text).encode(errors="replace").decode()) for row in rows]
    database.executemany("INSERT INTO passage(rowid, text) VALUES (?, ?)", texts)
    meaning = by_vectors(base)

    async def search(query: str) -> Sequence[str]:
        asked = " OR ".join(f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", query.lower())))
        chosen = "SELECT rowid FROM passage WHERE passage MATCH ? ORDER BY bm25(passage) LIMIT ?"
        found = [int(seq) for (seq,) in database.execute(chosen, (asked, SHOWN))] if asked else []
        lists = [await _paths(base, found), await meaning(query)]
        scores: dict[str, float] = {}
        for pages in lists:
            for place, page in enumerate(pages, 1):
                scores[page] = scores.get(page, 0.0) + 1 / (RRF_K + place)
        return sorted(scores, key=lambda page: (-scores[page], page))

    return search


async def _paths(base: KnowledgeBase, ranked: Sequence[int]) -> list[str]:
    rows = await base.index.chunks(ranked)
    return list(dict.fromkeys(rows[seq].path for seq in ranked if seq in rows))


def main() -> None:
    """Measure each collection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--embedder", help="as FORGE_EMBEDDER, which applies otherwise")
    args = parser.parse_args()
    for path in args.paths:
        pages, _, asked = path.partition(":")
        collection = read(Path(pages))
        if asked:
            other = read(Path(asked))
            name = f"{other.name} over {collection.name}"
            collection = Collection(name, collection.pages, other.queries, other.grades)
        with tempfile.TemporaryDirectory() as folder:
            anyio.run(measure, collection, Path(folder), args.embedder)


if __name__ == "__main__":
    main()
