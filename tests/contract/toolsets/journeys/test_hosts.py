"""One journey, several hosts: continued by another process, transport and library, with eight competing clients."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from agents.engine.events import WorkRecorded
from tests.support.hosts.writers import Refused, let_in
from tests.support.journeys.hosts import (
    Gone,
    Host,
    SdkHost,
    Site,
    by_hand,
    by_inspector,
    essence,
    over_http,
    over_stdio,
    serving_http,
)
from tests.support.knowledge_bases.folders import write

CLIENTS, ROUNDS = 8, 5
PAGES = {"a.md": "# A\n\nThe cap is 20 calls an hour.\n\n## B\n\nRetries wait for 2.5 seconds.\n"}
CAP = {"path": "a.md", "section": "A", "quote": "The cap is 20 calls an hour."}
ALTERED = {**CAP, "quote": "The cap is 30 calls an hour."}
RETRIES = {"path": "a.md", "section": "B", "quote": "Retries wait for 2.5 seconds."}

Act = tuple[str, Mapping[str, Any]]
"""A tool, and its arguments besides the journey and its version."""


def submit(**work: Any) -> Act:
    return "journey_submit", {"work": work}


def concept(id_: str, text: str, quoted: Mapping[str, str]) -> dict[str, Any]:
    return {"id": id_, "text": text, "citations": [quoted]}


def step(id_: str, *rests_on: str) -> dict[str, Any]:
    return {"id": id_, "step": f"Write {id_}.", "done_when": f"{id_} can be read.", "rests_on": rests_on}


SEEN = {"id": "s1", "result": "Written.", "artefacts": ["code:src/cap.py"], "observed": "Call 21 is refused."}
GAP = {"concept": "waits", "text": "How long a retry waits.", "step": "s2"}
FIRST: Sequence[Act] = (
    submit(
        goal="A cap.", concepts=[concept("cap", "Calls are few.", ALTERED)], plan=[step("s1", "cap"), step("s2", "cap")]
    ),
    submit(concepts=[concept("cap", "Calls are few.", CAP)]),
    ("journey_decide", {"decision": "modify", "changes": {"goal": "A cap that holds."}, "note": "it has to hold"}),
)
CUT_SHORT: Act = (
    "journey_submit",
    {"work": {"made": [SEEN], "gap": GAP}, "signals": ["conceptual_gap_discovered"], "reasoning": "nobody knows"},
)
SECOND: Sequence[Act] = (
    submit(concepts=[concept("waits", "A retry waits.", RETRIES)], plan=[step("s2", "cap", "waits")]),
    ("journey_decide", {"decision": "reject", "note": "the goal is too small"}),
)
THIRD: Sequence[Act] = (
    submit(goal="A cap that holds, and retries that wait."),
    ("journey_decide", {"decision": "approve"}),
    (
        "journey_submit",
        {
            "work": {"made": [{"id": "s2", "result": "It waits.", "shown_by": [RETRIES]}]},
            "usage": {"tokens_in": 11, "tokens_out": 7, "model": "m"},
        },
    ),
)
"""A whole journey, with a way back, phases visited twice and each kind of decision; it is cut in three."""

Third = Callable[[str, str | None], AbstractAsyncContextManager[Host]]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.external)])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """Return a place with its own database."""
    return at(request, tmp_path / "site")


def at(request: pytest.FixtureRequest, folder: Path) -> Site:
    database = {}
    if request.node.callspec.params["site"] == "postgres":
        url, schema = request.getfixturevalue("postgres").url(), f"{request.getfixturevalue('schema')}_{folder.name}"
        database = {"FORGE_DATABASE_URL": url, "FORGE_DATABASE_SCHEMA": schema}
    return Site(write(folder / "kb", PAGES), folder / "state", database)


async def begin(host: Host) -> str:
    return str((await host.call("journey_start", agent="build", brief="A cap on calls."))["journey_id"])


async def do(host: Host, journey: str, acts: Sequence[Act]) -> None:
    """Do one act after the other, each at the version after the previous one."""
    version = (await host.call("journey_status", journey_id=journey))["version"]
    for tool, given in acts:
        answer = await host.call(tool, journey_id=journey, version=version, **given)
        assert answer["version"] == version + 1
        version += 1


async def whole(host: Host) -> str:
    """Lead an undisturbed journey."""
    journey = await begin(host)
    await host.call("kb_read", path="a.md", journey_id=journey)
    await do(host, journey, [*FIRST, CUT_SHORT, *SECOND, *THIRD])
    return journey


async def cut_short(host: SdkHost, journey: str) -> None:
    """Send an act, and kill the server before or during it."""
    version = 2 + len(FIRST) - 1

    async def send() -> None:
        tool, given = CUT_SHORT
        with suppress(Gone):
            await host.call(tool, journey_id=journey, version=version, **given)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await anyio.sleep(0.004)
        host.kill()


@pytest.mark.external
@pytest.mark.parametrize("third", [by_hand, by_inspector])
async def test_a_journey_continues_in_other_processes_transports_and_libraries(
    site: Site, third: Third, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Started over stdio, `kill -9` during a submit, continued over HTTP, finished by another client library."""
    async with over_stdio(site) as one:
        journey = await begin(one)
        await one.call("kb_read", path="a.md", journey_id=journey)
        await do(one, journey, FIRST)
        await cut_short(one, journey)
    token = (
        await let_in(site.settings, "laptop", 2)
    ).enrolment  # an unregistered caller decides about nothing of another one
    async with serving_http(site) as url, over_http(url, token) as two:
        tool, given = CUT_SHORT
        # It is on record once, whether or not it was before the server died.
        sent = [await two.call(tool, journey_id=journey, version=4, **given) for _ in range(2)]
        assert sent[0] == sent[1]
        assert (sent[0]["version"], sent[0]["phase"], sent[0]["visit"]) == (5, "GROUNDING", 2)
        await do(two, journey, SECOND)
    async with serving_http(site) as url, third(url, token) as three:
        await do(three, journey, THIRD)
        last = await three.call("journey_status", journey_id=journey)
    assert (last["state"], last["phase"], last["version"]) == ("complete", "COMPLETE", 10)

    calm = at(request, tmp_path / "calm")
    async with over_stdio(calm) as host:
        undisturbed = await whole(host)
    assert essence(*await site.record(journey)) == essence(*await calm.record(undisturbed))


