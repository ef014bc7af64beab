"""How well search finds, on public test collections: `python -m tests.benchmarks.collections [--write-doc] [NAME=]PATH...`.

`PAGES:QUESTIONS` asks the questions of one collection over the pages of another, which must have the same ids: the same
text in another language. With `--embedder` (as FORGE_EMBEDDER), the transformer is also joined with FTS5 by rank, the plainest
way to use both, and typing errors are left out.

`FORGE_QDRANT_URL` and `FORGE_MEILI_URL` in the environment let servers search instead.
Each is written as a knowledge base, indexed and asked through the real engines: words alone (plain BM25), vectors
alone, and the whole search; also with one typing error in every question, `--typing-errors` times with other errors.
Beside them, search as others would build it (`plain_search.py`).
The measures are of pages; a page's place is that of its first chunk. Grades are used as they are (linear gain).
Parameters were chosen on some of the collections (decision 14).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import string
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import anyio
import Stemmer  # type: ignore[import-not-found]  # a compiled module without types

from knowledge.evaluate.metrics import mean, ndcg, recall, reciprocal_rank
from knowledge.index.embed.static import StaticEmbedder
from knowledge.index.ports import QueryTerm
from knowledge.pages.markdown.chunk import indexed_text
from knowledge.search.query.analysis import is_stop_word, stem, words
from knowledge.search.query.corrections import Vocabularies
from knowledge.search.query.mentions import NOTHING_MENTIONED, find_mentions
from knowledge.search.query.question import Questions
from knowledge.search.ranking.fusion import RRF_K
from knowledge.search.ranking.ranker import Ranker, SearchScope
from knowledge.state.ports import Filters, IndexPosition
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.knowledge_base import KnowledgeBase, open_base
from mcp_server.app.settings.loader import load
from tests.benchmarks.collections_read import Collection, read
from tests.benchmarks.handbook import write_section
from tests.benchmarks.plain_search import Fts5, Words, our_words, plain_words, snowball_words

SHOWN = 50
"""Chunks asked for; 20 pages must be among them."""
PASSAGES, PLAIN, SNOWBALL, OURS = "1 passages", "2 pages", "3 pages, Snowball", "4 pages, our terms"
VECTORS, JOINED, WHOLE = "vectors alone", "1 and vectors, joined by rank", "whole search"
BUILT = (PASSAGES, PLAIN, SNOWBALL)
"""Ways to search that somebody without this program would build."""
LEAST, HIGH = 0.005, 0.9
UNSPACED = frozenset({"ja", "km", "lo", "my", "th", "zh"})
INTRODUCTION = (
    "## Quality",
    "",
    "`python -m tests.benchmarks.collections --typing-errors 1 --write-doc NAME=PATH...` writes a public collection as a knowledge",
    "base, indexes it and runs its questions on the real engines, without a transformer. It reads Cranfield, NPL, any collection in",
    "BEIR's form (`corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`) and folders of Markdown, whose headings are removed and used as",
    "questions. nDCG@10 of pages with linear gain. Cranfield is graded as its documentation says: code 1, a complete answer, has 4,",
    "code 4 has 1; `-1` is not relevant; judgements number questions by position. NPL's judgements are relevant or not.",
    "Four ways to search with BM25 of SQLite's FTS5 stand beside it: *1* passages by words without English endings, *2* pages by",
    "plain words, *3* pages by Snowball's stems in the language of most pages, without stop words, *4* pages by this program's own",
    "terms. In scripts without spaces 1 to 3 take pairs of characters. *With a typing error*: what is left of nDCG@10 after one",
    "random edit in one word of four or more letters (a to z) in every question.",
)
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


@dataclass(frozen=True)
class Found:
    """What was measured on one collection: nDCG@10 of each way to search, and after typing errors the share of the clean value."""

    name: str
    pages: int
    questions: int
    language: str
    ndcg: Mapping[str, float]
    mistyped: float | None


async def measure(collection: Collection, folder: Path, embedder: str | None, typing_errors: int) -> Found:
    """Print a row for each way of searching, and return what was found."""
    names = {f"{number:06}.md": page for number, page in enumerate(collection.pages)}
    kb = folder / "kb"
    kb.mkdir()
    for name, page in names.items():
        (kb / name).write_text(collection.pages[page].markdown, encoding="utf-8", errors="replace")
    given = {"FORGE_EMBEDDER": embedder} if embedder else {}
    settings = load({"kb": str(kb), "state_dir": str(folder / "state")}, {**os.environ, **given})
    async with open_base(settings) as base:
        async with held_lease(base) as lease:
            if lease is None:
                raise RuntimeError("somebody else indexes this folder")
            if waiting := (await bring_up_to_date(base, lease, vectors=True)).waiting:
                raise RuntimeError(waiting)
        asked = {query: text for query, text in collection.queries.items() if collection.grades.get(query)}
        print(f"\n{collection.name}: {len(names):,} pages, {len(asked)} questions\n")
        print("| search | nDCG@10 | recall@20 | MRR |\n| --- | ---: | ---: | ---: |")

        async def gains(label: str, search: Search, questions: Mapping[str, str] = asked) -> float:
            ranked = {query: [names[name] for name in await search(text)] for query, text in questions.items()}
            found = [gain(pages, collection.grades[query]) for query, pages in ranked.items()]
            means = [mean(values) for values in zip(*found, strict=True)]
            print(f"| {label} | {' | '.join(f'{value:.4f}' for value in means)} |", flush=True)
            return means[0]

        language = next(iter(await base.index.languages()), "")
        ways = {
            PASSAGES: await by_passages(base),
            PLAIN: by_pages(kb, plain_words),
            SNOWBALL: by_pages(kb, snowball_words(language)),
            OURS: by_pages(kb, our_words(language)),
            "words alone (BM25)": by_words(base),
            VECTORS: by_vectors(base),
        }
        if settings.embedder != "static":
            ways[JOINED] = by_rank(ways[PASSAGES], ways[VECTORS])
        ndcg = {label: await gains(label, search) for label, search in {**ways, WHOLE: whole(base)}.items()}
        wrong = [mistyped_all(asked, seed) for seed in range(1, typing_errors + 1) if settings.embedder == "static"]
        spoilt = [await gains(f"{WHOLE}, typing errors {seed}", whole(base), one) for seed, one in enumerate(wrong, 1)]
        left = mean(spoilt) / ndcg[WHOLE] if spoilt else None
    return Found(collection.name, len(names), len(asked), language, ndcg, left)


def by_pages(kb: Path, words_of: Words) -> Search:
    """Search whole pages by BM25."""
    table = Fts5({page.name: page.read_text(encoding="utf-8") for page in sorted(kb.iterdir())}, words_of)

    async def search(query: str) -> Sequence[str]:
        return table.search(query, SHOWN)

    return search


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
        question = await questions.ask(query)
        names = await base.index.named(query, limit=20) or await base.index.named(question.corrected or "", limit=20)
        mentioned = NOTHING_MENTIONED if names else await find_mentions(base.index, question, query, None)
        ranking = await ranker.rank(question, names, SearchScope(None, Filters()), room=SHOWN, mentioned=mentioned)
        return list(dict.fromkeys(ranking.rows[seq].path for seq in ranking.ranked))

    return search


async def by_passages(base: KnowledgeBase) -> Search:
    """Search the same passages with SQLite's FTS5, by plain words with English endings removed, as it is set up most often."""
    rows = (await base.index.delta(IndexPosition("", 0), limit=1_000_000, texts=True)).texts
    stems = Stemmer.Stemmer("porter").stemWords
    texts = {
        str(row.seq): indexed_text(row.title, row.section, row.text).encode(errors="replace").decode() for row in rows
    }
    table = Fts5(texts, lambda text: stems(plain_words(text)))

    async def search(query: str) -> Sequence[str]:
        return await _paths(base, list(map(int, table.search(query, SHOWN))))

    return search


