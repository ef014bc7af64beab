"""The cost of the tools for Plane and Zulip: `python -m tests.benchmarks.connectors [--write-doc]`.

The server is a process of its own, called over stdio; Plane and Zulip are the tests' doubles on sockets of this
machine, which answer as real servers were recorded to. So requests are counted as they arrive there, and times include
the double's own work, but neither a network nor a real service: compare requests, and ratios within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx

from mcp_server.app.settings.settings import Settings
from mcp_server.toolsets.registry import SERVICES, chosen, declared
from tests.benchmarks.handbook import write_section
from tests.benchmarks.processes import ROOT, Served, first_listing, memory_mb, ours, served
from tests.doubles.plane import ADA, MEL, WORKSPACE, Plane, plane_served
from tests.doubles.serving import Seen
from tests.doubles.serving import Served as Double
from tests.doubles.serving import served as on_a_socket
from tests.doubles.zulip import Zulip
from tests.support.hosts.writers import let_in

TASKS, PAGE, COMMENTS, UNMOVED = 1_200, 100, 40, 40
MESSAGES = 500
AGAIN = 10
READS = 300
STARTS = 9
SETTLE_S = 1.0
QUIET_S = 8.0
CITED = "guides/reviewing.md"
BOT = "Zulip Default Bot"
CHANNEL = "launch"

Arguments = Callable[[int], dict[str, Any]]
"""The arguments of one call; later calls get their own numbers."""


@dataclass(frozen=True)
class Team:
    """A Plane and a Zulip with a team's data, a knowledge base, and the way to start a server for them."""

    plane: Plane
    at_plane: Double
    zulip: Zulip
    at_zulip: Double
    kb: Path
    state_dir: Path
    environment: Mapping[str, str]

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of Python that serve the knowledge base."""
        return ours(self.kb, self.state_dir)

    @property
    def seen(self) -> list[Seen]:
        """Return the requests that arrived since `forget`, at either service."""
        return [*self.at_plane.seen, *self.at_zulip.seen]

    def forget(self) -> None:
        """Forget the requests that arrived so far."""
        self.at_plane.forget()
        self.at_zulip.forget()


@asynccontextmanager
async def team(home: Path) -> AsyncIterator[Team]:
    """Serve a project of 1,200 tasks and a channel of 500 messages, and admit a host that may act."""
    zulip = Zulip()
    async with plane_served() as (at_plane, plane), on_a_socket(zulip) as at_zulip:
        _fill(plane, zulip)
        kb = home / "kb"
        shutil.copytree(ROOT / "kb", kb)
        state_dir = home / "state"
        settings = await let_in(Settings(kb=kb, state_dir=state_dir), "bench", 5)
        bot = zulip.world.user(BOT)
        environment = {
            "FORGE_ENROLMENT": settings.enrolment or "",
            "FORGE_OPEN_BROWSER": "0",
            "PLANE_BASE_URL": at_plane.address,
            "PLANE_API_KEY": ADA.key,
            "PLANE_WORKSPACE": WORKSPACE,
            "ZULIP_SITE": at_zulip.address,
            "ZULIP_EMAIL": bot.email,
            "ZULIP_API_KEY": bot.key,
        }
        yield Team(plane, at_plane, zulip, at_zulip, kb, state_dir, environment)


def _fill(plane: Plane, zulip: Zulip) -> None:
    people, labels = (ADA, MEL), [row["id"] for row in plane.project("KB").labels.values()]
    states = [row["id"] for row in plane.project("KB").states.values()]
    for number in range(len(plane.tasks("KB")), TASKS):
        plane.add_task(
            "KB",
            f"Task {number}: what is to be done about it",
            description_html=f"<p>{'A sentence of the description. ' * 8}</p>",
            priority=("none", "low", "medium", "high", "urgent")[number % 5],
            state=states[number % len(states) if number > UNMOVED else 0],
            assignees=[people[number % 2].id],
            labels=labels if number % 3 == 0 else [],
        )
    for number in range(COMMENTS):
        plane.add_comment("KB-2", f"<p>Remark {number} on <b>this</b>.</p>", by=people[number % 2])
    plane.relate("KB-2", "blocking", "KB-1")
    zulip.world.channel(CHANNEL, "King Hamlet", BOT)
    for number in range(MESSAGES):
        zulip.world.say("King Hamlet", CHANNEL, f"topic {number % 5}", f"Message {number} about the launch. " * 5)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is measured."""

    name: str
    tool: str
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Cost:
    """A call's cost: the first in a new process, and the median of the following ones."""

    name: str
    first_requests: int
    first_ms: float
    then_requests: float
    then_ms: float


