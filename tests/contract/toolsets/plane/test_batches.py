"""Up to 50 changes of tasks as one act: planned and approved together, carried out in order, each exactly once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio

from knowledge.trust.ports import ProposalVerdict
from knowledge.writing.requests import Approval
from tests.doubles.plane import MEL
from tests.doubles.serving import Fault, Plan, after, before, for_requests, no_fault, status
from tests.support.plane.hosts import PlaneHost, named, reviewing, working

MIXED: list[dict[str, Any]] = [
    {"project": "KB", "name": "Made together", "description": "With *text*."},
    {"task": "KB-1", "state": "Done"},
    {"task": "KB-2", "priority": "urgent", "labels": ["+bug"]},
    {"task": "KB-3", "assignees": ["+mel"], "cycle": "Draft"},
    {"task": "KB-1", "text": "Closed with the others."},
]
LIMITED = status(429, {"retry-after": "42"}, '{"error_code": 5900, "error_message": "RATE_LIMIT_EXCEEDED"}')


def many(host: PlaneHost, count: int) -> list[dict[str, Any]]:
    """Return changes of so many new tasks."""
    rows = [host.plane.add_task("KB", f"Task {number}") for number in range(count)]
    return [{"task": f"KB-{row['sequence_id']}", "priority": "high"} for row in rows]


def statuses(answer: Mapping[str, Any]) -> list[str]:
    """Return the status of each change."""
    return [str(one["status"]) for one in answer["results"]]


def refusing_after(count: int, method: str, fault: Fault) -> Plan:
    """Return a plan that answers so to every such request after the first `count`."""
    seen: list[str] = []

    def plan(asked: str, path: str, _number: int) -> Fault | None:
        if asked == method:
            seen.append(path)
        return fault if asked == method and len(seen) > count else None

    return plan


def cancelling(life: anyio.CancelScope, nth: int) -> Plan:
    """Return a plan without faults that ends the caller's life at its n-th changing request, which is still carried out."""
    seen: list[str] = []

    def plan(asked: str, path: str, _number: int) -> Fault | None:
        if asked != "GET":
            seen.append(path)
            if len(seen) == nth:
                life.cancel()
        return None

    return plan


