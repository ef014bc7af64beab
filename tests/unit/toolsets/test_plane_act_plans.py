"""Plans of acts on tasks, and the comparison after reading back: pure."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.connectors.plane.model import CLEAR, PlaneTask, Project, TaskFields
from mcp_server.connectors.plane.text.edit import edited, lost
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.toolsets.plane.acts.execution import fields_of
from mcp_server.toolsets.plane.acts.model import (
    FieldName,
    TaskField,
    TaskPlan,
    Value,
    answered,
    changes,
    preview,
    sentence,
    undo_of,
)
from mcp_server.toolsets.plane.acts.readback import ReadbackDifference, difference, is_as_before, is_between, is_done
from mcp_server.toolsets.plane.acts.tie_fields import ListChange, is_signed

KB = Project("p-1", "KB", "Knowledge Base")
AT = datetime(2026, 11, 20, 21, 1, 4, 576801, tzinfo=UTC)
NAMES = {"u-1": "ada", "u-2": "mel", "l-1": "bug", "s-1": "Todo", "s-2": "Done"}
TASK = PlaneTask(
    id="t-1",
    number=7,
    project_id="p-1",
    name="Old words of somebody",
    priority="none",
    state_id="s-1",
    assignee_ids=("u-2",),
    label_ids=(),
    starts=None,
    due=date(2026, 12, 1),
    created_at=AT,
    updated_at=AT,
    html="<p>Old text.</p>",
)
STATE = TaskField("state", "s-1", "s-2", "Todo", "Done")
PEOPLE = TaskField("assignees", ["u-2"], ["u-1"], "mel", "ada")
TEXT = TaskField("description", "<p>Old text.</p>", "<p>New text.</p>", "Old text.", "New text.")
DUE = TaskField("due", "2026-12-01", None, "2026-12-01", "")


def updating(*fields: TaskField, **more: Any) -> TaskPlan:
    return TaskPlan("update", KB, fields, NAMES, **{"task": TASK, "url": "http://plane/KB-7", **more})


def creating(*fields: TaskField) -> TaskPlan:
    return TaskPlan("create", KB, (TaskField("name", None, "New", "", "New"), *fields), NAMES)


def test_the_effect_covers_the_set_values_and_those_they_replace_and_nothing_else() -> None:
    plan = updating(STATE)
    same = [
        replace(plan, names={}, url=None, arguments_hash="ab", quotes=True),
        updating(STATE, task=replace(TASK, updated_at=AT.replace(year=2027), name="Another", assignee_ids=())),
        updating(replace(STATE, was="To do", will_be="Finished")),
    ]
    assert {one.effect for one in same} == {plan.effect}
    others = [
        updating(replace(STATE, before="s-3")),
        updating(replace(STATE, after="s-3")),
        updating(STATE, PEOPLE),
        updating(STATE, task=replace(TASK, id="t-2")),
        replace(plan, project=replace(KB, id="p-2")),
        replace(plan, kind="comment"),
    ]
    assert len({plan.effect, *(one.effect for one in others)}) == len(others) + 1
    assert updating().effect == ""


def test_the_same_change_after_the_task_was_changed_is_another_act_and_the_same_creation_is_not() -> None:
    plan = updating(STATE)
    assert plan.digest != updating(STATE, task=replace(TASK, updated_at=AT.replace(year=2027))).digest
    assert plan.digest == updating(STATE).digest
    assert creating().digest == creating().digest != creating(STATE).digest


def test_a_person_sees_every_sent_text_and_the_task_and_the_caller_nothing_of_the_old_text() -> None:
    plan = updating(STATE, PEOPLE, DUE, TEXT)
    short, long = changes(plan)
    assert short["path"] == "plane:KB-7"
    assert " name: Old words of somebody" in short["diff"]
    for line in (
        "-state: Todo",
        "+state: Done",
        "-assignees: mel",
        "+assignees: ada",
        "-due: 2026-12-01",
        "+due: none",
    ):
        assert line in short["diff"].splitlines()
    assert long["path"] == "plane:KB-7 description"
    assert {"-Old text.", "+New text."} <= set(long["diff"].splitlines())
    told = preview(plan) + sentence(plan)
    assert "Old" not in told
    assert preview(plan) == "state: Done\nassignees: ada\ndue: none\n\nNew text."
    assert (
        sentence(plan)
        == "change task KB-7 in Plane: state from Todo to Done, due from 2026-12-01 to none, assignees, description"
    )
    assert plan.destination == "plane:KB"


def test_a_long_text_is_not_returned_to_its_author_and_shown_in_full_to_the_approver() -> None:
    text = "Word. " * 2_000
    plan = TaskPlan("comment", KB, (TaskField("comment", None, text, "", text),), task=TASK)
    told = answered(plan, "analysis").preview or ""
    assert len(told) < 4_100
    assert told.endswith("8,000 characters more, as given")
    assert changes(plan)[0]["diff"].count("Word.") == 2_000


@given(st.text(max_size=400), st.text(max_size=400))
def test_a_name_cannot_end_its_quotes_or_its_line_and_a_sentence_is_short(name: str, people: str) -> None:
    plan = TaskPlan(
        "create", KB, (TaskField("name", None, name, "", name), TaskField("assignees", None, [], "", people))
    )
    told = sentence(plan)
    assert len(told) <= 200
    assert "\n" not in told
    assert told.count("”") <= 1 + people.count("”")


MENTION = '<mention-component id="x" entity_identifier="u-2" entity_name="user_mention"></mention-component>'
SHOT = '<image-component src="0b9c4f1e-asset" width="300" height="200"></image-component>'


def test_what_a_changed_description_loses_is_in_the_sentence_and_in_the_answer() -> None:
    before = f"<div><p>Ask {MENTION} or {MENTION}</p>{SHOT}<p>End.</p></div>"
    seen = markdown_of(before, {"u-2": "mel"})
    after = edited(before, seen.replace("or @mel", "or nobody"), {"u-2": "mel"})
    assert SHOT in after
    told = updating(replace(TEXT, before=before, after=after, loses=lost(before, after)))
    assert (
        sentence(told)
        == "change task KB-7 in Plane: description (1 mention lost: Markdown or Plane's API has no form for that)"
    )
    kept = difference(told, replace(TASK, html=after))
    assert kept.differs == ("description: 1 mention lost: Markdown or Plane's API has no form for that",)


def test_others_names_cannot_pass_for_another_field() -> None:
    plan = updating(TaskField("labels", [], ["l-1"], "", "bug\npriority: urgent\r\u2028name: x"))
    (shown,) = changes(plan)
    assert [line for line in shown["diff"].splitlines() if line.startswith("+") and not line.startswith("+++")] == [
        "+labels: bug priority: urgent name: x"
    ]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({"state_id": "s-2"}, ReadbackDifference()),
        ({"state_id": "s-1"}, ReadbackDifference(differs=("state: Todo, not Done",))),
        ({"state_id": None}, ReadbackDifference(differs=("state: none, not Done",))),
        ({"state_id": "s-2", "assignee_ids": ()}, ReadbackDifference(("assignee ada",), ())),
        (
            {"state_id": "s-2", "assignee_ids": ("u-2",)},
            ReadbackDifference(("assignee ada",), ("assignees: also mel",)),
        ),
        (
            {"state_id": "s-2", "assignee_ids": ("u-1", "u-9")},
            ReadbackDifference((), ("assignees: also one that this server does not know",)),
        ),
        ({"state_id": "s-2", "due": date(2026, 12, 1)}, ReadbackDifference(differs=("due: 2026-12-01, not none",))),
        ({"state_id": "s-2", "html": "<div><p>New text.</p></div>"}, ReadbackDifference()),
    ],
)
def test_planes_differences_are_reported_without_words_of_the_task(
    now: dict[str, Any], expected: ReadbackDifference
) -> None:
    there = replace(TASK, **{"assignee_ids": ("u-1",), "due": None, "html": "<p>New text.</p>", **now})
    assert difference(updating(STATE, PEOPLE, DUE, TEXT), there) == expected


def test_missing_or_extra_words_of_a_text_are_reported() -> None:
    lost = difference(updating(TEXT), replace(TASK, html="<p>New.</p>"))
    more = difference(updating(TEXT), replace(TASK, html="<p>New text. And more.</p>"))
    assert len(lost.differs) == len(more.differs) == 1
    assert lost.differs[0].startswith("description: ")
    assert more.differs == ("description: 2 words added",)
    renamed = TaskField("name", "Old", "New", "Old", "New")
    assert difference(updating(renamed), TASK).differs == ("name: it differs from what was sent",)


def test_a_change_is_confirmed_if_each_field_is_as_set_or_at_least_changed_where_plane_takes_part_of_it() -> None:
    plan = updating(STATE, PEOPLE)
    assert is_as_before(plan, TASK)
    assert not is_done(plan, TASK)
    half = replace(TASK, state_id="s-2")
    assert (is_done(plan, half), is_as_before(plan, half), is_between(plan, half)) == (False, False, True)
    dropped = replace(half, assignee_ids=())
    assert (is_done(plan, dropped), is_between(plan, dropped)) == (True, True)
    elsewhere = replace(TASK, state_id="s-3")
    assert (is_done(plan, elsewhere), is_as_before(plan, elsewhere), is_between(plan, elsewhere)) == (
        False,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("html", "taken"),
    [
        ("<p>New text.</p>", True),
        ("<div><p>New <strong>text.</strong></p></div>", True),
        ("<p>New text. And more.</p>", False),
        ("<p>New.</p>", False),
        (None, False),
    ],
)
def test_plane_may_change_the_elements_of_a_description_but_none_of_its_words(html: str | None, taken: bool) -> None:  # noqa: FBT001 - a row
    there = replace(TASK, html=html)
    assert is_done(updating(TEXT), there) is taken
    assert is_between(updating(TEXT), there) is taken
    emptied = replace(TEXT, after=None, will_be="")
    assert is_done(updating(emptied), replace(TASK, html="<p></p>"))
    assert not is_done(updating(emptied), TASK)


def test_a_renamed_task_is_known_by_its_name() -> None:
    plan = updating(TaskField("name", TASK.name, "New", TASK.name, "New"))
    assert (is_as_before(plan, TASK), is_done(plan, TASK)) == (True, False)
    renamed = replace(TASK, name="New")
    assert (is_as_before(plan, renamed), is_done(plan, renamed)) == (False, True)


def test_the_sentence_on_a_new_task_names_it_and_its_people() -> None:
    begin = "create a task in Plane project Knowledge Base (KB)"
    assert sentence(creating()) == f"{begin}: “New”"
    assert sentence(creating(TaskField("assignees", None, ["u-1"], "", "ada"))) == f"{begin} for ada: “New”"


def test_the_planned_request_is_sent_and_nothing_else() -> None:
    assert fields_of(updating(STATE, DUE)) == TaskFields(state_id="s-2", due=CLEAR)
    assert fields_of(updating(PEOPLE, TEXT)) == TaskFields(assignee_ids=("u-1",), html="<p>New text.</p>")
    assert fields_of(updating(TaskField("start", None, "2026-11-20", "", "2026-11-20"))) == TaskFields(
        starts=date(2026, 11, 20)
    )
    draft = fields_of(creating(TaskField("due", None, "2026-12-01", "", "2026-12-01")))
    assert (draft.name, draft.due, draft.html, draft.assignee_ids) == (
        "New",
        date(2026, 12, 1),
        None,
        None,
    )


NAMED: tuple[FieldName, ...] = ("name", "state", "priority", "start", "due", "description", "comment")
values = st.one_of(
    st.none(), st.text(max_size=20).filter(lambda text: max(text, default="") < "\ud800" or max(text) > "\udfff")
)


@given(st.lists(st.tuples(st.sampled_from(NAMED), values, values), min_size=1, max_size=4))
def test_two_plans_with_different_requests_have_different_effects(
    drawn: list[tuple[FieldName, Value, Value]],
) -> None:
    fields = [TaskField(name, before, after, "", "") for name, before, after in drawn]
    plan = updating(*fields)
    told = json.dumps([[one.name, one.before, one.after] for one in fields])
    for place, one in enumerate(fields):
        other = [*fields[:place], replace(one, after=f"{one.after}!"), *fields[place + 1 :]]
        assert json.dumps([[f.name, f.before, f.after] for f in other]) != told
        assert updating(*other).effect != plan.effect


# --- ties, lists and undo ---------------------------------------------------------------------------------------------

CYCLE = TaskField("cycle", "c-1", "c-2", "Week 1", "Week 2")
MODULES = TaskField("modules", ["m-1"], ["m-2"], "", "+Two, -One")
LINKS = TaskField("links", ["https://a.org/old"], ["https://a.org/new"], "https://a.org/old", "New <https://a.org/new>")
ARCHIVED = TaskField("archived", None, "yes", "no", "yes")
MORE_NAMES = {**NAMES, "m-1": "One", "m-2": "Two"}


@pytest.mark.parametrize(
    ("now", "before", "between", "done"),
    [
        ({"cycle": "c-1", "modules": ["m-1"]}, True, True, False),
        ({"cycle": "c-2", "modules": ["m-1", "m-2"]}, False, True, False),
        ({"cycle": "c-2", "modules": ["m-2"]}, False, True, True),
        # The task is in neither of the act's cycles: somebody moved it to another one.
        ({"cycle": None, "modules": ["m-2"]}, False, False, False),
    ],
)
def test_ties_are_compared_as_far_as_the_act_touches_them(
    now: dict[FieldName, Value], *, before: bool, between: bool, done: bool
) -> None:
    plan = updating(CYCLE, MODULES)
    assert (is_as_before(plan, TASK, now), is_between(plan, TASK, now), is_done(plan, TASK, now)) == (
        before,
        between,
        done,
    )
    assert (difference(plan, TASK, now) == ReadbackDifference()) is done


def test_a_tie_that_plane_did_not_make_is_named() -> None:
    plan = replace(updating(CYCLE, MODULES), names={**MORE_NAMES, "c-1": "Week 1"})
    found = difference(plan, TASK, {"cycle": "c-1", "modules": ["m-1"]})
    assert (found.dropped, found.differs) == (("module Two",), ("cycle: Week 1, not Week 2", "modules: also One"))


def test_undo_is_the_call_that_sets_back_what_was_changed_and_says_what_a_person_has_to_do() -> None:
    back = undo_of(replace(updating(STATE, PEOPLE, DUE, CYCLE, MODULES, LINKS), names=MORE_NAMES), "KB-7")
    assert json.loads(back.removeprefix("plane_update_task ")) == {
        "task": "KB-7",
        "state": "Todo",
        "assignees": ["-ada", "+mel"],
        "due": "2026-12-01",
        "cycle": "Week 1",
        "modules": ["-Two", "+One"],
        "links": ["-https://a.org/new", "https://a.org/old"],
    }
    assert undo_of(updating(TEXT), "KB-7") == (
        "not by a call: description (the earlier one is in the history of the task in Plane)"
    )
    # An archived task can only be changed once it is restored.
    assert undo_of(updating(STATE, ARCHIVED), "KB-7").startswith("not by a call: archived (a person can restore")
    assert "deletes no task" in undo_of(creating(), "KB-8")
    said = TaskPlan("comment", KB, (), task=TASK)
    assert undo_of(said, "KB-7", "x-1") == 'plane_comment_task {"task": "KB-7", "comment_id": "x-1", "delete": true}'


def test_the_archive_is_not_part_of_the_request_that_sets_fields() -> None:
    plan = updating(STATE, CYCLE, ARCHIVED)
    assert (plan.own_fields, plan.ties) == ((STATE,), (CYCLE,))
    assert plan.without_archive.fields == (STATE, CYCLE)
    assert fields_of(plan) == TaskFields(state_id="s-2")
    above = TaskField("parent", "t-9", None, "KB-9", "")
    assert fields_of(updating(above)) == TaskFields(parent_id=CLEAR)


def test_only_lists_whose_entries_all_have_a_sign_change_the_present_one() -> None:
    assert [is_signed(one) for one in (["+a", " -b"], ["+a", "b"], ["a"], [], None)] == [
        True,
        False,
        False,
        False,
        False,
    ]
    one, two = replace(TASK, id="1"), replace(TASK, id="2")
    assert ListChange([one], [two], whole=False).applied_to(["2", "3"]) == ["1", "3"]
    assert ListChange([two, one]).applied_to(["3"]) == ["1", "2"]