def by_rank(*searches: Search) -> Search:
    """Join the lists of several searches by the places of pages."""

    async def search(query: str) -> Sequence[str]:
        scores: dict[str, float] = {}
        for one in searches:
            for place, page in enumerate(await one(query), 1):
                scores[page] = scores.get(page, 0.0) + 1 / (RRF_K + place)
        return sorted(scores, key=lambda page: (-scores[page], page))

    return search


async def _paths(base: KnowledgeBase, ranked: Sequence[int]) -> list[str]:
    rows = await base.index.chunks(ranked)
    return list(dict.fromkeys(rows[seq].path for seq in ranked if seq in rows))


def table(found: Sequence[Found]) -> list[str]:
    """Return the Markdown table of what was found, with the means."""
    ways = [PASSAGES, PLAIN, SNOWBALL, OURS, WHOLE]
    others: Sequence[str] = BUILT
    what = "the best of 1 to 3"
    if all(JOINED in one.ndcg for one in found):
        ways, others, what = [PASSAGES, SNOWBALL, VECTORS, JOINED, WHOLE], (JOINED,), "joined by rank"
    lines = [
        f"| collection | language | pages | questions | {' | '.join(ways)} | above {what} | with a typing error |",
        "| --- | --- | ---: | ---: |" + " ---: |" * (len(ways) + 2),
    ]
    for one in found:
        values = " | ".join(f"{one.ndcg[way]:.3f}" for way in ways)
        typing = "" if one.mistyped is None else f"{one.mistyped:.1%}"
        sizes = f"{one.pages:,} | {one.questions:,}"
        lines.append(f"| {one.name} | {one.language} | {sizes} | {values} | {above(one, others):+.3f} | {typing} |")
    means = " | ".join(f"{mean([one.ndcg[way] for one in found]):.3f}" for way in ways)
    left = [one.mistyped for one in found if one.mistyped is not None]
    asked, all_left = sum(one.questions for one in found), f"{mean(left):.1%}" if left else ""
    lines.append(f"| mean of {len(found)} | | | {asked:,} | {means} | {_gain(found, others)} | {all_left} |")
    spaced = [one for one in found if one.language not in UNSPACED]
    low = [one for one in spaced if max(one.ndcg[way] for way in others) < HIGH]
    below = [f"{one.name} {above(one, others):+.3f}" for one in found if above(one, others) < -LEAST]
    gains = [
        f"{len(spaced)} in scripts with spaces: {_gain(spaced, others)}",
        f"{len(low)} of these where it is below {HIGH}: {_gain(low, others)}" if low else "",
        f"above the best of 1 and 2: {_gain(spaced, (PASSAGES, PLAIN))}",
        f"above the best of 1 to 4, all: {_gain(found, (*BUILT, OURS))}",
    ]
    return [
        *lines,
        "",
        f"Mean gain above {what}, {'; '.join(filter(None, gains))}.",
        f"More than {LEAST} below {what}: {', '.join(below) or 'none'}.",
    ]


