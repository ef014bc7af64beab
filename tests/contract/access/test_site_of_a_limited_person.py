"""What is hidden from a person leaves no trace on the site either (decision 123).

Each answer is compared, byte for byte, with that of the site of a knowledge base that never had the hidden pages.
"""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_server.web.access.rights import SiteRight, right_of
from mcp_server.web.application import page_routes
from tests.support.access.people_base import CANARIES, PEOPLE, access_of
from tests.support.access.probes import Prober
from tests.support.access.site_probes import FORM_IDS, FORMS, IDS, QUERIES, STREAMS, address, form
from tests.support.access.site_worlds import LimitedSite, limited_site

FEW, MANY = 2, 40
"""Probes of each address."""


@asynccontextmanager
async def both(folder: Path, person: str) -> AsyncIterator[tuple[LimitedSite, LimitedSite]]:
    """Log the person in on the whole knowledge base, and on the one without hidden pages."""
    async with (
        limited_site(folder / "whole" / "team", person, lambda _path: True) as whole,
        limited_site(folder / "bare" / "team", person, access_of(person).may_read) as bare,
    ):
        yield whole, bare


async def compare(folder: Path, person: str, seed: int, count: int) -> None:
    """Send the same requests to both sites, while a hidden page changes on one, and compare the answers."""
    prober, wrong = Prober(seed), dict[str, list[str]]()
    other = next(one for one in PEOPLE if one != person)
    async with both(folder, person) as (whole, bare):
        for number in range(count):
            for route in (*QUERIES, *IDS):
                probe = address(prober, route)
                wrong |= _difference(probe, person, await whole.get(probe), await bare.get(probe))
            await whole.somebody_writes(f"people/{other}/{number % 3}.md")
        for route in [*FORMS, *FORM_IDS] * count:
            action, fields = form(prober, route)
            answers = await whole.post(action, fields), await bare.post(action, fields)
            wrong |= _difference(f"{action} {dict(fields)}", person, *answers)
    assert wrong == {}


def _difference(request: str, person: str, found: str, expected: str) -> dict[str, list[str]]:
    """Return the lines of an answer that show something hidden, under the request: other ones than without hidden pages, or a canary.

    The words of the request itself may come back.
    """
    words = [word for whose, word in CANARIES.items() if whose != person and word[:5] not in request and word in found]
    lines = [line for line in difflib.ndiff(expected.splitlines(), found.splitlines()) if line[0] in "-+"]
    return {request: [*words, *lines]} if found != expected or words else {}


async def test_no_page_shows_that_there_are_hidden_ones(tmp_path: Path) -> None:
    await compare(tmp_path, "ben", seed=1, count=FEW)


@pytest.mark.slow
@pytest.mark.parametrize("person", ["ann", "ben", "eve"])
async def test_none_of_thousands_of_pages_shows_that_there_are_hidden_ones(tmp_path: Path, person: str) -> None:
    await compare(tmp_path, person, seed=2, count=MANY)


def test_every_address_of_the_site_has_a_probe() -> None:
    """If this fails: add a probe for the new address to `site_probes`, so that its answers are compared too."""
    routes = [route for route in page_routes() if right_of(route.endpoint) is not SiteRight.OPEN]
    read = {route.path for route in routes if "GET" in (route.methods or ())}
    assert read == {*QUERIES, *IDS} | STREAMS
    acts = {
        route.path
        for route in routes
        if "POST" in (route.methods or ()) and right_of(route.endpoint) is SiteRight.REVIEW
    }
    about_passkeys = {path for path in acts if path.startswith("/passkeys")}
    assert acts - about_passkeys == {*FORMS, *FORM_IDS}
