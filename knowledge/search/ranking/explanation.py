"""Explains why hits rank where they do, from the numbers that ranked them. Computed on request only."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from knowledge.errors import EngineUnavailable
from knowledge.index.ports import QueryTerm, Scored
from knowledge.pages.markdown.inline import without_attributes
from knowledge.pages.paths import HEADING_SEPARATOR
from knowledge.search.query.analysis import beginning, index_language, stem, toned, words
from knowledge.search.query.question import SearchQuestion
from knowledge.search.query.term_match import TermMatcher, searched_text
from knowledge.search.ranking.fusion import RRF_K
from knowledge.search.ranking.ranker import Engines, Ranking, SearchScope
from knowledge.search.ranking.signals import FEEDBACK, MEANING, NAMES, PAGE, PASSAGE, PROPERTIES
from knowledge.search.ranking.weights import DEFAULT_WEIGHTS
from knowledge.state.ports import ChunkRow, IndexStore

MOST_EXPLAINED = 5
"""Hits that are explained in one answer to a host."""
MOST_WORDS, MOST_LEARNT = 8, 2
"""Words of the question, and shared words, that are listed for a hit, the heaviest first."""
MOST_LISTED, MOST_LISTED_BY_SERVER = 10_000, 1_000
"""Results requested for each word alone, so that the explained hits are among them."""
DIGITS = 4
EXACT, PRESENT, NEIGHBOURS, VERBATIM = "exact name", "words present", "neighbours", "as written"
OF_SERIES = "page of a series"
MENTIONED = "mentioned"
BY_WORDS, BY_MEANING = "place by words", "place by meaning"
RERANKED = "place by reranker"


@dataclass(frozen=True, slots=True)
class WordFound:
    """A word of the question on a page, and what it added to the rank score, by part.

    `found` is the word that the passage has instead: another form, the correction of a typo, or a completion.
    """

    word: str
    found: str | None
    in_passage: bool
    added: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LearntWord:
    """A word (its stem) that the first passages share: what it added, and the pages that it was learnt from."""

    word: str
    added: float
    learnt_from: Sequence[str]


@dataclass(frozen=True, slots=True)
class HitExplanation:
    """Why a hit ranks where it does. `parts` sum to `rank_score`; `words` and `learnt` attribute some of them to words."""

    path: str
    section: str
    rank_score: float
    parts: Mapping[str, float]
    words: Sequence[WordFound] = ()
    missing: Sequence[str] = ()
    pairs: Sequence[str] = ()
    learnt: Sequence[LearntWord] = ()
    cosine: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class QuestionExplanation:
    """How a question was read and searched."""

    words: Sequence[str]
    languages: Sequence[str]
    corrections: Mapping[str, Sequence[str]] = field(default_factory=dict)
    completions: Sequence[str] = ()
    engines: Sequence[str] = ()
    filters: str = ""
    weights: str = ""


def fitted(question: QuestionExplanation, hits: Sequence[HitExplanation], *, room: int) -> Mapping[str, object]:
    """Return an explanation as plain data, without empty fields, with as many of the first hits as fit into `room` characters."""
    told: list[object] = []
    explained = {"question": _without_empty(asdict(question)), "hits": told}
    for hit in hits:
        told.append(_plain_data(hit))
        if characters(explained) > room:
            told.pop()
            break
    if hits and not told:
        return {"note": "no room to explain a hit: lower limit, or raise FORGE_ANSWER_TOKENS"}
    return explained


def characters(explanation: Mapping[str, object]) -> int:
    """Return the length of an explanation in an answer."""
    return len(json.dumps(explanation, ensure_ascii=False, separators=(",", ":")))


def _plain_data(hit: HitExplanation) -> dict[str, Any]:
    told = asdict(hit)
    told["words"] = [_without_empty({"word": one.word, "found": one.found, **one.added}) for one in hit.words]
    del told["missing"]  # the text names them
    return _without_empty(told)


def _without_empty(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if one not in (None, "", [], (), {})}


class Explainer:
    """Explains the hits of one ranking."""

    def __init__(
        self, index: IndexStore, engines: Engines, question: SearchQuestion, ranking: Ranking, scope: SearchScope
    ) -> None:
        self._index, self._engines = index, engines
        self._question, self._ranking, self._scope = question, ranking, scope

    def read_as(self) -> QuestionExplanation:
        """Return how the question was read and searched."""
        question, ranking, trace = self._question, self._ranking, self._ranking.trace
        joined = "scores are added up" if ranking.signals else "the places in both lists are joined"
        embedder = f" ({ranking.embedded.embedder.name})" if ranking.embedded else ""
        engines = [
            f"passages by words: {len(ranking.keyword)}",
            f"passages by meaning{embedder}: {len(ranking.vectors)}",
            joined,
            *([f"the first passages were reordered by {ranking.reranker}"] if ranking.reranker else []),
            *ranking.notes,
        ]
        filters = self._scope.filters
        given = {
            "path": filters.path,
            "tags": ", ".join(filters.tags),
            "kind": filters.kind,
            "source": filters.source,
            "modified": filters.modified_after_ns or filters.modified_before_ns,
        }
        named = "; ".join(f"{name} {value}" if name != "modified" else name for name, value in given.items() if value)
        admitted = "" if self._scope.docs is None else f"pages admitted: {len(self._scope.docs)}"
        are_fitted = trace is not None and trace.weights not in (DEFAULT_WEIGHTS, DEFAULT_WEIGHTS.across_languages())
        return QuestionExplanation(
            words=question.content,
            languages=[one or "unknown" for one in question.languages],
            corrections={word: list(near) for word, near in question.corrections.items() if near},
            completions=question.completions,
            engines=engines,
            filters="; ".join(filter(None, (named, admitted))) or "none",
            weights="fitted to how this knowledge base is used" if are_fitted else "default",
        )

    async def hits(self, shown: Sequence[int]) -> list[HitExplanation]:
        """Return the explanations of the chunks `shown`, in their order."""
        rows = [self._ranking.rows[seq] for seq in shown]
        asked, learnt = await self._by_word(rows)
        sources = await self._sources()
        next_ = self._next_pages()
        found = []
        terms = self._question.terms
        matcher = TermMatcher(terms, times=self._question.times)
        for seq, row in zip(shown, rows, strict=True):
            parts = self.parts(seq)
            searched = [part for part in (PASSAGE, PAGE, NAMES, BY_WORDS) if parts.get(part)]
            having = matcher.match(row).words
            words_ = [
                WordFound(
                    term.word,
                    self._form(term, row) if term.word in having else None,
                    term.word in having,
                    {part: parts[part] * asked[part].get(_key(part, row), {}).get(term.word, 0.0) for part in searched},
                )
                for term in terms
            ]
            pairs = [pair for pair in self._question.pairs if TermMatcher(terms, (pair,)).match(row).pairs]
            shares = learnt.get(seq, {})
            found.append(
                self._told(
                    HitExplanation(
                        path=row.path,
                        section=HEADING_SEPARATOR.join(map(without_attributes, row.section)),
                        rank_score=self._ranking.scores.get(seq, 0.0),
                        parts=parts,
                        words=sorted(
                            (one for one in words_ if one.in_passage or any(one.added.values())),
                            key=lambda one: -sum(one.added.values()),
                        ),
                        missing=[
                            one.word
                            for one in words_
                            if not one.in_passage
                            and not any(one.word in of.get(_key(part, row), ()) for part, of in asked.items())
                        ],
                        pairs=[" ".join(pair) for pair in pairs],
                        learnt=[
                            LearntWord(word, parts.get(FEEDBACK, 0.0) * share, sources.get(word, ()))
                            for word, share in sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))
                        ],
                        cosine=self._cosine(seq),
                    ),
                    seq,
                    next_.get(row.doc),
                )
            )
        return found

    def parts(self, seq: int) -> dict[str, float]:
        """Return what each part added to the rank score of a chunk, without zeros. The parts add up to the score."""
        ranking, trace = self._ranking, self._ranking.trace
        if seq == ranking.of_series:
            return {OF_SERIES: 1.0}
        if seq in ranking.exact or trace is None:
            return {EXACT: 1.0} if seq in ranking.exact else {}
        if trace.signals is not None:
            sums = trace.signals.parts(seq, trace.weights, len(self._question.terms))
        else:
            ranks = zip((BY_WORDS, BY_MEANING), trace.ranks.get(seq, ()), strict=False)
            sums = {name: 1 / (RRF_K + place) for name, place in ranks if place}
        parts = {name: value * trace.unit * trace.scale for name, value in sums.items()}
        for name, value in zip((PRESENT, NEIGHBOURS, VERBATIM, MENTIONED), trace.boosts.get(seq, ()), strict=False):
            parts[name] = value * trace.scale
        if ranking.reranker:
            # A reranked chunk has the score of its new place, so the difference from its own sum is due to the reranker.
            parts[RERANKED] = ranking.scores.get(seq, 0.0) - sum(parts.values())
        return {name: value for name, value in parts.items() if value}

    # --- which words ----------------------------------------------------------------------------------------------------

    async def _by_word(
        self, rows: Sequence[ChunkRow]
    ) -> tuple[dict[str, dict[int, dict[str, float]]], dict[int, dict[str, float]]]:
        """Return what each word adds to the engine's scores.

        The first mapping gives the words of the question, by part of the score and by chunk or page. The second gives
        the words that the first passages share, by chunk. BM25 is a sum over words, so the engine is asked for each
        word alone.
        """
        docs, terms = frozenset(row.doc for row in rows), self._question.terms
        signals, engine = self._ranking.signals, self._engines.keyword
        limit = MOST_LISTED if signals else MOST_LISTED_BY_SERVER

        async def chunks(term: QueryTerm) -> Sequence[Scored]:
            return await engine.search((term,), limit=limit, docs=docs)

        asked: dict[str, dict[int, dict[str, float]]] = {part: {} for part in (PASSAGE, PAGE, NAMES, BY_WORDS)}
        learnt: dict[int, dict[str, float]] = {}
        # If an engine has failed since the search, the rest is explained without it.
        with suppress(EngineUnavailable):
            seqs = frozenset(row.seq for row in rows)
            asked[PASSAGE] = asked[BY_WORDS] = await _shares(chunks, terms, lambda hit: hit.seq, seqs)
            if signals and signals.added:
                learnt = await _shares(chunks, signals.added, lambda hit: hit.seq, seqs)
            if (ranks := self._engines.page_ranks) is not None:

                async def texts(term: QueryTerm) -> Sequence[Scored]:
                    return await ranks.pages((term,), by="text", limit=MOST_LISTED, docs=docs)

                async def names(term: QueryTerm) -> Sequence[Scored]:
                    return await ranks.pages((term,), by="names", limit=MOST_LISTED, docs=docs)

                asked[PAGE] = await _shares(texts, terms, lambda hit: hit.doc, docs)
                asked[NAMES] = await _shares(names, terms, lambda hit: hit.doc, docs)
        return asked, learnt

    async def _sources(self) -> dict[str, Sequence[str]]:
        """Return, for each shared word, the pages of the first passages that have it."""
        signals = self._ranking.signals
        if signals is None or not signals.added:
            return {}
        rows = await self._index.chunks(signals.learnt_from)
        having: dict[str, dict[str, None]] = {}
        for seq in signals.learnt_from:
            if row := rows.get(seq):
                for word in {
                    toned(word, row.language) or stem(word, index_language(row.language))
                    for word in words(searched_text(row))
                }:
                    having.setdefault(word, {})[row.path] = None
        return {term.word: tuple(having.get(term.word, ())) for term in signals.added}

    def _form(self, term: QueryTerm, row: ChunkRow) -> str | None:
        """Return the heaviest of the chunk's words that count as `term`.

        None if that is the question's own word, or if there is no such word.
        """
        weights, near = dict(term.alternatives), self._question.corrections.get(term.word, ())
        forms = {
            word: max(weights.get(form(word, row.language), 0.0) for form in (stem, toned, beginning))
            for word in words(searched_text(row))
        }
        best = max(forms, key=lambda word: (forms[word], word == term.word, word in near))
        # The matcher also finds words inside of names that are one word here.
        return best if best != term.word and forms[best] else None

    def _cosine(self, seq: int) -> float | None:
        if self._ranking.signals is not None:
            return self._ranking.signals.cosines.get(seq)
        return next((hit.score for hit in self._ranking.vectors if hit.seq == seq), None)

    # --- in words -------------------------------------------------------------------------------------------------------

    def _next_pages(self) -> dict[int, int]:
        """Return, for each page except the last, the best chunk of the page ranked after it."""
        best: dict[int, int] = {}
        for seq in self._ranking.ranked:
            best.setdefault(self._ranking.rows[seq].doc, seq)
        return dict(zip(best, list(best.values())[1:], strict=False))

    def _told(self, one: HitExplanation, seq: int, next_: int | None) -> HitExplanation:
        """Return the finished explanation: with its sentence, numbers rounded, and lists of words cut to what is shown."""
        said = []
        if one.parts:
            heaviest = max(one.parts, key=lambda part: one.parts[part])
            said.append(f"mostly from {_plain(heaviest)}")
        said += ["lacks " + ", ".join(map(repr, one.missing[:MOST_WORDS]))] if one.missing else []
        if next_ is not None:
            said.append(self._above(one, seq, next_))
        return replace(
            one,
            rank_score=round(one.rank_score, DIGITS),
            parts=_rounded(one.parts),
            words=[replace(word, added=_rounded(word.added)) for word in one.words[:MOST_WORDS]],
            missing=one.missing[:MOST_WORDS],
            learnt=[
                LearntWord(word.word, round(word.added, DIGITS), word.learnt_from[:2])
                for word in one.learnt[:MOST_LEARNT]
            ],
            cosine=None if one.cosine is None else round(one.cosine, DIGITS),
            text="; ".join(said),
        )

    def _above(self, one: HitExplanation, seq: int, next_: int) -> str:
        """Return why the page ranks above the next one: usually the part of the score in which it leads by most."""
        rows, scores = self._ranking.rows, self._ranking.scores
        path, score, theirs = rows[next_].path, scores.get(next_, 0.0), self.parts(next_)
        if seq in self._ranking.exact:
            return f"above {path} because its name matches the question"
        if seq == self._ranking.of_series:
            return f"above {path} because, judging by the file names, it is the {self._ranking.which} such page"
        ahead = {part: value - theirs.get(part, 0.0) for part, value in one.parts.items()}
        best = next(best for best in self._ranking.ranked if rows[best].doc == rows[seq].doc)
        if best != seq:
            return f"above {path} because passages of one page stay together, behind the best of them"
        most = max(ahead, key=lambda part: ahead[part], default="")
        if not most or ahead[most] <= 0:
            return f"above {path}, which has the same rank score"
        numbers = f"{one.parts[most]:.3f} against {theirs.get(most, 0.0):.3f}"
        return f"above {path} ({score:.3f}) mainly because of {_plain(most)}: {numbers}"


async def _shares(
    search: Callable[[QueryTerm], Awaitable[Sequence[Scored]]],
    terms: Sequence[QueryTerm],
    key: Callable[[Scored], int],
    wanted: frozenset[int],
) -> dict[int, dict[str, float]]:
    """Return for each wanted chunk or page each word's share of its score, computed by asking for each word alone."""
    scores: dict[int, dict[str, float]] = {}
    for term in terms:
        for hit in await search(term):
            if key(hit) in wanted:
                scores.setdefault(key(hit), {})[term.word] = hit.score
    return {
        one: {word: score / total for word, score in of_words.items()}
        for one, of_words in scores.items()
        if (total := sum(of_words.values()))
    }


def _key(part: str, row: ChunkRow) -> int:
    return row.seq if part in (PASSAGE, BY_WORDS) else row.doc


def _plain(part: str) -> str:
    return {
        PASSAGE: "the words of its passage",
        PAGE: "the words of the whole page",
        NAMES: "the words in its title, aliases and path",
        MEANING: "its meaning",
        PROPERTIES: "the words in its front matter",
        FEEDBACK: "words that the first passages share",
        PRESENT: "how many of the question's words it has",
        NEIGHBOURS: "words that are neighbours in the question, too",
        VERBATIM: "the question as it was written, which it has",
        MENTIONED: "its page, which the question names or whose title has all its words",
        BY_WORDS: "its place by words",
        BY_MEANING: "its place by meaning",
        EXACT: "its name, which matches the question",
        OF_SERIES: "its file name, by which it is the page of a series that was asked for",
        RERANKED: "its place in the order of the reranker",
    }[part]


def _rounded(parts: Mapping[str, float]) -> dict[str, float]:
    return {part: round(value, DIGITS) for part, value in parts.items() if round(value, DIGITS)}
