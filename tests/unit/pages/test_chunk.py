from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.pages.document import Document, parse
from knowledge.pages.markdown.blocks import scan
from knowledge.pages.markdown.chunk import MOST, TARGET, Chunk, cut, indexed_text


def doc(text: str) -> Document:
    return parse("a.md", text.encode())


def chunks(text: str) -> list[Chunk]:
    return cut(doc(text))


_LINES = st.sampled_from(
    [
        "# A",
        "## B",
        "### C",
        "text " * 60,
        "short",
        "",
        "",
        "- item",
        "  more",
        "1. one",
        "```",
        "~~~",
        "    code",
        "| a | b |",
        "|---|---|",
        "> quote",
        "<div>",
        "---",
        "%%",
        "\xa0",
        "long " * 1200,
        "===",
        "<!--",
        "-->",
        '<a id="x"></a>',
    ]
)


@settings(max_examples=150)
@given(st.lists(_LINES, max_size=40), st.sampled_from([[], ["---", "title: x", "---"]]))
def test_every_line_that_is_not_blank_is_in_one_chunk_that_shows_it(lines: list[str], head: list[str]) -> None:
    document = doc("\n".join(head + lines))
    whole = document.text.split("\n")
    seen: dict[int, str] = {}
    for ordinal, chunk in enumerate(cut(document)):
        assert chunk.ordinal == ordinal
        assert 1 <= chunk.line_start <= chunk.line_end <= len(whole)
        if chunk.line_end < document.body_line:
            assert chunk.text == "x"
            continue
        if chunk.line_start == chunk.line_end:
            seen[chunk.line_start] = seen.get(chunk.line_start, "") + chunk.text
            continue
        assert chunk.text == "\n".join(whole[chunk.line_start - 1 : chunk.line_end])
        for number in range(chunk.line_start, chunk.line_end + 1):
            assert number not in seen
            seen[number] = whole[number - 1]
    for number, line in enumerate(whole[document.body_line - 1 :], document.body_line):
        if line.strip():
            assert seen[number] == line


@settings(max_examples=100)
@given(st.lists(_LINES, max_size=40))
def test_fences_tables_and_html_of_usual_length_are_never_cut(lines: list[str]) -> None:
    document = doc("\n".join(lines))
    source = document.text.split("\n")
    whole = [
        b
        for b in scan(source, document.body_line - 1).blocks
        if b.kind in ("fence", "table", "html") and len("\n".join(source[b.start : b.end])) < MOST
    ]
    found = cut(document)
    for block in whole:
        assert any(c.line_start <= block.start + 1 and block.end <= c.line_end for c in found)


def test_chunks_follow_headings_and_carry_their_path() -> None:
    found = chunks("intro\n\n# A\n\none\n\n## B\n\ntwo\n\n## C\n\nthree\n")
    assert [(c.section, c.line_start, c.line_end) for c in found] == [
        ((), 1, 1),
        (("A",), 3, 5),
        (("A", "B"), 7, 9),
        (("A", "C"), 11, 13),
    ]
    assert indexed_text("A", found[2].section, found[2].text) == "A > B\n## B\n\ntwo"
    assert indexed_text("Of B", found[2].section, found[2].text) == "Of B > A > B\n## B\n\ntwo"
    assert indexed_text("T", (), "x") == "T\nx"


def test_a_bare_heading_belongs_to_the_following_text() -> None:
    found = chunks("# A\n\n## B\n\ntext\n\n## C\n")
    assert [(c.section, c.line_start, c.line_end) for c in found] == [(("A", "B"), 1, 5), (("A", "C"), 7, 7)]


def test_a_place_to_link_to_is_no_chunk_of_its_own() -> None:
    text = '## Plugins\n\n<a id="gpio"></a>\n\n### GPIO\n\nReads a pin.\n\n<a name="x">\n\n### Next\n\nMore.\n'
    assert [(c.section, c.line_start, c.line_end) for c in chunks(text)] == [
        (("Plugins", "GPIO"), 1, 9),
        (("Plugins", "Next"), 11, 13),
    ]


