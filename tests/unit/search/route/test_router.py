"""The router with a real embedder and a real index: examples, a team's own, existing places, and its accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.static import StaticEmbedder
from knowledge.search.answers import ROUTE_MODES, RouteMode
from knowledge.search.route.examples import LONGEST_EXAMPLE, MOST_TEAM_EXAMPLES, plain, shipped_examples, team_examples
from knowledge.search.route.router import Router, _reason
from knowledge.state.ports import DocumentRecord, IndexIdentity, NameMatch, Replace, Stamp
from tests.benchmarks.routing.questions import questions
from tests.benchmarks.routing.report import accuracy, judged
from tests.support.index.memory_embedder import MemoryEmbedder
from tests.support.state.memory.index import MemoryIndexStore


def record(path: str, title: str, *, revision: str = "r1") -> DocumentRecord:
    return DocumentRecord(
        path=path,
        title=title,
        summary="",
        kind="document",
        source="user",
        language="en",
        tags=(),
        aliases=(),
        sections=(),
        untrusted=False,
        revision=revision,
        stamp=Stamp(1, 1, 1),
        tokens=1,
        indexed_at_ns=1,
    )


async def index_of(*records: DocumentRecord) -> MemoryIndexStore:
    index = MemoryIndexStore()
    await index.begin(IndexIdentity("test", 4, 1))
    await index.apply([Replace(each, ()) for each in records], fence=1)
    return index


class FrontMatter:
    """The root page's front matter, and how often it was read."""

    def __init__(self, metadata: Mapping[str, object]) -> None:
        self.metadata, self.asked = metadata, 0

    async def __call__(self) -> Mapping[str, object]:
        self.asked += 1
        return self.metadata


class AwayEmbedder(MemoryEmbedder):
    """An embedder that doesn't answer until it is released."""

    away = True

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.away:
            raise EmbedderUnavailable("test", "it is away")
        return await super().embed(texts)


async def test_on_questions_it_never_saw_it_is_right_93_times_of_100() -> None:
    """The promise of the router's first version; half of the trivial rule's errors must be gone as well."""
    test = await judged("test")
    before = sum(each.trivial != each.asked.label for each in test)
    assert accuracy(each.right for each in test) >= 0.93
    assert sum(not each.right for each in test) <= before / 2


async def test_what_it_is_sure_of_is_so() -> None:
    sure = [each for each in await judged("tune") if each.taken.confidence >= 0.9]
    assert len(sure) > 100
    assert accuracy(each.right for each in sure) >= 0.95


def test_labelled_questions_are_many_of_both_kinds_and_not_among_the_shipped_examples() -> None:
    asked = questions()
    kinds = [each.label for each in asked]
    assert len(asked) >= 360
    assert 0.35 <= kinds.count("navigation") / len(kinds) <= 0.65
    assert sum(each.source.startswith("template") for each in asked) <= len(asked) / 5
    assert len({each.id for each in asked}) == len({plain(each.query) for each in asked}) == len(asked)
    assert {plain(each.query) for each in asked}.isdisjoint(plain(each.query) for each in shipped_examples())


async def test_a_name_that_exists_is_a_place_and_a_mode_that_is_asked_for_is_kept() -> None:
    router = Router(await index_of())
    named = [NameMatch(1, "ops/rate-limiting.md", None, "title")]
    assert (await router.route("rate limiting", "auto", named=named, vector=None)).mode == "navigation"
    assert (await router.route("rate limiting", "auto", named=(), vector=None)).mode == "discovery"
    forced = await router.route("rate limiting", "discovery", named=named, vector=None)
    assert (forced.mode, forced.confidence) == ("discovery", 1.0)


async def test_a_directory_or_page_that_is_named_inside_the_question_is_a_place() -> None:
    router = Router(await index_of(record("decisions/0001.md", "Queue or table"), record("a.md", "Travel expenses")))
    directory = await router.route("anything in the decisions folder", "auto", named=(), vector=None)
    page = await router.route("an overview of travel expenses", "auto", named=(), vector=None)
    assert (directory.mode, directory.reason) == ("navigation", "`decisions` is a place here")
    assert (page.mode, page.reason) == ("navigation", "`travel expenses` is a place here")


async def test_the_words_of_a_name_describe_no_problem() -> None:
    router = Router(await index_of(record("reference/errors/a.md", "A"), record("e.md", "Error reference")))
    for query in ("what's in reference/errors", "list reference/errors", "open the error reference"):
        assert (await router.route(query, "auto", named=(), vector=None)).mode == "navigation", query
    for query in ("error in reference/errors", "why does the error reference fail"):
        assert (await router.route(query, "auto", named=(), vector=None)).mode == "discovery", query


async def test_a_question_how_about_an_existing_place_stays_a_question_how() -> None:
    router = Router(await index_of(record("decisions/0001.md", "Queue or table")))
    assert (await router.route("how are votes counted in decisions", "auto", named=(), vector=None)).mode == "discovery"


