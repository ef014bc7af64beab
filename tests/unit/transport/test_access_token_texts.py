"""Whatever a caller sends as an access token, the answer is a refusal in plain words, never another error."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.app.settings.sign_in import FIRST_SCOPES, Issuer
from mcp_server.gate.host_registration import RefusedToken
from mcp_server.transport.sign_in.access_tokens import AccessTokens, subject_name
from mcp_server.transport.sign_in.issuer_keys import ALGORITHMS, IssuerKeys
from tests.doubles.sign_in_server import SignInServer, forged, public_jwk

HERE = "https://kb.example.com/mcp"
SERVER = SignInServer("https://login.example.com")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
headers = st.fixed_dictionaries(
    {},
    optional={
        "alg": st.sampled_from([*sorted(ALGORITHMS), "none", "HS256"]) | values,
        "kid": st.just("k1") | values,
        "typ": st.sampled_from(["at+jwt", "JWT"]) | values,
        "crit": values,
        "b64": values,
        "jwk": values,
    },
)
claims = st.fixed_dictionaries(
    {},
    optional={
        "iss": st.just(SERVER.url) | values,
        "aud": st.just(HERE) | values,
        "sub": values,
        "exp": st.just(9_999_999_999) | values,
        "nbf": values,
        "iat": values,
        "scope": values,
    },
)


async def fetch(address: str) -> bytes:
    if address.endswith("/keys"):
        keys = [public_jwk(key, algorithm, kid) for kid, (key, algorithm) in SERVER.keys.items()]
        return json.dumps({"keys": keys}).encode()
    return json.dumps({"issuer": SERVER.url, "jwks_uri": f"{SERVER.url}/keys"}).encode()


TOKENS = AccessTokens((Issuer("corp", SERVER.url),), HERE, FIRST_SCOPES, {SERVER.url: IssuerKeys(SERVER.url, fetch)})


def refused(token: str) -> str:
    """Return why the token is refused."""
    with pytest.raises(RefusedToken) as caught:
        anyio.run(TOKENS.principal, token)
    return str(caught.value)


@given(st.text(max_size=200) | st.text("aeyJ.-_=", max_size=200))
def test_any_text_is_refused(text: str) -> None:
    refused(text)


@given(headers, claims, st.binary(max_size=300))
def test_any_header_and_claims_with_a_made_up_signature_are_refused(
    header: dict[str, Any], claimed: dict[str, Any], signature: bytes
) -> None:
    why = refused(forged(header, claimed, signature))
    assert "access token" in why


@given(claims)
def test_signed_claims_are_refused_or_name_a_subject_and_never_fail_otherwise(claimed: dict[str, Any]) -> None:
    nothing = dict.fromkeys(("iss", "sub", "aud", "iat", "exp", "scope"))
    token = SERVER.token(HERE, **{**nothing, **claimed})
    try:
        found = anyio.run(TOKENS.principal, token)
    except RefusedToken:
        return
    assert claimed["iss"] == SERVER.url
    assert HERE in claimed["aud"]
    assert found.id == f"{subject_name(claimed['sub'])}@corp:http"


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])), st.text(min_size=1))
def test_two_subjects_have_two_names_of_harmless_characters(one: str, other: str) -> None:
    name = subject_name(one)
    assert name.isascii()
    assert name.isprintable()
    assert " " not in name
    assert len(name) <= 120
    if one != other and not any(0xD800 <= ord(letter) <= 0xDFFF for letter in other):
        assert name != subject_name(other)
