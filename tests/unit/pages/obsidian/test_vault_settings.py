"""Obsidian's settings say where templates and daily notes are; anything unreadable in them says nothing."""

from __future__ import annotations

import json

import pytest

from knowledge.pages.obsidian.vault_settings import VaultSettings, read_settings


def settings(**daily: object) -> VaultSettings:
    return read_settings(None, json.dumps(daily).encode())


@pytest.mark.parametrize(
    ("daily", "path", "is_one"),
    [
        ({}, "2026-11-27", True),
        ({}, "Daily/2026-11-27", False),
        ({"folder": "Daily/"}, "Daily/2026-11-27", True),
        (
            {"folder": "Daily", "format": "YYYY/MM-MMMM/YYYY-MM-DD-dddd"},
            "Daily/2026/11-November/2026-11-27-Friday",
            True,
        ),
        ({"format": "[Day] D.M.YY"}, "Day 7.11.26", True),
        ({"format": "[Day] D.M.YY"}, "DayX7.11.26", False),
        ({"format": "gggg-[W]ww"}, "2026-W48", True),
        ({"format": ["x"]}, "2026-11-27", True),
        ({"folder": "../elsewhere"}, "2026-11-27", True),
    ],
)
def test_a_daily_note_is_known_by_its_path(daily: dict[str, object], path: str, *, is_one: bool) -> None:
    assert settings(**daily).is_daily(path) is is_one


def test_without_daily_notes_no_page_is_one() -> None:
    assert not read_settings(None, None).is_daily("2026-11-27")


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"folder": 3}', b'{"folder": ".obsidian"}', b'{"folder": ""}']
)
def test_settings_that_cannot_be_read_name_no_templates(raw: bytes) -> None:
    assert not read_settings(raw, raw).is_template("Templates/a.md")
    assert not read_settings(raw, raw).is_template("")


def test_templates_are_the_pages_below_their_folder() -> None:
    found = read_settings(b'{"folder": "Meta/Templates"}', None)
    assert found.is_template("meta/templates/Book.md")
    assert not found.is_template("Meta/Templates 2/Book.md")