def test_link_definitions_at_the_end_of_a_section_are_in_no_chunk() -> None:
    text = "## A\n\nSee [docs].\n\n[docs]: https://docs.example 'Docs'\n[b c]: <b.md>\n\n"
    text += "## B\n\nText.\n\n[^1]: A footnote.\n\n[x]: y\n"
    assert [(c.section, c.line_start, c.line_end) for c in chunks(text)] == [(("A",), 1, 3), (("B",), 8, 12)]
    assert [c.line_end for c in chunks("One.\n\n[x]: y\n\nTwo.\n")] == [5], "between texts they stay"
    assert chunks("[x]: y\n") == []


def test_long_sections_are_cut_between_blocks_and_lists_between_items() -> None:
    found = chunks("# A\n\n" + "\n\n".join(["word " * 100] * 6))
    assert all(len(c.text) <= TARGET + 10 for c in found)
    assert len(found) > 2
    listed = chunks("".join(f"- item {n} {'x ' * 100}\n  its second line\n" for n in range(20)))
    assert len(listed) > 3
    assert all(c.text.startswith("- item") and c.text.rstrip().endswith("second line") for c in listed)


def test_one_endless_line_is_cut_after_sentences() -> None:
    found = chunks("A sentence of some words. " * 1000)
    assert all(len(c.text) <= MOST for c in found)
    assert all(c.text.endswith(". ") for c in found[:-1])


def test_an_endless_line_below_a_heading_is_cut_too_and_each_part_knows_its_line() -> None:
    line = "A sentence of some words. " * 1000
    found = chunks(f"# A\n\n{line}\n\nThe end.\n")
    assert all(len(c.text) <= MOST for c in found)
    assert "".join(c.text for c in found) == f"# A\n\n{line}The end."
    assert (found[0].line_start, found[0].line_end) == (1, 3)
    assert {(c.line_start, c.line_end) for c in found[1:-2]} == {(3, 3)}
    assert found[-1].line_end == 5


@pytest.mark.parametrize("mark", ["```", "~~~"])
def test_code_inside_a_long_item_is_never_cut(mark: str) -> None:
    words, code = "  some words\n" * (TARGET // 14), "  x = 1  # a line of code\n" * 100
    text = f"- item\n{words}\n  {mark}\n{code}  {mark}\n\n{words * 3}"
    opening, closing = (number for number, line in enumerate(text.split("\n"), 1) if line.strip() == mark)
    found = chunks(text)
    assert len(found) > 1
    assert any(one.line_start <= opening < closing <= one.line_end for one in found)


@pytest.mark.parametrize(
    ("opening", "line", "closing"),
    [
        ("```", "  --flag string  What it does (default 1h)", "```"),
        ("<table>", "<tr><td>field</td><td>What it means</td></tr>", "</table>"),
        ("| a | b |\n|---|---|", "| field | What it means |", ""),
    ],
)
def test_a_very_long_fence_table_or_html_block_is_cut_between_its_lines(opening: str, line: str, closing: str) -> None:
    """The API reference of cert-manager is one HTML block of 274,000 characters: as one chunk, nothing in it was found."""
    text = "\n".join([opening, *[line] * 500, closing]).rstrip()
    found = chunks(text)
    assert all(len(c.text) <= MOST for c in found)
    assert "\n".join(c.text for c in found) == text


def test_an_endless_line_of_code_stays_whole() -> None:
    assert len(chunks("```\n" + "x" * 9000 + "\n```")) == 1


def test_front_matter_alone_is_a_chunk_of_title_and_summary() -> None:
    (head,) = chunks("---\ntitle: T\nsummary: S\n---\n")
    assert (head.text, head.line_start, head.line_end) == ("T\nS", 1, 4)
    assert chunks("---\ntitle: T\n---\nbody")[0].line_start == 4


def test_nothing_gives_no_chunks() -> None:
    assert chunks("") == []
    assert chunks("\n \n\t\n") == []
