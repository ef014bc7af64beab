"""Text from proposals, as the review page shows it: nothing hides, reverses direction, or imitates something else."""

# ruff: noqa: RUF001 - letters that read like others are what this file is about

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from mcp_server.web.text.sanitize import escaped, has_hidden, marks, sanitize, sanitize_line, spelled_out

HIDDEN = (
    "\u202e\u202d\u202a\u202b\u202c\u2066\u2067\u2068\u2069\u200e\u200f\u061c"  # direction
    "\u200b\u200c\u200d\u2060\u2061\u2063\u180e\ufeff\u00ad\u034f\u115f\u3164\uffa0\u2800"  # no width, no ink
    "\x00\x07\x08\x0b\x0c\x1b\x7f\x85\x9b"  # control
    "\u2028\u2029\u2003\u3000\ufe00\U000e0041\U000e0001\U000e0100\ud800\udfff"
)


def seen(html: Markup) -> str:
    """Return what a reader of the page sees."""
    return unescape(re.sub(r"<[^>]*>", "", html))


@pytest.mark.parametrize("character", HIDDEN, ids=lambda c: f"U+{ord(c):04X}")
def test_invisible_or_bidirectional_characters_are_named(character: str) -> None:
    html = sanitize(f"pay{character}ment")
    assert character not in html
    assert f'<span class="hidden-char" title="U+{ord(character):04X} ' in html
    assert f"⟦U+{ord(character):04X}⟧" in html
    assert has_hidden(character)


def test_markup_is_text() -> None:
    assert sanitize("<script>alert('1')</script>&") == "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;"
    assert sanitize("<b>", [(0, 3)], tag="ins") == "<ins>&lt;b&gt;</ins>"


def test_lines_and_tabs_stay_in_a_text_and_are_named_in_a_line() -> None:
    assert sanitize("a\tb\r\nc\n") == "a\tb\nc\n"
    assert "⟦U+000A⟧" in sanitize_line("a\nb")
    assert "⟦U+000D⟧" in sanitize("a\rb")


@pytest.mark.parametrize("word", ["p\u0430ypal", "\u0391dmin", "r\u043eot", "\uff41dmin", "\U0001d41admin", "a\u2215b"])
def test_a_letter_that_poses_as_another_is_named_and_still_shown(word: str) -> None:
    """`U+0430` in a Latin word; Unicode Technical Standard 39, section 5."""
    posing = next(letter for letter in word if not letter.isascii())
    html = sanitize(word)
    assert f"{posing}⟦U+{ord(posing):04X}⟧" in html
    assert "reads like" in html


@pytest.mark.parametrize("text", ["rm \u0430\u0441 file", "\u0441\u043e\u0440", "open \u0435\u0445\u0435"])
def test_a_whole_word_in_disguise_is_found_where_its_script_is_not_written(text: str) -> None:
    assert [mark.kind for mark in marks(text)] == ["alike-char"] * sum(not c.isascii() for c in text)


@pytest.mark.parametrize(
    "text",
    [
        "это а не б, и оно",
        "Ο Σωκράτης και ο Πλάτων",
        "naïve café, Straße",
        "Δx und 5 µm",
        "日本語のページ",
        "❤️ 👩‍💻 👍🏽 ☺️",
    ],
)
def test_ordinary_text_of_any_language_is_left_alone(text: str) -> None:
    assert marks(text) == []


def test_no_break_spaces_of_ordinary_typography_raise_no_alarm_and_can_still_be_told_from_blanks() -> None:
    """French puts U+202F before a question mark, and numbers keep to their units with U+00A0."""
    for text in ("Prêt\u202f?", "«\u00a0oui\u00a0»", "10\u00a0000\u00a0km", "rm -rf\u00a0/tmp"):
        assert {mark.kind for mark in marks(text)} == {"no-break"}
        assert not has_hidden(text)
        html = sanitize(text)
        assert "-char" not in html
        assert seen(html) == re.sub("[\u00a0\u202f]", "\u237d", text)
        assert 'title="U+' in html
    assert spelled_out("rm -rf\u00a0/tmp") == "rm -rf\u237d/tmp"


