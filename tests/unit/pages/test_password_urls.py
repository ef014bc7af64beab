"""Addresses in messages: a password or key in any form is not repeated, and the server can still be recognised."""

from __future__ import annotations

import time

import pytest

from knowledge.wire.addresses import shown_address, without_secrets

SECRET = "c4nary"  # noqa: S105 - invented

HOSTILE = [
    f"postgresql://ann:{SECRET}@db.example/x",
    f"postgresql://ann:p@{SECRET}@db.example/x",
    f"postgresql://ann:p:{SECRET}@db.example/x",
    f"postgresql://ann:p/{SECRET}@db.example/x",
    f"postgresql://ann:1/{SECRET}@db.example/x",
    f"postgresql://ann:p?{SECRET}@db.example/x",
    f"postgresql://ann:p#{SECRET}@db.example/x",
    f"postgresql://ann:p'{SECRET}@db.example/x",
    f"postgresql://ann:p%40{SECRET}%2F@db.example/x",
    f"postgresql://:{SECRET}@db.example/x",
    f"https://{SECRET}@db.example/x",
    f"https://ann:p/{SECRET}@db.example/x",
    f"http:/ann:{SECRET}@db.example/x",
    f"http:ann:{SECRET}@db.example/x",
    f"https:///ann:{SECRET}@db.example/x",
    f"//ann:{SECRET}@db.example/x",
    f"ann:{SECRET}@db.example:9",
    f"ann:p@{SECRET}@db.example:9",
    f"ann:p:{SECRET}@db.example:9",
    f"https%3A%2F%2Fann%3A{SECRET}%40db.example",
    f"http://db.example/?next=https%3A%2F%2Fann%3A{SECRET}%40h",
    f"postgresql://ann:{SECRET}@[2001:db8::1]:5432/db.example",
    f"postgresql://ann:{SECRET}@%2Fvar%2Frun/db.example",
    f"postgresql://ann:{SECRET}@/db.example?host=/var/run/postgresql",
    f"postgresql:///db.example?host=/var/run&user=ann&password={SECRET}",
    f"http+unix://ann:{SECRET}@%2Frun%2Fx.sock/db.example",
    f"postgresql://ann:{SECRET}@one:5432,db.example:5432/x?target_session_attrs=read-write",
    f"amqp://u:{SECRET}@one,amqp://u:{SECRET}@db.example",
    f"host=db.example user=ann password={SECRET} dbname=x",
    f"host=db.example password='a {SECRET}' dbname=x",
    f"host=db.example password='a\\'{SECRET}' dbname=x",
    f"host=db.example password = {SECRET}",
    f"host=db.example password=a&{SECRET}",
    f"host=db.example password=a#{SECRET}",
    f"host=db.example PASSWORD={SECRET} sslpassword={SECRET}",
    *(
        f"https://db.example/v1?a=1&{name}={SECRET}"
        for name in (
            *(
                "password",
                "sslpassword",
                "token",
                "access_token",
                "api_key",
                "api-key",
                "apikey",
                "APIKEY",
                "key",
                "sig",
            ),
            *(
                "subscription-key",
                "X-Amz-Signature",
                "X-Amz-Credential",
                "client_secret",
                "pass%77ord",
                "auth[token]",
                "code",
            ),
        )
    ),
    f"https://db.example/v1?password=a'{SECRET}",
    f"https://db.example/v1?password=a#{SECRET}",
]


@pytest.mark.parametrize("address", HOSTILE)
@pytest.mark.parametrize(
    "around", ["{}", "cannot reach '{}': refused", 'asked "{}"', "see <{}>; or {}, then", "dsn={}\n"]
)
def test_a_secret_in_an_address_is_masked_and_the_host_stays(address: str, around: str) -> None:
    text = without_secrets(around.format(address, address))
    assert SECRET not in text
    assert "db.example" in text
    assert "***" in text


@pytest.mark.parametrize("address", HOSTILE)
def test_an_address_that_is_shown_has_no_secret_user_query_or_fragment(address: str) -> None:
    shown = shown_address(address)
    assert SECRET not in shown
    assert "?" not in shown
    assert "#" not in shown
    assert not shown.startswith(("https://ann", "postgresql://ann"))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://localhost:11434/v1", "http://localhost:11434/v1"),
        ("https://ann:x@host:8443/v1/?api-version=1#top", "https://host:8443/v1/"),
        ("http://ann:x@[::1]:7700", "http://[::1]:7700"),
        ("postgresql://ann@one:1,two:2/db", "postgresql://one:1,two:2/db"),
    ],
)
def test_an_address_that_is_shown_keeps_scheme_host_port_and_path(address: str, shown: str) -> None:
    assert shown_address(address) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com:8080/users/@ann?page=2#top",
        "http://[::1]:8080/@ann",
        '{"a":"http://example.com","b":"ann@example.com"}',
        "see http://localhost:8321/mcp, or mail ann@example.com",
        "sort=asc tokens=900 monkey=5",
        "https://example.com/?page=2&sort=key",
        "'12:30' is neither true nor false; use key=value",
    ],
)
def test_text_without_a_secret_is_not_changed(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "part", ["a:/b:c/", "a:b,", "a:", "token", "?a=b", "password='", "x%3A%2F%2F", "a://b:c", "%40="]
)
def test_four_times_the_text_costs_at_most_ten_times_the_work(part: str) -> None:
    def cost(times: int) -> float:
        text = part * times + "@="
        began = time.process_time()
        without_secrets(text)
        return time.process_time() - began

    assert cost(4_000) < 10 * cost(1_000) + 0.2
