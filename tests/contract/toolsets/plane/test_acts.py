"""Acts on tasks, through a real client, the real gate and a Plane that answers as recorded: once, shown before, read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.outbox.ports import OutboxEntry
from knowledge.trust.ports import ProposalVerdict
from mcp_server.app.composition import listed
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.toolsets.plane.acts.execution import SENT
from tests.doubles.plane import MEL
from tests.doubles.serving import (
    Fault,
    Plan,
    after,
    before,
    delayed,
    for_requests,
    html,
    no_fault,
    status,
)
from tests.support.plane.hosts import PlaneHost, named, plane_settings, reviewing, silent_from, working

WHOLE = {
    "project": "kb",
    "name": "  Rotate   the keys ",
    "description": "# Why\n\nThey are *old*: see kb:guides/deploy.md.\n\n```sh\nrotate --all\n```",
    "priority": "high",
    "assignees": ["MEL", "admin@example.com"],
    "state": "in progress",
    "labels": ["Bug"],
    "start": "2026-11-20",
    "due": "2026-12-01",
}
PLAIN = {"project": "KB", "name": "Rotate the keys"}


async def test_a_task_has_the_requested_fields_under_our_key_and_the_answer_has_its_address(
    tmp_path: Path,
) -> None:
    async with working(tmp_path) as host:
        answer = await host.call("plane_create_task", **WHOLE)
        (task,) = named(host.plane, "Rotate the keys")
        assert (answer["status"], answer["task_id"], answer["key"]) == ("done", task["id"], "KB-5")
        assert (answer["project_id"], answer["url"]) == (task["project"], f"{host.served.address}/acme/browse/KB-5/")
        assert (answer["dropped"], answer["differs"], answer["proposal"]) == ([], [], None)
        assert answer["note"] is None

        assert set(task["assignees"]) == {MEL.id, host.plane.task("KB-1")["created_by"]}
        assert (task["priority"], task["start_date"], task["target_date"]) == ("high", "2026-11-20", "2026-12-01")
        assert task["external_source"] == "knowledge-forge"
        assert task["external_id"].startswith("kf-")
        assert "<h1>Why</h1>" in task["description_html"]
        states = {row["id"]: row["name"] for row in host.plane.project("KB").states.values()}
        assert states[task["state"]] == "In Progress"


async def test_the_same_call_again_creates_nothing_and_answers_the_first_task(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        first = await host.call("plane_create_task", **WHOLE)
        again = await host.call(
            "plane_create_task", **{**WHOLE, "name": "Rotate the keys", "assignees": ["Ada", "mel"]}
        )
        assert (again["status"], again["key"], again["task_id"]) == ("unchanged", first["key"], first["task_id"])
        assert "nothing was sent again" in again["note"]
        other = await host.call("plane_create_task", **{**WHOLE, "due": "2026-12-02"})
        assert (other["status"], other["key"]) == ("done", "KB-6")


@pytest.mark.parametrize(
    ("near", "nearest"),
    [
        ({"project": "knowlege base"}, "KB"),
        ({"state": "In  progres"}, "In Progress"),
        ({"labels": ["bugs"]}, "bug"),
        ({"assignees": ["me", "admin"]}, "ada"),
    ],
)
async def test_an_act_takes_no_near_name_and_lists_the_nearest(
    tmp_path: Path, near: Mapping[str, object], nearest: str
) -> None:
    async with working(tmp_path) as host:
        named = {"project": "kb", "state": "in  progress", "labels": ["BUG"], "assignees": ["Ada"], "name": "Rotate"}
        error = await host.refused("plane_create_task", **{**named, **near})
        assert "in Plane; there are" in error
        assert nearest in error
        assert host.written == 0
        assert (await host.call("plane_create_task", **named))["status"] == "done"


@pytest.mark.parametrize("level", [4, 2])
async def test_a_deleted_task_is_not_recreated_by_the_same_call_which_says_so(tmp_path: Path, level: int) -> None:
    async with working(tmp_path, level=level) as host, reviewing(host.settings) as person:
        first = await host.call("plane_create_task", **PLAIN)
        if first["status"] == "proposed":
            await person.approve(first["proposal"]["id"])
        (made,) = named(host.plane, PLAIN["name"])
        del host.plane.project("KB").tasks[made["id"]]
        again = await host.call("plane_create_task", **PLAIN)
        assert (again["status"], again["task_id"]) == ("unchanged", made["id"])
        assert "deleted or archived in Plane; to create another one, change the wording" in again["note"]
        other = await host.call("plane_create_task", **PLAIN, description="Once more.")
        assert other["status"] == ("done" if level == 4 else "proposed")


async def test_fields_that_plane_dropped_or_added_are_in_the_answer(tmp_path: Path) -> None:
    """A guest can't be assigned, and a project may have a default assignee for unassigned tasks.

    Both get a plain 201.
    """
    async with working(tmp_path) as host:
        host.plane.project("KB").row["default_assignee"] = MEL.id
        dropped = await host.call("plane_create_task", **PLAIN, assignees=["gus"])
        assert dropped["dropped"] == ["assignee gus"]
        assert dropped["differs"] == ["assignees: also mel"]
        given = await host.call("plane_create_task", project="KB", name="For nobody")
        assert (given["dropped"], given["differs"]) == ([], ["assignees: also mel"])
        changed = await host.call("plane_update_task", task=given["key"], assignees=["ada", "gus"])
        assert (changed["status"], changed["dropped"], changed["differs"]) == ("done", ["assignee gus"], [])


async def test_a_page_knows_the_tasks_that_were_written_about_it_from_here(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        await host.call("plane_create_task", **WHOLE)
        await host.call("plane_comment_task", task="KB-1", text="As in kb:guides/deploy.md, not kb:guides/none.md.")
        mentions = await host.app.base.state.outbox.mentions("guides/deploy.md")
        assert sorted((one.origin, one.url) for one in mentions) == [
            ("plane:KB-1", f"{host.served.address}/acme/browse/KB-1/"),
            ("plane:KB-5", f"{host.served.address}/acme/browse/KB-5/"),
        ]


WRONG: list[tuple[dict[str, object], str]] = [
    ({"project": "KC"}, "no project 'KC' in Plane"),
    ({"state": "Nowhere"}, "no state 'Nowhere' in Plane; there are"),
    ({"labels": ["bug", "fast lane"]}, "no label 'fast lane' in Plane; there are"),
    ({"assignees": ["zoe"]}, "'zoe' in Plane; there are"),
    ({"due": "next week"}, "due 'next week' is not an ISO date; write it like 2026-12-01; nothing was sent"),
    ({"name": "\0\x1b"}, "the name is empty; a task needs one; nothing was sent"),
    ({"start": "2026-12-02", "due": "2026-12-01"}, "it would start on 2026-12-02, after it is due on 2026-12-01"),
    ({"name": " \n "}, "the name is empty"),
    ({"priority": "huge"}, "priority"),
]


async def test_an_impossible_value_is_an_error_with_the_choices_before_anything_is_sent(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        for wrong, told in WRONG:
            assert told in await host.refused("plane_create_task", **{**PLAIN, **wrong})
        assert host.written == 0


async def test_a_dry_run_shows_the_request_and_sends_nothing(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        created = await host.call("plane_create_task", **WHOLE, dry_run=True)
        assert (created["status"], created["task_id"], created["key"]) == ("analysis", None, None)
        lines = created["preview"].splitlines()
        assert lines[:5] == [
            "name: Rotate the keys",
            "state: In Progress",
            "priority: high",
            "assignees: ada, mel",
            "labels: bug",
        ]
        assert "# Why" in lines
        moved = await host.call("plane_update_task", task="kb-1", state="done", dry_run=True)
        assert (moved["status"], moved["key"], moved["preview"]) == ("analysis", "KB-1", "state: Done")
        said = await host.call("plane_comment_task", task="KB-1", text="It is *so*.", dry_run=True)
        assert (said["status"], said["preview"]) == ("analysis", "It is *so*.")
        assert host.written == 0


async def test_only_named_fields_change_and_unchanged_ones_are_not_sent(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        was = dict(host.plane.task("KB-1"))
        moved = await host.call("plane_update_task", task="kb-1", state="DONE", priority="low")
        assert (moved["status"], moved["key"], moved["differs"]) == ("done", "KB-1", [])
        now = host.plane.task("KB-1")
        kept = set(was) - {"state", "priority", "updated_at", "updated_by", "completed_at"}
        assert {name: now[name] for name in kept} == {name: was[name] for name in kept}
        (patched,) = [seen for seen in host.served.seen if seen.method == "PATCH"]
        assert set(json.loads(patched.body)) == {"state", "priority"}
        again = await host.call("plane_update_task", task="KB-1", state="completed", priority="low", name=was["name"])
        assert (again["status"], again["note"]) == ("unchanged", "the task already has these values; nothing was sent")
        assert host.served.count("PATCH") == 1


async def test_a_task_in_any_state_of_a_group_is_in_that_group(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        released = host.plane.add_state("KB", "Released", "completed")
        host.plane.change_task("KB-1", state=released["id"])
        assert (await host.call("plane_update_task", task="KB-1", state="Completed"))["status"] == "unchanged"
        assert (await host.call("plane_update_task", task="KB-1", state="Done"))["status"] == "done"


async def test_a_task_can_be_moved_out_of_a_state_that_was_made_a_moment_ago(tmp_path: Path) -> None:
    """Names are cached for a while, and a task's values are compared by ids."""
    async with working(tmp_path) as host:
        await host.call("plane_update_task", task="KB-1", state="Todo")
        fresh = host.plane.add_state("KB", "Just made", "started")
        label = host.plane.add_label("KB", "just made")
        host.plane.change_task("KB-1", state=fresh["id"], labels=[label["id"]])
        moved = await host.call("plane_update_task", task="KB-1", state="Todo", labels=["bug"])
        assert (moved["status"], moved["differs"]) == ("done", [])


