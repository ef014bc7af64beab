"""A host's configuration belongs to its owner: our member is added and removed, and nothing else moves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server.hosts.json_edit import NotAnObject, TwiceTheSameKey, drop, members, put
from mcp_server.hosts.jsonc import BOM, DEEPEST, BadJson, parse

OURS = "knowledge-forge"
PATH = ("mcpServers", OURS)
ENTRY = {"command": "/opt/ü/knowledge-forge", "args": ["--kb", 'C:\\notes "x"'], "env": {"FORGE_ENROLMENT": "s3"}}

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KEYS = TEXTS | st.sampled_from(["a", "servers", "mcpServers", "//", "/*", "}", '"'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def spaces(draw: st.DrawFn, line_break: str) -> str:
    """White space and comments, as people leave them."""
    line = st.sampled_from(["// c", "// }{", '// "x": 1,', "//"]).map(lambda comment: comment + line_break)
    block = st.sampled_from(["/* c */", "/**/", "/* // */", f"/* a{line_break} }} */"])
    piece = st.sampled_from(["", "", " ", "  ", "\t", line_break, line_break + "  "]) | line | block
    return "".join(draw(st.lists(piece, max_size=3)))


def rendered(draw: st.DrawFn, value: object, line_break: str, *, plain: bool) -> str:
    def gap() -> str:
        return "" if plain else draw(spaces(line_break))

    def joined(parts: list[str], opening: str, closing: str) -> str:
        trailing = "," + gap() if parts and not plain and draw(st.booleans()) else ""
        return opening + gap() + ("," + gap()).join(parts) + trailing + closing

    if isinstance(value, dict):
        members = []
        for key, inner in value.items():
            shown = json.dumps(key, ensure_ascii=draw(st.booleans()))
            members.append(shown + gap() + ":" + gap() + rendered(draw, inner, line_break, plain=plain) + gap())
        return joined(members, "{", "}")
    if isinstance(value, list):
        return joined([rendered(draw, inner, line_break, plain=plain) + gap() for inner in value], "[", "]")
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@st.composite
def documents(draw: st.DrawFn, *, held: bool | None = None) -> tuple[str, dict[str, Any]]:
    """A text in some style with its value; `held` says whether the object for our member exists."""
    value: dict[str, Any] = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    value.pop("mcpServers", None)
    if held or (held is None and draw(st.booleans())):
        servers = draw(st.dictionaries(KEYS, VALUES, max_size=3))
        place = draw(st.integers(0, len(value)))
        items = list(value.items())
        value = dict([*items[:place], ("mcpServers", servers), *items[place:]])
    line_break = draw(st.sampled_from(["\n", "\r\n"]))
    style = draw(st.sampled_from(["free", "plain", "indented", "tabs"]))
    if style in ("indented", "tabs"):
        text = json.dumps(value, indent="\t" if style == "tabs" else draw(st.integers(0, 4)), ensure_ascii=False)
        text = text.replace("\n", line_break)
    else:
        around = st.just("") if style == "plain" else spaces(line_break)
        text = draw(around) + rendered(draw, value, line_break, plain=style == "plain") + draw(around)
    return draw(st.sampled_from(["", BOM])) + text, value


def with_ours(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "mcpServers": {**value.get("mcpServers", {}), OURS: ENTRY}}


@settings(max_examples=40)
@given(documents())
def test_any_commented_document_is_parsed_correctly(document: tuple[str, dict[str, Any]]) -> None:
    text, value = document
    assert parse(text).root.value == value


@settings(max_examples=40)
@given(documents())
def test_setting_our_member_adds_only_ours(document: tuple[str, dict[str, Any]]) -> None:
    text, value = document
    after = put(text, PATH, ENTRY)
    assert parse(after).root.value == with_ours(value)
    assert members(after, PATH[:1])[OURS] == ENTRY


@settings(max_examples=40)
@given(documents())
def test_setting_our_member_only_inserts(document: tuple[str, dict[str, Any]]) -> None:
    """Everything else is still there, in order: the old text remains when one span and a comma are removed."""
    text, _ = document
    rest = iter(put(text, PATH, ENTRY))
    assert all(character in rest for character in text)


@settings(max_examples=40)
@given(documents(held=True))
def test_removing_our_member_restores_every_byte(document: tuple[str, dict[str, Any]]) -> None:
    text, _ = document
    assert drop(put(text, PATH, ENTRY), PATH) == text


@settings(max_examples=40)
@given(documents(held=False))
def test_removing_also_removes_the_object_made_for_it(document: tuple[str, dict[str, Any]]) -> None:
    text, value = document
    after = put(text, PATH, ENTRY)
    assert drop(after, PATH, prune=True) == text
    assert parse(drop(after, PATH)).root.value == {**value, "mcpServers": {}}


@settings(max_examples=40)
@given(documents(), VALUES)
def test_setting_it_again_leaves_no_trace_of_the_old(document: tuple[str, dict[str, Any]], earlier: object) -> None:
    text, value = document
    once = put(text, PATH, earlier)
    assert parse(put(once, PATH, ENTRY)).root.value == with_ours(value)
    assert drop(put(once, PATH, ENTRY), PATH) == drop(once, PATH)


@settings(max_examples=40)
@given(documents(held=True), st.data())
def test_any_member_can_go_and_the_others_stay(document: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    """The owner may have moved our member, commented it, or written others after it."""
    text, value = document
    for path in [("mcpServers",), *(("mcpServers", key) for key in value["mcpServers"])]:
        if data.draw(st.booleans()):
            expected = {key: inner for key, inner in value.items() if path != (key,)}
            if len(path) > 1:
                expected["mcpServers"] = {k: v for k, v in value["mcpServers"].items() if k != path[1]}
            assert parse(drop(text, path)).root.value == expected


@settings(max_examples=40)
@given(documents(), st.data())
def test_a_broken_document_is_refused_with_our_error(document: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    text, _ = document
    at = data.draw(st.integers(0, len(text)))
    odd = data.draw(st.sampled_from(["{", "}", ",", '"', "x", "/", "\\", "0", "\x00", ""]))
    broken = text[:at] + odd + text[at + 1 :]
    try:
        parse(put(broken, PATH, ENTRY))
    except (BadJson, NotAnObject, TwiceTheSameKey):
        return


def test_a_tidy_file_stays_tidy() -> None:
    before = '{\n    "theme": "dark",\n    "mcpServers": {\n        "other": {} // mine\n    }\n}\n'
    assert put(before, PATH, {"command": "x", "args": []}) == (
        '{\n    "theme": "dark",\n    "mcpServers": {\n        "other": {}, // mine\n'
        '        "knowledge-forge": {\n            "command": "x",\n            "args": []\n        }\n    }\n}\n'
    )


def test_an_empty_holder_opens_up_and_closes_again() -> None:
    before = '{\r\n\t"mcpServers": {}\r\n}'
    after = put(before, PATH, {"command": "x"})
    assert after == '{\r\n\t"mcpServers": {\r\n\t\t"knowledge-forge": {\r\n\t\t\t"command": "x"\r\n\t\t}\r\n\t}\r\n}'
    assert drop(after, PATH) == before


def test_a_minified_file_stays_minified() -> None:
    assert put('{"mcpServers":{"a":{"b":1}}}', PATH, {"command": "x"}) == (
        '{"mcpServers":{"a":{"b":1},"knowledge-forge":{"command":"x"}}}'
    )


@pytest.mark.parametrize("blank", ["", " \r\n", BOM, BOM + "\n"])
def test_an_empty_file_becomes_a_document(blank: str) -> None:
    """VS Code creates its file empty."""
    after = put(blank, PATH, ENTRY)
    assert after.startswith(BOM) == blank.startswith(BOM)
    assert parse(after).root.value == with_ours({})
    assert drop(blank, PATH) == blank


def test_removing_a_missing_member_changes_nothing() -> None:
    for text in ("{}", '{"mcpServers": {}}', '{"mcpServers": {"other": 1,},}'):
        assert drop(text, PATH) == drop(text, PATH, prune=True) == text


def test_a_holder_with_a_comment_is_not_taken_away() -> None:
    before = '{"mcpServers": {/* work */}}'
    assert drop(put(before, PATH, 1), PATH, prune=True) == before


def test_a_line_comment_before_a_removed_member_swallows_nothing() -> None:
    begin = '{"mcpServers": {// ours\n'
    assert drop(begin + '"knowledge-forge": 1, "b": 2}}', PATH) == begin + ' "b": 2}}'
    assert drop(begin + '"knowledge-forge": 1}}', PATH) == begin + "}}"
    assert drop(begin + '"knowledge-forge": 1\n}}', PATH) == begin + "}}"


@pytest.mark.parametrize(
    ("text", "path"), [("[]", ()), ("null", ()), ('{"mcpServers": []}', PATH[:1]), ('{"mcpServers": null}', PATH[:1])]
)
def test_a_holder_that_is_no_object_is_refused(text: str, path: tuple[str, ...]) -> None:
    acts: list[Callable[[], object]] = [
        lambda: put(text, PATH, 1),
        lambda: drop(text, PATH),
        lambda: members(text, PATH[:1]),
    ]
    for act in acts:
        with pytest.raises(NotAnObject) as refused:
            act()
        assert refused.value.path == path


def test_a_doubled_key_is_refused() -> None:
    """Hosts differ in which of the two they accept, so neither is a safe choice."""
    ours_twice = '{"mcpServers": {"knowledge-forge": 1, "knowledge-forge": 2}}'
    for text in ('{"mcpServers": {}, "mcpServers": {}}', ours_twice):
        with pytest.raises(TwiceTheSameKey):
            put(text, PATH, 1)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{"a": 1', 1, 8),
        ('{"a" 1}', 1, 6),
        ("{\r\n  a: 1}", 2, 3),
        ('{"a": tru}', 1, 7),
        ('{"a": 1 "b": 2}', 1, 9),
        ('{"a": 01}', 1, 8),
        ("{,}", 1, 2),
        ('{"a": 1} x', 1, 10),
        ('{"a": "\\q"}', 1, 8),
        ('{"a": "line\nbreak"}', 1, 7),
        ("/* no end", 1, 1),
        ("// only a comment", 1, 18),
    ],
)
def test_a_syntax_error_is_reported_with_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(BadJson) as refused:
        parse(text)
    assert (refused.value.line, refused.value.column) == (line, column)


def test_nesting_without_end_is_refused_before_it_costs_anything() -> None:
    assert parse("[" * DEEPEST + "]" * DEEPEST).root.start == 0
    with pytest.raises(BadJson, match="nested deeper"):
        parse("[" * 100_000)


def test_numbers_of_any_length_are_read() -> None:
    assert parse("[" + "9" * 5_000 + "]").root.value == [float("inf")]


def test_a_large_file_is_edited_in_linear_time() -> None:
    """Claude Code keeps its history in the same file; megabytes are common."""
    projects = {f"/home/me/p{n}": {"history": [{"display": "x" * 80, "at": n}] * 10} for n in range(4_000)}
    text = json.dumps({"projects": projects, "mcpServers": {}}, indent=2)
    started = time.process_time()
    after = put(text, PATH, ENTRY)
    assert time.process_time() - started < 10
    assert drop(after, PATH) == text
