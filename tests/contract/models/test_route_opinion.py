"""The configured model is asked how to take unclear questions.

A real server, a real client, a model on a real socket.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_server.models.route_opinion import WITHIN_S, AskedRoutes
from tests.doubles.provider_turns import Raw, Script, Trouble, said
from tests.support.runs.hosts import RunHost, run_host

UNCLEAR = "anything under legal?"
CLEAR = "how do we roll back?"
VENDORS = ("anthropic", "openai", "openai-responses")


def told(host: RunHost) -> str:
    """Return everything sent to the model."""
    return str(host.model.asked)


async def routed(host: RunHost, query: str) -> dict[str, Any]:
    return dict((await host.call("kb_search", query=query))["route"])


async def loaded(host: RunHost) -> None:
    """Wait until the code that asks the model is loaded."""
    await host.app.services.model.provider()


async def test_no_search_waits_for_the_model_package_to_load(tmp_path: Path) -> None:
    """The vendors' packages take a second or more, on a busy machine three."""
    async with run_host(tmp_path, model_helps=("routes",)) as host:
        host.will(UNCLEAR, said('{"mode": "discovery", "confidence": 0.9}'))
        assert "language model" not in (await routed(host, UNCLEAR))["reason"]
        assert not host.model.asked
        with anyio.fail_after(60):
            while not host.app.services.model.loaded:  # noqa: ASYNC110 - a load that nobody waits for tells nobody
                await anyio.sleep(0.01)
        assert "language model" in (await routed(host, UNCLEAR))["reason"]


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_unclear_question_is_taken_as_the_model_says_with_its_confidence(tmp_path: Path, vendor: str) -> None:
    async with run_host(tmp_path, vendor=vendor, model_helps=("routes",)) as host:
        host.will(UNCLEAR, said('{"mode": "discovery", "confidence": 0.9}'))
        assert (await routed(host, CLEAR))["mode"] == "discovery"
        assert not host.model.asked, "what rules settle is asked nobody"
        await loaded(host)
        first, again = await routed(host, UNCLEAR), await routed(host, UNCLEAR)
        used = host.app.services.model.book.total(agent="router")
    expected = {"mode": "discovery", "confidence": 0.9, "reason": f"the language model {vendor}:some-model decided"}
    assert first == again == expected
    assert len(host.model.asked) == 1
    assert "canary" not in told(host), "the question goes out and labelled examples, no page"
    assert used.input == 100


@pytest.mark.parametrize(
    "script",
    [
        [said('{"mode": "teleport", "confidence": 0.9}')] * 2,
        [said("It is about an idea.")] * 2,
        [said('{"mode": "discovery", "confidence": 900}')] * 2,
        [Trouble(401, "authentication_error")],
        [Trouble(400, "invalid_request_error")],
        [Raw(b"garbage")] * 2,
    ],
)
async def test_a_model_that_is_away_or_talks_nonsense_changes_nothing(tmp_path: Path, script: list[Script]) -> None:
    async with run_host(tmp_path / "without") as host:
        without = await host.call("kb_search", query=UNCLEAR)
        assert not host.model.asked, "a model that is to help with nothing is asked nothing"
    async with run_host(tmp_path / "with", model_helps=("routes",)) as host:
        host.will(UNCLEAR, *script)
        await loaded(host)
        answer = await host.call("kb_search", query=UNCLEAR)
        assert host.model.asked
    assert answer == without


async def test_an_environment_in_which_no_model_can_be_asked_ends_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:9")
    async with run_host(tmp_path, model_helps=("routes",)) as host:
        first = await routed(host, UNCLEAR)
        await anyio.wait_all_tasks_blocked()
        assert await routed(host, UNCLEAR) == first
        run = await host.call("agent_run", goal="goal")
        assert run["status"] == "failed"
        assert "openai cannot be reached from here (ImportError); check HTTPS_PROXY" in run["text"]
        assert await routed(host, UNCLEAR) == first


async def test_however_many_searches_the_model_is_asked_a_limited_number_of_times_an_hour(tmp_path: Path) -> None:
    now = 0.0
    async with run_host(tmp_path) as host:
        routes = AskedRoutes(host.app.services.model, lambda _load: None, clock=lambda: now, most_questions=2)
        host.will("question", *[said('{"mode": "discovery", "confidence": 0.9}')] * 3)
        heard = [await routes.of(f"question {number}", ()) for number in range(3)]
        assert [one is None for one in heard] == [False, False, True]
        now = WITHIN_S
        assert await routes.of("question 4", ()) is not None
    assert len(host.model.asked) == 3
