"""Which asked words a chunk says, and that ranking heeds it."""

from __future__ import annotations

from dataclasses import replace

from knowledge.index.ports import QueryTerm
from knowledge.search.query.question import SearchQuestion
from knowledge.search.query.term_match import TermMatcher
from knowledge.search.ranking.ranker import Ranking, boost_coverage
from knowledge.search.ranking.weights import RankingWeights
from knowledge.state.ports import ChunkRow

TERMS = (
    QueryTerm("rotating", (("rotat", 1.0),)),
    QueryTerm("secrets", (("secret", 1.0),)),
    QueryTerm("valt", (("valt", 1.0), ("vault", 0.9))),
)


def row(seq: int, text: str, *section: str, title: str = "", language: str = "en") -> ChunkRow:
    return ChunkRow(
        seq, seq, 0, section, 1, 1, text, f"{seq}.md", title, "r", "", untrusted=False, language=language, modified_ns=0
    )


def test_words_are_found_by_their_stems_in_text_headings_and_title_with_the_weight_of_the_form() -> None:
    said = TermMatcher(TERMS).matches(row(1, "We rotate them.", "The vault", title="Secrets"))
    assert said == {"rotating": 1.0, "secrets": 1.0, "valt": 0.9}
    assert TermMatcher(TERMS).matches(row(1, "A secretary, rotors and avault.")) == {}


def test_of_chunks_that_are_nearly_as_good_the_one_that_says_more_comes_first() -> None:
    rows = {1: row(1, "Secrets."), 2: row(2, "Rotating secrets in the vault."), 3: row(3, "Named.")}
    scores = {1: 0.99, 2: 0.9, 3: 1.0}
    question = SearchQuestion(("rotating", "secrets", "valt"), TERMS, "", None)
    found = boost_coverage(Ranking((3, 1, 2), rows, scores, (), (), frozenset({3}), ()), question)
    assert found.ranked == (3, 2, 1)
    assert found.scores[3] == 1.0 > found.scores[2] == 0.99 > found.scores[1] > 0


def test_what_is_far_better_stays_first() -> None:
    rows = {1: row(1, "Nothing."), 2: row(2, "Rotating secrets in the vault.")}
    question = SearchQuestion(("rotating", "secrets", "valt"), TERMS, "", None)
    found = boost_coverage(Ranking((1, 2), rows, {1: 0.99, 2: 0.5}, (), (), frozenset(), ()), question)
    assert found.ranked == (1, 2)


def test_the_weights_decide_how_far_words_in_the_text_and_in_names_move_a_chunk() -> None:
    rows = {
        1: row(1, "Nothing."),
        2: row(2, "Rotating secrets in the vault."),
        3: row(3, "None.", "Rotating", title="Secrets in the vault"),
    }
    question = SearchQuestion(("rotating", "secrets", "valt"), TERMS, "", None)
    before = Ranking((1, 2, 3), rows, {1: 0.99, 2: 0.9, 3: 0.7}, (), (), frozenset(), ())
    assert boost_coverage(before, question, RankingWeights(coverage=0.0)).ranked == (1, 2, 3)
    assert boost_coverage(before, question, RankingWeights(coverage=0.2)).ranked == (2, 1, 3)
    assert boost_coverage(before, question, RankingWeights(coverage=0.0, names=0.4)).ranked == (3, 1, 2)


def test_a_pages_path_counts_as_one_of_its_names() -> None:
    page = replace(row(1, "None."), path="vault/rotating-secrets.md")
    assert TermMatcher(TERMS).named(page) == {"rotating": 1.0, "secrets": 1.0, "valt": 0.9}
    assert TermMatcher(TERMS).matches(page) == {}
