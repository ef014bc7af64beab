"""Floods of wrong tokens."""

from __future__ import annotations

import anyio
import pytest

from mcp_server.gate.host_registration import Principal, UnknownSecret
from mcp_server.transport.sign_in import wrong_tokens
from mcp_server.transport.sign_in.wrong_tokens import TokenChecks, TooManyWrongTokens, network_of

FLOOD, OFFICE = "203.0.113.7", "198.51.100.1"


class Tokens:
    """Knows the token `good`, and how many were looked up at a time."""

    def __init__(self) -> None:
        self.asked, self.at_once, self.most = 0, 0, 0
        self.valid = {"good"}
        self.slow: anyio.Event | None = None

    async def named(self, token: str) -> Principal:
        self.asked += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        if self.slow is not None:
            await self.slow.wait()
        self.at_once -= 1
        if token not in self.valid:
            raise UnknownSecret
        return Principal("ann", "token:http")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_tokens, "WRONG_PER_MINUTE", 3)
    monkeypatch.setattr(wrong_tokens, "PATIENCE_S", 60.0)  # this machine may be slow


async def wrong(checks: TokenChecks, times: int, address: str = FLOOD) -> None:
    for number in range(times):
        with pytest.raises(UnknownSecret):
            await checks.principal(f"guess {number}", address)


async def test_an_address_with_many_wrong_tokens_waits_and_its_tokens_are_not_looked_up() -> None:
    """Decision 116."""
    tokens, now = Tokens(), 0.0
    checks = TokenChecks(tokens.named, clock=lambda: now)
    await wrong(checks, 3)
    for token in ("guess", "good"):
        with pytest.raises(TooManyWrongTokens, match=r"not checked, and nothing was done\. Try again in 60 s"):
            await checks.principal(token, FLOOD)
    assert tokens.asked == 3
    assert (await checks.principal("good", OFFICE)).user == "ann"
    now = 61.0
    await wrong(checks, 1)


async def test_a_token_that_was_valid_before_is_looked_up_whatever_else_comes_from_its_address() -> None:
    """Behind a proxy, or in one office, callers share an address."""
    tokens = Tokens()
    checks = TokenChecks(tokens.named)
    await checks.principal("good", FLOOD)
    await wrong(checks, 3)
    assert (await checks.principal("good", FLOOD)).user == "ann"
    tokens.valid.clear()  # it was revoked
    with pytest.raises(UnknownSecret):
        await checks.principal("good", FLOOD)
    with pytest.raises(TooManyWrongTokens):
        await checks.principal("good", FLOOD)


async def test_few_unknown_tokens_are_looked_up_at_a_time_and_one_of_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wrong_tokens, "WRONG_PER_MINUTE", 100)
    tokens = Tokens()
    checks = TokenChecks(tokens.named)
    await checks.principal("good", OFFICE)
    tokens.slow, tokens.asked, tokens.most = anyio.Event(), 0, 0
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(wrong, checks, 1)
        tasks.start_soon(wrong, checks, 1, "192.0.2.1")
        tasks.start_soon(checks.principal, "good", OFFICE)
        await anyio.wait_all_tasks_blocked()
        assert tokens.asked == 3  # one of each address, and the one that was valid before
        tokens.slow.set()
    assert (tokens.asked, tokens.most) == (7, 3)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_wrong_tokens_are_counted_by_ipv4_address_and_ipv6_network(address: str, network: str) -> None:
    assert network_of(address) == network