@asynccontextmanager
async def clients(site: Site) -> AsyncIterator[Sequence[SdkHost]]:
    """Yield clients of two server processes, equally many of each."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(serving_http(site)) for _ in range(2)]
        yield [await stack.enter_async_context(over_http(urls[n % 2])) for n in range(CLIENTS)]


@pytest.mark.external
async def test_of_eight_clients_at_one_version_one_wins_and_the_others_learn_what_changed(
    site: Site,
) -> None:
    """Exactly one wins each version, the others get a conflict that names the version and says what changed."""
    async with clients(site) as hosts:
        journey = await begin(hosts[0])
        winners = [await _round(hosts, journey, version) for version in range(1, 1 + ROUNDS)]
    state, log = await site.record(journey)
    works = [(logged.version, logged.event.work) for logged in log if isinstance(logged.event, WorkRecorded)]
    assert state.version == 1 + ROUNDS
    assert works == [(version, _work(winner, version - 1)) for version, winner in enumerate(winners, 2)]


def _work(client: int, version: int) -> dict[str, Any]:
    return {"goal": f"client {client} at {version}"}


async def _round(hosts: Sequence[SdkHost], journey: str, version: int) -> int:
    """Let all submit at that version, and return the winner."""
    answers: dict[int, dict[str, Any] | str] = {}

    async def send(client: int) -> None:
        try:
            answers[client] = await hosts[client].call(
                "journey_submit", journey_id=journey, version=version, work=_work(client, version)
            )
        except Refused as refused:
            answers[client] = str(refused)

    async with anyio.create_task_group() as tasks:
        for client in range(CLIENTS):
            tasks.start_soon(send, client)
    told = [answer for answer in answers.values() if isinstance(answer, str)]
    (winner,) = [client for client, answer in answers.items() if isinstance(answer, dict)]
    assert len(told) == CLIENTS - 1
    for sentence in told:
        where = rf"journey {journey} is at version {version + 1}, not {version}\."
        what = rf"Since then: version {version + 1}: work on GROUNDING was recorded by \S+"
        assert re.search(f"{where} {what}", sentence), sentence
    # A winner that repeats the call because the answer was lost still wins, and a loser still loses.
    again = await hosts[(winner + 1) % CLIENTS].call(
        "journey_submit", journey_id=journey, version=version, work=_work(winner, version)
    )
    assert again == answers[winner]
    return winner


@pytest.mark.external
async def test_the_same_submit_by_all_clients_is_recorded_once_and_answered_to_all(site: Site) -> None:
    """Design 7: a repeated submit with the same content returns the first answer, even if both arrive at once."""
    answers: list[str] = []

    async with clients(site) as hosts:
        journey = await begin(hosts[0])

        async def send(host: Host) -> None:
            answer = await host.call("journey_submit", journey_id=journey, version=1, work=_work(0, 1))
            answers.append(repr(answer))

        async with anyio.create_task_group() as tasks:
            for host in hosts:
                tasks.start_soon(send, host)
    assert list(Counter(answers).values()) == [CLIENTS]
    state, _ = await site.record(journey)
    assert state.version == 2