async def test_mixed_changes_are_done_in_order_and_each_outcome_is_told(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        shown = await host.call("plane_change_tasks", changes=MIXED, dry_run=True)
        assert (shown["status"], host.written) == ("analysis", 0)
        assert "2. change task KB-1 in Plane: state from Todo to Done" in shown["preview"]
        told = await host.call("plane_change_tasks", changes=MIXED)
        assert (told["status"], statuses(told), told["note"]) == ("done", ["done"] * 5, "5 done")
        assert [one["key"] for one in told["results"]] == ["KB-5", "KB-1", "KB-2", "KB-3", "KB-1"]
        assert '"state": "Todo"' in told["results"][1]["undo"]
        assert host.plane.task("KB-2")["priority"] == "urgent"
        assert MEL.id in host.plane.task("KB-3")["assignees"]
        assert host.plane.comments("KB-1")[-1]["comment_html"] == "<p>Closed with the others.</p>"
        written = host.written
        again = await host.call("plane_change_tasks", changes=MIXED)
        assert (again["status"], host.written) == ("unchanged", written)
        assert len(named(host.plane, "Made together")) == 1


async def test_all_that_is_wrong_is_told_at_once_and_nothing_is_sent_unless_the_others_are_wanted(
    tmp_path: Path,
) -> None:
    wrong: list[dict[str, Any]] = [
        {"task": "KB-1", "state": "Nowhere"},
        {"task": "KB-2", "priority": "low"},
        {"task": "KB-99", "priority": "low"},
        {"task": "KB-2", "priority": "high"},
        {"project": "KB", "nome": "x"},
        {"task": "KB-1", "priority": "low", "dry_run": True},
    ]
    async with working(tmp_path) as host:
        error = await host.refused("plane_change_tasks", changes=wrong)
        for part in (
            "5 of 6 changes cannot be carried out",
            "change 1: no state 'Nowhere' in Plane; there are",
            "change 3: Plane has no task",
            "change 4: it is the same as change 2, or sets the same field of its task",
            "change 5: plane_create_task: ",
            "change 6: dry_run belongs to the whole call",
        ):
            assert part in error, part
        assert host.written == 0
        told = await host.call("plane_change_tasks", changes=wrong, partial=True)
        assert (told["status"], host.written) == ("conflict", 1)
        assert statuses(told) == ["refused", "done", *["refused"] * 4]
        assert "50" in await host.refused("plane_change_tasks", changes=[wrong[1]] * 51)


async def test_fifty_changes_fit_into_a_minute_of_requests(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        changes = many(host, 50)
        host.plane.allowance = 60
        told = await host.call("plane_change_tasks", changes=changes)
        assert (told["status"], statuses(told)) == ("done", ["done"] * 50)
        assert len(host.served.seen) <= 60
        assert all("differs" not in one for one in told["results"])


async def test_what_plane_dropped_is_told_although_tasks_are_read_back_as_one_list(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        changes = [{"task": f"KB-{number}", "assignees": ["gus", "mel"]} for number in (1, 2, 3)]
        told = await host.call("plane_change_tasks", changes=changes)
        assert [one["dropped"] for one in told["results"]] == [["assignee gus"]] * 3


async def test_when_plane_accepts_no_more_the_rest_is_told_and_the_same_call_continues(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        made = [{"project": "KB", "name": f"Made {number}"} for number in range(3)]
        changes = [*made, *many(host, 4)]
        host.served.plan = refusing_after(2, "POST", LIMITED)
        told = await host.call("plane_change_tasks", changes=changes)
        assert (told["status"], statuses(told)) == ("conflict", ["done", "done", *["not sent"] * 5])
        assert "the same call in 42 s continues here" in told["results"][2]["note"]
        host.served.plan = no_fault
        rest = await host.call("plane_change_tasks", changes=changes)
        assert statuses(rest) == ["unchanged", "unchanged", *["done"] * 5]
        assert [len(named(host.plane, f"Made {number}")) for number in range(3)] == [1, 1, 1]


async def test_lost_replies_in_the_middle_do_nothing_twice(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        for number, fault in enumerate((after(), before(), status(502, acts=True))):
            changes = [{"project": "KB", "name": f"Lost {number} {one}"} for one in range(4)]
            host.served.plan = for_requests("POST", "/work-items/", fault)
            told = await host.call("plane_change_tasks", changes=changes)
            host.served.plan = no_fault
            assert statuses(told) == ["done"] * 4
            assert [len(named(host.plane, one["name"])) for one in changes] == [1] * 4


async def test_a_person_sees_all_changes_and_approves_them_once(tmp_path: Path) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        waits = await host.call("plane_change_tasks", changes=MIXED)
        assert (waits["status"], host.written) == ("proposed", 0)
        proposal = await person.only()
        shown = json.loads(proposal.preview)
        assert shown["sentence"] == "5 changes of tasks in Plane (KB): 1 new, 3 changed, 1 commented"
        diffs = "\n".join(file["path"] + file["diff"] for file in shown["files"])
        for part in ("1. plane:KB new task", "+name: Made together", "+state: Done", "+Closed with the others."):
            assert part in diffs, part
        # No caller waits for its answer, so it waits until Plane accepts requests again.
        host.served.plan = for_requests("PATCH", "/", LIMITED)
        ended = await person.approve(proposal.id)
        assert (ended.state, ended.error) == ("executed", None)
        assert statuses(json.loads(ended.result or "")) == ["done"] * 5
        again = await host.call("plane_change_tasks", changes=MIXED[1:4])
        assert again["status"] == "unchanged"


async def test_a_batch_whose_tasks_changed_since_it_was_proposed_is_proposed_again(tmp_path: Path) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        waits = await host.call("plane_change_tasks", changes=MIXED[1:3])
        host.plane.change_task("KB-2", by=MEL, priority="low")
        ended = await person.approve(waits["proposal"]["id"])
        assert (ended.state, host.written) == ("superseded", 0)


async def test_an_approved_batch_whose_process_died_in_the_middle_is_finished_once(tmp_path: Path) -> None:
    """A process that carries it out is cut off after two requests; another one takes over."""
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        made = [{"project": "KB", "name": f"Agreed {number}"} for number in range(3)]
        waits = await host.call("plane_change_tasks", changes=[*made, {"task": "KB-1", "state": "Done"}])
        trust, now = host.app.base.state.trust, host.app.services.now
        proposal = await person.proposal(waits["proposal"]["id"])
        verdict = ProposalVerdict(approved=True, by="ann", channel="page", hash=proposal.hash, at=now())
        await trust.decide(proposal.id, verdict)
        claimed = await trust.claim(proposal.id, "a process that dies", now=now() - timedelta(hours=1), lease_s=60)
        assert claimed is not None
        planned = await person.app.approvals._executor.plan(
            proposal, Approval(proposal.id, "approved by ann", proposal.effect)
        )
        with anyio.CancelScope() as life:
            host.served.plan = cancelling(life, 2)
            await planned.plan.execute(planned.call)
        host.served.plan = no_fault
        assert (life.cancelled_caught, host.written) == (True, 2)
        with anyio.fail_after(60):
            # Its server looks for unfinished acts by itself, and may have begun first.
            while (ended := await person.proposal(proposal.id)).state == "approved":
                await person.app.approvals._executor.resume()
                await anyio.sleep(0.02)
        assert (ended.state, ended.error) == ("executed", None)
        assert statuses(json.loads(ended.result or "")) == ["done"] * 4
        assert [len(named(host.plane, one["name"])) for one in made] == [1, 1, 1]
        assert host.plane.task("KB-1")["completed_at"]


async def test_a_list_is_only_used_for_the_project_that_has_the_key_now(tmp_path: Path) -> None:
    """Names of projects are cached for minutes; a project of that name, or one that had the key, is another one."""
    async with working(tmp_path) as host:
        await host.call("plane_list_projects")
        host.plane.project("KB").row["identifier"] = "OLD"
        host.plane.add_project("KB", "Another")
        for number in range(3):
            host.plane.add_task("KB", f"New {number}")
        told = await host.call(
            "plane_change_tasks", changes=[{"task": f"KB-{number}", "priority": "low"} for number in (1, 2, 3)]
        )
        assert statuses(told) == ["done"] * 3
        assert [task["priority"] for task in host.plane.tasks("KB")] == ["low"] * 3
        assert host.plane.task("OLD-1")["priority"] == "high"
