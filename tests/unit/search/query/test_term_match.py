"""Which asked words a chunk says, and that ranking heeds it."""

from __future__ import annotations

from knowledge.index.ports import QueryTerm
from knowledge.search.query.question import SearchQuestion
from knowledge.search.query.term_match import TermMatcher
from knowledge.search.ranking.ranker import Ranking, boost_coverage
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
