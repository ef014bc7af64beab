"""What scopes allow, and which one a request lacks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.app.settings.sign_in import FIRST_SCOPES, Issuer, ScopeReach, issuers, scopes
from mcp_server.gate.policy import Trust
from mcp_server.toolsets.registry import declared
from mcp_server.transport.sign_in.scopes import least, limits_of, scopes_in
from mcp_server.transport.sign_in.step_up import needs_of

SPECS = {spec.name: spec for spec in declared(["runs"])}
toolsets = st.sampled_from(["knowledge", "journeys", "runs"])
known = st.lists(
    st.builds(
        ScopeReach, st.text("abc", min_size=1), st.integers(1, 5), st.none() | st.frozensets(toolsets, min_size=1)
    ),
    max_size=6,
    unique_by=lambda one: one.scope,
)


@given(known, st.integers(1, 5).map(Trust), st.frozensets(toolsets, min_size=1))
def test_the_least_scopes_are_enough_if_any_are(
    reaches: list[ScopeReach], level: Trust, wanted: frozenset[str]
) -> None:
    found = least(reaches, level, wanted)
    every = limits_of([one.scope for one in reaches], reaches)
    if all(every.ceiling(toolset) >= level for toolset in wanted):
        limits = limits_of(found, reaches)
        assert all(limits.ceiling(toolset) >= level for toolset in wanted)
        assert all(one.level >= level for one in reaches if one.scope in found)


@given(known, st.lists(st.text("abc", min_size=1)))
def test_scopes_allow_what_the_settings_say_and_nothing_else(reaches: list[ScopeReach], held: list[str]) -> None:
    limits = limits_of(held, reaches)
    for toolset in ("knowledge", "journeys", "runs"):
        allowed = [one.level for one in reaches if one.scope in held and toolset in (one.toolsets or (toolset,))]
        assert limits.ceiling(toolset) == max(allowed, default=0)


@pytest.mark.parametrize(
    ("claims", "found"),
    [
        ({"scope": "a b  c"}, ["a", "b", "c"]),
        ({"scp": ["a", "b", 3]}, ["a", "b"]),
        ({"scp": "a b"}, ["a", "b"]),
        ({"scope": "a", "scp": "b"}, ["a"]),
        ({"scope": {"a": 1}}, []),
        ({}, []),
    ],
)
def test_scopes_are_read_from_the_claims_that_servers_use(claims: dict[str, object], found: list[str]) -> None:
    assert scopes_in(claims) == found


def test_settings_of_sign_in_servers_and_scopes_are_read() -> None:
    found = issuers("corp=https://login.example.com/realms/corp, lab=https://lab.example.com/")
    assert found == (Issuer("corp", "https://login.example.com/realms/corp"), Issuer("lab", "https://lab.example.com/"))
    assert scopes("forge:read=1,forge:propose=2,forge:edit=3,forge:act=4") == FIRST_SCOPES
    assert scopes("api://forge/edit=3/knowledge+journeys") == (
        ScopeReach("api://forge/edit", 3, frozenset({"knowledge", "journeys"})),
    )


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (issuers, "https://login.example.com"),
        (issuers, "corp=http://login.example.com"),
        (issuers, "corp=http://127.0.0.1.example.com"),
        (issuers, "corp=https://ann:x@login.example.com"),
        (issuers, "corp=https://login.example.com?a=b"),
        (issuers, "token=https://login.example.com"),
        (issuers, "unenrolled=https://login.example.com"),
        (issuers, "a:b=https://login.example.com"),
        (issuers, "corp=https://a.example.com,corp=https://b.example.com"),
        (issuers, "one=https://a.example.com,two=https://a.example.com"),
        (scopes, "forge:read"),
        (scopes, "forge:read=6"),
        (scopes, "forge:read=0"),
        (scopes, 'a"b=1'),
        (scopes, "a b=1"),
        (scopes, "a=1/kitchen"),
        (scopes, "a=1/"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(ValueError, match=r"."):
        read(text)


@pytest.mark.parametrize(
    ("message", "level", "used"),
    [
        ({"id": 1, "method": "tools/call", "params": {"name": "kb_read"}}, 1, ("knowledge",)),
        ({"id": 1, "method": "tools/call", "params": {"name": "kb_move"}}, 2, ("knowledge",)),
        (
            {"id": 1, "method": "tools/call", "params": {"name": "kb_merge", "arguments": {"dry_run": True}}},
            1,
            ("knowledge",),
        ),
        (
            {"id": 1, "method": "tools/call", "params": {"name": "kb_merge", "arguments": {"dry_run": 1}}},
            2,
            ("knowledge",),
        ),
        ({"id": 1, "method": "tools/call", "params": {"name": "trust_status"}}, 0, ()),
        ({"id": 1, "method": "tools/call", "params": {"name": ["kb_read"]}}, 0, ()),
        ({"id": 1, "method": "tools/call", "params": ["kb_read"]}, 0, ()),
        ({"method": "notifications/initialized"}, 0, ()),
        ({"id": 1, "method": "resources/read", "params": {"uri": "run://r-1"}}, 1, ("runs",)),
        ({"id": 1, "method": "subscriptions/listen", "params": {}}, 1, ("knowledge", "journeys")),
        ([], 0, ()),
    ],
)
def test_a_request_needs_the_level_at_which_it_may_be_made(message: object, level: int, used: tuple[str, ...]) -> None:
    assert needs_of(json.dumps(message).encode(), SPECS.get) == (level, used)


def test_what_is_no_json_needs_nothing_here() -> None:
    for body in (b"", b"\xff", b"[" * 100_000, b"{"):
        assert needs_of(body, SPECS.get) == (0, ())
