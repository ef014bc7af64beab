"""Canvases are read as their cards and arrows, and only the places that a move concerns change in them."""

from __future__ import annotations

import json

import pytest

from knowledge.pages.obsidian.canvas import moved_in_canvas, read_canvas

BOARD = """{
\t"nodes":[
\t\t{"id":"b","x":0,"y":400,"width":400,"height":60,"type":"text","text":"See [[Plan|the \\"plan\\"]] \\u2713"},
\t\t{"id":"a","x":-20,"y":-300,"width":400,"height":400,"type":"file","file":"Projects/Plan.md","subpath":"#Goal"},
\t\t{"id":"c","x":1,"y":-300.5,"width":9,"height":9,"type":"file","file":"Pictures/map.png"},
\t\t{"id":"g","x":0,"y":900,"width":1,"height":1,"type":"group","label":"Later"},
\t\t{"id":"l","x":0,"y":950,"width":1,"height":1,"type":"link","url":"https://example.org"},
\t\t{"id":"n","x":0,"y":960,"width":1,"height":1,"type":"text","text":"a card that says \\"file\\":\\"Projects/Plan.md\\""}
\t],
\t"edges":[{"id":"e","fromNode":"a","toNode":"b","label":"leads to"},{"id":"f","fromNode":"a","toNode":"gone"}]
}"""


def relink(text: str) -> str:
    return text.replace("[[Plan|", "[[Goals|")


def test_a_canvas_is_its_cards_from_top_to_bottom_and_its_arrows() -> None:
    canvas = read_canvas(BOARD.encode())
    assert canvas is not None
    assert canvas.files == ("Pictures/map.png", "Projects/Plan.md")
    assert canvas.texts[0] == 'See [[Plan|the "plan"]] ✓'
    assert canvas.markdown.split("\n\n")[:3] == ["![[Pictures/map.png]]", "![[Projects/Plan.md#Goal]]", canvas.texts[0]]
    assert canvas.markdown.endswith('## Arrows\n\n- Projects/Plan.md → See [[Plan|the "plan"]] ✓: leads to')


def test_a_move_changes_nothing_but_the_path_and_the_links() -> None:
    after = moved_in_canvas(BOARD, {"Projects/Plan.md": 'Archive/Go "als".md'}, relink)
    assert after == BOARD.replace(
        '"file","file":"Projects/Plan.md"', '"file","file":"Archive/Go \\"als\\".md"'
    ).replace('"See [[Plan|the \\"plan\\"]] \\u2713"', '"See [[Goals|the \\"plan\\"]] ✓"')
    assert moved_in_canvas(after, {'Archive/Go "als".md': "Projects/Plan.md"}, lambda text: text) != after


def test_a_move_of_another_page_changes_no_character() -> None:
    assert moved_in_canvas(BOARD, {"Plan.md": "x.md", "Pictures/map.png.md": "y.md"}, lambda text: text) == BOARD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"nodes": 1}',
        '{"nodes":[{"id":"a","type":"file","f\\u0069le":"Projects/Plan.md"}]}',
    ],
)
def test_what_is_no_canvas_or_hides_its_keys_stays_as_it_is(text: str) -> None:
    assert moved_in_canvas(text, {"Projects/Plan.md": "x.md"}, relink) == text


@pytest.mark.parametrize(
    "found",
    [
        {"nodes": [1, None, {"id": 3}, {"id": "a"}, {"id": "b", "type": "file", "file": ["x"], "x": "1", "y": True}]},
        {"nodes": [{"id": "a", "type": "text", "text": "\ud800", "y": 1e400}], "edges": "none"},
        {"nodes": [{"id": "a", "type": "file", "file": "x.md", "subpath": "no anchor"}], "edges": [{"fromNode": []}]},
    ],
)
def test_cards_of_other_programs_are_read_as_well_as_possible(found: object) -> None:
    canvas = read_canvas(json.dumps(found).encode())
    assert canvas is not None
    assert canvas.arrows == ()
    canvas.markdown.encode()


def test_an_empty_file_is_an_empty_canvas() -> None:
    assert read_canvas(b" \n") is not None
    assert read_canvas(b"# Page\n") is None