async def test_a_written_change_is_in_the_next_list_despite_the_cache(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        before_it = {task["key"] for task in (await host.call("plane_query_tasks", project="KB"))["tasks"]}
        made = await host.call("plane_create_task", **PLAIN)
        listed_now = (await host.call("plane_query_tasks", project="KB", priority="none"))["tasks"]
        assert {task["key"] for task in listed_now} - before_it == {made["key"]}
        await host.call("plane_update_task", task=made["key"], priority="urgent")
        urgent = (await host.call("plane_query_tasks", project="KB", priority="urgent"))["tasks"]
        assert made["key"] in {task["key"] for task in urgent}


async def test_dates_people_and_labels_can_be_emptied(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        made = await host.call("plane_create_task", **WHOLE)
        changed = await host.call("plane_update_task", task=made["key"], start="", due="", assignees=[], labels=[])
        assert (changed["status"], changed["differs"], changed["dropped"]) == ("done", [], [])
        task = host.plane.task("KB-5")
        assert [task[name] for name in ("start_date", "target_date", "assignees", "labels")] == [None, None, [], []]
        assert "nothing was sent" in await host.refused("plane_update_task", task="KB-5")
        late = await host.refused("plane_update_task", task="KB-1", start="2030-01-01")
        assert "it would start on 2030-01-01" in late


async def test_a_task_that_is_moved_moved_back_and_moved_again_is_moved_each_time(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        for state in ("Done", "Todo", "Done"):
            assert (await host.call("plane_update_task", task="KB-1", state=state))["status"] == "done"
        assert host.served.count("PATCH") == 3


async def test_a_description_changed_since_it_was_read_is_not_replaced(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        odd = await host.refused("plane_update_task", task="KB-1", description="Mine.", seen_at="yesterday")
        assert "seen_at 'yesterday' is not a time; pass updated_at exactly as plane_get_task gave it" in odd
        seen = host.plane.task("KB-1")["updated_at"]
        blind = await host.refused("plane_update_task", task="KB-1", description="Mine.")
        assert "read it with plane_get_task, and pass its updated_at as seen_at" in blind
        host.plane.change_task("KB-1", by=MEL, description_html="<p>Words of <b>Mel</b>.</p>")
        conflict = await host.call("plane_update_task", task="KB-1", description="Mine.", seen_at=seen, state="Done")
        assert (conflict["status"], conflict["preview"]) == ("conflict", "Words of **Mel**.")
        assert host.written == 0
        fresh = conflict["note"].partition("seen_at=")[2]
        joined = await host.call("plane_update_task", task="KB-1", description="Mine. Words of **Mel**.", seen_at=fresh)
        assert (joined["status"], joined["differs"]) == ("done", [])
        assert "Mine. Words of <strong>Mel</strong>." in host.plane.task("KB-1")["description_html"]
        same = await host.call("plane_update_task", task="KB-1", description="Mine. Words of **Mel**.", seen_at=seen)
        assert same["status"] == "unchanged"


async def test_with_seen_at_nobody_assigned_since_is_removed(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        host.plane.change_task("KB-1", assignees=[])
        seen = (await host.call("plane_get_task", task="KB-1"))["updated_at"]
        host.plane.change_task("KB-1", by=MEL, assignees=[MEL.id])
        late = await host.call("plane_update_task", task="KB-1", assignees=["ada"], priority="low", seen_at=seen)
        assert (late["status"], host.written) == ("conflict", 0)
        assert "assignees: mel" in late["preview"]
        assert "preview has its current values" in late["note"]
        now = late["note"].rpartition("seen_at=")[2]
        asked = {"task": "KB-1", "assignees": ["ada", "mel"], "seen_at": now}
        assert (await host.call("plane_update_task", **asked))["status"] == "done"


async def test_a_comment_or_another_field_since_is_no_conflict(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        seen = (await host.call("plane_get_task", task="KB-1"))["updated_at"]
        host.plane.change_task("KB-1", by=MEL, priority="low")
        first = await host.call("plane_update_task", task="KB-1", description="Mine.", seen_at=seen)
        assert first["status"] == "done"
        assert host.plane.task("KB-1")["updated_at"] == first["updated_at"]
        again = await host.call("plane_update_task", task="KB-1", description="Next.", seen_at=first["updated_at"])
        assert again["status"] == "done"
        late = await host.call("plane_update_task", task="KB-1", description="Late.", seen_at=seen)
        assert late["status"] == "conflict"
        host.plane.change_task("KB-1", by=MEL, priority="high")
        unknown = await host.call("plane_update_task", task="KB-1", description="X.", seen_at="2026-11-01T00:00:00Z")
        assert unknown["status"] == "conflict"


async def test_of_two_concurrent_descriptions_the_second_gets_an_error_and_overwrites_nothing(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        seen = host.plane.task("KB-1")["updated_at"]
        answers: list[dict[str, Any]] = []

        async def write(text: str) -> None:
            answers.append(await host.call("plane_update_task", task="KB-1", description=text, seen_at=seen))

        async with anyio.create_task_group() as tasks:
            for text in ("First.", "Second.", "Third."):
                tasks.start_soon(write, text)
        assert sorted(answer["status"] for answer in answers) == ["conflict", "conflict", "done"]
        assert host.written == 1


async def test_a_comment_is_added_once_and_an_empty_one_not_at_all(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        count = len(host.plane.comments("KB-1"))
        answer = await host.call("plane_comment_task", task="KB-1", text="Seen on **build 44**.")
        assert (answer["status"], answer["key"], answer["differs"]) == ("done", "KB-1", [])
        again = await host.call("plane_comment_task", task=answer["url"], text="Seen on **build 44**.")
        assert (again["status"], again["key"]) == ("unchanged", "KB-1")
        assert len(host.plane.comments("KB-1")) == count + 1
        assert "the comment is empty" in await host.refused("plane_comment_task", task="KB-1", text=" \n\t ")
        assert host.written == 1


# --- the gate ---------------------------------------------------------------------------------------------------------


async def test_below_the_level_a_person_sees_everything_that_is_sent_and_then_it_is_done_once(
    tmp_path: Path,
) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        waits = await host.call("plane_create_task", **WHOLE)
        assert (waits["status"], waits["task_id"], host.written) == ("proposed", None, 0)
        again = await host.call("plane_create_task", **WHOLE)
        assert again["proposal"]["id"] == waits["proposal"]["id"]
        proposal = await person.only()
        shown = json.loads(proposal.preview)
        diffs = "\n".join(file["diff"] for file in shown["files"])
        for text in ("+name: Rotate the keys", "+state: In Progress", "+assignees: ada, mel", "+rotate --all"):
            assert text in diffs
        assert "Knowledge Base (KB) for ada, mel: “Rotate the keys”" in shown["sentence"]
        done = await person.approve(proposal.id)
        assert (done.state, done.error) == ("executed", None)
        assert json.loads(done.result or "")["key"] == "KB-5"
        assert len(named(host.plane, "Rotate the keys")) == 1
        told = await host.call("proposal_status", proposal_id=proposal.id)
        assert told["proposal"]["result"]["status"] == "done"


@pytest.mark.security
async def test_nobody_is_asked_again_about_an_approved_and_executed_act(tmp_path: Path) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        for tool, arguments in (
            ("plane_create_task", WHOLE),
            ("plane_comment_task", {"task": "KB-1", "text": "Agreed."}),
        ):
            waits = await host.call(tool, **arguments)
            result = json.loads((await person.approve(waits["proposal"]["id"])).result or "")
            again = await host.call(tool, **arguments)
            assert (again["status"], again["proposal"]) == ("unchanged", None)
            assert (again["key"], again["task_id"], again["url"]) == (result["key"], result["task_id"], result["url"])
            assert f"as {waits['proposal']['id']} and is done" in again["note"]
        other = await host.call("plane_create_task", **{**WHOLE, "priority": "low"})
        assert other["status"] == "proposed"
        assert host.written == 2


async def test_several_changes_of_one_task_wait_side_by_side(tmp_path: Path) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        await host.call("plane_update_task", task="KB-1", state="Done")
        await host.call("plane_update_task", task="KB-1", assignees=["mel"])
        await host.call("plane_comment_task", task="KB-1", text="Done.")
        waiting = await person.waiting()
        assert len(waiting) == 3
        for one in waiting:
            assert (await person.approve(one.id)).state == "executed"
        task = host.plane.task("KB-1")
        assert task["assignees"] == [MEL.id]
        assert task["completed_at"]


async def test_an_approved_act_is_proposed_again_if_the_task_changed_meanwhile(tmp_path: Path) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        waits = await host.call("plane_update_task", task="KB-1", priority="low")
        host.plane.change_task("KB-1", by=MEL, priority="urgent")
        ended = await person.approve(waits["proposal"]["id"])
        assert (ended.state, host.written) == ("superseded", 0)
        anew = await person.only()
        assert ended.successor == anew.id
        assert "-priority: urgent" in json.loads(anew.preview)["files"][0]["diff"]
        assert (await person.approve(anew.id)).state == "executed"
        assert host.plane.task("KB-1")["priority"] == "low"


async def test_a_task_that_changes_between_plan_and_act_is_left_alone(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        host.served.plan = changing_before_look(host, 1)
        conflict = await host.call("plane_update_task", task="KB-1", priority="low")
        assert conflict["status"] == "conflict"
        assert "was changed meanwhile; nothing was sent" in conflict["note"]
        assert (host.plane.task("KB-1")["priority"], host.written) == ("urgent", 0)
        host.served.plan = no_fault
        assert (await host.call("plane_update_task", task="KB-1", priority="low"))["status"] == "done"
    async with working(tmp_path / "waits", level=2) as host, reviewing(host.settings) as person:
        waits = await host.call("plane_update_task", task="KB-1", priority="low")
        host.served.plan = changing_before_look(host, 1)
        ended = await person.approve(waits["proposal"]["id"])
        assert (ended.state, host.plane.task("KB-1")["priority"], host.written) == ("superseded", "urgent", 0)


@pytest.mark.parametrize("nth", [2, 7], ids=["while it is looked up", "before it is sent again"])
async def test_someone_elses_act_after_a_lost_change_is_not_undone(tmp_path: Path, nth: int) -> None:
    """The first request never arrived; before it is sent again someone moves the task."""
    async with working(tmp_path) as host:
        lost = for_requests("PATCH", "/", before())
        meanwhile = changing_before_look(host, nth)
        host.served.plan = lambda method, path, number: lost(method, path, number) or meanwhile(method, path, number)
        answer = await host.call("plane_update_task", task="KB-1", priority="low")
        assert answer["status"] == "unsure"
        assert "somebody else changed KB-1 meanwhile" in answer["note"]
        assert host.plane.task("KB-1")["priority"] == "urgent"


OTHERS = "<p>What somebody else wrote meanwhile.</p>"


@pytest.mark.parametrize("field", ["description", "assignees", "labels"])
async def test_someone_elses_value_between_plan_and_act_is_not_taken_for_ours(tmp_path: Path, field: str) -> None:
    async with working(tmp_path) as host:
        other = host.plane.add_label("KB", "Theirs")["id"]
        theirs: dict[str, Any] = {"description": OTHERS, "assignees": [MEL.id], "labels": [other]}
        name = "description_html" if field == "description" else field
        ours: dict[str, object] = {"description": "Mine.", "assignees": ["ada"], "labels": ["Bug"]}
        host.plane.change_task("KB-1", by=MEL, assignees=[], labels=[])
        seen = host.plane.task("KB-1")["updated_at"]
        host.served.plan = changing_before_look(host, 1, **{name: theirs[field]})
        answer = await host.call("plane_update_task", task="KB-1", seen_at=seen, **{field: ours[field]})
        assert (answer["status"], host.written) == ("conflict", 0)


@pytest.mark.parametrize("nth", [2, 7], ids=["while it is looked up", "before it is sent again"])
async def test_someone_elses_text_after_a_lost_change_is_not_overwritten(tmp_path: Path, nth: int) -> None:
    async with working(tmp_path) as host:
        seen = host.plane.task("KB-1")["updated_at"]
        lost = for_requests("PATCH", "/", before())
        meanwhile = changing_before_look(host, nth, description_html=OTHERS)
        host.served.plan = lambda method, path, number: lost(method, path, number) or meanwhile(method, path, number)
        answer = await host.call("plane_update_task", task="KB-1", priority="low", description="Mine.", seen_at=seen)
        assert answer["status"] == "unsure"
        assert "somebody else changed KB-1 meanwhile" in answer["note"]
        assert host.plane.task("KB-1")["description_html"] == OTHERS


async def test_a_change_still_in_progress_does_not_undo_someones_later_change(
    tmp_path: Path,
) -> None:
    """It arrived, and someone changes the task before anything is sent again."""
    async with working(tmp_path) as host:
        seen = host.plane.task("KB-1")["updated_at"]
        lost = for_requests("PATCH", "/", after())
        meanwhile = changing_before_look(host, 2, description_html=OTHERS)
        host.served.plan = lambda method, path, number: lost(method, path, number) or meanwhile(method, path, number)
        answer = await host.call("plane_update_task", task="KB-1", description="Mine.", seen_at=seen)
        assert (answer["status"], host.written) == ("unsure", 1)
        assert host.plane.task("KB-1")["description_html"] == OTHERS


def changing_before_look(host: PlaneHost, nth: int, **changes: Any) -> Plan:
    """Return a plan without faults; someone else changes KB-1 just before its n-th read by id."""
    looks: list[str] = []
    by_id = f"{host.plane.task('KB-1')['id']}/"

    def plan(method: str, path: str, _number: int) -> Fault | None:
        if method == "GET" and path.endswith(by_id):
            looks.append(path)
            if len(looks) == nth:
                host.plane.change_task("KB-1", by=MEL, **(changes or {"priority": "urgent"}))
        return None

    return plan


async def test_an_approved_task_whose_label_is_gone_ends_as_failed_and_says_why(tmp_path: Path) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        waits = await host.call("plane_create_task", **PLAIN, labels=["bug"])
        host.plane.project("KB").labels.clear()
        ended = await person.approve(waits["proposal"]["id"])
        assert ended.state == "failed"
        assert "label" in (ended.error or "")
        assert named(host.plane, "Rotate the keys") == []


async def test_text_of_another_project_that_was_read_before_raises_the_level_and_that_of_the_same_does_not(
    tmp_path: Path,
) -> None:
    async with working(tmp_path, level=4) as host:
        await host.call("plane_get_task", task="KB-1")
        assert (await host.call("plane_comment_task", task="KB-2", text="As told there."))["status"] == "done"
        waits = await host.call("plane_create_task", project="OPS", name="As told in KB")
        assert waits["status"] == "proposed"
        assert waits["proposal"]["level_needed"] == 5
        assert (
            "You read text from plane:KB-1, which nobody has vouched for, so this act needs level 5"
            in waits["proposal"]["why"]
        )


async def test_learning_a_tasks_name_counts_as_reading_it(tmp_path: Path) -> None:
    """A person must see which task is moved; the requesting host may read what the person sees."""
    async with working(tmp_path, level=3) as host:
        taints, principal = host.app.services.taints, str((await host.call("trust_status"))["principal"])
        waits = await host.call("plane_comment_task", task="KB-2", text="Hello.")
        assert not await taints.of(principal, "")
        waits = await host.call("plane_update_task", task="KB-1", priority="low")
        shown = await host.call("proposal_status", proposal_id=waits["proposal"]["id"])
        assert "Search returns stale rows" in shown["proposal"]["preview"]
        assert set(await taints.of(principal, "")) == {"plane:KB-1"}


async def test_an_act_that_shows_nothing_of_a_task_leaves_its_caller_free_and_a_conflict_does_not(
    tmp_path: Path,
) -> None:
    async with working(tmp_path, level=4) as host:
        await host.call("plane_update_task", task="KB-1", name="Another name")
        await host.call("plane_comment_task", task="KB-1", text="Renamed.")
        assert (await host.call("plane_create_task", project="OPS", name="Free"))["status"] == "done"
        conflict = await host.call(
            "plane_update_task", task="KB-1", description="Mine.", seen_at="2026-01-01T00:00:00Z"
        )
        assert conflict["status"] == "conflict"
        assert (await host.call("plane_create_task", project="OPS", name="Held"))["status"] == "proposed"


@pytest.mark.security
async def test_a_proposals_task_text_counts_as_read_even_if_only_taint_made_it_one(tmp_path: Path) -> None:
    """For a caller with the level, planning shows nothing, and the name is the old one once it has to wait."""
    async with working(tmp_path, level=4) as host:
        await host.call("kb_read", path="mail/outside.md")
        assert (await host.call("plane_update_task", task="KB-1", name="Another name"))["status"] == "proposed"
        read = await host.app.services.taints.of(Principal(os_user(), "writer").id, "")
        assert {"plane:KB-1"} < set(read)


async def test_a_reading_host_has_no_writing_tools_and_only_allowed_projects_are_touched(
    tmp_path: Path,
) -> None:
    names = {spec.name for spec in listed(plane_settings(tmp_path, "http://localhost:1", plane_read_only=True))}
    assert "plane_get_task" in names
    assert not names & {"plane_create_task", "plane_update_task", "plane_comment_task"}
    async with working(tmp_path, plane_projects=("KB",)) as host:
        task = host.plane.add_task("OPS", "Secret matter")
        for call in (
            {"tool": "plane_create_task", "project": "OPS", "name": "x"},
            {"tool": "plane_update_task", "task": "OPS-1", "state": "Done"},
            {"tool": "plane_comment_task", "task": "OPS-1", "text": "x"},
            {"tool": "plane_comment_task", "task": task["id"], "text": "x"},
        ):
            told = await host.refused(**call)
            assert "Secret matter" not in told
        assert host.written == 0


async def test_of_many_equal_concurrent_calls_one_is_done_and_all_get_its_task(tmp_path: Path) -> None:
    """Plane checks a key before it writes and not while it does: two requests at once would make two tasks."""
    async with working(tmp_path) as host:
        answers: list[dict[str, Any]] = []

        async def create() -> None:
            answers.append(await host.call("plane_create_task", **PLAIN))

        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(create)
        assert {answer["key"] for answer in answers} == {"KB-5"}
        assert sorted(answer["status"] for answer in answers) == ["done", *["unchanged"] * 11]
        assert host.served.count("POST") == 1


async def test_a_caller_that_leaves_does_not_interrupt_a_send(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        await host.call("plane_list_projects")
        host.served.plan = for_requests("POST", "/work-items/", delayed(0.3))
        with anyio.move_on_after(0.15) as gone:
            await host.call("plane_create_task", **PLAIN)
        assert gone.cancelled_caught
        again = await host.call("plane_create_task", **PLAIN)
        assert (again["key"], host.served.count("POST")) == ("KB-5", 1)


async def test_an_approved_act_whose_reply_is_lost_is_done_once_and_reported_as_done(tmp_path: Path) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        for number, fault in enumerate((after(), status(502, acts=True), html(504))):
            waits = await host.call("plane_create_task", project="KB", name=f"Approved {number}")
            host.served.plan = for_requests("POST", "/work-items/", fault)
            ended = await person.approve(waits["proposal"]["id"])
            assert (ended.state, ended.error) == ("executed", None)
            assert json.loads(ended.result or "")["note"] == "an earlier attempt did it, but its reply was lost"
            assert len(named(host.plane, f"Approved {number}")) == 1


async def test_an_approved_act_with_an_unknown_outcome_ends_as_failed_and_says_where_to_look(tmp_path: Path) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        waits = await host.call("plane_comment_task", task="KB-1", text="Approved.")
        host.served.plan = silent_from("POST", "/comments/", after())
        ended = await person.approve(waits["proposal"]["id"])
        assert ended.state == "failed"
        assert "it is not known whether this was done" in (ended.error or "")
        assert f"{host.served.address}/acme/browse/KB-1/" in (ended.error or "")


async def test_approving_again_after_an_unknown_outcome_does_it_once(tmp_path: Path) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        for number, lost in enumerate((after(), before())):
            asked = {"project": "KB", "name": f"Agreed twice {number}"}
            waits = await host.call("plane_create_task", **asked)
            host.served.plan = silent_from("POST", "/work-items/", lost)
            assert (await person.approve(waits["proposal"]["id"])).state == "failed"
            again = await host.call("plane_create_task", **asked)
            assert again["proposal"]["id"] != waits["proposal"]["id"]
            host.served.plan = no_fault
            done = await person.approve(again["proposal"]["id"])
            assert (done.state, json.loads(done.result or "")["status"]) == ("executed", "done")
            assert len(named(host.plane, f"Agreed twice {number}")) == 1
            assert not [
                one for one in await host.app.base.state.outbox.open() if one.proposal == again["proposal"]["id"]
            ]


@pytest.mark.parametrize("acted", [True, pytest.param(False, marks=pytest.mark.external)])
@pytest.mark.parametrize("deed", ["create", "update", "comment"])
async def test_an_orphaned_approved_act_is_looked_up_and_done_once(tmp_path: Path, deed: str, *, acted: bool) -> None:
    """The process dies after the request, before it can record the outcome; another one takes over."""
    calls: dict[str, tuple[str, dict[str, object]]] = {
        "create": ("plane_create_task", dict(WHOLE)),
        "update": ("plane_update_task", {"task": "KB-1", "state": "Done", "description": "New.", "name": "Other"}),
        "comment": ("plane_comment_task", {"task": "KB-1", "text": "Approved."}),
    }
    tool, arguments = calls[deed]
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        if deed == "update":
            arguments["seen_at"] = host.plane.task("KB-1")["updated_at"]
        waits = await host.call(tool, **arguments)
        trust, outbox, now = host.app.base.state.trust, host.app.base.state.outbox, host.app.services.now
        proposal = await person.proposal(waits["proposal"]["id"])
        verdict = ProposalVerdict(approved=True, by="ann", channel="page", hash=proposal.hash, at=now())
        await trust.decide(proposal.id, verdict)
        await trust.claim(proposal.id, "a process that died", now=now() - timedelta(hours=1), lease_s=60)
        begun = OutboxEntry(
            "kf-" + "0" * 32, proposal.principal, tool, "plane:KB", "ab" * 32, now(), proposal=proposal.id
        )
        await outbox.begin(begun, within=timedelta(0))
        if acted:
            await send_as_it_did(host, deed, begun)
        await person.app.approvals._executor.resume()
        ended = await person.proposal(proposal.id)
        assert (ended.state, ended.error) == ("executed", None)
        assert json.loads(ended.result or "")["status"] == "done"
        task = host.plane.task("KB-1")
        counted = {
            "create": len(named(host.plane, "Rotate the keys")),
            "update": int((task["name"], bool(task["completed_at"])) == ("Other", True)),
            "comment": sum("Approved." in row["comment_html"] for row in host.plane.comments("KB-1")),
        }
        assert counted[deed] == 1
        known = await outbox.outbox_entry(begun.id)
        assert known is not None
        assert known.fate == "done"


async def send_as_it_did(host: PlaneHost, deed: str, outbox_entry: OutboxEntry) -> None:
    """Repeat what the dead process had sent."""
    source = "knowledge-forge"
    if deed == "create":
        host.plane.add_task("KB", "Rotate the keys", external_id=outbox_entry.id, external_source=source)
    elif deed == "comment":
        host.plane.add_comment("KB-1", "<p>Approved.</p>", external_id=outbox_entry.id, external_source=source)
    else:
        await host.app.base.state.outbox.mark(outbox_entry.id, {SENT: "yes"})
        done = next(row["id"] for row in host.plane.project("KB").states.values() if row["name"] == "Done")
        host.plane.change_task("KB-1", name="Other", description_html="<p>New.</p>", state=done)
