"""Every security test that drives a server runs over signed-in HTTP, or a list says why not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.roads.security_tests import (
    ABOUT_SECURITY,
    FILES_NOT_OVER_HTTP,
    IN_EACH_RUN,
    NOT_OVER_HTTP,
    TESTS,
    reason_against_http,
)

CONNECTS = re.compile(
    r"\b(Client|connect|connected|writing|hosting|run_host|world|place|sending|chatting|working|over_stdio|stdio_client|stdio_wire"
    r"|wire_over|callers)\("
)
"""What tests call to connect an MCP client."""
MARK = "pytest.mark.security"


@cache
def connecting_tests() -> dict[str, bool]:
    """Return the tests of files that connect clients, as `FILE::NAME`, and whether they are marked as security tests."""
    return {name: marked for file in sorted(TESTS.rglob("test_*.py")) for name, marked in _connecting_in(file)}


def _connecting_in(file: Path) -> Iterator[tuple[str, bool]]:
    text, place = file.read_text(encoding="utf-8"), file.relative_to(TESTS).as_posix()
    if place.startswith("unit/") or not CONNECTS.search(text):
        return
    body = ast.parse(text).body
    whole = any(isinstance(one, ast.Assign) and MARK in ast.unparse(one) for one in body)
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
            yield f"{place}::{one.name}", whole or any(MARK in ast.unparse(mark) for mark in one.decorator_list)


def test_every_security_test_that_connects_a_client_also_runs_over_http_or_says_why_not() -> None:
    missing = [
        name
        for name, marked in connecting_tests().items()
        if ABOUT_SECURITY.search(name) and not marked and reason_against_http(*name.split("::")) is None
    ]
    assert missing == [], "mark them `security`, or name them in NOT_OVER_HTTP with the reason"


def test_the_lists_name_existing_tests() -> None:
    known = connecting_tests()
    gone = [place for place in FILES_NOT_OVER_HTTP if not any(name.startswith(place) for name in known)]
    single = [f"{file}::{name}" for file, names in NOT_OVER_HTTP.items() for name in names]
    unmarked = [name for name in (*single, *IN_EACH_RUN) if not known.get(name, False)]
    assert (gone, unmarked) == ([], []), "these lists are out of date"
