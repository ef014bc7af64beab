"""Every address of the site says which right it needs, and this list is the contract (decision 115)."""

from __future__ import annotations

import pytest
from starlette.requests import Request
from starlette.responses import Response

from mcp_server.web.access.rights import SiteRight, right_of
from mcp_server.web.application import page_routes

OPEN = {
    ("POST", "/login"),
    ("GET", "/login/begin"),
    ("GET", "/login/callback"),
    ("GET", "/login/{secret}"),
    ("GET", "/static/{name}"),
    ("GET", "/proof/{challenge}"),
}
REVIEWED = {
    ("GET", "/proposals/{id}/edit"),
    ("GET", "/page/edit"),
    ("GET", "/page/new"),
    ("GET", "/history/links"),
    ("GET", "/undo"),
    ("GET", "/runs/{id}/answer"),
    ("GET", "/contradictions/{id}/edit"),
    ("GET", "/passkeys"),
}
"""Pages that only lead to an act, and so need its right."""
AUDITED = {("GET", "/audit"), ("GET", "/audit/{id}")}
"""Pages that show records of all pages."""
MANAGED = {
    ("GET", "/trust"),
    ("GET", "/trust/host"),
    ("POST", "/trust/grant"),
    ("POST", "/trust/thaw"),
    ("POST", "/trust/forms"),
    ("POST", "/trust/freeze"),
    ("POST", "/trust/places"),
    ("POST", "/trust/places/remove"),
    ("GET", "/people"),
    ("POST", "/people/add"),
    ("POST", "/people/remove"),
    ("POST", "/people/token"),
    ("POST", "/people/login"),
    ("POST", "/people/token/revoke"),
    ("POST", "/people/group"),
    ("POST", "/people/group/leave"),
    ("POST", "/people/rules"),
    ("POST", "/people/rules/remove"),
    ("POST", "/people/reviewers"),
    ("POST", "/people/reviewers/remove"),
    ("GET", "/state"),
    ("POST", "/state/save"),
    ("POST", "/state/restore"),
    ("POST", "/state/move"),
    ("POST", "/state/confirm"),
    ("GET", "/state/outcome"),
}


def test_each_address_says_which_right_it_needs() -> None:
    """Anything that is neither open nor the owner's is for reviewers if it acts, and for readers if it shows."""
    found = {
        ("POST" if "POST" in (route.methods or ()) else "GET", route.path): right_of(route.endpoint)
        for route in page_routes()
    }
    assert len(found) == len(page_routes())
    expected = {
        key: SiteRight.OPEN
        if key in OPEN
        else SiteRight.MANAGE
        if key in MANAGED
        else SiteRight.AUDIT
        if key in AUDITED
        else SiteRight.REVIEW
        if key in REVIEWED or (key[0] == "POST" and key[1] != "/logout")
        else SiteRight.READ
        for key in found
    }
    assert found == expected
    assert not (OPEN | REVIEWED | AUDITED | MANAGED) - set(found)


def test_an_endpoint_that_declares_no_right_is_an_error() -> None:
    async def forgotten(_request: Request) -> Response:
        return Response()

    with pytest.raises(TypeError, match="does not say who may use it"):
        right_of(forgotten)
