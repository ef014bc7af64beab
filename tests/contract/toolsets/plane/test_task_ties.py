"""A task's parent, cycle, modules, relations, links, archive and comments, and single people: read, set, taken back."""

from __future__ import annotations

import json
from pathlib import Path

from tests.doubles.plane import ADA, MEL
from tests.doubles.serving import after, before, for_requests, no_fault, status
from tests.support.plane.hosts import PlaneHost, named, reviewing, working


def held(host: PlaneHost, kind: str, key: str = "KB-1") -> list[str]:
    """Return the names of the cycles or modules that a task is in."""
    project = host.plane.project("KB")
    rows, groups = (project.in_cycles, project.cycles) if kind == "cycle" else (project.in_modules, project.modules)
    return sorted(groups[row[kind]]["name"] for row in rows.values() if row["issue"] == host.plane.task(key)["id"])


async def test_a_task_is_read_with_its_parent_and_on_request_with_everything_it_is_tied_to(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        one = host.plane.task("KB-1")["id"]
        host.plane.change_task("KB-2", parent=one)
        host.plane.change_task("KB-3", parent=one)
        host.plane.attach("KB-1", "plan.md", "text/markdown", 1234)
        below = await host.call("plane_get_task", task="KB-2")
        assert (below["parent"], below["cycle"], below["subtasks"]) == ("KB-1", "", [])
        asked = [one.path for one in host.served.seen if "/work-items/" in one.path]
        assert len(asked) == 1, "the parent's key comes with the task"
        everything = ["subtasks", "cycle", "modules", "links", "attachments", "comments"]
        told = await host.call("plane_get_task", task="KB-1", include=everything)
        assert [(row["key"], row["state"]) for row in told["subtasks"]] == [("KB-2", "Backlog"), ("KB-3", "Backlog")]
        assert (told["cycle"], told["modules"], told["links"]) == ("Sprint 1", ["Indexing"], [])
        assert told["attachments"] == ["plan.md (text/markdown, 1,234 bytes)"]
        assert told["comments"][0]["id"] == host.plane.comments("KB-1")[0]["id"]


async def test_a_task_is_put_under_another_one_moved_and_taken_out_but_never_into_a_circle(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        set_ = await host.call("plane_update_task", task="KB-2", parent="kb-1")
        assert (set_["status"], set_["differs"]) == ("done", [])
        assert set_["undo"] == 'plane_update_task {"task": "KB-2", "parent": ""}'
        assert host.plane.task("KB-2")["parent"] == host.plane.task("KB-1")["id"]
        assert (await host.call("plane_update_task", task="KB-2", parent="KB-1"))["status"] == "unchanged"
        assert "below it" in await host.refused("plane_update_task", task="KB-1", parent="KB-2")
        assert "below it" in await host.refused("plane_update_task", task="KB-1", parent="KB-1")
        host.plane.add_task("OPS", "Elsewhere")
        assert "in another project" in await host.refused("plane_update_task", task="KB-1", parent="OPS-1")
        moved = await host.call("plane_update_task", task="KB-2", parent="KB-3")
        assert json.loads(moved["undo"].removeprefix("plane_update_task "))["parent"] == "KB-1"
        await host.call("plane_update_task", task="KB-2", parent="")
        assert host.plane.task("KB-2")["parent"] is None
        made = await host.call("plane_create_task", project="KB", name="Below", parent="KB-1")
        assert host.plane.task(made["key"])["parent"] == host.plane.task("KB-1")["id"]


async def test_a_cycle_is_set_moved_and_removed_and_one_that_has_ended_takes_no_task(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        host.plane.add_cycle("KB", "Long ago", starts="2020-01-01", ends="2020-01-14")
        moved = await host.call("plane_update_task", task="KB-1", cycle="draft", priority="low")
        assert (moved["status"], moved["dropped"], moved["differs"]) == ("done", [], [])
        assert (held(host, "cycle"), host.plane.task("KB-1")["priority"]) == (["Draft"], "low")
        assert json.loads(moved["undo"].removeprefix("plane_update_task ")) == {
            "task": "KB-1",
            "priority": "high",
            "cycle": "Sprint 1",
        }
        assert (await host.call("plane_update_task", task="KB-1", cycle="Draft"))["status"] == "unchanged"
        assert "has ended" in await host.refused("plane_update_task", task="KB-1", cycle="Long ago")
        assert "no cycle 'Drift'" in await host.refused("plane_update_task", task="KB-1", cycle="Drift")
        for cycle, now in (("Sprint 1", ["Sprint 1"]), ("Draft", ["Draft"]), ("Sprint 1", ["Sprint 1"]), ("", [])):
            assert (await host.call("plane_update_task", task="KB-1", cycle=cycle))["status"] == "done"
            assert held(host, "cycle") == now


async def test_people_labels_and_modules_are_added_and_removed_one_by_one(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        host.plane.add_module("KB", "Ranking")
        host.plane.add_label("KB", "urgent")
        changed = await host.call(
            "plane_update_task", task="KB-1", assignees=["-mel"], labels=["+urgent"], modules=["+Ranking", "-Indexing"]
        )
        assert (changed["status"], changed["dropped"], changed["differs"]) == ("done", [], [])
        labels = host.plane.project("KB").labels
        assert host.plane.task("KB-1")["assignees"] == [ADA.id]
        assert sorted(labels[one]["name"] for one in host.plane.task("KB-1")["labels"]) == ["bug", "urgent"]
        assert held(host, "module") == ["Ranking"]
        back = json.loads(changed["undo"].removeprefix("plane_update_task "))
        assert (await host.call("plane_update_task", **back))["status"] == "done"
        assert (set(host.plane.task("KB-1")["assignees"]), held(host, "module")) == ({ADA.id, MEL.id}, ["Indexing"])
        whole = await host.call("plane_update_task", task="KB-1", modules=["ranking", "indexing"])
        assert (whole["status"], held(host, "module")) == ("done", ["Indexing", "Ranking"])
        seen = host.plane.task("KB-1")["updated_at"]
        host.plane.change_task("KB-1", by=MEL, assignees=[])
        late = await host.call("plane_update_task", task="KB-1", assignees=["+ada"], seen_at=seen)
        assert late["status"] == "done", "adding one person overwrites nobody's list"


async def test_a_mixed_or_ambiguous_change_of_a_list_is_refused(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        host.plane.add_label("KB", "+1")
        for wrong, told in (
            ({"labels": ["+bug", "urgent"]}, "mixes names with and without a sign"),
            ({"labels": ["+1"]}, "'+1' is a name here, so the sign is ambiguous"),
            ({"assignees": ["+mel", "-mel"]}, "both adds and removes the same value"),
            ({"assignees": ["-zoe"]}, "no member 'zoe'"),
            ({"relations": ["blocks"]}, "write one of"),
            ({"relations": ["-blocks KB-2"]}, "Plane's API can't remove relations"),
            ({"relations": ["blocks KB-1"]}, "cannot be related to itself"),
            ({"links": ["example.org"]}, "does not begin with a web address"),
            ({"links": ["-https://example.org"]}, "the task has no link https://example.org"),
            ({"archived": True}, "only a completed or cancelled task can be archived"),
        ):
            error = await host.refused("plane_update_task", task="KB-1", **wrong)
            assert told in error, wrong
        assert host.written == 0
        made = await host.call("plane_create_task", project="KB", name="Plus one", labels=["+1"])
        assert made["status"] == "done", "for a new task the list is taken literally"


async def test_tasks_are_related_and_plane_keeps_one_relation_of_two_tasks(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        done = await host.call("plane_update_task", task="KB-1", relations=["blocks KB-2", "Relates to kb-3"])
        assert (done["status"], done["dropped"]) == ("done", [])
        assert "a person can remove them in Plane" in done["undo"]
        read = await host.call("plane_get_task", task="KB-1", include=["relations"])
        assert {(one["kind"], one["key"]) for one in read["relations"]} == {("blocks", "KB-2"), ("relates to", "KB-3")}
        again = await host.call("plane_update_task", task="KB-1", relations=["blocks KB-2"])
        assert again["status"] == "unchanged"
        error = await host.refused("plane_update_task", task="KB-2", relations=["duplicate of KB-1"])
        assert "already has 'blocked by KB-1'" in error


async def test_links_are_added_with_a_title_and_removed(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        links = ["https://example.org/a The  plan", "https://example.org/b"]
        done = await host.call("plane_update_task", task="KB-1", links=links)
        assert (done["status"], done["dropped"]) == ("done", [])
        read = await host.call("plane_get_task", task="KB-1", include=["links"])
        assert set(read["links"]) == {"https://example.org/a The plan", "https://example.org/b https://example.org/b"}
        gone = await host.call("plane_update_task", task="KB-1", links=["-https://example.org/a"])
        assert gone["status"] == "done"
        assert [row["url"] for row in host.plane.project("KB").links.values()] == ["https://example.org/b"]


async def test_a_task_is_created_with_all_its_ties_once_also_if_a_reply_is_lost(tmp_path: Path) -> None:
    asked = {
        "project": "KB",
        "name": "Tied",
        "parent": "KB-1",
        "cycle": "Sprint 1",
        "modules": ["Indexing"],
        "relations": ["blocked by KB-2"],
        "links": ["https://example.org/a A"],
    }
    ends = ("/work-items/", "/cycle-issues/", "/module-issues/", "/relations/", "/links/")
    async with working(tmp_path) as host:
        host.plane.add_cycle("KB", "Sprint 1b", starts="2026-01-01", ends="2099-01-01")
        asked["cycle"] = "Sprint 1b"
        for end in ends:
            for number, fault in enumerate((after(), before(), status(500, acts=True))):
                name = f"Tied {end} {number}"
                host.served.plan = for_requests("POST", end, fault)
                told = await host.call("plane_create_task", **{**asked, "name": name})
                host.served.plan = no_fault
                if told["status"] == "unsure":
                    told = await host.call("plane_create_task", **{**asked, "name": name})
                assert told["status"] in ("done", "unchanged"), (end, number, told)
                (row,) = named(host.plane, name)
                key = f"KB-{row['sequence_id']}"
                assert (held(host, "cycle", key), held(host, "module", key)) == (["Sprint 1b"], ["Indexing"])
                assert sum(one == row["id"] for one, _, _ in host.plane.relations) == 1
                assert sum(link["issue"] == row["id"] for link in host.plane.project("KB").links.values()) == 1


async def test_a_finished_task_is_archived_after_its_other_changes(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        done = await host.call("plane_update_task", task="KB-1", state="Done", archived=True, cycle="")
        assert (done["status"], done["differs"], done["key"]) == ("done", [], "KB-1")
        assert host.plane.task("KB-1")["archived_at"]
        assert (host.plane.task("KB-1")["completed_at"] is not None, held(host, "cycle")) == (True, [])
        assert "a person can restore the task in Plane" in done["undo"]
        host.plane.change_task("KB-1", archived_at=None)
        host.served.plan = for_requests("PATCH", "/", after())
        lost = await host.call("plane_update_task", task="KB-1", archived=True)
        assert (lost["status"], host.plane.task("KB-1")["archived_at"] is not None) == ("done", True)


async def test_a_refused_part_is_told_with_what_was_done_before_it(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        host.served.plan = for_requests("POST", "/links/", status(400, {}, '{"url": ["Invalid URL format."]}'))
        told = await host.call("plane_update_task", task="KB-1", priority="low", links=["https://example.org/a"])
        assert (told["status"], host.plane.task("KB-1")["priority"]) == ("unsure", "low")
        assert "part of it was done, then: Plane refused the request (400" in told["note"]
        host.served.plan = no_fault
        again = await host.call("plane_update_task", task="KB-1", priority="low", links=["https://example.org/a"])
        assert again["status"] == "done"


# --- comments ---------------------------------------------------------------------------------------------------------


async def test_a_comment_is_changed_and_deleted_by_its_author_alone(tmp_path: Path) -> None:
    async with working(tmp_path, level=5) as host:
        kept = '<p class="editor-paragraph-block" style="text-align: center">Kept.</p>'
        mine = host.plane.add_comment("KB-1", f"{kept}<p>Old.</p>")
        other = host.plane.add_comment("KB-1", "<p>Theirs.</p>", by=MEL)
        edited = await host.call("plane_comment_task", task="KB-1", comment_id=mine["id"], text="Kept.\n\nNew.")
        assert (edited["status"], edited["differs"], edited["undo"]) == (
            "done",
            [],
            "plane_comment_task with the same comment_id and its earlier text, which Plane no longer has",
        )
        row = host.plane.project("KB").comments[mine["id"]]
        assert row["comment_html"] == f"{kept}<p>New.</p>"
        same = await host.call("plane_comment_task", task="KB-1", comment_id=mine["id"], text="Kept.\n\nNew.")
        assert same["status"] == "unchanged"
        for change in ({"text": "Mine."}, {"delete": True}):
            error = await host.refused("plane_comment_task", task="KB-1", comment_id=other["id"], **change)
            assert "the comment is by mel" in error
        assert "delete needs comment_id" in await host.refused("plane_comment_task", task="KB-1", delete=True)
        gone = await host.call("plane_comment_task", task="KB-1", comment_id=mine["id"], delete=True)
        assert (gone["status"], gone["undo"]) == ("done", "a deleted comment cannot be restored")
        assert mine["id"] not in host.plane.project("KB").comments
        again = await host.call("plane_comment_task", task="KB-1", comment_id=mine["id"], delete=True)
        assert again["status"] == "unchanged"


async def test_deleting_a_comment_needs_a_level_more_also_in_a_batch(tmp_path: Path) -> None:
    """The handbook, on acting elsewhere: nothing takes it back."""
    async with working(tmp_path, level=4) as host:
        mine = host.plane.add_comment("KB-1", "<p>Old.</p>")
        gone = {"task": "KB-1", "comment_id": mine["id"], "delete": True}
        for waits in (
            await host.call("plane_comment_task", **gone),
            await host.call("plane_change_tasks", changes=[{"task": "KB-2", "priority": "low"}, gone]),
        ):
            assert (waits["status"], waits["proposal"]["level_needed"], host.written) == ("proposed", 5, 0)


async def test_a_person_sees_what_a_comment_was_before_it_is_changed_or_deleted(tmp_path: Path) -> None:
    async with working(tmp_path, level=2) as host, reviewing(host.settings) as person:
        mine = host.plane.add_comment("KB-1", "<p>Old.</p>")
        for change, diff in (({"text": "New."}, "-Old.\n+New."), ({"delete": True}, "-New.")):
            waits = await host.call("plane_comment_task", task="KB-1", comment_id=mine["id"], **change)
            shown = json.loads((await person.proposal(waits["proposal"]["id"])).preview)
            assert diff in shown["files"][0]["diff"]
            assert (await person.approve(waits["proposal"]["id"])).state == "executed"
        assert "delete for good a comment on task KB-1" in shown["sentence"]
        assert mine["id"] not in host.plane.project("KB").comments


# --- mentions ---------------------------------------------------------------------------------------------------------


async def test_exact_names_are_mentions_and_everyone_who_is_mentioned_is_said_before(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        text = "Ask @MEL, not @zoe or `@ada`; mail mel@example.com."
        plan = await host.call("plane_comment_task", task="KB-1", text=text, dry_run=True)
        assert "mentions mel" in plan["note"]
        assert "so it stays text: @zoe" in plan["note"]
        done = await host.call("plane_comment_task", task="KB-1", text=text)
        assert (done["status"], done["differs"]) == ("done", [])
        assert "mentions mel" in done["note"]
        html = host.plane.comments("KB-1")[-1]["comment_html"]
        assert html.count("<mention-component") == 1
        assert f'entity_identifier="{MEL.id}" entity_name="user_mention"' in html
        assert "@zoe" in html
        read = await host.call("plane_get_task", task="KB-1", include=["comments"])
        assert read["comments"][-1]["text"].startswith("Ask @mel, not @zoe")
        made = await host.call("plane_create_task", project="KB", name="Mentioning", description="For @mel.")
        assert "<mention-component" in host.plane.task(made["key"])["description_html"]
        assert (made["note"], made["differs"]) == ("mentions mel", [])


async def test_only_what_was_written_becomes_a_mention_not_the_same_name_in_kept_text(tmp_path: Path) -> None:
    async with working(tmp_path) as host:
        kept = "<p>Literally @mel, as it was.</p>"
        host.plane.change_task("KB-1", description_html=f"{kept}<p>Old.</p>")
        seen = await host.call("plane_get_task", task="KB-1")
        text = seen["text"].replace("Old.", "New, for @ada.")
        done = await host.call("plane_update_task", task="KB-1", description=text, seen_at=seen["updated_at"])
        assert (done["status"], done["note"]) == ("done", "mentions ada")
        html = host.plane.task("KB-1")["description_html"]
        assert "Literally @mel, as it was." in html
        assert html.count("<mention-component") == 1