def _gain(found: Sequence[Found], others: Sequence[str]) -> str:
    return f"{mean([above(one, others) for one in found]):+.3f}"


def above(found: Found, others: Sequence[str]) -> float:
    """Return how much better the whole search is than the best of the others."""
    return found.ndcg[WHOLE] - max(found.ndcg[way] for way in others)


def main() -> None:
    """Measure each collection."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.collections", description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="[NAME=]PATH")
    parser.add_argument("--embedder", help="as FORGE_EMBEDDER, which applies otherwise")
    parser.add_argument("--typing-errors", type=int, default=5, metavar="TIMES")
    parser.add_argument("--write-doc", action="store_true", help="write the section of the handbook")
    args = parser.parse_args()
    found: list[Found] = []
    for given in args.paths:
        title, _, path = given.rpartition("=")
        pages, _, asked = path.partition(":")
        collection = read(Path(pages))
        if asked:
            other = read(Path(asked))
            name = f"{other.name} over {collection.name}"
            collection = Collection(name, collection.pages, other.queries, other.grades)
        if title:
            collection = replace(collection, name=title)
        with tempfile.TemporaryDirectory() as folder:
            found.append(anyio.run(measure, collection, Path(folder), args.embedder, args.typing_errors))
    lines = table(found)
    print("\n" + "\n".join(lines))
    if args.write_doc:
        write_section("quality", [*INTRODUCTION, "", *lines])


if __name__ == "__main__":
    main()
