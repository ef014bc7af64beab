"""Acts on tasks with every network fault at every step.

Each happens once, and no act that happened is reported as failed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.plane import Plane
from tests.doubles.serving import (
    Fault,
    after,
    before,
    body,
    for_requests,
    hang_up,
    html,
    malformed,
    no_fault,
    oversized,
    redirected,
    status,
    truncated,
)
from tests.support.plane.hosts import PlaneHost, named, silent_from, working

SENT_FAULTS: dict[str, Fault] = {
    "cut after Plane acted": after(),
    "cut before Plane saw it": before(),
    "no connection is kept": hang_up(),
    "500, done": status(500, acts=True),
    "500, not done": status(500),
    "503 of a proxy, done": html(503),
    "503 of a proxy, not done": html(503, acts=False),
    "429": status(429, {"retry-after": "1"}, '{"error_code": 5900, "error_message": "RATE_LIMIT_EXCEEDED"}'),
    "429 for long": status(429, {"retry-after": "60"}),
    "a redirect": redirected("https://elsewhere.example.com/"),
    "a page for people, done": html(),
    "a page for people, not done": html(acts=False),
    "a reply that is cut, done": truncated(),
    "a reply that is cut, not done": truncated(acts=False),
    "no HTTP, done": malformed(),
    "no HTTP, not done": malformed(acts=False),
    "too large, done": oversized(9_000_000),
    "JSON of another shape, done": body('{"ok": true}'),
    "JSON of another shape, not done": body("[]", acts=False),
    "nothing at all, done": body(""),
}
ALWAYS = 60


@dataclass(frozen=True)
class Deed:
    """An act under test: its n-th call, the request that carries it, and how often it happened."""

    tool: str
    method: str
    path_ends: str
    arguments: Callable[[int], dict[str, object]]
    happened: Callable[[Plane, int], int]


def moved(plane: Plane, number: int) -> int:
    """Return 1 if the task has the priority that the n-th call sets."""
    return int(plane.task("KB-1")["priority"] == PRIORITIES[number % 4])


CYCLES = ("Week one", "Week two")
COMMENT = "11111111-1111-4111-8111-111111111111"
PRIORITIES = ("low", "urgent", "medium", "high")
DEEDS = {
    "create": Deed(
        "plane_create_task",
        "POST",
        "/work-items/",
        lambda number: {"project": "KB", "name": f"Task number {number}"},
        lambda plane, number: len(named(plane, f"Task number {number}")),
    ),
    "update": Deed(
        "plane_update_task",
        "PATCH",
        "/",
        lambda number: {"task": "KB-1", "priority": PRIORITIES[number % 4]},
        moved,
    ),
    "comment": Deed(
        "plane_comment_task",
        "POST",
        "/comments/",
        lambda number: {"task": "KB-1", "text": f"Comment number {number}."},
        lambda plane, number: sum(f"Comment number {number}." in row["comment_html"] for row in plane.comments("KB-1")),
    ),
}
TIES = {
    "cycle": Deed(
        "plane_update_task",
        "POST",
        "/cycle-issues/",
        lambda number: {"task": "KB-1", "cycle": CYCLES[number % 2]},
        lambda plane, number: int(cycle_of(plane) == [CYCLES[number % 2]]),
    ),
    "link": Deed(
        "plane_update_task",
        "POST",
        "/links/",
        lambda number: {"task": "KB-1", "links": [f"https://example.org/{number} Page"]},
        lambda plane, number: sum(
            row["url"] == f"https://example.org/{number}" for row in plane.project("KB").links.values()
        ),
    ),
    "own comment": Deed(
        "plane_comment_task",
        "PATCH",
        "/",
        lambda number: {"task": "KB-1", "comment_id": COMMENT, "text": f"Comment number {number}."},
        lambda plane, number: sum(f"Comment number {number}." in row["comment_html"] for row in plane.comments("KB-1")),
    ),
    "several": Deed(
        "plane_change_tasks",
        "POST",
        "/work-items/",
        lambda number: {"changes": [{"project": "KB", "name": f"Task number {number}"}]},
        lambda plane, number: len(named(plane, f"Task number {number}")),
    ),
}
"""The acts with requests of their own, as external tests only."""


def cycle_of(plane: Plane) -> list[str]:
    """Return the names of the cycles that KB-1 is in."""
    project, task = plane.project("KB"), plane.task("KB-1")["id"]
    return [project.cycles[row["cycle"]]["name"] for row in project.in_cycles.values() if row["issue"] == task]


@asynccontextmanager
async def acting(home: Path) -> AsyncIterator[PlaneHost]:
    """Connect a host to a Plane with two cycles that go on, and a comment of its own."""
    async with working(home) as host:
        for name in CYCLES:
            host.plane.add_cycle("KB", name)
        row = host.plane.add_comment("KB-1", "<p>To be changed.</p>")
        comments = host.plane.project("KB").comments
        comments[COMMENT] = {**comments.pop(row["id"]), "id": COMMENT}
        yield host


all_of_them = pytest.mark.parametrize(
    "deed",
    [
        *(pytest.param(deed, id=name) for name, deed in DEEDS.items()),
        *(pytest.param(deed, id=name, marks=pytest.mark.external) for name, deed in TIES.items()),
    ],
)
one_of_all = pytest.mark.parametrize(
    "deed",
    [
        pytest.param(deed, id=name, marks=[] if name == "create" else pytest.mark.external)
        for name, deed in {**DEEDS, **TIES}.items()
    ],
)
"""One act by default, all of them among the external tests."""


def of_one(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a single act; of a batch, the outcome of its one change."""
    outcome: dict[str, Any] = answer.get("results", [answer])[0]
    return outcome