CALLS = (
    Call("projects", "plane_list_projects", lambda _: {}),
    Call("a project with its names", "plane_list_projects", lambda _: {"project": "KB"}),
    Call(
        f"tasks by state, person, label and priority, of {TASKS:,}",
        "plane_query_tasks",
        lambda number: {
            "project": "KB",
            "state": "open",
            "assignee": ("mel", "ada")[number % 2],
            "label": "bug",
            "priority": ("high", "urgent", "low")[number % 3],
        },
    ),
    Call(
        f"a task with {COMMENTS} comments and its relations",
        "plane_get_task",
        lambda _: {"task": "KB-2", "include": ["comments", "relations"]},
    ),
    Call(
        "create a task: assignee, state and label by name",
        "plane_create_task",
        lambda number: {
            "project": "knowledge base",
            "name": f"Made {number}",
            "description": f"See kb:{CITED}. **Soon**, please.",
            "assignees": ["mel"],
            "state": "todo",
            "labels": ["bug"],
        },
    ),
    Call(
        "move a task",
        "plane_update_task",
        lambda number: {"task": f"KB-{20 + number}", "state": "done"},
    ),
    Call(
        "comment on a task", "plane_comment_task", lambda number: {"task": "KB-3", "text": f"Seen, for the {number}th."}
    ),
    Call("channels", "zulip_list_channels", lambda _: {}),
    Call("100 messages", "zulip_read_messages", lambda _: {"channel": CHANNEL, "limit": 100}),
    Call("search", "zulip_search_messages", lambda _: {"query": "launch", "channel": CHANNEL}),
    Call(
        "send a message",
        "zulip_send_message",
        lambda number: {"channel": CHANNEL, "topic": "said", "text": f"Said for the {number}th time."},
    ),
)


async def costs(own: Team) -> list[Cost]:
    """Return what each call costs."""
    return [await _cost(own, call) for call in CALLS]


async def _cost(own: Team, call: Call) -> Cost:
    async with served(own.arguments, own.environment) as server:
        await server.timed("kb_map", {})  # so that gate and database are warmed up, but no service is asked
        taken = [await _asked(own, server, call, number) for number in range(AGAIN + 1)]
    (first_requests, first_s), *then = taken
    requests, seconds = ([one[i] for one in then] for i in (0, 1))
    return Cost(call.name, first_requests, first_s * 1000, statistics.mean(requests), statistics.median(seconds) * 1000)


async def _asked(own: Team, server: Served, call: Call, number: int) -> tuple[int, float]:
    own.forget()
    seconds, answer = await server.timed(call.tool, call.arguments(number))
    if answer.get("status", "done") != "done":
        raise RuntimeError(f"{call.name}: {answer['status']}: {answer['note']}")
    return len(own.seen), seconds


@dataclass(frozen=True, slots=True)
class Listing:
    """All tasks of a project, page by page."""

    first_requests: int
    first_s: float
    bare_s: float
    pages: int
    later_requests: int
    later_ms: float
    tasks: int
    memory_mb: float


