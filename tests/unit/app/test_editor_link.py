"""Links that open a file in an editor: known editors, templates, and names that try to be something else."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qs, unquote_to_bytes, urlsplit

import pytest

from mcp_server.app.settings.editor_link import EDITORS, SCHEMES, EditorLink, editor_link

HOSTILE = (
    'a" onclick="alert(1)',
    "<script>alert(1)</script>",
    "a?x=1&path=/etc/passwd",
    "a#b",
    "100%41",
    "line:12:3",
    "a b\tc\nd",
    "\N{RIGHT-TO-LEFT OVERRIDE}dm.a",
    "javascript:alert(1)",
    os.fsdecode(b"\xff\xfe"),
    "{line}{path}",
)


def link(text: str) -> EditorLink:
    found = editor_link(text)
    assert found is not None
    return found.within(Path("/notes/my kb"))


def test_off_is_no_link() -> None:
    assert editor_link("off") is None


@pytest.mark.parametrize("name", EDITORS)
def test_each_editor_is_given_the_whole_path(name: str) -> None:
    address = link(name).address("guides/tea.md", 7)
    parts = urlsplit(address)
    written = next((value[0] for value in parse_qs(parts.query).values()), "") or unquote_to_bytes(parts.path).decode()
    assert "/notes/my kb/guides/tea.md" in written
    assert ("7" in address) == ("{line}" in EDITORS[name][1])


def test_the_links_of_known_editors_are_those_that_they_document() -> None:
    assert link("vscode").address("tea.md", 3) == "vscode://file/notes/my%20kb/tea.md:3"
    assert link("obsidian").address("tea.md") == "obsidian://open?path=%2Fnotes%2Fmy%20kb%2Ftea.md"
    windows = EditorLink(*EDITORS["vscode"]).within(Path("C:/notes"))
    assert windows.address("a:b.md", 3) == "vscode://file/C:/notes/a%3Ab.md:3"
    assert link("vscode-insiders://file/{path}").address("tea.md") == "vscode-insiders://file/notes/my%20kb/tea.md"


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("editor", ["vscode", "obsidian", "textmate"])
def test_a_hostile_name_stays_a_name(editor: str, name: str) -> None:
    address = link(editor).address(f"{name}.md", 2)
    harmless = link(editor).address("name.md", 2)
    assert address.isascii()
    assert not set(address) & set("\"'<> \t\n\\{}")
    parts, expected = urlsplit(address), urlsplit(harmless)
    assert (parts.scheme, parts.netloc, parts.fragment) == (expected.scheme, expected.netloc, "")
    assert address.count("&") == harmless.count("&")
    assert address.count(":") == harmless.count(":")
    assert os.fsencode(f"{name}.md") in unquote_to_bytes(address)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("emacs", "is not one of: off, vscode"),
        ("", "is not one of"),
        ("javascript:alert({path})", "is not one of"),
        ("javascript://{path}", "not the scheme of a known editor"),
        ("file://{path}", "not the scheme of a known editor"),
        ("https://evil.example/{path}", "not the scheme of a known editor"),
        ("ms-msdt://{path}", "not the scheme of a known editor"),
        ("vscode://file", "needs {path} once"),
        ("vscode://file{path}{path}", "needs {path} once"),
        ("vscode://file{path}:{column}", "nothing else may be in braces"),
        ("vscode://{line}{path}", "{line} before {path}"),
        ('vscode://file{path}"x', "is not one of"),
        ("vscode://file{path} x", "is not one of"),
    ],
)
def test_a_link_that_is_not_of_a_known_editor_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"(?s).") as caught:
        editor_link(text)
    assert says in str(caught.value)


def test_every_scheme_has_the_name_that_the_button_shows() -> None:
    for scheme, name in SCHEMES.items():
        assert link(f"{scheme}://open?file={{path}}").name == name
