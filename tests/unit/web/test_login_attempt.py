"""A login at the sign-in server that has begun: its cookie, and where it may lead (RFC 9700, section 4.11, open redirects)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mcp_server.web.sign_in.login_attempt import ATTEMPT_LIFETIME, LoginAttempt, own_address

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\/evil.example/",
        "/\t/evil.example",
        "/\n/evil.example",
        " //evil.example",
        "javascript:alert(1)",
        "evil.example",
        "",
        "/login/begin?to=/login/begin",
        "/logout",
        "/" + "a" * 2_000,
        "http://[",
        "/\u202egpj.exe",
    ],
)
def test_an_address_that_could_lead_elsewhere_becomes_the_first_page(to: str) -> None:
    assert own_address(to) == "/"


@pytest.mark.parametrize("to", ["/", "/proposals/p-1?layout=inline&whole=1", "/page?path=a%2Fb.md", "/find?q=ä//b"])
def test_a_page_of_this_site_stays(to: str) -> None:
    assert own_address(to) == to
    begun = LoginAttempt.begun(to, NOW)
    assert LoginAttempt.in_cookie(begun.cookie, NOW) == begun
    assert ";" not in begun.cookie
    assert begun.cookie.isascii()


def test_an_attempt_lasts_ten_minutes_and_shares_nothing_with_another() -> None:
    first, second = LoginAttempt.begun("/", NOW), LoginAttempt.begun("/", NOW)
    derived = [one for it in (first, second) for one in (it.state, it.nonce, it.verifier, it.challenge, it.secret)]
    assert len(set(derived)) == 10
    assert LoginAttempt.in_cookie(first.cookie, NOW + ATTEMPT_LIFETIME) == first
    assert LoginAttempt.in_cookie(first.cookie, NOW + ATTEMPT_LIFETIME + timedelta(seconds=1)) is None
    assert LoginAttempt.in_cookie(first.cookie, NOW - timedelta(seconds=61)) is None
    for cookie in ("", ".", "..", "short.1.%2F", f"{first.secret}.x./", f"{first.secret}.{10**20}./"):
        assert LoginAttempt.in_cookie(cookie, NOW) is None
