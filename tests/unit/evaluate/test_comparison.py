from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import count

import pytest

from knowledge.errors import NoSuchPath
from knowledge.evaluate.compare import compare, measured_from
from knowledge.evaluate.queries import LabelledQuery, Relevant
from knowledge.evaluate.run import Measured, SearchUnderTest, run, summarise, unresolved
from knowledge.search.answers import Hit, IndexCoverage, PageLine, PageReading, QuestionRoute, Scent, SearchAnswer

PAGE = "# Deploy\n\nA long story.\n\n## Rolling back\n\nSwitch the router to the previous colour.\n"
ANSWER = LabelledQuery("q1", "roll back", (Relevant("deploy.md", "Rolling back", quote="previous colour"),), line=4)
NOTHING = LabelledQuery("q2", "moon", ())


def hit(section: str, snippet: str, lines: tuple[int, int], path: str = "deploy.md") -> Hit:
    first, last = lines
    return Hit(
        path=path,
        section=section,
        title="Deploy",
        snippet=snippet,
        score=1.0,
        line_start=first,
        line_end=last,
        revision="r",
        modified="2026-03-02T09:14:00Z",
        source="user",
        authority=0.8,
        tainted=False,
    )


STORY = hit("Deploy", "A long story.", (1, 3))
BACK = hit("Deploy > Rolling back", "...", (5, 7))
SHOWN = replace(BACK, snippet="Switch the router to the previous colour.")


def finding(hits: Sequence[Hit], level: str = "partial", pages: Sequence[PageLine] = ()) -> SearchUnderTest:
    """A knowledge base that returns `hits` for every query; each answer is 40 characters long, each read 400."""
    ticks = count()

    async def search(_query: LabelledQuery, limit: int, cursor: str | None) -> SearchAnswer:
        at = int(cursor or 0)
        return SearchAnswer(
            pages=pages if not at else (),
            hits=hits[at : at + limit],
            route=QuestionRoute("navigation" if pages else "discovery", 1.0, ""),
            scent=Scent(level, "", ""),  # type: ignore[arg-type]  # the levels are given as text here
            nudge=None,
            next_cursor=str(at + limit) if at + limit < len(hits) else None,
            indexed=IndexCoverage(1, 1),
            corrected=None,
        )

    async def read(path: str, section: str | None, offset: int) -> PageReading:
        if path != "deploy.md":
            raise NoSuchPath(path)
        text = PAGE.partition("## ")[2] if section and "back" in section else PAGE.partition("## ")[0]
        return PageReading(path, "Deploy", "r", {}, (), text[offset:], None, "user", 0.8, tainted=False, note=None)

    async def whole(path: str) -> str:
        if path != "deploy.md":
            raise NoSuchPath(path)
        return PAGE

    def sent(result: SearchAnswer | PageReading) -> str:
        return "x" * (40 if isinstance(result, SearchAnswer) else 400)

    return SearchUnderTest(search, read, whole, lambda: next(ticks) / 100, sent)


async def test_tokens_are_counted_until_the_answer_is_seen() -> None:
    """10 tokens a search, 100 a read: an answer in a snippet costs no read, one at the second hit costs two."""
    [at_once] = await run([ANSWER], finding([STORY, SHOWN]), limit=8)
    assert (at_once.tokens, at_once.calls, at_once.reached, at_once.in_snippets) == (10, 1, True, True)
    [later] = await run([ANSWER], finding([STORY, BACK]), limit=8)
    assert (later.tokens, later.calls, later.reached, later.in_snippets, later.in_hits) == (210, 3, True, False, True)
    [never] = await run([ANSWER], finding([STORY, BACK]), limit=1)
    assert (never.tokens, never.reached, never.in_hits) == (110, False, False)


async def test_the_ranking_is_measured_deeper_than_shown() -> None:
    [measured] = await run([ANSWER], finding([STORY, BACK]), limit=1)
    assert measured.reciprocal_rank == 1 / 2
    assert measured.recall == 1
    assert measured.top == ("deploy.md > Deploy", "* deploy.md > Deploy > Rolling back")
    assert measured.latency_ms == pytest.approx(10)


