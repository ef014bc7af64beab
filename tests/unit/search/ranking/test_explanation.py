"""Explanations of hits: their parts are those that ranked, whichever engine searched."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from knowledge.index.engines.fts5 import Fts5KeywordIndex
from knowledge.index.indexer import Indexer
from knowledge.index.ports import KeywordIndex, VectorIndex
from knowledge.pages.vault import Vault
from knowledge.search import RECIPE
from knowledge.search.finder import Finder
from knowledge.search.query.analysis import stem
from knowledge.search.query.corrections import Candidate, Vocabulary
from knowledge.search.query.question import Questions
from knowledge.search.ranking.explanation import MOST_EXPLAINED, Explainer
from knowledge.search.ranking.ranker import Engines, Ranker, SearchScope
from knowledge.search.ranking.weights import RankingWeights
from knowledge.state.ports import Filters, IndexIdentity
from mcp_server.app.factories.finder import vector_engine
from mcp_server.app.factories.keywords import indexed_terms, keyword_engine, name_terms
from tests.support.index.memory_embedder import MemoryEmbedder
from tests.support.index.memory_engines import MemoryKeywordIndex, MemoryVectorIndex
from tests.support.knowledge_bases.folders import write
from tests.support.state.memory.index import MemoryIndexStore

PAGES = {
    "leases.md": "---\naliases: [locks]\n---\n# Leases\n\nThe lease expires when its holder dies, after thirty seconds.\n\n"
    "## Renewal\n\nThe holder renews the lease every ten seconds while it indexes pages.\n",
    "indexing.md": "# Indexing\n\nOne process holds the lease and indexes pages; the others wait for the holder.\n",
    "journeys.md": "# Journeys\n\nA journey expires after thirty days without a visit.\n",
    "german.md": "# Die Sprache\n\nDiese Seite ist auf Deutsch und sagt nichts über das, was die anderen sagen.\n",
    **{f"other{n}.md": f"# Other {n}\n\nPages about subject {n}, with words of their own.\n" for n in range(12)},
}
QUESTIONS = ("when does a lease expire", "lease holder renews", "leese expires", "journeys expi", "seconds", "zebra")


class Base:
    """A knowledge base with one of the engines."""

    def __init__(self, folder: Path, keyword: KeywordIndex, vectors: VectorIndex, *, ours: bool) -> None:
        self.index, self.embedder = MemoryIndexStore(), MemoryEmbedder()
        self.keyword, self.vectors, self.ours = keyword, vectors, ours
        self.indexer = Indexer(
            Vault.open(write(folder / "kb", PAGES)),
            self.index,
            keyword=self.keyword_index,
            embedder=self.load,
            now_ns=lambda: 10**18,
        )
        self.questions, self.ranker = Questions(self.index, self.near), Ranker(self.index, self.engines)
        self.finder = Finder(self.index, self.engines, self.near, answer_tokens=1500)

    async def engines(self) -> Engines:
        return Engines(self.keyword, self.vectors, self.load, ours=self.ours)

    async def keyword_index(self) -> KeywordIndex:
        return self.keyword

    async def load(self, _: IndexIdentity) -> MemoryEmbedder:
        return self.embedder

    async def near(self, *_: object) -> list[Candidate]:
        return Vocabulary(await self.index.vocabulary()).near(str(_[1]))


@pytest.fixture(params=["tantivy", "fts5", "memory", "ranks"])
async def base(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Base]:
    """A small base, by each way of ranking; `ranks` joins places, as with Meilisearch or Qdrant."""
    made: dict[str, Callable[[], KeywordIndex]] = {
        "tantivy": lambda: keyword_engine(tmp_path / "words"),
        "fts5": lambda: Fts5KeywordIndex(tmp_path / "words.db", indexed_terms, name_terms),
        "memory": lambda: MemoryKeywordIndex(indexed_terms, name_terms),
        "ranks": lambda: keyword_engine(tmp_path / "words"),
    }
    vectors = MemoryVectorIndex() if request.param == "memory" else vector_engine()
    base = Base(tmp_path, made[request.param](), vectors, ours=request.param != "ranks")
    await base.index.begin(IndexIdentity(base.embedder.name, base.embedder.dimensions, RECIPE))
    await base.indexer.reconcile(1)
    await base.keyword.catch_up(base.index)
    yield base
    await base.keyword.close()
    await base.vectors.close()


@pytest.mark.parametrize("query", QUESTIONS)
async def test_the_parts_sum_to_the_rank_score_and_the_words_to_their_part(base: Base, query: str) -> None:
    """The promise of `explain`: an explanation is made of the numbers that ranked, never of a second formula."""
    question, scope = await base.questions.ask(query), SearchScope(None, Filters())
    ranking = await base.ranker.rank(question, (), scope, room=10)
    explainer = Explainer(base.index, await base.engines(), question, ranking, scope)
    for seq in ranking.ranked:
        assert sum(explainer.parts(seq).values()) == pytest.approx(ranking.scores[seq], abs=1e-9)
    told = await explainer.hits(ranking.ranked[:MOST_EXPLAINED])
    assert len(told) == len(ranking.ranked[:MOST_EXPLAINED])
    terms = {term.word: dict(term.alternatives) for term in question.terms}
    for one in told:
        for word in one.words:
            assert word.found is None or {stem(word.found, "en"), stem(word.found, "de")} & terms[word.word].keys()
        assert not {word.word for word in one.words if word.added} & set(one.missing)
        for part in ("passage", "page", "names", "place by words"):
            if part in one.parts:
                added = sum(word.added.get(part, 0.0) for word in one.words)
                assert added == pytest.approx(one.parts[part], abs=2e-3)


async def test_the_parts_are_those_of_the_weights_that_ranked(base: Base) -> None:
    question, scope = await base.questions.ask(QUESTIONS[0]), SearchScope(None, Filters())
    weights = RankingWeights(names=0.9, cosine=0.1, feedback=0.0)
    ranking = await base.ranker.rank(question, (), scope, room=10, weights=weights)
    explainer = Explainer(base.index, await base.engines(), question, ranking, scope)
    for seq in ranking.ranked:
        assert sum(explainer.parts(seq).values()) == pytest.approx(ranking.scores[seq], abs=1e-9)
    assert explainer.read_as().weights.startswith("fitted")


async def test_what_each_word_scores_alone_is_what_they_score_together(base: Base) -> None:
    """The engine is asked for each word alone, which is right only where BM25 is a sum over words."""
    question = await base.questions.ask("lease holder renews seconds")
    docs = await base.index.select(Filters(path="leases.md"))
    together = {hit.seq: hit.score for hit in await base.keyword.search(question.terms, limit=50)}
    alone: dict[int, float] = {}
    for term in question.terms:
        for hit in await base.keyword.search((term,), limit=50, docs=docs):
            alone[hit.seq] = alone.get(hit.seq, 0.0) + hit.score
    assert alone
    assert alone == pytest.approx({seq: together[seq] for seq in alone}, rel=1e-4)


async def explained(base: Base, query: str, **asked: Any) -> dict[str, Any]:
    answer = await base.finder.search(query, explain=True, **asked)
    assert answer.explanation is not None
    return json.loads(json.dumps(answer.explanation))  # type: ignore[no-any-return]  # plain data


async def test_a_misspelt_word_is_shown_with_the_word_that_was_found(base: Base) -> None:
    told = await explained(base, "the leese of the holder")
    assert told["question"]["corrections"] == {"leese": ["lease"]}
    words = {word["word"]: word for word in told["hits"][0]["words"]}
    assert words["leese"]["found"] == "lease"
    assert "found" not in words["holder"]


async def test_an_unfinished_word_is_shown_with_its_completions(base: Base) -> None:
    told = await explained(base, "journey expi")
    assert "expires" in told["question"]["completions"]
    assert {"word": "expi", "found": "expires"}.items() <= {w["word"]: w for w in told["hits"][0]["words"]}[
        "expi"
    ].items()


async def test_a_hit_says_why_it_is_above_the_next_page(base: Base) -> None:
    told = await explained(base, "when does a lease expire after thirty seconds", mode="discovery")
    first, others = told["hits"][0], told["hits"][1:]
    assert first["path"] == "leases.md"
    after = next(one["path"] for one in others if one["path"] != first["path"])
    assert f"above {after} (" in first["text"]
    assert "mainly because of " in first["text"]
    assert " against " in first["text"]


async def test_a_named_page_is_first_by_its_name(base: Base) -> None:
    told = await explained(base, "Leases")
    assert "without" not in told["hits"][0]["text"]
    assert told["hits"][0]["parts"] == {"exact name": 1.0}
    assert "its name matches the question" in told["hits"][0]["text"]


async def test_languages_engines_and_filters_are_said(base: Base) -> None:
    told = (await explained(base, "lease", path="leases.md"))["question"]
    assert told["languages"][0] == "en"
    assert told["filters"] == "path leases.md; pages admitted: 1"
    assert told["engines"][0].startswith("passages by words: ")
    assert told["engines"][1].startswith(f"passages by meaning ({base.embedder.name}): ")


async def test_without_explain_the_answer_is_the_same_and_has_no_explanation(base: Base) -> None:
    for query in QUESTIONS:
        usual, asked = await base.finder.search(query), await base.finder.search(query, explain=True)
        assert usual.explanation is None
        # With an explanation there may be fewer hits, and snippets are shorter.
        shown = {replace(hit, snippet="") for hit in asked.hits}
        assert shown <= {replace(hit, snippet="") for hit in usual.hits}
        assert (asked.scent.level, asked.route) == (usual.scent.level, usual.route)


@pytest.mark.parametrize("tokens", [200, 400, 1500, 4000])
async def test_an_explained_answer_keeps_to_its_tokens(base: Base, tokens: int) -> None:
    finder = Finder(base.index, base.engines, base.near, answer_tokens=tokens)
    usual = len(json.dumps(asdict(await finder.search(QUESTIONS[0])), ensure_ascii=False, separators=(",", ":")))
    answer = await finder.search(QUESTIONS[0], explain=True)
    size = len(json.dumps(asdict(answer), ensure_ascii=False, separators=(",", ":")))
    # One hit and its page are always shown, in however little room.
    assert size <= max(tokens * 4, usual + 120)
    assert answer.explanation is not None
    assert ("note" in answer.explanation) or tokens > 200
    assert answer.explanation.get("hits") or tokens < 1500


@pytest.mark.parametrize(
    ("query", "name", "learnt"),
    [
        ("lease holder renews", "", {"index"}),
        ("holder renews the lease every ten", "", set()),
        ("lease holder renews", "Leases", set()),
    ],
)
async def test_a_question_that_pages_have_as_it_is_asks_for_no_other_words(
    base: Base, query: str, name: str, learnt: set[str]
) -> None:
    question = await base.questions.ask(query)
    names = await base.index.named(name, limit=1) if name else ()
    ranking = await base.ranker.rank(question, names, SearchScope(None, Filters()), room=10)
    assert ranking.trace is not None
    assert ranking.rows[ranking.ranked[0]].path == "leases.md"
    if (signals := ranking.signals) is None:
        return  # joined by rank, without a second question
    assert {term.word for term in signals.added} & {"index"} == learnt
    assert bool(signals.added) == bool(signals.feedback) == bool(learnt)
