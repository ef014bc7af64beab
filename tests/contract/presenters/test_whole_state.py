"""A whole state as people see it, without the password of its database."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from knowledge.state.transfer.layout import tables
from knowledge.state.transfer.move import Chain, Contents
from mcp_server.presenters.whole_state import (
    ChangedState,
    PlannedMove,
    chain_line,
    main_counts,
    setting_lines,
    table_counts,
    with_password,
)

EMPTY = Contents({table.name: 0 for table in tables()}, {}, {}, Chain(0, 0, "", None))


def holding(**rows: int) -> Contents:
    return replace(EMPTY, rows={**EMPTY.rows, **rows})


@pytest.mark.parametrize(
    ("url", "password", "whole"),
    [
        ("postgresql://ann@db/notes", "p@ss:/?#%", "postgresql://ann:p%40ss%3A%2F%3F%23%25@db/notes"),
        (
            "postgresql://ann:old@db:5432/notes?sslmode=require",
            "new",
            "postgresql://ann:new@db:5432/notes?sslmode=require",
        ),
        ("postgresql://ann@a:1,b:2/notes", "x", "postgresql://ann:x@a:1,b:2/notes"),
        ("postgresql://ann@db/notes", "", "postgresql://ann@db/notes"),
        ("postgresql://db/notes", "x", "postgresql://db/notes"),
    ],
)
def test_a_password_typed_apart_becomes_part_of_the_url(url: str, password: str, whole: str) -> None:
    assert with_password(url, password) == whole


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret@db/notes?sslmode=require", "postgresql://ann:PASSWORD@db/notes?sslmode=require"),
        ("postgresql://ann@db/notes", "postgresql://ann@db/notes"),
        ("postgresql://db/notes?user=ann&password=secret", "postgresql://db/notes"),
        ("postgresql://db/notes?sslpassword=secret", "postgresql://db/notes"),
    ],
)
def test_the_lines_for_the_settings_file_have_no_password(url: str, shown: str) -> None:
    lines = setting_lines(url, "forge_notes")
    assert tomllib.loads(lines) == {"database_url": shown, "database_schema": "forge_notes"}


def test_a_planned_move_says_its_url_nowhere() -> None:
    planned = PlannedMove("postgresql://ann:s3cr-et@db/notes", "s", "PostgreSQL at db", "copy", EMPTY, None)
    assert "s3cr-et" not in repr(planned) + ChangedState(planned).sentence


def test_counts_are_of_tables_that_have_rows_in_one_of_the_states() -> None:
    states = [holding(audit=12, lease=1), holding(audit=9, passkey=2)]
    assert table_counts(states) == {"lease": [1, 0], "audit": [12, 9], "passkey": [0, 2]}
    assert main_counts(states) == {"records in the audit": [12, 9], "passkeys": [0, 2]}
    assert table_counts([]) == {}


def test_the_audit_chain_is_told_in_a_sentence() -> None:
    assert chain_line(EMPTY) == "Audit chain: no records"
    assert "broken at record 3" in chain_line(replace(EMPTY, chain=Chain(5, 5, "ab", 3)))
    assert "5 records, all intact; it ends with 5:ab" in chain_line(replace(EMPTY, chain=Chain(5, 5, "ab", None)))


def test_a_refused_change_says_that_the_state_is_as_it_was() -> None:
    planned = PlannedMove(None, "s", str(Path("/state.db")), "copy", EMPTY, None)
    assert ChangedState(planned, problem="it is in use").sentence == "The state is as it was: it is in use"