async def test_a_teams_example_wins_over_rules_names_and_shipped_examples() -> None:
    says = FrontMatter({"router": {"discovery": ["Where is the catch?"], "navigation": ["why we exist"]}})
    router = Router(await index_of(record("_index.md", "Home")), says)
    named = [NameMatch(1, "a.md", None, "title")]
    assert (await router.route("where is the catch", "auto", named=named, vector=None)).mode == "discovery"
    assert (await router.route("¿Why we  exist?", "auto", named=(), vector=None)).mode == "navigation"


async def test_a_question_very_near_to_a_teams_example_is_taken_as_that() -> None:
    embedder = StaticEmbedder()
    says = FrontMatter({"router": {"navigation": ["weekly numbers of the sales department"]}})
    router = Router(await index_of(record("_index.md", "Home")), says)
    query = "the weekly numbers of our sales department"
    await router.route(query, "auto", named=(), vector=None)
    await router.prepare(embedder)
    taken = await router.route(query, "auto", named=(), vector=(await embedder.embed([query]))[0])
    assert taken.mode == "navigation"
    assert "weekly numbers of the sales department" in taken.reason


async def test_a_teams_examples_take_effect_when_the_page_is_indexed_anew_and_cost_nothing_before() -> None:
    index = await index_of(record("_index.md", "Home"))
    says = FrontMatter({})
    router = Router(index, says)
    assert (await router.route("blue sky", "auto", named=(), vector=None)).mode == "discovery"
    says.metadata = {"router": {"navigation": "Blue Sky"}}
    assert (await router.route("blue sky", "auto", named=(), vector=None)).mode == "discovery"
    assert says.asked == 1
    await index.apply([Replace(record("_index.md", "Home", revision="r2"), ())], fence=1)
    assert (await router.route("blue sky", "auto", named=(), vector=None)).mode == "navigation"
    await index.apply([Replace(record("other.md", "Other"), ())], fence=1)
    await router.route("blue sky", "auto", named=(), vector=None)
    assert says.asked == 2


def test_bad_front_matter_is_left_out_and_named_and_the_rest_counts() -> None:
    found = team_examples(
        {
            "router": {
                "navigation": ["ok", 7, "", "x" * (LONGEST_EXAMPLE + 1), "both ways", None],
                "discovery": ["Both ways?", ["nested"]],
                "teleport": ["no"],
            }
        }
    )
    assert [(example.query, example.mode) for example in found.examples] == [("ok", "navigation")]
    assert len(found.problems) == 7
    assert not any("xxxx" in problem for problem in found.problems)


def test_front_matter_that_is_no_mapping_gives_no_examples_and_a_sentence() -> None:
    assert team_examples({}).problems == ()
    for wrong in ("navigation", ["a"], 3, True):
        found = team_examples({"router": wrong})
        assert not found.examples
        assert len(found.problems) == 1


def test_a_team_cannot_make_every_search_slow() -> None:
    found = team_examples({"router": {"navigation": [f"question {n}" for n in range(MOST_TEAM_EXAMPLES + 5)]}})
    assert len(found.examples) == MOST_TEAM_EXAMPLES
    assert len(found.problems) == 1


async def test_without_an_embedder_or_with_the_vector_of_another_one_the_wording_decides() -> None:
    embedder = AwayEmbedder()
    router = Router(await index_of())
    await router.prepare(embedder)
    by_wording = await router.route("Docs List", "auto", named=(), vector=np.full(64, 0.125, np.float32))
    embedder.away = False
    for _ in range(70):
        await router.prepare(embedder)
    foreign = await router.route("Docs List", "auto", named=(), vector=np.ones(3, np.float32))
    assert by_wording == foreign
    assert by_wording.mode == "navigation"


async def test_no_example_is_sent_to_an_endpoint() -> None:
    class Endpoint(MemoryEmbedder):
        name = "endpoint:words/1"

        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            raise AssertionError(texts)

    changed, fresh = Router(await index_of()), Router(await index_of())
    before = MemoryEmbedder()
    await changed.prepare(before)
    for router in (changed, fresh):
        await router.prepare(Endpoint())
    (vector,) = await before.embed(["where is the onboarding guide"])
    taken = [
        await router.route("the guide of onboarding", "auto", named=(), vector=vector) for router in (changed, fresh)
    ]
    assert taken[0] == taken[1], "an earlier embedder's examples are still compared"


@pytest.mark.parametrize("mode", ROUTE_MODES)
async def test_what_the_caller_asks_for_is_what_it_gets(mode: RouteMode) -> None:
    taken = await Router(MemoryIndexStore()).route("where is it", mode, named=(), vector=None)
    assert (taken.mode, taken.confidence, taken.reason) == (mode, 1.0, "`mode` was set")


def test_a_reason_does_not_say_one_sign_twice() -> None:
    shares = {"names a kind of place": 1.2, "names a kind of place and no problem": 2.3, "bias": -0.5}
    assert _reason(shares, "navigation") == "it names a kind of place and no problem"
    assert (
        _reason({"asks how": -1.8, "neighbours": -0.9}, "discovery")
        == "it asks how, and it resembles questions about ideas"
    )
