"""Long pages in parts, and pages that another process renders."""

from __future__ import annotations

import pickle
import re
from functools import partial

from knowledge.offload import InlineRunner
from mcp_server.web.markdown.known_links import (
    KnownLinks,
    RenderOrder,
    WrittenTargets,
    render_order,
    rendered,
    unknown_targets,
)
from mcp_server.web.markdown.page_parts import PageSlice
from mcp_server.web.markdown.rendered_page import RenderedBlock, RenderedPage
from mcp_server.web.markdown.renderer import render
from mcp_server.workers.pool import Workers
from tests.unit.web.markdown.known_pages import KnownPages

LONG = "---\ntitle: Long\n---\n" + "".join(
    f"## Section {n}\n\nText of {n}.\n\n- item\n- item ^b{n}\n\n" for n in range(40)
)


def parts_of(text: str, most: int) -> list[RenderedPage]:
    """Return all parts, one after another."""
    found = [render(text, KnownPages(), part=PageSlice(most=most))]
    while found[-1].next:
        found.append(render(text, KnownPages(), part=PageSlice(found[-1].next, most)))
    return found


def test_the_parts_together_are_the_page() -> None:
    parts = parts_of(LONG, 200)
    assert len(parts) > 5
    blocks: list[RenderedBlock] = [block for part in parts for block in part.blocks]
    assert tuple(blocks) == render(LONG, KnownPages()).blocks
    assert {part.outline for part in parts} == {render(LONG, KnownPages()).outline}


def test_a_part_begins_with_the_block_that_has_its_first_line() -> None:
    page = render("a\nb\nc\n\nd\n", KnownPages(), part=PageSlice(2, 1))
    assert [(block.first, block.last) for block in page.blocks] == [(1, 3)]
    assert page.next == 5
    assert render("a\n\nb", KnownPages(), part=PageSlice(99, 1)).blocks == ()
    assert [block.first for block in render("a\n\nb\n\nc", KnownPages(), part=PageSlice(1, last=3)).blocks] == [1, 3]


def test_a_long_list_is_cut_between_its_items_and_a_short_one_is_not() -> None:
    text = "".join(f"{number}. item\n   - inner\n" for number in range(1, 301))
    parts = parts_of(text, 3_000)
    assert len(parts) > 1
    html = "".join(block.html for part in parts for block in part.blocks)
    assert html.count("inner") == 300
    assert f'<ol start="{parts[1].blocks[0].first // 2 + 1}">' in html
    assert len(parts_of("- a\n- b\n", 1)) == 1


def test_a_long_table_is_cut_between_its_rows_and_has_its_head_in_every_part() -> None:
    text = (
        "intro\n\n| number | word |\n|--:|---|\n"
        + "".join(f"| {number} | row |\n" for number in range(1_000))
        + "\nend\n"
    )
    parts = parts_of(text, 3_000)
    assert len(parts) > 3
    tables = [block for part in parts for block in part.blocks if "<table>" in block.html]
    assert all('<th class="right">number</th>' in block.html for block in tables)
    assert "".join(block.html for block in tables).count("<td>row</td>") == 1_000
    assert [(block.first, block.last) for block in tables][:2] == [(3, 304), (305, 604)]
    assert tables[1].html.startswith('<div class="block" id="line-305">')


def test_links_to_headings_and_blocks_of_other_parts_lead_there() -> None:
    text = "[[#Section 39]] [[#^b39]] [[#Section 0]]\n\n" + LONG.partition("---\n")[2].partition("---\n")[2]
    first = render(text, KnownPages(), part=PageSlice(1, 200, address="/page?path=long.md&line="))
    html = first.blocks[0].html
    line = next(entry.line for entry in first.outline if entry.anchor == "section-39")
    assert f'href="/page?path=long.md&amp;line={line}#section-39"' in html
    assert f"line={line + 5}#^b39" in html
    assert 'href="#section-0"' in html


def test_a_part_knows_the_definitions_of_the_others() -> None:
    text = "[x][r] and[^n]\n\n" + "filler\n\n" * 50 + "[r]: guide\n\n[^n]: A note\n    in two lines\n"
    page = render(text, KnownPages(), part=PageSlice(1, 10))
    assert 'href="/page?path=guide"' in page.blocks[0].html
    assert "A note\nin two lines" in page.footnotes


def test_a_page_can_be_rendered_with_links_that_were_looked_up_before() -> None:
    order = RenderOrder("[[guide]] ![[files/a.png]]\n\n![[tea]]\n\n[[gone]]", KnownLinks())
    asked = unknown_targets(order)
    assert set(asked.pages) >= {"guide", "tea", "gone"}
    assert "files/a.png" in asked.files
    assert asked.embedded == ("tea",)
    links = KnownLinks({"guide": "/g"}, {"files/a.png": "/f"}, {"tea": "**hot**"})
    html = "".join(
        block.html
        for block in pickle.loads(pickle.dumps(render_order(RenderOrder(order.text, links)))).blocks  # noqa: S301 - our own
    )
    assert 'href="/g"' in html
    assert 'src="/f"' in html
    assert "<strong>hot</strong>" in html
    assert '<span class="missing" title="There is no page gone">' in html


async def looked_up(targets: WrittenTargets) -> KnownLinks:
    """Look targets up in three pages that embed one another."""
    texts = {"one": "![[two]]", "two": "![[three]] [[guide]]\n\n![[three]]", "three": "the end"}
    known = KnownPages(**texts)
    return KnownLinks(
        {target: known.page(target) for target in targets.pages},
        {target: known.file(target) for target in targets.files},
        {target: known.embedded(target) for target in targets.embedded},
        {target: await looked_up(inner) for target, inner in targets.inner.items()},
    )


async def test_targets_of_embedded_texts_are_looked_up_too() -> None:
    page = await rendered("![[one]]", looked_up, partial(InlineRunner().run, what="this page"))
    assert "the end" in page.blocks[0].html
    assert 'href="/page?path=guide"' in page.blocks[0].html


async def test_what_an_embedded_page_links_to_is_looked_up_from_there() -> None:
    async def by_folder(targets: WrittenTargets, folder: str = "") -> KnownLinks:
        texts = {"": {"a/one": "[[x]] [[#Part]]\n\n![[b/two]]"}, "a/": {"b/two": "[[x]]"}}.get(folder, {})
        return KnownLinks(
            {target: f"/{folder}{target}" for target in targets.pages},
            {},
            {target: texts.get(target) for target in targets.embedded},
            {
                target: await by_folder(inner, f"{folder}{target.rpartition('/')[0]}/")
                for target, inner in targets.inner.items()
            },
        )

    page = await rendered("[[x]]\n\n![[a/one]]", by_folder, partial(InlineRunner().run, what="this page"))
    html = "".join(block.html for block in page.blocks)
    assert re.findall(r'href="([^"]+x)"', html) == ["/x", "/a/x", "/a/b/x"]
    assert 'href="/a/#Part"' in html, "a heading of the embedded page is there, not on the page around it"


async def test_a_long_page_is_rendered_by_a_worker_and_is_the_same() -> None:
    workers = Workers(most=1, inline_characters=10)
    try:
        page = await rendered(LONG + "\n\n[[guide]]", looked_up, partial(workers.run, what="this page"))
    finally:
        await workers.close()
    assert page == render(LONG + "\n\n[[guide]]", KnownPages())
