"""Fixtures that several contracts share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.roads.road import CURRENT, HTTP, MEMORY
from tests.support.roads.security_tests import roads_of
from tests.support.state.stores import store, where

__all__ = ["store", "where"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each security test over HTTP too."""
    if metafunc.definition.get_closest_marker("security"):
        metafunc.parametrize("road", roads_of(metafunc.definition), indirect=True)


@pytest.fixture(autouse=True)
def road(request: pytest.FixtureRequest) -> Iterator[str]:
    """The road by which the test's clients reach the server."""
    CURRENT.name, CURRENT.clients = getattr(request, "param", MEMORY), 0
    try:
        yield CURRENT.name
    finally:
        over_http, clients, CURRENT.name = CURRENT.name == HTTP, CURRENT.clients, MEMORY
    assert clients or not over_http, "no client came over HTTP: name the test in NOT_OVER_HTTP, with the reason"
