"""Task queries: their names, which tasks match, and where the next page begins."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import BadCursor
from knowledge.wire.cursors import seal
from mcp_server.connectors.plane.model import PlaneTask, State
from mcp_server.connectors.plane.names import BadReference, Reference, reference_of, states_meant
from mcp_server.toolsets.plane.queries import (
    BadDate,
    PagePlace,
    SortBy,
    TaskFilter,
    TaskOrder,
    day_of,
    exact,
    moment_of,
    remaining_tasks,
    words_of,
)

ID = "ec26f1c1-6200-4c9d-9f82-66ecb6413088"
PROJECT = "f31ca0e1-8bc5-415e-b30a-e6423eed5b32"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
STATES = (
    State("1", "Backlog", "backlog"),
    State("2", "Todo", "unstarted"),
    State("3", "Doing", "started"),
    State("4", "In Review", "started"),
    State("5", "Done", "completed"),
    State("6", "Cancelled", "cancelled"),
)


def task(task_id: str = "t", *, at: datetime = BEGIN, **fields: Any) -> PlaneTask:
    """Return a task with some fields."""
    plain: dict[str, Any] = {
        "number": 1,
        "project_id": "p",
        "name": "A name",
        "priority": "none",
        "state_id": "1",
        "assignee_ids": (),
        "label_ids": (),
        "starts": None,
        "due": None,
        "created_at": BEGIN,
    }
    return PlaneTask(id=task_id, updated_at=at, **{**plain, **fields})


def meant(asked: str) -> Reference:
    return reference_of(asked, hosts=("plane.example.com:8443",), base_path="", workspace="acme")


@pytest.mark.parametrize(
    ("asked", "reference"),
    [
        ("KB-12", Reference("KB", 12)),
        (" kb-12 ", Reference("kb", 12)),
        ("plane:KB-12", Reference("KB", 12)),
        ("#KB-12", Reference("KB", 12)),
        ("БАЗА-7", Reference("БАЗА", 7)),
        (ID, Reference(task_id=ID)),
        (ID.replace("-", "").upper(), Reference(task_id=ID)),
        ("https://plane.example.com:8443/acme/browse/KB-12/", Reference("KB", 12)),
        ("https://PLANE.example.com:8443/acme/browse/KB-12?peek=1#c", Reference("KB", 12)),
        (
            f"https://plane.example.com:8443/acme/projects/{PROJECT}/issues/{ID}",
            Reference(task_id=ID, project_id=PROJECT),
        ),
        (
            f"https://plane.example.com:8443/acme/projects/{PROJECT}/work-items/{ID}/",
            Reference(task_id=ID, project_id=PROJECT),
        ),
    ],
)
def test_a_task_is_named_by_key_id_or_address(asked: str, reference: Reference) -> None:
    assert meant(asked) == reference


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "KB",
        "KB-",
        "-12",
        "KB-12/../..",
        "KB-12?x=1",
        "K B-12",
        "KB-1234567890",
        "../users/me",
        "https://plane.example.com/acme/browse/KB-12/",
        "https://plane.example.com:8443@evil.example.com/acme/browse/KB-12/",
        "https://evil.example.com/?https://plane.example.com:8443/acme/browse/KB-12/",
        "https://plane.example.com:8443/other/browse/KB-12/",
        "https://plane.example.com:8443/acme/browse/KB-12%2F..%2F..%2Fusers/",
        "https://plane.example.com:8443/acme/projects/x/issues/y/",
        "https://[broken/acme/browse/KB-12",
    ],
)
def test_an_invalid_name_is_refused_and_shown_shortened(asked: str) -> None:
    with pytest.raises(BadReference) as refused:
        meant(asked)
    assert len(str(refused.value)) <= 280


@given(st.text(max_size=80))
def test_no_text_leads_anywhere_but_to_a_key_or_ids(asked: str) -> None:
    """The result becomes part of a path."""
    try:
        found = meant(asked)
    except BadReference:
        return
    assert "/" not in found.project_key
    assert not found.task_id or (len(found.task_id) == 36 and set(found.task_id) <= set("0123456789abcdef-"))


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ("Todo", {"2"}),
        ("in  review", {"4"}),
        ("started", {"3", "4"}),
        ("OPEN", {"1", "2", "3", "4"}),
        ("completed", {"5"}),
        ("done", {"5"}),
        ("canceled", {"6"}),
        ("backlog", {"1"}),
    ],
)
def test_a_state_is_meant_by_name_first_then_by_group(asked: str, ids: set[str]) -> None:
    assert states_meant(asked, STATES) == frozenset(ids)


def test_an_unknown_state_is_left_to_the_typo_search() -> None:
    assert states_meant("Tood", STATES) is None


@pytest.mark.parametrize(
    ("wanted", "fields", "fits"),
    [
        (TaskFilter(), {}, True),
        (TaskFilter(words=words_of("NAME a")), {}, True),
        (TaskFilter(words=words_of("name b")), {}, False),
        (TaskFilter(words=words_of("kb-1")), {}, True),
        (TaskFilter(words=words_of("cafe\u0301")), {"name": "Café"}, True),
        (TaskFilter(state_ids=frozenset({"1"})), {}, True),
        (TaskFilter(state_ids=frozenset()), {}, False),
        (TaskFilter(assignee_ids=frozenset({"a", "c"})), {"assignee_ids": ("b", "a")}, True),
        (TaskFilter(assignee_ids=frozenset({"a"})), {}, False),
        (TaskFilter(nobody=True), {}, True),
        (TaskFilter(nobody=True), {"assignee_ids": ("a",)}, False),
        (TaskFilter(assignee_ids=frozenset({"a"}), nobody=True), {}, True),
        (TaskFilter(assignee_ids=frozenset({"a"}), nobody=True), {"assignee_ids": ("a",)}, True),
        (TaskFilter(assignee_ids=frozenset({"a"}), nobody=True), {"assignee_ids": ("b",)}, False),
        (TaskFilter(creator_id="a"), {"created_by": "a"}, True),
        (TaskFilter(creator_id=""), {}, False),
        (TaskFilter(label_ids=frozenset({"l"})), {"label_ids": ("k", "l")}, True),
        (TaskFilter(label_ids=frozenset({"l", "m"})), {"label_ids": ("k",)}, False),
        (TaskFilter(priorities=frozenset({"high", "low"})), {"priority": "high"}, True),
        (TaskFilter(priorities=frozenset({"high"})), {}, False),
        (TaskFilter(parent_id="p"), {"parent_id": "p"}, True),
        (TaskFilter(parent_id="p"), {}, False),
        (TaskFilter(parent_id=""), {}, True),
        (TaskFilter(parent_id=""), {"parent_id": "p"}, False),
        (TaskFilter(starts_by=date(2026, 1, 2)), {"starts": date(2026, 1, 2)}, True),
        (TaskFilter(starts_by=date(2026, 1, 2)), {"starts": date(2026, 1, 3)}, False),
        (TaskFilter(starts_by=date(2026, 1, 2)), {}, False),
        (TaskFilter(due_by=date(2026, 1, 2)), {"due": date(2026, 1, 2)}, True),
        (TaskFilter(due_by=date(2026, 1, 2)), {"due": date(2026, 1, 3)}, False),
        (TaskFilter(due_by=date(2026, 1, 2)), {}, False),
        (TaskFilter(overdue_at=date(2026, 1, 2)), {"due": date(2026, 1, 1)}, True),
        (TaskFilter(overdue_at=date(2026, 1, 2)), {"due": date(2026, 1, 2)}, False),
        (TaskFilter(overdue_at=date(2026, 1, 2), closed_ids=frozenset({"1"})), {"due": date(2026, 1, 1)}, False),
        (TaskFilter(updated_since=BEGIN), {}, True),
        (TaskFilter(updated_since=BEGIN + timedelta(microseconds=1)), {}, False),
    ],
)
def test_a_task_matches_if_it_has_everything_requested(
    *, wanted: TaskFilter, fields: Mapping[str, Any], fits: bool
) -> None:
    assert wanted.fits(task(**fields), "KB-1") is fits


MADE = st.lists(
    st.builds(
        lambda number, moment, day, priority, name: task(
            f"{number:02}",
            at=BEGIN + timedelta(microseconds=moment),
            created_at=BEGIN - timedelta(microseconds=moment),
            due=None if day is None else date(2026, 1, day),
            priority=priority,
            name=name,
        ),
        st.integers(0, 50),
        st.integers(0, 5),
        st.none() | st.integers(1, 3),
        st.sampled_from(["urgent", "none", "asap"]),
        st.sampled_from(["a", "B", "b ", "ä", "z" * 200]),
    ),
    unique_by=lambda one: one.id,
    max_size=30,
)


@given(MADE, st.integers(1, 7), st.builds(TaskOrder, st.sampled_from(get_args(SortBy)), st.booleans()))
def test_pages_have_every_task_once_in_any_order_also_where_many_are_equal(
    tasks: list[PlaneTask], limit: int, order: TaskOrder
) -> None:
    found: list[str] = []
    cursor: str | None = None
    while True:
        place = PagePlace.of(cursor, "k")
        rest = remaining_tasks(tasks, place, order, cursor or "")
        assert rest.changed == 0
        found += [one.id for one in rest.tasks[:limit]]
        if len(rest.tasks) <= limit:
            break
        last = rest.tasks[limit - 1]
        cursor = PagePlace(rest.seen_to, order.position(last), last.id).cursor("k")
    assert found == [one.id for one in order.of(tasks)]
    assert len(found) == len(set(found)) == len(tasks)


@pytest.mark.parametrize(
    ("order", "first_to_last"),
    [
        (TaskOrder(), ["new", "old", "undated"]),
        (TaskOrder("updated", reverse=True), ["undated", "old", "new"]),
        (TaskOrder("created"), ["undated", "old", "new"]),
        (TaskOrder("due"), ["old", "new", "undated"]),
        (TaskOrder("due", reverse=True), ["new", "old", "undated"]),
        (TaskOrder("priority"), ["undated", "old", "new"]),
        (TaskOrder("name"), ["new", "undated", "old"]),
        (TaskOrder("name", reverse=True), ["old", "undated", "new"]),
    ],
)
def test_an_order_is_newest_most_urgent_or_a_to_z_first_and_can_be_turned(
    order: TaskOrder, first_to_last: list[str]
) -> None:
    """A task without a due date is last in both directions."""
    days = [BEGIN + timedelta(days=number) for number in range(3)]
    tasks = [
        task("new", at=days[2], created_at=days[0], due=date(2026, 2, 2), priority="none", name="Apple"),
        task("old", at=days[1], created_at=days[1], due=date(2026, 2, 1), priority="high", name="cherry"),
        task("undated", at=days[0], created_at=days[2], priority="urgent", name="Banana"),
    ]
    assert [one.id for one in order.of(tasks)] == first_to_last


NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "place",
    [
        ("soon", "[false, 1.0]", "t", "", ""),
        (NOW, "", "t", "", ""),
        (NOW, "[false]", "t", "", ""),
        (NOW, '[false, "x"]', "t", "", ""),
        (NOW, "[1, 1.0]", "t", "", ""),
        (NOW, "{}", "t", "", ""),
        (NOW, "[" * 5_000, "t", "", ""),
        (NOW, "[false, 1.0]", "t"),
    ],
)
def test_a_cursor_without_a_place_in_it_is_none(place: tuple[str, ...]) -> None:
    cursor = seal("k", place)
    with pytest.raises(BadCursor):
        remaining_tasks([task()], PagePlace.of(cursor, "k"), TaskOrder(), cursor)


def test_a_moment_is_written_to_the_last_digit() -> None:
    """It comes back as `seen_at`, and is compared."""
    assert exact(datetime(2026, 1, 1, 12, 0, 0, 120, tzinfo=UTC)) == "2026-01-01T12:00:00.000120Z"


def test_dates_are_iso_dates_and_a_moment_without_a_zone_is_utc() -> None:
    assert day_of("due", " 2026-11-30 ") == date(2026, 11, 30)
    assert moment_of("updated_since", "2026-11-30") == datetime(2026, 11, 30, tzinfo=UTC)
    assert moment_of("updated_since", "2026-11-30T02:00:00+02:00") == datetime(2026, 11, 30, tzinfo=UTC)
    for wrong in ("tomorrow", "30.11.2026", "2026-13-01", ""):
        with pytest.raises(BadDate, match=r"^due .* is not .*; nothing was requested from Plane$"):
            day_of("due", wrong)
        with pytest.raises(BadDate, match=r"^updated_since .* is not .*; nothing was requested from Plane$"):
            moment_of("updated_since", wrong)
    with pytest.raises(BadDate):
        moment_of("updated_since", "9999-12-31T23:59:59-23:59")