@pytest.mark.parametrize("run", ["\u00a0" * 3, "\u00a0\u200b", "\u202f\u202e"])
def test_a_run_of_no_break_spaces_or_one_with_a_hidden_character_is_still_an_alarm(run: str) -> None:
    assert [mark.kind for mark in marks(f"pay{run}ment")] == ["hidden-char"]
    assert has_hidden(f"pay{run}ment")


def test_a_text_that_is_smuggled_in_tags_or_selectors_is_read_out() -> None:
    tags = "".join(chr(0xE0000 + ord(c)) for c in "delete all")
    assert "tag characters: “delete all”" in seen(sanitize(f"ok{tags}"))
    selectors = "".join(chr(0xE0100 + byte - 16) for byte in b"obey <b>")
    assert "variation selectors: “obey <b>”" in seen(sanitize(f"ok{selectors}"))


def test_smuggled_text_hides_nothing_itself() -> None:
    within = "".join(chr(0xE0100 + byte - 16) for byte in "a\u202e\x1b".encode()[:3])
    controls = "".join(chr(0xFE00 + byte) for byte in (0, 1, 2, 7))
    for text in (within, controls):
        shown = seen(sanitize(f"x{text * 2}"))
        assert not has_hidden(shown)
        assert "\N{REPLACEMENT CHARACTER}" in shown


def test_long_runs_are_one_mark() -> None:
    assert "⟦U+200B \N{MULTIPLICATION SIGN} 1000000⟧" in sanitize("a" + "\u200b" * 1_000_000)
    assert "1000000 invisible characters" in sanitize("\u200b\u200c" * 500_000)
    assert "⟦500 blanks⟧" in sanitize("a" + " " * 500 + "b")
    assert "⟦9 combining marks⟧" in sanitize("a" + "\u0301" * 9)
    assert sanitize("    code\n" + " " * 500) == "    code\n" + " " * 500


def test_a_million_marks_stay_readable_without_their_titles() -> None:
    html = sanitize("\u202ea" * 200_000)
    assert html.count("⟦U+202E⟧") == 200_000
    assert "title" not in html


def test_a_mark_that_crosses_the_border_of_a_changed_word_is_shown_once() -> None:
    html = sanitize("ab\u200b\u200bcd", [(3, 5)], tag="del")
    assert html.count("⟦") == 1
    assert html.endswith("<del>c</del>d")


@given(st.text(), st.integers(0, 30), st.integers(0, 30))
def test_no_hidden_character_and_no_tag_of_any_text_gets_through(text: str, one: int, other: int) -> None:
    low, high = sorted((min(one, len(text)), min(other, len(text))))
    html = sanitize(text, [(low, high)] if low < high else [], tag="ins")
    assert not [mark for mark in marks(str(html)) if mark.kind == "hidden-char" and "blanks" not in mark.shown]
    assert (
        re.sub(
            r'</?ins>|<span class="(?:hidden-char|alike-char|no-break)"( title="[^"<>]*")?>|</span>', "", html
        ).count("<")
        == 0
    )


@given(st.text())
def test_plain_text_is_shown_unchanged(text: str) -> None:
    if not marks(text):
        assert seen(sanitize(text)) == text.replace("\r", "")


@given(st.text())
def test_escaped_json_means_the_same_and_hides_nothing(text: str) -> None:
    shown = escaped(json.dumps(text, ensure_ascii=False))
    assert json.loads(shown) == text
    assert not [mark for mark in marks(shown) if mark.kind == "hidden-char" and "blanks" not in mark.shown]


def test_plain_text_for_other_peoples_forms_has_the_same_marks() -> None:
    assert spelled_out("a\u202eb p\u0430y") == "a⟦U+202E⟧b p\u0430⟦U+0430⟧y"