async def listing(own: Team) -> Listing:
    """List 1,200 tasks to the end; send the same requests with plain httpx, too."""
    async with served(own.arguments, own.environment) as server:
        await server.timed("kb_search", {"query": "who may approve what"})
        await anyio.sleep(QUIET_S)  # until the knowledge base is indexed, which takes more memory than all that follows
        before = memory_mb(server.pid, "VmRSS")
        own.forget()
        first_s, answer = await server.timed("plane_query_tasks", {"project": "KB", "limit": PAGE})
        sent, keys, later = list(own.at_plane.seen), [task["key"] for task in answer["tasks"]], []
        own.forget()
        while cursor := answer["next_cursor"]:
            more = {"project": "KB", "limit": PAGE, "cursor": cursor}
            seconds, answer = await server.timed("plane_query_tasks", more)
            later.append(seconds)
            keys += [task["key"] for task in answer["tasks"]]
        if len(keys) != len(set(keys)):
            raise RuntimeError("a task was listed twice")
        later_requests, memory = len(own.seen), memory_mb(server.pid, "VmRSS") - before
    bare_s = await anyio.to_thread.run_sync(_sent_alone, own.at_plane.address, sent)
    return Listing(
        len(sent),
        first_s,
        bare_s,
        len(later) + 1,
        later_requests,
        statistics.median(later) * 1000,
        len(keys),
        memory,
    )


def _sent_alone(address: str, sent: Sequence[Seen]) -> float:
    """Return the seconds for the same requests when they are only sent, one by one, and their JSON is parsed."""
    with httpx.Client(base_url=address, trust_env=False) as client:
        client.get("/")
        began = time.perf_counter()
        for one in sent:
            client.get(one.path, params=dict(one.query), headers={"x-api-key": ADA.key}).json()
        return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Beside:
    """The same with Plane and Zulip in the settings and without, alternating: medians."""

    with_them: float
    without: float

    @property
    def ratio(self) -> float:
        """Return the ratio of with to without."""
        return self.with_them / self.without


async def reading(own: Team) -> Beside:
    """Read a page that tasks cite, from a server with the services and from one without; in milliseconds."""
    plain = ours(own.kb, own.state_dir)
    taken: dict[bool, list[float]] = {True: [], False: []}
    async with (
        served(own.arguments, own.environment) as one,
        served(plain, {"FORGE_ENROLMENT": own.environment["FORGE_ENROLMENT"]}) as other,
    ):
        await anyio.sleep(QUIET_S)
        for number in range(READS + 20):
            for configured in (True, False) if number % 2 else (False, True):
                seconds, answer = await (one if configured else other).timed("kb_read", {"path": CITED})
                if bool(answer["cited_by"]) != configured:
                    raise RuntimeError("who cites a page is told where the services are configured, and only there")
                if number >= 20:
                    taken[configured].append(seconds * 1000)
    return Beside(statistics.median(taken[True]), statistics.median(taken[False]))


def starts(own: Team) -> tuple[Beside, Beside, int]:
    """Return seconds to the first list of tools, the peak memory until it settled, and the requests made meanwhile."""
    plain = {"FORGE_ENROLMENT": own.environment["FORGE_ENROLMENT"]}
    for environment in (own.environment, plain):
        first_listing(own.arguments, 0, environment)
    own.forget()
    taken = [
        (first_listing(own.arguments, SETTLE_S, own.environment), first_listing(own.arguments, SETTLE_S, plain))
        for _ in range(STARTS)
    ]
    seconds = Beside(*(statistics.median(pair[i].seconds for pair in taken) for i in (0, 1)))
    memory = Beside(*(statistics.median(pair[i].peak_mb for pair in taken) for i in (0, 1)))
    return seconds, memory, len(own.seen)


def tokens(configured: Sequence[str]) -> tuple[int, int, int]:
    """Return how many tools are listed with these services, and the tokens of their inputs and of their outputs."""
    specs = chosen(declared(), configured=configured)
    taken = sum(_tokens(spec.name, spec.description, spec.input_schema) for spec in specs)
    return len(specs), taken, sum(_tokens(spec.output_schema) for spec in specs)


