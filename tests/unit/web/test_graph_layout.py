"""Places of pages in the graph: the same graph gives the same places, and a change leaves pages where they were."""

from __future__ import annotations

import math
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server.web.link_graph.folder_colours import MOST_COLOURS, OTHERS, folder_groups
from mcp_server.web.link_graph.layout import positions
from mcp_server.web.link_graph.layout.communities import communities
from mcp_server.web.link_graph.layout.positions import GraphPlaces, placed
from mcp_server.web.link_graph.layout.sketch import sketched

Edge = tuple[int, int]


def names(count: int) -> list[str]:
    return [f"p{n:04}.md" for n in range(count)]


def villages(count: int, size: int) -> list[Edge]:
    """Return a graph of groups that are linked densely inside, and in a ring by one link each."""
    random = Random(1)  # noqa: S311 - a graph is not a secret
    inside = [
        (n * size + a, n * size + b)
        for n in range(count)
        for a, b in combinations(range(size), 2)
        if random.random() < 0.4
    ]
    return [*inside, *((n * size, (n + 1) % count * size) for n in range(count))]


def away(placement: GraphPlaces, one: str, other: str) -> float:
    return math.dist(placement.places[one], placement.places[other])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    count = draw(st.integers(0, 40))
    page = st.integers(0, max(0, count - 1))
    return count, draw(st.lists(st.tuples(page, page), max_size=80)) if count else []


@given(graphs())
@settings(max_examples=60)
def test_every_page_has_a_place_of_its_own(graph: tuple[int, list[Edge]]) -> None:
    count, edges = graph
    found = placed(names(count), edges).places
    assert list(found) == names(count)
    assert all(map(math.isfinite, (number for place in found.values() for number in place)))
    assert len({(round(x, 1), round(y, 1)) for x, y in found.values()}) == count


@given(graphs(), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_same_links_give_the_same_places_in_any_order(graph: tuple[int, list[Edge]], random: Random) -> None:
    count, edges = graph
    shuffled = random.sample(edges, len(edges))
    assert placed(names(count), sorted(edges)).places == placed(names(count), sorted(shuffled)).places


def test_communities_are_the_groups_that_link_to_each_other() -> None:
    weights: list[dict[int, float]] = [{} for _ in range(24)]
    bridges = [(0, 8), (8, 16), (16, 0)]
    for a, b in [*(pair for n in (0, 8, 16) for pair in combinations(range(n, n + 8), 2)), *bridges]:
        weights[a][b] = weights[b][a] = 1.0
    assert communities(weights) == [0] * 8 + [1] * 8 + [2] * 8


def test_pages_that_link_to_each_other_are_near_each_other() -> None:
    placement = placed(names(60), villages(4, 15))
    inside = [away(placement, *pair) for pair in combinations(names(60)[:15], 2)]
    outside = [away(placement, one, other) for one in names(60)[:15] for other in names(60)[15:]]
    assert sum(inside) / len(inside) < sum(outside) / len(outside) / 2


def test_a_change_leaves_all_other_pages_exactly_where_they_were() -> None:
    pages, edges = names(60), villages(4, 15)
    before = placed(pages, edges)
    after = placed([*pages, "new.md", "new-alone.md"], [*edges, (60, 3), (60, 4), (7, 50)], before)
    assert {path: after.places[path] for path in pages} == before.places
    assert away(after, "new.md", pages[3]) < 3 * away(after, pages[3], pages[4]) + 10
    assert after.changed == 3
    gone = placed(pages[:-1], [edge for edge in edges if 59 not in edge], after)
    assert {path: gone.places[path] for path in pages[:-1]} == {path: before.places[path] for path in pages[:-1]}


def test_after_many_changes_the_graph_is_laid_out_afresh() -> None:
    pages, edges = names(60), villages(4, 15)
    before = placed(pages, edges)
    many = [*edges, *((n, (n + 20) % 60) for n in range(50))]
    fresh = placed(pages, many, before)
    assert fresh.changed == 0
    assert fresh.places == placed(pages, many).places
    # Also when they come one by one.
    step = before
    for upto in range(len(edges), len(many), 5):
        step = placed(pages, many[:upto], step)
    assert step.changed < len(many) - len(edges)


def test_pages_without_links_are_in_rows_below_all_others() -> None:
    found = placed(names(90), villages(4, 15)).places
    lowest = max(found[path][1] for path in names(60))
    assert min(found[path][1] for path in names(90)[60:]) > lowest
    rows = {round(found[path][1], 3) for path in names(90)[60:]}
    assert len(rows) < 15
    # Also after a change.
    later = placed(names(91), villages(4, 15), placed(names(90), villages(4, 15))).places
    assert min(later[path][1] for path in names(91)[60:]) > lowest
    assert len({later[path] for path in names(91)}) == 91


@pytest.mark.parametrize(
    ("count", "edges"),
    [
        (3_000, [(0, n) for n in range(1, 3_000)]),
        (3_000, [(n, n + 1) for n in range(2_999)]),
        (1_400, [(2 * n, 2 * n + 1) for n in range(700)]),
        (60, list(combinations(range(60), 2))),
    ],
    ids=["one page that all link to", "a chain", "pairs", "all link to all"],
)
def test_unusual_graphs_are_laid_out_too(count: int, edges: list[Edge]) -> None:
    found = placed(names(count), edges).places
    assert len({(round(x, 1), round(y, 1)) for x, y in found.values()}) == count
    assert max(math.hypot(x, y) for x, y in found.values()) < 60 * positions.SPREAD * math.sqrt(count)


def test_folders_get_colours_by_the_first_level_that_divides_them() -> None:
    paths = [f"vault/area-{n % 9}/p{n}.md" for n in range(90)]
    groups = folder_groups(paths)
    assert [group.folder for group in groups.groups][:2] == ["vault/area-0", "vault/area-1"]
    assert len(groups.groups) == MOST_COLOURS + 1
    assert groups.groups[-1].folder is None
    assert groups.of["vault/area-8/p8.md"] == OTHERS
    assert [group.folder for group in folder_groups(["a.md", "b.md"]).groups] == [""]
    assert folder_groups([]).groups == []


# --- provisional places -----------------------------------------------------------------------------------------------


def test_provisional_places_keep_folders_apart_and_the_most_linked_page_in_the_middle() -> None:
    paths = [f"{folder}/{n:02}.md" for folder in ("a", "b", "c/d") for n in range(30)]
    hub = 17
    places = sketched(paths, [(n, hub) for n in range(30) if n != hub])
    assert places.keys() == set(paths)
    assert len(set(places.values())) == len(paths)
    middles = {}
    for folder in ("a", "b", "c/d"):
        own = [places[path] for path in paths if path.startswith(f"{folder}/")]
        middles[folder] = math.fsum(x for x, _ in own) / 30, math.fsum(y for _, y in own) / 30
    for path in paths:
        nearest = min(middles, key=lambda folder: math.dist(middles[folder], places[path]))
        assert path.startswith(f"{nearest}/")
    assert min(paths[:30], key=lambda path: math.dist(places[path], middles["a"])) == paths[hub]


@pytest.mark.parametrize("paths", [[], ["one.md"], ["b/two.md", "one.md"]])
def test_few_pages_have_provisional_places_too(paths: list[str]) -> None:
    assert sketched(paths, []).keys() == set(paths)
