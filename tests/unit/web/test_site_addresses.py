"""Addresses of the site lead back to the name that they were made from, whatever it contains."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.web.text import site_addresses as addresses

NAMES = st.text(st.characters(codec="utf-8"), min_size=1)
PLACES = {
    "/page": addresses.page_address,
    "/page/edit": addresses.edit_address,
    "/page/new": addresses.new_page_address,
    "/pages": addresses.folder_address,
    "/file": addresses.file_address,
    "/tags": addresses.tag_address,
    "/find": addresses.find_address,
    "/graph": addresses.graph_address,
    "/history": addresses.history_address,
}


@pytest.mark.parametrize("place", PLACES)
@given(name=NAMES)
def test_an_address_leads_to_its_place_with_exactly_that_name(place: str, name: str) -> None:
    parts = urlsplit(PLACES[place](name))
    assert (parts.scheme, parts.netloc, parts.path, parts.fragment) == ("", "", place, "")
    (values,) = parse_qs(parts.query, strict_parsing=True).values()
    assert values == [name]


@given(name=NAMES, anchor=NAMES)
def test_an_anchor_is_no_part_of_the_name(name: str, anchor: str) -> None:
    parts = urlsplit(addresses.page_address(name, anchor))
    assert parse_qs(parts.query) == {"path": [name]}
    assert unquote(parts.fragment) == anchor


def test_a_readable_path_stays_readable() -> None:
    assert addresses.page_address("guides/deploy.md", "line-3") == "/page?path=guides/deploy.md#line-3"
    assert addresses.folder_address("") == "/pages"
