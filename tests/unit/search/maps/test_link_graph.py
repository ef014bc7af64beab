"""All links at once lead where each link by itself leads."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.pages.paths import PageLink
from knowledge.search.maps.link_graph import link_graph
from knowledge.search.maps.linked_pages import followed
from knowledge.search.maps.neighbourhood import neighbourhood
from knowledge.state.ports import DocumentRecord, IndexIdentity, LinkRow, Replace, Stamp
from tests.support.state.memory.index import MemoryIndexStore

NAMES = ("a", "b", "A", "_index", "Tea Time", "tea-time")
FOLDERS = ("", "x/", "x/y/", "b/")
paths = st.builds(
    lambda folder, name, suffix: folder + name + suffix,
    st.sampled_from(FOLDERS),
    st.sampled_from(NAMES),
    st.sampled_from((".md", ".markdown")),
)
targets = st.one_of(
    paths,
    st.sampled_from(
        (*NAMES, "x", "x/y", "./a", "../b", "/a", "x/a", "../x/a.md", "nowhere", "a.png", "", "tea time", "y/a")
    ),
)
links = st.lists(st.builds(PageLink, targets, st.booleans()), max_size=6, unique=True).map(tuple)


def stored(path: str, title: str, aliases: tuple[str, ...], held: tuple[PageLink, ...]) -> Replace:
    record = DocumentRecord(
        path=path,
        title=title,
        summary="",
        kind="page",
        source="user",
        language="en",
        tags=(),
        aliases=aliases,
        sections=(),
        untrusted=False,
        revision="r",
        stamp=Stamp(1, 1, 1),
        tokens=1,
        indexed_at_ns=1,
    )
    return Replace(record, (), held)


async def index_of(pages: dict[str, tuple[str, tuple[str, ...], tuple[PageLink, ...]]]) -> MemoryIndexStore:
    store = MemoryIndexStore()
    await store.begin(IndexIdentity("none", 1, 1))
    await store.apply([stored(path, *page) for path, page in pages.items()], fence=1)
    return store


@given(
    pages=st.dictionaries(
        paths,
        st.tuples(st.sampled_from(("", *NAMES)), st.lists(st.sampled_from(NAMES), max_size=2).map(tuple), links),
        min_size=1,
        max_size=12,
    ),
    by_name=st.booleans(),
)
@settings(max_examples=60)
async def test_every_link_leads_where_the_index_says(
    pages: dict[str, tuple[str, tuple[str, ...], tuple[PageLink, ...]]], *, by_name: bool
) -> None:
    index = await index_of(pages)
    documents = await index.linked_documents()
    graph = link_graph(documents, by_name=by_name)
    rows = [LinkRow(document.path, link) for document in documents for link in document.links]
    led = await followed(index, rows, most_names=1000, by_name=by_name)
    expected = {(row.page, target) for row, target in zip(rows, led, strict=True) if target not in (None, row.page)}
    assert {(graph.paths[a], graph.paths[b]) for a, b in graph.edges} == expected
    lost = {(row.page, row.link.path) for row, target in zip(rows, led, strict=True) if target is None}
    missing = {(graph.paths[page], target) for page, target in graph.missing}
    assert missing <= lost
    # A page's neighbourhood has the same ones.
    for path in graph.paths:
        around = await neighbourhood(index, path, steps=1, most=9, by_name=by_name)
        assert around is not None
        assert set(around.missing) == {target for page, target in missing if page == path}


@given(
    pages=st.dictionaries(paths, st.tuples(st.just(""), st.just(()), links), min_size=1, max_size=12),
    most=st.integers(1, 12),
)
@settings(max_examples=40)
async def test_a_neighbourhood_is_a_part_of_the_graph_and_counts_what_it_leaves_out(
    pages: dict[str, tuple[str, tuple[str, ...], tuple[PageLink, ...]]], most: int
) -> None:
    index = await index_of(pages)
    graph = link_graph(await index.linked_documents())
    edges = {(graph.paths[a], graph.paths[b]) for a, b in graph.edges}
    for path in graph.paths:
        around = await neighbourhood(index, path, steps=2, most=most)
        assert around is not None
        out, back = {b for a, b in edges if a == path}, {a for a, b in edges if b == path}
        assert (around.links.number, around.backlinks.number) == (len(out), len(back))
        assert len(around.near) <= most
        shown = {page.path: page for page in around.near}
        assert set(around.edges) == {(a, b) for a, b in edges if {a, b} <= {path, *shown}}
        for page in around.near:
            near = {(True, False): "out", (False, True): "in", (True, True): "both"}
            if page.steps == 1:
                assert page.side == near[page.path in out, page.path in back]
            else:
                assert page.path not in out | back | {path}
                assert any({page.path, other} in ({a, b} for a, b in edges) for other in shown)
