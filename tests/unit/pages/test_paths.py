"""How a name is compared as the most lenient file system does it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import InvalidPath
from knowledge.pages.paths import clean_path, file_system_key

INVISIBLE = "\u200b"
ASCII = st.text(st.characters(max_codepoint=127), max_size=12)


@given(ASCII, st.integers(0, 12))
def test_an_invisible_character_changes_no_key(name: str, at: int) -> None:
    """Names of ASCII characters alone have a shorter way to the same key."""
    assert file_system_key(name) == file_system_key(name[:at] + INVISIBLE + name[at:])


@pytest.mark.parametrize(
    ("name", "key"),
    [("Notes.MD", "notes.md"), ("Plan:stream", "plan"), ("a. .", "a"), ("\ufb01le", "file"), ("STRASSE", "strasse")],
)
def test_spellings_of_a_file_have_one_key(name: str, key: str) -> None:
    assert file_system_key(name) == key


@pytest.mark.parametrize("sign", [*map(chr, range(32)), "\x7f"])
def test_a_path_has_no_control_characters(sign: str) -> None:
    with pytest.raises(InvalidPath, match="control character"):
        clean_path(f"notes/a{sign}b.md")


@given(st.text(string.printable[:95], max_size=20))
def test_a_clean_path_stays_as_it_is(path: str) -> None:
    try:
        clean = clean_path(path)
    except InvalidPath:
        return
    assert clean_path(clean) == clean
