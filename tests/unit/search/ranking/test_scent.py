"""Scent: what is measured of an answer, how it is judged, and whether the next step can be taken."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.index.ports import QueryTerm, Scored
from knowledge.search.query.analysis import stem, words
from knowledge.search.query.question import SearchQuestion
from knowledge.search.ranking.ranker import Ranking
from knowledge.search.ranking.scent import LONGEST_STEP, ScentSigns, ShownChunk, chance, judge, signs_of
from knowledge.state.ports import ChunkRow
from tests.benchmarks.processes import ROOT
from tests.benchmarks.question_set import load, wrong
from tests.benchmarks.scent import collect, level
from tests.support.state.memory.index import MemoryIndexStore

GOOD = ScentSigns(1.0, 1.0, 0.5, 1.0, exact=False)
POOR = ScentSigns(0.1, 0.0, 0.0, 0.1, exact=False, missing=("undelete",))
MIDDLING = ScentSigns(0.7, 0.3, 0.2, 0.5, exact=False, content=("rotate", "keys"))
PLACES = [
    ShownChunk("ops/keys.md", "Keys > Rotate them"),
    ShownChunk("ops/vault.md", "Vault"),
    ShownChunk("team.md", ""),
]
LEVELS = ("lost", "partial", "sufficient")
shares = st.floats(0, 1)
signs = st.builds(ScentSigns, shares, shares, shares, shares, exact=st.booleans(), content=st.tuples(st.text()))
names = st.text("ab é'\"-_.;)", min_size=1, max_size=40)
places = st.builds(
    ShownChunk,
    st.lists(names, min_size=1, max_size=4).map(lambda parts: "/".join(parts) + ".md"),
    st.lists(names, max_size=5).map(" > ".join),
    st.booleans(),
)


def told(found: ScentSigns, at: list[ShownChunk], *, directory: str = "") -> tuple[str, str]:
    scent = judge(found, at, indexed=True, directory=directory)
    return scent.level, scent.next


def test_nothing_found_is_lost_and_the_map_is_next() -> None:
    assert told(POOR, [], directory="guides") == ("lost", "kb_map('guides') shows what exists")


def test_nothing_found_while_indexing_goes_on_says_to_ask_again() -> None:
    assert "ask again" in judge(POOR, [], indexed=False, directory="").reason


def test_an_exact_name_suffices_whatever_else_is_known() -> None:
    assert told(ScentSigns(0.0, 0.0, 0.0, 0.0, exact=True), PLACES)[0] == "sufficient"


def test_a_good_answer_names_the_section_to_read() -> None:
    assert told(GOOD, PLACES) == ("sufficient", "kb_read('ops/keys.md', section='Keys > Rotate them')")


def test_a_doubtful_answer_from_a_long_page_is_searched_for_inside_it() -> None:
    assert told(MIDDLING, PLACES) == ("partial", "kb_search('rotate keys', path='ops/keys.md')")


def test_after_a_question_for_a_place_the_page_is_read_and_not_searched() -> None:
    scent = judge(MIDDLING, PLACES, indexed=True, directory="", navigation=True)
    assert (scent.level, scent.next) == ("partial", "kb_read('ops/keys.md', section='Keys > Rotate them')")


def test_inside_the_page_that_was_searched_a_section_is_read_instead() -> None:
    assert told(MIDDLING, PLACES, directory="ops/keys.md")[1].startswith("kb_read('ops/keys.md', section=")


def test_a_doubtful_answer_from_a_short_page_has_the_page_read_whole() -> None:
    assert told(MIDDLING, [ShownChunk("ops/keys.md", "Keys", short=True)]) == ("partial", "kb_read('ops/keys.md')")


def test_a_lost_question_is_sent_to_the_directory_with_most_hits_and_told_its_words() -> None:
    at = [
        ShownChunk("team.md", ""),
        ShownChunk("ops/keys.md", "Keys > Rotate them"),
        ShownChunk("ops/vault.md", "Rotate"),
    ]
    assert told(POOR, at) == ("lost", "kb_map('ops'); its pages mention rotate, them")


def test_words_that_nothing_has_are_named_in_the_reason() -> None:
    """A model should say that there is nothing about it rather than stitch something together."""
    assert "'undelete'" in judge(POOR, PLACES, indexed=True, directory="").reason


def test_a_long_heading_path_is_cut_from_the_front_so_that_the_call_stays_short() -> None:
    deep = ShownChunk("a.md", " > ".join(f"{'x' * 40} {n}" for n in range(5)))
    level_, step = told(GOOD, [deep])
    assert level_ == "sufficient"
    assert len(step) <= LONGEST_STEP
    assert deep.section.endswith(ast.literal_eval(step.partition("section=")[2].rstrip(")")))


def test_a_page_that_lacks_a_rare_word_does_not_suffice_however_near_it_lies() -> None:
    """A terraform module for a network that nobody here wrote about is near all pages on terraform modules."""
    assert told(ScentSigns(0.86, 1.0, 1.0, 1.0, exact=False), PLACES)[0] == "partial"


@given(signs, signs)
def test_better_signs_never_lower_the_level(one: ScentSigns, other: ScentSigns) -> None:
    better = ScentSigns(
        max(one.coverage, other.coverage),
        max(one.agreement, other.agreement),
        max(one.nearness, other.nearness),
        max(one.substance, other.substance),
        exact=one.exact or other.exact,
    )
    assert LEVELS.index(told(better, PLACES)[0]) >= LEVELS.index(told(one, PLACES)[0])
    assert 0 <= chance(one) <= chance(better) <= 1


@given(signs, st.lists(places, min_size=1, max_size=6))
def test_the_next_step_is_one_call_that_names_a_page_or_directory_of_a_hit(
    found: ScentSigns, at: list[ShownChunk]
) -> None:
    """The suggested next step names a real path."""
    step = told(found, at)[1]
    call = ast.parse(step.partition("; its pages")[0], mode="eval").body
    assert isinstance(call, ast.Call)
    named = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    path = named.get("path", ast.literal_eval(call.args[0]))
    assert path in {place.path for place in at} | {place.path.rpartition("/")[0] for place in at}
    assert len(step) <= LONGEST_STEP or step == f"kb_read({path!r})"  # no shorter name than its path


def row(seq: int, doc: int, text: str, language: str = "en") -> ChunkRow:
    return ChunkRow(seq, doc, 0, (), 1, 2, text, f"{doc}.md", "", "", "user", False, language, 0)  # noqa: FBT003 - a row as it is stored


def asked(*terms: str) -> SearchQuestion:
    return SearchQuestion(terms, tuple(QueryTerm(term, ((term, 1.0),)) for term in terms), " ".join(terms), None)


def ranking(rows: list[ChunkRow], keyword: list[int], vectors: list[tuple[int, float]]) -> Ranking:
    return Ranking(
        [r.seq for r in rows],
        {r.seq: r for r in rows},
        {},
        [Scored(seq, 1, 9.0) for seq in keyword],
        [Scored(seq, 1, score) for seq, score in vectors],
        frozenset(),
        (),
    )


async def test_words_are_counted_for_a_page_and_not_for_its_best_chunk() -> None:
    """A page that says one thing in one section and the other in the next answers both."""
    found = ranking([row(1, 1, "rotate it"), row(2, 2, "other"), row(3, 1, "the keys")], [1], [(1, 0.9)])
    assert (await signs_of(MemoryIndexStore(), asked("rotat", "key"), found, [1, 2, 3])).coverage == 1.0
    apart = ranking([row(1, 1, "rotate it"), row(3, 2, "the keys")], [1], [(1, 0.9)])
    assert (await signs_of(MemoryIndexStore(), asked("rotat", "key"), apart, [1, 3])).coverage == 0.5


async def test_a_word_that_no_shown_chunk_has_is_missing() -> None:
    found = ranking([row(1, 1, "rotate it")], [1], [(1, 0.9)])
    assert (await signs_of(MemoryIndexStore(), asked("rotat", "keys"), found, [1])).missing == ("keys",)


@pytest.mark.parametrize(
    ("language", "word", "text"),
    [
        ("de", "schlüssel", "Die Schlüssel rotieren"),
        ("ru", "ключ", "Где ключи"),
        ("ja", "鍵", "鍵を回す"),
        ("en", "key", "“Keys”"),
    ],
)
async def test_words_with_accents_and_in_other_scripts_are_seen(language: str, word: str, text: str) -> None:
    term = stem(words(word)[0], language)
    found = ranking([row(1, 1, text, language)], [1], [])
    assert (await signs_of(MemoryIndexStore(), asked(term), found, [1])).coverage == 1.0


async def test_without_one_engine_the_other_is_believed_half() -> None:
    """A keyword engine that is away must not make an answer look worse than no engine would, nor as good as two."""
    rows = [row(1, 1, "rotate it"), row(2, 2, "other")]
    both = ranking(rows, [1, 2], [(1, 0.9), (2, 0.1)])
    assert (await signs_of(MemoryIndexStore(), asked("rotat"), both, [1])).agreement == 1.0
    assert (await signs_of(MemoryIndexStore(), asked("rotat"), ranking(rows, [1, 2], []), [1])).agreement == 0.5
    assert (await signs_of(MemoryIndexStore(), asked("rotat"), ranking(rows, [], [(1, 0.9)]), [1])).agreement == 0.5


async def test_a_passage_that_is_no_nearer_than_the_rest_does_not_stand_out() -> None:
    rows = [row(n, n, "text") for n in range(1, 30)]
    level_with_all = ranking(rows, [], [(n, 0.5) for n in range(1, 30)])
    alone = ranking(rows, [], [(1, 0.8), *((n, 0.2) for n in range(2, 30))])
    assert (await signs_of(MemoryIndexStore(), asked("x"), level_with_all, [1])).nearness == 0.0
    assert (await signs_of(MemoryIndexStore(), asked("x"), alone, [1])).nearness == pytest.approx(0.75)


def test_every_quote_of_the_labelled_questions_is_still_on_its_page_of_the_handbook() -> None:
    """Who rewrites a page moves its label too: `tests/benchmarks/questions/kb.jsonl` names it."""
    assert wrong(load("kb"), ROOT / "kb") == []


async def test_scent_is_right_about_the_handbook(tmp_path: Path) -> None:
    """Nine in ten that are called sufficient are, four in five without an answer are doubted."""
    judged = await collect({"kb": ROOT / "kb"}, tmp_path)
    enough = [one for one in judged if level(one) == "sufficient"]
    without = [one for one in judged if not one.asked.answerable]
    found = [one for one in judged if one.right]
    assert sum(one.right for one in enough) >= 0.8 * len(enough)  # of some fifteen; the handbook changes under them
    assert sum(level(one) != "sufficient" for one in without) >= 0.9 * len(without)
    assert sum(level(one) == "sufficient" for one in found) >= 0.15 * len(found)
    assert len(found) >= 0.65 * sum(one.asked.answerable for one in judged)
