"""The pieces of a document join to the document, character for character, and its units are what a person would name."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from knowledge.merge.document.units import cut, front_matter, split_lines, units
from knowledge.pages.document import parse
from knowledge.pages.front_matter import read_front_matter
from knowledge.pages.markdown.blocks import Scan, scan
from tests.support.knowledge_bases.markdown_pages import Maker, printed, scrambled

_PARTS = (
    *("# a\n", "## b\r\n", "text\n", "a b\r", "\n", "\r\n", "\r", " \t\n", "- x\n", "  - y\n", "1. z\n", "> q\n"),
    *("```\n", "~~~~\n", "| a | b |\n", "|---|---|\n", "| 1 | 2 |\n", "---\n", "===\n", "k: v\n", "- t\n", "# c\n"),
    *(
        "<div>\n",
        "</div>\n",
        "<!-- \n",
        "-->\n",
        "%%\n",
        "\t",
        "    ",
        "\ufeff",
        "\x0b",
        "\x0c",
        "\u2028",
        "\x85",
        "é",
        "x",
    ),
)
_TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(_PARTS), max_size=14).map("".join))


@settings(max_examples=100)
@given(_TEXTS, st.sampled_from(["", "---\ntitle: x\n---\n", "\ufeff---\r\n# why\r\nk: [a]\r\n---\r\n"]))
def test_the_pieces_of_any_text_are_the_text(text: str, head: str) -> None:
    document = cut(head + text)
    assert "".join(piece.text for piece in document.pieces) == head + text
    lines = 0
    for piece in document.pieces:
        assert piece.text
        assert piece.line == lines + 1
        lines += piece.text.count("\n") + piece.text.replace("\r\n", "").count("\r")


@settings(max_examples=80)
@given(_TEXTS)
def test_every_unit_stands_in_its_piece_where_it_says(text: str) -> None:
    document = cut(text)
    for unit in units(document):
        piece = document.pieces[unit.piece]
        assert unit.text in piece.text
        assert unit.section == piece.section
        assert unit.line >= piece.line


@example("---\n0\n---\nA:")
@settings(max_examples=80)
@given(_TEXTS.map(lambda text: text.replace("\r", "").replace("\x00", "")))
def test_sections_are_those_that_reading_shows(text: str) -> None:
    """Text that a caller read under a heading is merged under that heading."""
    seen = [(h.line, h.path) for h in parse("a.md", text.encode("utf-8", "replace")).headings]
    shown = text.encode("utf-8", "replace").decode()
    assert [(p.line, p.section) for p in cut(shown).pieces if p.kind == "heading"] == seen


@settings(max_examples=60)
@given(
    _TEXTS,
    _TEXTS,
    _TEXTS,
    st.sampled_from(["", "---\ntitle: x\n---\n", "\ufeff---\r\nk: v\r\n---\r\n", "---\n# a\n\n"]),
)
def test_sections_cut_one_by_one_are_the_page_read_in_one_go(first: str, now: str, last: str, head: str) -> None:
    for text in (head + first + now + last, f"{head}{first}\n# A\n{now}\n## B\n{last}"):
        seen = [line.rstrip("\r\n") for line in split_lines(text.removeprefix("\ufeff"))]
        whole = [(block.kind, block.start + 1) for block in scan(seen, read_front_matter(seen).body).blocks]
        assert [(p.kind, p.line) for p in cut(text).pieces if p.kind not in ("blank", "front")] == whole
        assert front_matter(text) == read_front_matter(seen)


def test_code_full_of_what_looks_like_headings_is_cut_in_linear_time() -> None:
    """Each such line could end the code but doesn't, and the code is not cut again for each of them."""
    text = "# A\n\n```sh\n" + "# no heading\n" * 20_000 + "```\n\n# B\n"
    lines = 0

    def counted(lines_read: Sequence[str], first: int = 0) -> Scan:
        nonlocal lines
        lines += len(lines_read)
        return scan(lines_read, first)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knowledge.merge.document.units.scan", counted)
        assert [piece.kind for piece in cut(text).pieces if piece.kind != "blank"] == ["heading", "fence", "heading"]
    assert lines < 8 * text.count("\n")


def test_units_are_items_rows_keys_and_blocks() -> None:
    text = (
        "---\n# why\ntitle: x\ntags:\n- a\n- b\n---\n# H\npara\nmore\n\n- a\n  - b\n\n- c\n\n"
        "| k | v |\n|---|---|\n| 1 | 2 |\n\n---\n\n> [!note]\n> hi\n\n```\n\n# no\n```\n"
    )
    assert [(unit.kind, unit.text, unit.line) for unit in units(cut(text))] == [
        ("front", "# why\ntitle: x\n", 2),
        ("front", "tags:\n- a\n- b\n", 4),
        ("heading", "# H\n", 8),
        ("paragraph", "para\nmore\n", 9),
        ("item", "- a\n  - b\n", 12),
        ("item", "- c\n", 15),
        ("row", "| k | v |\n", 17),
        ("row", "| 1 | 2 |\n", 19),
        ("quote", "> [!note]\n> hi\n", 23),
        ("fence", "```\n\n# no\n```\n", 26),
    ]


@pytest.mark.parametrize(
    "text", ["a\x0bb", "a\x0cb", "a\x1cb", "a\x85b", "a\u2028b", "a\u2029b"], ids=lambda text: f"{ord(text[1]):x}"
)
def test_odd_separators_end_no_line(text: str) -> None:
    (piece,) = cut(text + "\n\nz").pieces[:1]
    assert piece.text == text + "\n"


def test_front_matter_that_is_no_plain_keys_is_one_unit() -> None:
    assert [u.text for u in units(cut("+++\na = 1\nb = 2\n+++\n"))] == ["+++\na = 1\nb = 2\n+++\n"]


_ORACLE = MarkdownIt("commonmark").enable("table")
_KINDS = {
    "paragraph_open": "paragraph",
    "heading_open": "heading",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "blockquote_open": "quote",
    "table_open": "table",
    "fence": "fence",
    "code_block": "code",
    "html_block": "html",
    "hr": "break",
}


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 6))
def test_blocks_are_those_of_a_full_parser(seed: int, upset: int) -> None:
    """Decision 22: markdown-it-py is the standard. Obsidian's comments are the one thing that it doesn't know."""
    maker = Maker(random.Random(seed))  # noqa: S311  (made-up pages, no secrets)
    text = printed([block for block in maker.page(8) if block.kind != "front"])
    text = (scrambled(maker, text, upset) if upset else text).replace("%%", "")
    if text.startswith(("---", "+++")):
        return
    tokens = [token for token in _ORACLE.parse(text) if token.level == 0 and token.type in _KINDS and token.map]
    theirs = [(_KINDS[token.type], token.map[0] + 1) for token in tokens if token.map]
    assert [(piece.kind, piece.line) for piece in cut(text).pieces if piece.kind != "blank"] == theirs