async def test_pages_that_an_answer_names_first_are_found_where_whole_pages_are_judged() -> None:
    named = [PageLine("deploy.md", "document", "Deploy: how we do it"), PageLine("notes", "directory", "Notes")]
    other = hit("Other", "...", (1, 1), path="other.md")
    [by_page] = await run([replace(ANSWER, relevant=(Relevant("deploy.md"),))], finding([other], pages=named), limit=8)
    assert by_page.reciprocal_rank == 1
    [by_section] = await run([ANSWER], finding([other, BACK], pages=named), limit=8)
    assert by_section.reciprocal_rank == 1 / 2


async def test_a_place_without_a_quote_is_reached_when_it_is_read() -> None:
    query = LabelledQuery("q", "roll back", (Relevant("deploy.md", "Rolling back"),))
    [measured] = await run([query], finding([STORY, SHOWN]), limit=8)
    assert (measured.reached, measured.in_snippets, measured.in_hits, measured.calls) == (True, False, True, 3)


async def test_a_summary_holds_scent_against_the_truth_and_leaves_unanswerable_ones_out_of_the_averages() -> None:
    sure = await run([ANSWER, NOTHING], finding([SHOWN], "sufficient"), limit=8)
    doubted = await run([ANSWER, NOTHING], finding([STORY], "lost"), limit=8)
    summary = summarise([*sure, *doubted])
    assert (summary.queries, summary.answerable) == (4, 2)
    assert summary.ndcg.mean == summary.reached.mean == 0.5
    assert summary.scents == {"sufficient": (1, 0, 1), "partial": (0, 0, 0), "lost": (0, 1, 1)}
    assert summary.sufficient_right == summary.none_doubted == 0.5
    assert summary.tokens_mean == 10
    assert summary.routes == {"navigation": 0, "discovery": 4}
    assert summarise(doubted).sufficient_right is None


async def test_judged_places_that_do_not_exist_are_reported() -> None:
    away = LabelledQuery("q3", "x", (Relevant("gone.md"),), line=9)
    other = LabelledQuery("q4", "x", (Relevant("deploy.md", quote="the next colour"),), line=10)
    found = await unresolved([ANSWER, NOTHING, away, other], finding([]))
    assert [sentence.partition(":")[0] for sentence in found] == ["line 9, query q3", "line 10, query q4"]
    assert "does not say 'the next colour'" in found[1]


def measured(key: str, ndcg: float, *, answerable: bool = True) -> Measured:
    return Measured(
        key,
        key,
        answerable,
        ndcg,
        1.0,
        1.0,
        in_hits=True,
        in_snippets=True,
        reached=True,
        tokens=100,
        calls=1,
        latency_ms=2.0,
        scent="partial",
        route="discovery",
        top=("* a.md",),
    )


def test_two_runs_are_compared_query_by_query() -> None:
    before = [measured("a", 0.5), measured("b", 0.5), measured("c", 0.9), measured("x", 0.0, answerable=False)]
    after = [measured("c", 0.2), measured("b", 1.0), measured("a", 0.6), measured("new", 1.0)]
    found = compare(before, after)
    assert found.compared == 3
    assert [(one.id, one.after) for one in found.better] == [("b", 1.0), ("a", 0.6)]
    assert [one.id for one in found.worse] == ["c"]
    assert found.differences["ndcg"].mean == pytest.approx((0.1 + 0.5 - 0.7) / 3)
    assert found.differences["recall"].mean == found.differences["tokens"].mean == 0
    assert (found.only_before, found.only_after) == (["x"], ["new"])


def test_only_a_printed_run_is_read_back() -> None:
    one = measured("a", 0.5)
    printed = {**asdict(one), "top": list(one.top)}
    assert measured_from([printed]) == [one]
    for wrong in ([], "text", [{"id": "a"}], [{**printed, "ndcg": "high"}], [{**printed, "top": "x"}]):
        with pytest.raises(ValueError, match=r"queries|fields|of a query"):
            measured_from(wrong)