def _tokens(*parts: object) -> int:
    """Return characters / 4, the measure of the tool list's budget."""
    return sum(len(part if isinstance(part, str) else json.dumps(part, separators=(",", ":"))) for part in parts) // 4


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything."""

    listing: Listing
    costs: Sequence[Cost]
    reading: Beside
    start: Beside
    memory: Beside
    contacted: int


async def measured() -> Measured:
    """Measure everything against one team."""
    with tempfile.TemporaryDirectory() as folder:
        async with team(Path(folder)) as own:
            every = await listing(own)
            each = await costs(own)
            read = await reading(own)
            start, memory, contacted = await anyio.to_thread.run_sync(starts, own)
    return Measured(every, each, read, start, memory, contacted)


def lines(found: Measured, *, load: float) -> list[str]:
    """Return the section of the handbook."""
    when, cores = datetime.now(UTC).date().isoformat(), len(os.sched_getaffinity(0))
    every = found.listing
    beside = (
        ("start to the first list of tools, s", found.start, 2),
        ("peak memory until it settled, MB", found.memory, 0),
        ("`kb_read` of a page that tasks cite, ms", found.reading, 1),
    )
    return [
        "## Plane and Zulip",
        "",
        f"The cost of acting elsewhere (`python -m tests.benchmarks.connectors --write-doc`; {when}, {cores} cores, load {load:.1f}",
        "before). The server is a process, asked over stdio; Plane and Zulip are the doubles of the tests on sockets of the same",
        "machine. Requests are counted where they arrive. Times are a client's and hold the double's work, but no network: with",
        "a real service each request takes its way there and back in addition. *First* is a process that was asked nothing",
        f"before, *then* what the {AGAIN} calls after it take on average (requests) and at the median (time).",
        "",
        "| call | first: requests | ms | then: requests | ms |",
        "|---|--:|--:|--:|--:|",
        *(
            f"| {one.name} | {one.first_requests} | {one.first_ms:.0f} | {one.then_requests:.1f} | {one.then_ms:.0f} |"
            for one in found.costs
        ),
        "",
        f"All {every.tasks:,} tasks of a project, {PAGE} at a time: the first page takes {every.first_requests} requests and",
        f"{every.first_s:.2f} s; sent alone, one by one, with their JSON read, the same requests take {every.bare_s:.2f} s.",
        f"The other {every.pages - 1} pages take {every.later_requests} requests and {every.later_ms:.0f} ms each. No task came",
        f"twice. The process then holds {every.memory_mb:.0f} MB more than before its first call to Plane.",
        "",
        "| with both services in the settings, by turns with a server without | with | without | times |",
        "|---|--:|--:|--:|",
        *(
            f"| {name} | {both.with_them:.{digits}f} | {both.without:.{digits}f} | {both.ratio:.2f} |"
            for name, both, digits in beside
        ),
        "",
        f"In {STARTS} starts with both services configured, they received {found.contacted} requests.",
        "",
        "| tools listed | how many | tokens of what they take | tokens of what they answer |",
        "|---|--:|--:|--:|",
        *("| {} | {} | {:,} | {:,} |".format(name, *tokens(with_them)) for name, with_them in _LISTS),
        "",
        "Tokens are characters / 4; each list of tools is limited to 4,000.",
    ]


_LISTS: tuple[tuple[str, Sequence[str]], ...] = (
    ("without services", ()),
    ("with Plane", ("plane",)),
    ("with Zulip", ("zulip",)),
    ("with both", ("plane", "zulip")),
    ("with a language model", ("runs",)),
    ("with all of these", SERVICES),
)


def main() -> None:
    """Measure, print, and write the section of the handbook if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write-doc", action="store_true")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    told = lines(anyio.run(measured), load=load)
    print("\n".join(told))
    if args.write_doc:
        write_section("connectors", told)


if __name__ == "__main__":
    main()
