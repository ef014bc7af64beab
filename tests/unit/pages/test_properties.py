"""Which lines of a front matter are searched."""

from __future__ import annotations

import time

import pytest

from knowledge.pages.document import parse
from knowledge.pages.markdown.properties import MOST_CHARACTERS, Properties, properties_of


def found(front: str) -> Properties | None:
    return properties_of(parse("a.md", f"---\n{front}\n---\n\nSome text.\n".encode()))


def test_lines_that_say_what_a_page_is_about_are_kept_as_they_are() -> None:
    assert found("""author: "[[Susanna Clarke]]"
title: Piranesi
# a comment
layout: book
draft: true
finished:
Geburtstag: 14. Juni
tags: [novel]
"lent to":
  - Elise
  # - Nadia
  - Marek
C++: yes, much
ms.date: 05/13/2026""") == Properties(
        2,
        'author: "[[Susanna Clarke]]"\nGeburtstag: 14. Juni\ntags: [novel]\n"lent to":\n  - Elise\n  - Marek\nC++: yes, much',
        'author: "[[Susanna Clarke]]"\nGeburtstag: 14. Juni\n[novel]\n"lent to":\n  - Elise\n  - Marek\nC++: yes, much',
    )


@pytest.mark.parametrize(
    "line",
    [
        "aliases: [a, b]",
        "Layout: x",
        "draft: false",
        "vegetarian: no",
        "empty:",
        "list: []",
        "x: |",
        "date: 2026-05-03",
        "createdAt: 2026-05-03",
        "Date Modified: 2026-05-03",
        "og:image: x.png",
        "homepage: https://site.example/a?b=c",
        "seen: 2026-05-03T10:00:00Z",
        "# author: A",
    ],
)
def test_a_line_that_says_nothing_about_the_subject_is_left_out(line: str) -> None:
    assert found(line) is None


@pytest.mark.parametrize(
    "front",
    [
        "password: a",
        "Passwort: a",
        "api key: a",
        "apiKey: a",
        "OPENAI_API_KEY: a",
        "private-key: a",
        "パスワード: a",
        "service:\n  name: billing\n  password: a",
        "wifi:\n  - ssid: home\n    passphrase: a",
        "service:\n  name: billing\n  'token': a",
        "wifi: {ssid: home, password: a}",
        "users:\n  - {name: a, password: b}",
        "broken: [a\nservice:\n  password: a",
        "DBPassword: a",
        "password1: a",
        "ssh/password: a",
        "api_key_prod: a",
    ],
)
def test_secrets_are_left_out_at_any_depth(front: str) -> None:
    assert found(front) is None


@pytest.mark.parametrize(
    "line", ["secretary: Yvonne", "published: 2013", "keynote: Ada", "id: INC-4471", "vegetarian: yes", "Seoul: trip"]
)
def test_keys_that_resemble_excluded_ones_are_kept(line: str) -> None:
    assert (properties := found(line)) is not None
    assert properties.text == line


def test_no_more_than_the_first_lines_are_kept() -> None:
    many = "\n".join(f"word{n}: value" for n in range(1_000))
    assert (properties := found(many)) is not None
    assert 0.9 * MOST_CHARACTERS < len(properties.searched) < 1.2 * MOST_CHARACTERS
    assert (after := found(f"author: A\nquote: {'x' * 9_000}\nrating: 5")) is not None
    assert after.text == "author: A\nrating: 5"


def test_comments_are_left_out_but_not_headings_in_a_block_of_text() -> None:
    assert (properties := found('author: A # not B\nnote: |\n  # Chapter\n  text # 1\nquote: "a # b"')) is not None
    assert properties.text == 'author: A\nnote: |\n  # Chapter\n  text # 1\nquote: "a # b"'


def test_hostile_values_take_no_time() -> None:
    began = time.process_time()
    for sign in ("'", " ", "[", "[[", "a ", " #", ": "):
        found(f"quote: |\n  {sign * 15_000}x")
        found(f"quote: {sign * 15_000}x")
    assert time.process_time() - began < 2, "the time grew with the square of the length: 15 s"


def test_a_page_without_front_matter_has_none() -> None:
    assert properties_of(parse("a.md", b"# Title\n\nauthor: A\n")) is None
