"""Scripts after which older programs may still write contain only what those programs can't notice."""

from __future__ import annotations

import re

import pytest

from knowledge.state.postgres.schema import ONLY_ADDS, migrations, oldest_writer

ADDS = re.compile(
    r"CREATE (TABLE|INDEX|FUNCTION)\b"
    r"|CREATE OR REPLACE FUNCTION\b"
    r"|ALTER TABLE \S+ ADD COLUMN (?!.*\bNOT NULL\b(?!.*\bDEFAULT\b))",
    re.DOTALL,
)


def statements(script: str) -> list[str]:
    """Return the statements, without comments and bodies of functions."""
    text = re.sub(r"\$\$.*?\$\$", "''", re.sub(r"--[^\n]*", "", script), flags=re.DOTALL)
    return [found for part in text.split(";") if (found := part.strip())]


def only_adds(script: str) -> bool:
    return all(ADDS.match(statement) for statement in statements(script))


@pytest.mark.parametrize("script", [script for script in migrations() if script.startswith(ONLY_ADDS)])
def test_a_script_that_lets_older_programs_write_only_adds(script: str) -> None:
    assert statements(script)
    assert only_adds(script), "older programs would meet tables that they don't know: remove the first line"


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE forge.look",
        "ALTER TABLE forge.look DROP COLUMN path",
        "ALTER TABLE forge.look ADD COLUMN place text NOT NULL",
        "ALTER TABLE forge.look ADD COLUMN a text; UPDATE forge.look SET a = path",
        "ALTER TABLE forge.look ALTER COLUMN path TYPE bytea",
        "DROP FUNCTION forge.enter",
    ],
)
def test_a_statement_that_older_programs_would_notice_is_no_addition(statement: str) -> None:
    assert not only_adds(statement)


def test_programs_up_to_the_newest_script_that_does_more_may_not_write() -> None:
    scripts = migrations()
    assert 0 < oldest_writer() <= len(scripts)
    assert not scripts[oldest_writer() - 1].startswith(ONLY_ADDS)
    assert all(script.startswith(ONLY_ADDS) for script in scripts[oldest_writer() :])