async def answered(host: PlaneHost, deed: Deed, number: int) -> str:
    """Return the status of the answer, `failed` for an error."""
    result = await host.writer.client.call_tool(deed.tool, deed.arguments(number))
    if result.is_error:
        return "failed"
    told = str(of_one(result.structured_content or {})["status"])
    return "failed" if told in ("refused", "not sent") else told


@pytest.mark.parametrize("times", [1, *(pytest.param(n, marks=pytest.mark.external) for n in (2, ALWAYS))])
@all_of_them
async def test_whatever_happens_to_the_reply_an_act_happens_once_and_is_never_reported_as_failed(
    tmp_path: Path, deed: Deed, times: int
) -> None:
    async with acting(tmp_path) as host:
        for number, (name, fault) in enumerate(SENT_FAULTS.items()):
            host.served.plan = for_requests(deed.method, deed.path_ends, *[fault] * times)
            told = await answered(host, deed, number)
            happened = deed.happened(host.plane, number)
            assert told in ("done", "unsure", "failed"), name
            assert happened <= 1, name
            assert told != "done" or happened == 1, name
            assert told != "failed" or happened == 0, name
            assert told != "unsure" or not happened, f"{name}: Plane could be asked"
            host.served.plan = no_fault
            assert await answered(host, deed, number) in ("done", "unchanged"), name
            assert deed.happened(host.plane, number) == 1, name


@one_of_all
async def test_while_plane_is_unreachable_an_act_may_be_unsure_and_is_resolved_when_repeated(
    tmp_path: Path, deed: Deed
) -> None:
    """Its reply is lost, and so is every later reply, including the one to the question whether it happened."""
    async with acting(tmp_path) as host:
        for number, lost in enumerate((after(), before(), status(502, acts=True), status(502))):
            host.served.plan = silent_from(deed.method, deed.path_ends, lost)
            result = await host.writer.client.call_tool(deed.tool, deed.arguments(number))
            assert not result.is_error
            answer = of_one(result.structured_content or {})
            assert answer["status"] == "unsure"
            assert "to see whether it was done" in answer["note"]
            assert "nothing was" not in answer["note"]
            assert deed.happened(host.plane, number) <= 1
            host.served.plan = no_fault
            assert await answered(host, deed, number) in ("done", "unchanged")
            assert deed.happened(host.plane, number) == 1


@one_of_all
async def test_an_act_that_cannot_be_read_back_is_done_and_the_answer_says_it_was_not_compared(
    tmp_path: Path, deed: Deed
) -> None:
    async with acting(tmp_path) as host:
        for number, fault in enumerate((before(), status(500), html(), status(429, {"retry-after": "60"}), body("[]"))):
            seen: list[str] = []

            def plan(
                method: str, path: str, _number: int, fault: Fault = fault, seen: list[str] = seen
            ) -> Fault | None:
                if method == deed.method and path.endswith(deed.path_ends):
                    seen.append(path)
                    return None
                return fault if seen else None

            host.served.plan = plan
            result = await host.writer.client.call_tool(deed.tool, deed.arguments(number))
            answer = of_one(result.structured_content or {})
            assert (answer["status"], answer["key"]) == ("done", answer["key"])
            assert "could not be read back" in answer["note"]
            assert deed.happened(host.plane, number) == 1


@one_of_all
async def test_while_plane_cannot_be_read_nothing_is_sent_to_it(tmp_path: Path, deed: Deed) -> None:
    async with acting(tmp_path) as host:
        for number, fault in enumerate(SENT_FAULTS.values()):
            if fault == hang_up():
                continue
            host.served.plan = for_requests("GET", "/", *[fault] * ALWAYS)
            assert await answered(host, deed, number) == "failed"
            assert host.written == 0
