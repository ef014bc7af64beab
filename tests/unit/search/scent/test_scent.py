"""Scent: the signs of an answer, its level, and whether the next step can be taken."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.index.ports import QueryTerm, Scored
from knowledge.search.query.analysis import stem, words
from knowledge.search.query.asked_words import AskedWord
from knowledge.search.query.question import SearchQuestion
from knowledge.search.ranking.ranker import Ranking
from knowledge.search.scent.ranking_signs import RankingSigns
from knowledge.search.scent.signs import ScentSigns
from knowledge.search.scent.verdict import (
    LONGEST_STEP,
    LOST_BELOW,
    SUFFICIENT_FROM,
    WEIGHTS,
    ShownChunk,
    chance,
    judge,
    level_of,
    page_scores,
    score_of,
)
from knowledge.state.ports import ChunkRow
from tests.benchmarks.processes import ROOT
from tests.benchmarks.question_set import load, wrong
from tests.benchmarks.scent import collect, level

GOOD = ScentSigns(1.0, 1.0, 0.8, lead=0.4, gap=0.6, title=0.4, words=5)
POOR = ScentSigns(0.1, unknown=0.5, words=2, missing=("undelete",))
MIDDLING = ScentSigns(0.7, 0.6, 0.2, lead=0.1, gap=0.4, title=0.2, words=3, asked="rotate keys")
PLACES = [
    ShownChunk("ops/keys.md", "Keys > Rotate them"),
    ShownChunk("ops/vault.md", "Vault"),
    ShownChunk("team.md", ""),
]
LEVELS = ("lost", "partial", "sufficient")
shares = st.floats(0, 1)
signs = st.builds(
    ScentSigns,
    *[shares] * 7,
    st.integers(0, 60),
    exact=st.booleans(),
    is_section=st.booleans(),
    asked=st.text(),
)
names = st.text("ab é'\"-_.;)", min_size=1, max_size=40)
places = st.builds(
    ShownChunk,
    st.lists(names, min_size=1, max_size=4).map(lambda parts: "/".join(parts) + ".md"),
    st.lists(names, max_size=5).map(" > ".join),
    st.booleans(),
)


def signs_of(question: SearchQuestion, ranking: Ranking, shown: Sequence[int]) -> ScentSigns:
    return RankingSigns(question, ranking).showing(shown)


def told(found: ScentSigns, at: list[ShownChunk], *, directory: str = "") -> tuple[str, str]:
    scent = judge(found, at, indexed=True, directory=directory)
    return scent.level, scent.next


def test_nothing_found_is_lost_and_the_map_is_next() -> None:
    assert told(POOR, [], directory="guides") == ("lost", "kb_map('guides')")


def test_nothing_found_while_indexing_goes_on_is_not_lost_and_says_to_ask_again() -> None:
    """The page that answers may be one of those that are not indexed yet."""
    scent = judge(POOR, [], indexed=False, directory="")
    assert scent.level == "partial"
    assert "ask again" in scent.reason


def test_an_answer_that_filters_left_empty_says_that_they_did() -> None:
    scent = judge(POOR, [], indexed=True, directory="", filtered_out=True)
    assert (scent.level, scent.reason) == ("lost", "no page passes the filters")


def test_an_exact_name_suffices_whatever_else_is_known() -> None:
    assert told(ScentSigns(exact=True), PLACES)[0] == "sufficient"


def test_a_name_that_several_pages_have_is_not_sufficient() -> None:
    shared = ScentSigns(exact=True, sharing=18)
    said = judge(shared, PLACES, indexed=True, directory="")
    assert (said.level, said.reason) == ("partial", "18 pages or sections have this name")
    assert score_of(shared) == LOST_BELOW < score_of(replace(shared, sharing=2)) < score_of(replace(shared, sharing=1))


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


def test_a_lost_question_is_sent_to_the_directory_of_most_of_the_first_pages_and_told_its_words() -> None:
    at = [
        ShownChunk("team/a.md", ""),
        ShownChunk("ops/keys.md", "Rotate keys with care > Choice", title="Rotate keys with care"),
        ShownChunk("ops/keys.md", "Rotate keys with care", title="Rotate keys with care"),
        ShownChunk("ops/access/doors.md", "Doors", title="Doors"),
        ShownChunk("team/b.md", ""),
        ShownChunk("ops/vault.md", "Choice", title="The vault"),
    ]
    # Not with its own word, nor with a heading that every page may have.
    assert told(replace(POOR, asked="rotate keys"), at) == (
        "lost",
        "kb_map('ops') (its pages are about care, doors, vault)",
    )


def test_a_lost_question_whose_first_pages_have_no_directory_in_common_is_sent_to_the_whole_map() -> None:
    at = [ShownChunk(path, "") for path in ("ops/keys.md", "team/a.md", "home/b.md")]
    assert told(POOR, at) == ("lost", "kb_map('')")
    assert told(POOR, at[:1]) == ("lost", "kb_map('ops')")


def test_a_page_that_both_engines_rank_first_and_that_has_most_words_is_not_lost() -> None:
    signs = replace(POOR, coverage=0.6, agreement=1.0, by_both=True)
    assert level_of(signs) == "partial"
    assert level_of(replace(signs, agreement=0.5)) == "lost"


def test_words_that_nothing_has_are_named_in_the_reason() -> None:
    """A model should say that nothing was found instead of combining fragments."""
    assert "'undelete'" in judge(POOR, PLACES, indexed=True, directory="").reason


def test_a_long_heading_path_is_cut_from_the_front_so_that_the_call_stays_short() -> None:
    deep = ShownChunk("a.md", " > ".join(f"{'x' * 40} {n}" for n in range(5)))
    level_, step = told(GOOD, [deep])
    assert level_ == "sufficient"
    assert len(step) <= LONGEST_STEP
    assert deep.section.endswith(ast.literal_eval(step.partition("section=")[2].rstrip(")")))


def test_a_word_that_no_page_has_makes_a_good_answer_doubtful() -> None:
    """A terraform module for a network that no page covers is near all pages on terraform modules."""
    assert told(replace(GOOD, coverage=0.4, unknown=0.6, pairs=0.4, gap=0.4), PLACES)[0] == "partial"


def test_while_pages_are_missing_from_the_index_only_a_name_suffices() -> None:
    for found in (GOOD, POOR):
        scent = judge(found, PLACES, indexed=False, directory="")
        assert scent.level == "partial"
        assert "indexing is not finished" in scent.reason
    assert judge(ScentSigns(exact=True), PLACES, indexed=False, directory="").level == "sufficient"


def test_the_only_word_of_a_question_says_less_than_four_of_them() -> None:
    assert chance(replace(GOOD, words=1)) < chance(replace(GOOD, words=4)) == chance(replace(GOOD, words=40))


def test_a_question_in_own_words_need_not_have_all_of_them_on_the_page() -> None:
    assert chance(replace(GOOD, coverage=0.3)) < chance(replace(GOOD, coverage=0.7)) == chance(GOOD)


def test_a_section_aside_from_its_pages_subject_with_a_few_scattered_words_is_not_sufficient() -> None:
    """`Balance load by least connections` has five words on a page about websockets, and no answer there."""
    aside = ScentSigns(0.8, 1.0, 0.3, lead=0.6, gap=0.7, words=4, is_section=True)
    assert told(aside, PLACES)[0] == "partial"
    for more in ({"coverage": 0.9}, {"pairs": 0.5}, {"title": 0.3}, {"is_section": False}):
        assert told(replace(aside, **more), PLACES)[0] == "sufficient", more


@given(signs, signs)
def test_better_signs_never_lower_the_level(one: ScentSigns, other: ScentSigns) -> None:
    best = {name: max(getattr(one, name), getattr(other, name)) for name, weight in WEIGHTS.items() if weight > 0}
    better = replace(
        one,
        **best,
        unknown=min(one.unknown, other.unknown),
        words=max(one.words, other.words),
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


def row(seq: int, doc: int, text: str, language: str = "en", title: str = "") -> ChunkRow:
    return ChunkRow(seq, doc, 0, (), 1, 2, text, f"{doc}.md", title, "", "user", False, language, 0)  # noqa: FBT003 - a row as it is stored


def asked(*terms: str) -> SearchQuestion:
    found = tuple(QueryTerm(term, ((term, 1.0),)) for term in terms)
    words_of_it = tuple(AskedWord(term, (term,)) for term in terms)
    return SearchQuestion(terms, found, " ".join(terms), None, asked=words_of_it)


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


def test_words_are_counted_for_a_page_and_not_for_its_best_chunk() -> None:
    """A page with one part of the answer in one section and the other in the next answers both."""
    found = ranking([row(1, 1, "rotate it"), row(2, 2, "other"), row(3, 1, "the keys")], [1], [(1, 0.9)])
    assert signs_of(asked("rotat", "key"), found, [1, 2, 3]).coverage == 1.0
    apart = ranking([row(1, 1, "rotate it"), row(3, 2, "the keys")], [1], [(1, 0.9)])
    assert signs_of(asked("rotat", "key"), apart, [1, 3]).coverage == 0.5


def test_a_word_that_no_shown_chunk_has_is_missing() -> None:
    found = ranking([row(1, 1, "rotate it")], [1], [(1, 0.9)])
    assert signs_of(asked("rotat", "keys"), found, [1]).missing == ("keys",)


def test_a_similar_word_is_not_the_word_that_was_asked_for() -> None:
    """`storyblok` is searched for `storybook`, which no page has, and may be another thing."""
    found = ranking([row(1, 1, "the storyblok editor", title="Storyblok")], [1], [(1, 0.9)])
    terms = (QueryTerm("storybook", (("storybook", 1.0), ("storyblok", 0.7))), QueryTerm("editor", (("editor", 1.0),)))
    question = replace(asked("storybook", "editor"), terms=terms, known={"editor": 1})
    doubted = replace(question, doubtful={"storybook": ["storyblok"]})
    signs = signs_of(doubted, found, [1])
    assert signs.coverage < signs_of(question, found, [1]).coverage < 1.0
    assert (signs.title, signs.missing, signs.similar) == (0.0, ("storybook",), ("storyblok",))
    said = judge(signs, PLACES, indexed=True, directory="").reason
    assert "no hit has 'storybook'; similar words were searched: 'storyblok'" in said


def test_a_compound_counts_as_one_word() -> None:
    found = ranking([row(1, 1, "We host it on GitHub.")], [1], [(1, 0.9)])
    question = replace(asked("github", "git", "hub"), asked=(AskedWord("GitHub", ("github", "git", "hub")),))
    signs = signs_of(question, found, [1])
    assert (signs.coverage, signs.missing) == (1.0, ())


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("Call `model_dump`. A CSV file is read line by line.", False),
        ("The error is `model dump csv`.", True),
        ("Use `modelDumpCsv()`.", True),
    ],
)
def test_an_identifier_that_no_page_has_is_not_on_a_page_with_its_parts_here_and_there(text: str, *, has: bool) -> None:
    """`model_dump_csv` was `sufficient` over a page on CSV files: "one page has all the words asked for"."""
    terms = ("model_dump_csv", "model", "dump", "csv")
    question = replace(asked(*terms), asked=(AskedWord("model_dump_csv", terms),), known=dict.fromkeys(terms[1:], 1))
    signs = signs_of(question, ranking([row(1, 1, text)], [1], [(1, 0.9)]), [1])
    assert (signs.coverage == 1.0, signs.missing, signs.unknown) == (
        (True, (), 0.0) if has else (False, ("model_dump_csv",), 1.0)
    )
    assert has or (signs.words == 1 and level_of(replace(signs, lead=1.0, gap=1.0, title=1.0)) != "sufficient")


@pytest.mark.parametrize("text", ["# API\n\n::: pydantic.dataclasses", "", "See [it](it.md)", "## Only\n## headings"])
def test_a_page_that_says_nothing_is_not_sufficient(text: str) -> None:
    signs = signs_of(asked("api"), ranking([row(1, 1, text, title="API")], [1], [(1, 0.9)]), [1])
    assert signs.is_stub
    assert level_of(replace(GOOD, is_stub=True)) == "partial"
    for said in ("Tokens expire after an hour.", "鍵は毎月回します"):
        assert not signs_of(asked("api"), ranking([row(1, 1, said)], [1], [(1, 0.9)]), [1]).is_stub


def test_a_page_that_lacks_a_number_of_the_question_is_not_sufficient() -> None:
    question = asked("release", "captain", "28")
    signs = signs_of(question, ranking([row(1, 1, "The release captain of 27.")], [1], [(1, 0.9)]), [1])
    assert signs.lacks_distinct_word
    assert not signs_of(
        question, ranking([row(1, 1, "Release captain: 28.")], [1], [(1, 0.9)]), [1]
    ).lacks_distinct_word
    assert level_of(GOOD) == "sufficient" != level_of(replace(GOOD, lacks_distinct_word=True))


def test_a_page_that_another_is_level_with_by_words_is_not_sufficient() -> None:
    assert level_of(replace(GOOD, lead=0.01)) == "partial"
    assert level_of(replace(GOOD, lead=0.01, by_both=False)) == "sufficient", "without scores by words it is not known"


def test_a_title_that_many_pages_have_counts_less() -> None:
    rows = [row(n, n, "weekly text", title="Weekly meeting") for n in range(1, 5)]
    alone = signs_of(asked("weekly"), ranking(rows[:1], [1], [(1, 0.9)]), [1])
    assert signs_of(asked("weekly"), ranking(rows, [1], [(1, 0.9)]), [1]).title == alone.title / 4


def test_a_page_named_as_a_word_that_is_similar_to_the_only_one_is_not_lost() -> None:
    found = ranking([row(1, 1, "A guest car.", title="Gastfahrzeug")], [1], [(1, 0.9)])
    terms = (QueryTerm("gastfahrzeuk", (("gastfahrzeuk", 1.0), ("gastfahrzeug", 0.9))),)
    question = replace(asked("gastfahrzeuk"), terms=terms, doubtful={"gastfahrzeuk": ["gastfahrzeug"]})
    assert level_of(signs_of(question, found, [1])) == "partial"
    elsewhere = ranking([row(1, 1, "A guest car is a Gastfahrzeug.", title="Cars")], [1], [(1, 0.9)])
    assert level_of(signs_of(question, elsewhere, [1])) == "lost"


def test_a_page_with_the_only_word_of_a_question_may_be_about_anything() -> None:
    one = ScentSigns(1.0, 1.0, 0.5, lead=1.0, gap=1.0, words=1)
    assert level_of(one) == "partial"
    assert level_of(replace(one, title=1.0)) == "sufficient"


@pytest.mark.parametrize(
    ("language", "word", "text"),
    [
        ("de", "schlüssel", "Die Schlüssel rotieren"),
        ("ru", "ключ", "Где ключи"),
        ("ja", "鍵", "鍵を回す"),
        ("en", "key", "“Keys”"),
    ],
)
def test_words_with_accents_and_in_other_scripts_are_seen(language: str, word: str, text: str) -> None:
    term = stem(words(word)[0], language)
    found = ranking([row(1, 1, text, language)], [1], [])
    assert signs_of(asked(term), found, [1]).coverage == 1.0


def test_without_one_engine_the_other_is_believed_half() -> None:
    """With its keyword engine away, an answer looks neither worse than without any engine nor as good as with two."""
    rows = [row(1, 1, "rotate it"), row(2, 2, "other")]
    both = ranking(rows, [1, 2], [(1, 0.9), (2, 0.1)])
    assert signs_of(asked("rotat"), both, [1]).agreement == 1.0
    assert signs_of(asked("rotat"), ranking(rows, [1, 2], []), [1]).agreement == 0.5
    assert signs_of(asked("rotat"), ranking(rows, [], [(1, 0.9)]), [1]).agreement == 0.5


def test_distances_by_words_are_those_of_the_first_page_to_the_next_and_of_the_best_to_the_sixth() -> None:
    rows = [row(n, n, "text") for n in range(1, 9)]
    found = replace(ranking(rows, [], []), keyword=[Scored(n, n, 10.0 - n) for n in range(1, 9)])
    signs = signs_of(asked("x"), found, [1])
    assert (signs.lead, signs.gap) == pytest.approx((1 / 9, 5 / 9))
    without = replace(found, keyword=[])
    signs = signs_of(asked("x"), without, [1])
    assert (signs.lead, signs.gap) == (0.0, 0.0)


def test_the_next_sections_of_a_page_do_not_speak_against_it() -> None:
    """In a manual, the page that answers often has the best passages of all: they are one answer and not rivals."""
    rows = [row(n, 1, "text") for n in range(1, 7)] + [row(7, 2, "text")]
    hits = [*(Scored(n, 1, 10.0 - n / 10) for n in range(1, 7)), Scored(7, 2, 4.0)]
    found = replace(ranking(rows, [], [(2, 0.9)]), keyword=hits, vectors=[Scored(2, 1, 0.9), Scored(7, 2, 0.5)])
    signs = signs_of(asked("x"), found, [1])
    assert (signs.lead, signs.gap) == pytest.approx((5.9 / 9.9, 5.9 / 9.9))
    assert signs.agreement == 1.0  # of the page, though another chunk of it is nearer in meaning


def test_a_first_page_that_another_is_above_by_words_has_no_lead() -> None:
    rows = [row(1, 1, "text"), row(2, 2, "text")]
    found = replace(ranking(rows, [], []), keyword=[Scored(2, 2, 9.0), Scored(1, 1, 3.0)])
    assert signs_of(asked("x"), found, [1]).lead == 0.0


def test_in_a_search_of_a_single_page_that_nothing_else_comes_near_says_nothing() -> None:
    """`path` can name one page: then every question would have a lead of 1."""
    found = ranking([row(1, 1, "text"), row(2, 1, "text")], [1, 2], [(1, 0.9)])
    assert signs_of(asked("x"), found, [1]).lead == 0.0


def test_a_page_whose_title_has_the_words_that_are_asked_for_is_likelier_to_answer() -> None:
    def title(name: str) -> float:
        rows = [row(1, 1, "text", title=name), row(2, 2, "other")]
        return signs_of(asked("rotat", "key"), ranking(rows, [1, 2], [(1, 0.9)]), [1]).title

    assert title("Rotating the keys") == pytest.approx(1.0)
    assert title("Keys") == pytest.approx(2 / 3)  # it has half of the question's words
    assert title("Keys, locks and doors of old houses") < title("Keys")
    assert title("Houses") == title("") == 0.0
    assert chance(replace(GOOD, title=0.0)) < chance(GOOD)


@given(signs, st.lists(st.tuples(st.integers(1, 6), shares), min_size=1, max_size=12), st.data())
def test_no_page_has_a_higher_score_than_one_before_it(
    found: ScentSigns, chunks: list[tuple[int, float]], data: st.DataObject
) -> None:
    """A score is a probability, and ranking is the better judge of order: it saw more signs than the scores have."""
    rows = [row(seq, doc, "text") for seq, (doc, _) in enumerate(chunks, 1)]
    listed = data.draw(st.permutations([r.seq for r in rows]))
    scores = {seq: score for seq, (_, score) in enumerate(chunks, 1)}
    given_ = replace(ranking(rows, listed[:3], [(seq, 0.5) for seq in listed[2:]]), scores=scores)
    said = page_scores(found, given_)
    assert list(said) == list(dict.fromkeys(doc for doc, _ in chunks))
    assert list(said.values()) == sorted(said.values(), reverse=True)
    assert next(iter(said.values())) == score_of(found)
    assert all(0 <= score < 1 for score in said.values())


@given(signs)
def test_the_level_is_the_score_in_words(found: ScentSigns) -> None:
    score, level_ = score_of(found), level_of(found)
    assert (level_ == "sufficient") == (score >= SUFFICIENT_FROM)
    assert (level_ == "lost") == (score < LOST_BELOW)


async def test_a_page_that_both_engines_rank_high_is_likelier_than_one_that_is_far_behind() -> None:
    rows = [row(1, 1, "a"), row(2, 2, "b"), row(3, 3, "c")]
    found = replace(ranking(rows, [1, 2], [(1, 0.9), (2, 0.8), (3, 0.1)]), scores={1: 0.99, 2: 0.95, 3: 0.2})
    said = page_scores(GOOD, found)
    assert said[1] == score_of(GOOD) > said[2] > 3 * said[3]


async def test_a_continued_answer_is_judged_by_its_own_first_page() -> None:
    scent = judge(GOOD, PLACES, indexed=True, directory="", continued=0.05)
    assert scent.level == "lost"
    assert scent.reason.startswith("these are later results")
    assert judge(GOOD, PLACES, indexed=True, directory="", continued=0.95).level == "sufficient"


def test_every_quote_of_the_labelled_questions_is_still_on_its_page_of_the_handbook() -> None:
    """After rewriting a page, update its label: `tests/benchmarks/questions/kb.jsonl` names it."""
    assert wrong(load("kb"), ROOT / "kb") == []


async def test_scent_is_right_about_the_handbook(tmp_path: Path) -> None:
    """Nine in ten answers called sufficient are, four in five unanswerable questions are doubted."""
    judged = await collect({"kb": ROOT / "kb"}, tmp_path)
    enough = [one for one in judged if level(one) == "sufficient"]
    without = [one for one in judged if not one.asked.answerable]
    found = [one for one in judged if one.right]
    assert sum(one.right for one in enough) >= 0.8 * len(
        enough
    )  # of about fifteen, because the handbook keeps changing
    assert sum(level(one) != "sufficient" for one in without) >= 0.9 * len(without)
    assert sum(level(one) == "sufficient" for one in found) >= 0.15 * len(found)
    assert len(found) >= 0.6 * sum(one.asked.answerable for one in judged)
