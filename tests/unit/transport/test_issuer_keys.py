"""The keys of a sign-in server: when they are asked for, how long they count, and which of them can verify."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from mcp_server.transport.sign_in.issuer_keys import (
    FRESH_S,
    PAUSE_S,
    STALE_S,
    IssuerKeys,
    SignInAway,
    is_safe,
    metadata_addresses,
    usable,
)
from tests.doubles.sign_in_server import private_key, public_jwk

ISSUER = "https://login.example.com/realms/corp"
FIRST = metadata_addresses(ISSUER)[0]
KEYS = f"{ISSUER}/keys"
RSA = private_key("RS256")


class Documents:
    """The documents of a sign-in server, and a clock."""

    def __init__(self, *kids: str) -> None:
        self.at = 1_000.0
        self.asked: list[str] = []
        self.found: dict[str, Any] = {FIRST: {"issuer": ISSUER, "jwks_uri": KEYS}}
        self.publish(*kids)
        self.keys = IssuerKeys(ISSUER, self.fetch, lambda: self.at)

    def publish(self, *kids: str) -> None:
        self.found[KEYS] = {"keys": [public_jwk(RSA, "RS256", kid) for kid in kids]}

    async def fetch(self, address: str) -> bytes:
        self.asked.append(address)
        await anyio.lowlevel.checkpoint()
        if address not in self.found:
            raise OSError("HTTP status 404")
        return json.dumps(self.found[address]).encode()

    @property
    def reads(self) -> int:
        return self.asked.count(KEYS)


async def test_a_new_key_is_found_when_a_token_names_it_and_a_withdrawn_one_no_longer_counts() -> None:
    there = Documents("old")
    assert await there.keys.key("old", "RS256") is not None
    there.publish("new")
    assert await there.keys.key("new", "RS256") is None  # asked a moment ago
    there.at += PAUSE_S
    assert await there.keys.key("new", "RS256") is not None
    assert await there.keys.key("old", "RS256") is None
    assert there.reads == 2


async def test_keys_are_asked_for_again_after_a_while_even_if_the_id_is_known() -> None:
    there = Documents("k1")
    await there.keys.key("k1", "RS256")
    there.at += FRESH_S - 1
    await there.keys.key("k1", "RS256")
    assert there.reads == 1
    there.at += 1
    there.publish()
    assert await there.keys.key("k1", "RS256") is None
    assert there.reads == 2


async def test_many_callers_with_unknown_ids_cost_the_server_one_request() -> None:
    there = Documents("k1")
    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(there.keys.key, f"x{number}", "RS256")
    assert there.reads == 1


async def test_known_keys_count_for_an_hour_while_the_server_is_away_and_then_nobody_can_tell() -> None:
    there = Documents("k1")
    await there.keys.key("k1", "RS256")
    gone = there.found.pop(FIRST)
    there.at += STALE_S
    assert await there.keys.key("k1", "RS256") is not None
    there.at += 1
    with pytest.raises(SignInAway, match="cannot be reached"):
        await there.keys.key("k1", "RS256")
    there.found[FIRST] = gone
    there.at += PAUSE_S
    assert await there.keys.key("k1", "RS256") is not None


async def test_a_server_that_was_away_at_first_is_asked_again_after_a_pause() -> None:
    there = Documents("k1")
    gone = there.found.pop(FIRST)
    for _ in range(3):
        with pytest.raises(SignInAway):
            await there.keys.key("k1", "RS256")
    assert there.asked == list(metadata_addresses(ISSUER))
    there.found[FIRST] = gone
    there.at += PAUSE_S
    assert await there.keys.key("k1", "RS256") is not None


async def test_a_request_that_is_cancelled_while_it_asks_does_not_keep_others_from_asking() -> None:
    there = Documents("k1")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await there.keys.key("k1", "RS256")
    assert await there.keys.key("k1", "RS256") is not None


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": ISSUER},
        {"issuer": ISSUER, "jwks_uri": "http://login.example.com/keys"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        {"issuer": ISSUER, "jwks_uri": ["https://login.example.com/keys"]},
        {"issuer": f"{ISSUER}/", "jwks_uri": KEYS},
        {"jwks_uri": KEYS},
        [ISSUER],
        "text",
    ],
)
async def test_metadata_that_cannot_be_trusted_gives_no_keys(metadata: Any) -> None:
    there = Documents("k1")
    there.found[FIRST] = metadata
    with pytest.raises(SignInAway):
        await there.keys.key("k1", "RS256")
    assert there.reads == 0


def test_metadata_is_looked_for_at_the_addresses_of_the_specification() -> None:
    """The MCP specification, authorization server metadata discovery."""
    root = "https://login.example.com"
    assert metadata_addresses(f"{root}/realms/corp") == (
        f"{root}/.well-known/oauth-authorization-server/realms/corp",
        f"{root}/.well-known/openid-configuration/realms/corp",
        f"{root}/realms/corp/.well-known/openid-configuration",
    )
    for issuer in (root, f"{root}/"):
        assert metadata_addresses(issuer) == (
            f"{root}/.well-known/oauth-authorization-server",
            f"{root}/.well-known/openid-configuration",
        )


@pytest.mark.parametrize(
    ("address", "issuer", "safe"),
    [
        ("https://keys.example.com/a", ISSUER, True),
        ("http://login.example.com/a", ISSUER, False),
        ("http://127.0.0.1/a", ISSUER, False),
        ("http://127.0.0.1:1/a", "http://127.0.0.1:1", True),
        ("http://login.example.com/a", "http://127.0.0.1:1", False),
        ("https:///a", ISSUER, False),
        ("http://[::1/a", "http://127.0.0.1:1", False),
    ],
)
def test_keys_are_read_over_tls_or_on_this_machine(address: str, issuer: str, safe: bool) -> None:  # noqa: FBT001 - a column
    assert is_safe(address, issuer) is safe


def test_only_keys_for_signatures_count_each_for_the_algorithms_of_its_type() -> None:
    good = public_jwk(RSA, "RS256", "k1")
    plain = {name: value for name, value in good.items() if name not in ("alg", "use", "kid")}
    curve = public_jwk(private_key("ES256"), "ES256", "k2")
    found = usable([good, plain, curve])
    assert ("k1", "RS256") in found
    assert ("k1", "PS256") not in found
    assert {name for kid, name in found if kid is None} == {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
    assert [name for kid, name in found if kid == "k2"] == ["ES256"]
    weak: Mapping[str, Any] = {"kty": "RSA", "n": "AQAB" * 20, "e": "AQAB", "kid": "weak"}
    for bad in (
        {**good, "use": "enc"},
        {**good, "key_ops": ["encrypt"]},
        {**good, "d": "AQAB"},
        {**good, "alg": "HS256"},
        {**good, "kty": "oct", "k": "QUFB"},
        {**curve, "alg": "ES384"},
        {**curve, "x": "AA"},
        weak,
        {},
        None,
    ):
        assert usable([bad]) == {}, bad


async def test_two_keys_of_one_id_or_of_none_are_not_chosen_between() -> None:
    there = Documents("same", "same")
    assert await there.keys.key("same", "RS256") is None
    there = Documents("one")
    assert await there.keys.key(None, "RS256") is not None
    there = Documents("one", "two")
    assert await there.keys.key(None, "RS256") is None
