"""The wire module of Plane: every recorded reply is read or judged, every request equals the recorded one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import pytest

from mcp_server.connectors.errors import (
    ConnectorError,
    Denied,
    Missing,
    NoAnswer,
    ReplyLost,
    ServiceLimited,
    ServiceRefused,
)
from mcp_server.connectors.plane import reply_check, wire
from mcp_server.connectors.plane.model import (
    CLEAR,
    Comment,
    Cycle,
    FoundTask,
    KeyTaken,
    Label,
    ListPage,
    Module,
    PlaneMember,
    PlaneTask,
    Project,
    Relation,
    State,
    TaskFields,
)
from mcp_server.connectors.request.wire import Method, ServiceReply, ServiceRequest
from tests.support.plane.samples import FOLDER, SAMPLES, Sample

ACME = "acme"
KB = "f31ca0e1-8bc5-415e-b30a-e6423eed5b32"
TASK = "ec26f1c1-6200-4c9d-9f82-66ecb6413088"
ADA = "d430a76c-bfea-42c6-afdb-311a48e95ec9"
MEL = "733a981c-7b7c-4c45-92cc-83c0335a34f4"
BUG = "1a1f40f3-7881-4ca8-a27b-e20bc0aab7e1"
TODO = "e8ce0837-6a32-4d53-bb6d-57cea51808df"
BACKLOG = "d2b678a6-1177-4759-ab6a-2639028f8951"
SPRINT = "2033e010-2b3e-4a3d-99c6-0f70b6e7a799"
DRAFT = "e4a8e83d-b5ca-4e66-9e1f-93772e7f20df"
INDEXING = "94ed273f-d68b-400b-a837-dbb69329a338"
FIRST = PlaneTask(
    id=TASK,
    number=1,
    project_id=KB,
    name="Search returns stale rows",
    priority="high",
    state_id=TODO,
    assignee_ids=(ADA, MEL),
    label_ids=(BUG,),
    starts=date(2026, 11, 20),
    due=date(2026, 12, 1),
    created_at=datetime(2026, 11, 20, 21, 1, 4, 614546, UTC),
    updated_at=datetime(2026, 11, 20, 21, 1, 4, 693645, UTC),
    html="<p>After re-index the <b>old</b> rows stay.</p>",
    created_by=ADA,
)
RUSSIAN = "02844c99-54b6-4b22-841c-843164fb2d84"


def paged(read: Callable[[Any], Any]) -> Callable[[Any], ListPage[Any]]:
    """Return the reader of a page of these."""
    return lambda body: wire.read_page(body, read)


numbers = paged(lambda body: body["sequence_id"])


@dataclass(frozen=True)
class Reading:
    """The reader of a sample, and its expected result: `of` returns the part that is compared with `told`."""

    read: Callable[[Any], Any]
    told: Any
    of: Callable[[Any], Any] = lambda value: value


def of_task(task: PlaneTask) -> Any:
    """Return the fields that distinguish the tasks of the samples."""
    return task.number, task.name, task.priority, task.assignee_ids, task.external_id


def of_page(page: ListPage[Any]) -> Any:
    """Return the fields that distinguish the pages of the samples."""
    return len(page.items), page.next_cursor, page.total


def same(task: PlaneTask) -> Any:
    """Return the parts that all readings of one task share."""
    return task.id, task.number, task.project_id, task.state_id, set(task.assignee_ids), task.label_ids, task.html


READ: dict[str, Reading] = {
    "users_me": Reading(wire.read_person, PlaneMember(ADA, "ada", "Ada Admin", "admin@example.com")),
    "projects_list_empty": Reading(paged(wire.read_project), ListPage((), None, 0)),
    "project_create": Reading(wire.read_project, Project(KB, "KB", "Knowledge Base", "Docs")),
    "project_create_second": Reading(
        wire.read_project, ("OPS", "Ops", ""), lambda one: (one.key, one.name, one.description)
    ),
    "projects_list": Reading(paged(wire.read_project), ["KB", "OPS"], lambda page: [one.key for one in page.items]),
    "project_get": Reading(wire.read_project, Project(KB, "KB", "Knowledge Base", "Docs")),
    "project_update": Reading(wire.read_project, Project(KB, "KB", "Knowledge Base", "Docs and runbooks")),
    "project_members_list": Reading(
        paged(wire.read_person), ListPage((PlaneMember(ADA, "ada", "Ada Admin", "admin@example.com"),), None, 1)
    ),
    "project_members_list2": Reading(
        paged(wire.read_person), {"ada", "mel", "gus"}, lambda page: {one.name for one in page.items}
    ),
    "workspace_members_list": Reading(
        paged(wire.read_person), {"ada", "mel", "gus"}, lambda page: {one.name for one in page.items}
    ),
    "states_list": Reading(
        paged(wire.read_state),
        [
            ("Backlog", "backlog", True),
            ("Todo", "unstarted", False),
            ("In Progress", "started", False),
            ("Done", "completed", False),
            ("Cancelled", "cancelled", False),
        ],
        lambda page: [(one.name, one.group, one.default) for one in page.items],
    ),
    "state_create": Reading(
        wire.read_state, State("2e83efd5-d34a-4dfc-bc48-481be8376c9a", "In Review", "started", default=False)
    ),
    "label_create": Reading(wire.read_label, Label(BUG, "bug")),
    "labels_list": Reading(paged(wire.read_label), ListPage((Label(BUG, "bug"),), None, 1)),
    "work_item_create": Reading(wire.read_task, same(FIRST), same),
    "work_item_create_minimal": Reading(wire.read_task, (2, "Minimal", "none", (), None), of_task),
    "work_item_create_alias_issues": Reading(
        wire.read_task, (3, "<div><p>Поисковый индекс</p></div>"), lambda task: (task.number, task.html)
    ),
    "work_item_by_external_id": Reading(
        wire.read_task, (3, "Через старый путь: поиск по-русски", "none", (), "zulip-42"), of_task
    ),
    "work_item_create_badassignee": Reading(wire.read_task, (4, "assignee not in project", "none", (), None), of_task),
    "work_item_get": Reading(wire.read_task, FIRST),
    "work_item_get_expand": Reading(wire.read_task, same(FIRST), same),
    "work_item_get_fields": Reading(lambda body: (body["id"], body["sequence_id"]), (TASK, 1)),
    "work_item_by_identifier": Reading(wire.read_task, FIRST),
    "work_item_update": Reading(
        wire.read_task, (1, "Search returns stale rows (confirmed)", "urgent", (ADA, MEL), None), of_task
    ),
    "work_items_list_default": Reading(numbers, (29, None, 29), of_page),
    "work_items_list_page1": Reading(numbers, (5, "5:1:0", 29), of_page),
    "work_items_list_page2": Reading(numbers, (5, "5:2:0", 29), of_page),
    "work_items_list_full2": Reading(
        paged(wire.read_task), [29, 28], lambda page: [task.number for task in page.items]
    ),
    "work_items_list_expand2": Reading(
        paged(wire.read_task), [BACKLOG, BACKLOG], lambda page: [task.state_id for task in page.items]
    ),
    "work_items_list_orderby": Reading(paged(lambda body: body["priority"]), ListPage(("none",) * 5, "5:1:0", 29)),
    "work_items_list_cursor_past_end": Reading(paged(wire.read_task), ListPage((), None, 29)),
    "guest_list": Reading(paged(lambda body: body["name"]), ListPage(("Bulk item 24",), "1:1:0", 29)),
    "search": Reading(wire.read_search, (FoundTask(TASK, 1, "Search returns stale rows (confirmed)", KB, "KB"),)),
    "search_workspace": Reading(wire.read_search, [29, 28, 27], lambda found: [one.number for one in found]),
    "search_russian": Reading(
        wire.read_search, (FoundTask(RUSSIAN, 3, "Через старый путь: поиск по-русски", KB, "KB"),)
    ),
    "search_by_number": Reading(wire.read_search, 3, len),
    "search_empty": Reading(wire.read_search, ()),
    "search_no_match": Reading(wire.read_search, ()),
    "comment_create": Reading(
        wire.read_comment,
        Comment(
            "ef610361-639c-467d-9664-f25e4d2440f2",
            "<p>Seen again on build 42.</p>",
            datetime(2026, 11, 20, 21, 1, 12, 392933, UTC),
            ADA,
        ),
    ),
    "comment_create_external": Reading(
        # A key that another program wrote does not count as ours.
        wire.read_comment,
        ("<p>From Zulip</p>", None),
        lambda said: (said.html, said.external_id),
    ),
    "comment_create_empty": Reading(wire.read_comment, "<p></p>", lambda said: said.html),
    "comments_list": Reading(
        paged(wire.read_comment),
        ["<p></p>", "<p>From Zulip</p>", "<p>Seen again on build 42.</p>"],
        lambda page: [said.html for said in page.items],
    ),
    "comment_get": Reading(wire.read_comment, "<p>Seen again on build 42.</p>", lambda said: said.html),
    "comment_update": Reading(wire.read_comment, "<p>Seen again on build 43.</p>", lambda said: said.html),
    "relations_list": Reading(wire.read_relations, ()),
    "cycle_create": Reading(
        wire.read_cycle,
        Cycle(
            SPRINT,
            "Sprint 1",
            datetime(2026, 11, 20, 21, 1, 17, 42713, UTC),
            datetime(2026, 12, 4, 23, 59, tzinfo=UTC),
        ),
    ),
    "cycle_create_min": Reading(wire.read_cycle, Cycle(DRAFT, "Draft")),
    "cycles_list": Reading(paged(wire.read_cycle), [DRAFT, SPRINT], lambda page: [one.id for one in page.items]),
    "cycles_list_current": Reading(paged(wire.read_cycle), (1, None, 1), of_page),
    "cycle_get": Reading(wire.read_cycle, "Sprint 1", lambda cycle: cycle.name),
    "cycle_issues_list": Reading(paged(wire.read_task), [TASK], lambda page: [task.id for task in page.items]),
    "module_create": Reading(wire.read_module, Module(INDEXING, "Indexing")),
    "modules_list": Reading(paged(wire.read_module), ListPage((Module(INDEXING, "Indexing"),), None, 1)),
    "module_get": Reading(wire.read_module, Module(INDEXING, "Indexing")),
    "module_issues_list": Reading(paged(wire.read_task), [TASK], lambda page: [task.id for task in page.items]),
    "err_no_trailing_slash_get": Reading(paged(wire.read_project), 2, lambda page: len(page.items)),
}
"""Replies of success, as the readers return them."""

BY_OTHERS = {
    "project_member_add",
    "project_member_add_guest",
    "project_summary",
    "link_create",
    "links_list",
    "activities_list",
    "intake_list",
    "cycle_issue_add",
    "module_issue_add",
    "work_item_delete_204",
    "label_delete_204",
    "err_no_trailing_slash_post",
}
"""Replies to requests that we don't make, or not like this; none of them passes for a task."""

NO_MEMBER = "there is no thing, or the key's owner is not a member there; guests can only read"
NO_RIGHT = f"Plane denied the request (403: You do not have permission to perform this action); {NO_MEMBER}"
NOTHING = f"Plane has no thing that this key can see; {wire.HOW_TO_FIND}"
UNKNOWN = f"Plane has no thing that this key can see; {reply_check.UNKNOWN_PATH}"
GET_A_KEY = "PLANE_API_KEY must be a personal access token that is still valid"


def refused(status: int, why: str) -> tuple[type[ConnectorError], str]:
    """Return the error of a wrong reply."""
    return ServiceRefused, f"Plane refused the request ({status}): {why}; nothing was done"


JUDGED: dict[str, tuple[type[ConnectorError], str]] = {
    "project_create_dup_409": refused(409, "name: The project name is already taken"),
    "state_create_dup": refused(409, "State with the same name already exists in the project"),
    "state_create_bad_400": refused(400, "color: This field is required"),
    "label_create_dup_409": refused(409, "Label with the same name already exists in the project"),
    "work_item_create_external_dup_409": refused(
        409, "Issue with the same external id and external source already exists"
    ),
    "work_item_create_noname_400": refused(400, "name: This field is required"),
    "work_item_create_badpriority_400": refused(400, "priority: is not a valid choice"),
    "work_item_create_baddates_400": refused(400, "Start date cannot exceed target date"),
    "work_item_create_badstate_400": refused(400, "state: Invalid pk - object does not exist"),
    "work_item_create_badlabel": refused(400, "labels: Invalid pk - object does not exist"),
    "work_item_create_malformed_json_400": refused(
        400, "JSON parse error - Expecting value: line 1 column 10 (char 9)"
    ),
    "work_item_create_unsupported_media_415": refused(415, "Unsupported media type in request"),
    "work_item_by_identifier_404": (Missing, NOTHING),
    "work_item_update_badstate_400": refused(400, "state: is not a valid UUID"),
    "work_items_list_bad_cursor_400": refused(400, "Invalid cursor parameter"),
    "work_items_list_per_page_over": refused(400, "Invalid per_page value. Cannot exceed 1000"),
    "work_items_list_per_page_bad": refused(400, "Invalid per_page parameter"),
    "comment_create_external_dup_409": refused(
        409, "Work item comment with the same external id and external source already exists"
    ),
    "link_create_dup": refused(400, "URL already exists for this Issue"),
    "cycle_create_onedate_400": refused(400, "Both start date and end date are either required or are to be null"),
    "module_create_dup": refused(400, "Module with this name already exists"),
    "err_no_key_401": (
        Denied,
        f"Plane denied the request (401: Authentication credentials were not provided); {GET_A_KEY}",
    ),
    "err_bad_key": (Denied, f"Plane denied the request (403: Given API token is not valid); {GET_A_KEY}"),
    "err_other_workspace": (Denied, NO_RIGHT),
    "err_other_project_403": (Denied, NO_RIGHT),
    "err_guest_create_403": (Denied, NO_RIGHT),
    "err_member_delete_state": (Denied, NO_RIGHT),
    "err_nonmember_project_403": (Denied, NO_RIGHT),
    "err_project_404": (Missing, NOTHING),
    "err_project_items_missing_project": (Denied, NO_RIGHT),
    "err_workspace_missing": (Denied, NO_RIGHT),
    "err_work_item_404": (Missing, NOTHING),
    "err_bad_uuid_404": (Missing, UNKNOWN),
    "err_unknown_route_404": (Missing, UNKNOWN),
    "err_method_405": refused(405, "Method not allowed"),
    "state_delete_default_400": refused(400, "Default state cannot be deleted"),
    "work_item_get_deleted_404": (Missing, NOTHING),
    "err_429": (
        ServiceLimited,
        "Plane accepts no more requests for now; nothing was done. Try again in 56 s",
    ),
}
"""The error that each recorded refusal becomes, word for word: without the values that Plane quotes."""

GET = partial(ServiceRequest, "GET")
POST = partial(ServiceRequest, "POST")


def test_no_recorded_reply_is_left_out() -> None:
    """Each file is read, judged, or known to belong to a request that we don't make."""
    assert {path.stem for path in FOLDER.glob("*.json")} == set(READ) | set(JUDGED) | BY_OTHERS
    assert len(SAMPLES) == len(READ) + len(JUDGED) + len(BY_OTHERS)


@pytest.mark.parametrize("name", READ)
def test_a_recorded_reply_is_read(name: str) -> None:
    """Source: tests/samples/plane."""
    sample, reading = SAMPLES[name], READ[name]
    reply_check.require_success(asked(sample), sample.reply, "thing")
    assert reading.of(reading.read(sample.reply.body)) == reading.told


@pytest.mark.parametrize("name", JUDGED)
def test_a_recorded_refusal_says_what_to_do_and_quotes_nothing(name: str) -> None:
    """Source: tests/samples/plane."""
    sample, (kind, sentence) = SAMPLES[name], JUDGED[name]
    with pytest.raises(ConnectorError) as caught:
        reply_check.require_success(asked(sample), sample.reply, "thing")
    assert (type(caught.value), str(caught.value)) == (kind, sentence)
    assert len(sentence) <= 280


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_an_error_is_no_longer_than_an_error_may_be_however_much_plane_says(status: int) -> None:
    said = ServiceReply(status, {}, {"detail": "You may not do this. " * 40})
    with pytest.raises(ConnectorError) as caught:
        reply_check.require_success(GET("/"), said, f"workspace {'w' * 48}")
    assert len(str(caught.value)) <= 280


@pytest.mark.parametrize("name", sorted(BY_OTHERS))
def test_another_requests_reply_is_never_taken_for_a_task(name: str) -> None:
    """Many clients turn a POST without the final slash into a GET, which gets a 200: nothing was created."""
    sample = SAMPLES[name]
    reply_check.require_success(asked(sample), sample.reply, "thing")
    with pytest.raises(wire.UnreadableReply):
        wire.read_task(sample.reply.body)


def asked(sample: Sample) -> ServiceRequest:
    """Return the sample's request; PUT was judged like PATCH."""
    methods: dict[str, Method] = {"GET": "GET", "POST": "POST", "DELETE": "DELETE", "PATCH": "PATCH", "PUT": "PATCH"}
    return ServiceRequest(methods[sample.method], sample.path)


DRAFTED = TaskFields(
    name="Search returns stale rows",
    html="<p>After re-index the <b>old</b> rows stay.</p>",
    priority="high",
    state_id=TODO,
    assignee_ids=(ADA, MEL),
    label_ids=(BUG,),
    starts=date(2026, 11, 20),
    due=date(2026, 12, 1),
)
COMMENT = "ef610361-639c-467d-9664-f25e4d2440f2"
ASKED: dict[str, ServiceRequest] = {
    "users_me": wire.me(),
    "projects_list": wire.projects(ACME),
    "project_members_list2": wire.members(ACME, KB),
    "states_list": wire.project_list(ACME, KB, "states"),
    "labels_list": wire.project_list(ACME, KB, "labels"),
    "cycles_list": wire.project_list(ACME, KB, "cycles"),
    "modules_list": wire.project_list(ACME, KB, "modules"),
    "work_items_list_page2": wire.tasks(ACME, KB, "5:1:0", 5, "-created_at"),
    "cycle_issues_list": wire.group_tasks(ACME, KB, "cycle", SPRINT, cursor=None, per_page=2),
    "module_issues_list": wire.group_tasks(ACME, KB, "module", INDEXING, cursor=None, per_page=2),
    "search": wire.search(ACME, "stale", KB, 10),
    "search_workspace": wire.search(ACME, "bulk", None, 3),
    "search_russian": wire.search(ACME, "поиск", None, 10),
    "work_item_get": wire.task(ACME, KB, TASK),
    "work_item_by_identifier": wire.task_by_key(ACME, "KB-1"),
    "work_item_by_external_id": wire.task_by_external(ACME, KB, "zulip-42"),
    "work_item_create": wire.create_task(ACME, KB, DRAFTED, "kf-1"),
    "work_item_update": wire.update_task(
        ACME, KB, TASK, TaskFields(name="Search returns stale rows (confirmed)", priority="urgent")
    ),
    "comments_list": wire.comments(ACME, KB, TASK, None, 100),
    "comment_get": wire.comment(ACME, KB, TASK, COMMENT),
    "comment_create_external": wire.create_comment(ACME, KB, TASK, "<p>From Zulip</p>", "m-7"),
    "relations_list": wire.relations(ACME, KB, TASK),
}
OUR_QUERY = {"per_page", "fields", "order_by", "limit", "external_source"}
"""Parameters that we add, or send with other values than the recording."""


@pytest.mark.parametrize("name", ASKED)
def test_a_request_is_the_recorded_one(name: str) -> None:
    """Method, path with its slash, the query, and the body, except for our signature."""
    sample, request = SAMPLES[name], ASKED[name]
    assert (request.method, request.path) == (sample.method, sample.path)
    for key, value in sample.query.items():
        assert key in request.query
        assert key in OUR_QUERY or request.query[key] == value
    ours = {"external_id", "external_source"}
    sent = {key: value for key, value in (request.json or {}).items() if key not in ours}
    assert sent == {key: value for key, value in (sample.sent or {}).items() if key not in ours}


@pytest.mark.parametrize("request_", ASKED.values(), ids=ASKED)
def test_every_path_ends_in_a_slash_and_only_repeatable_requests_say_so(request_: ServiceRequest) -> None:
    """Plane redirects a path without the final slash; its check for a key is not atomic with the write."""
    assert request_.path.startswith("/api/v1/")
    assert request_.path.endswith("/")
    assert request_.repeatable == (request_.method == "GET")


def test_created_things_have_our_key() -> None:
    """Source: work_item_create_external_dup_409, comment_create_external_dup_409."""
    for request in (ASKED["work_item_create"], ASKED["comment_create_external"]):
        assert request.json is not None
        assert (request.json["external_source"], request.json["external_id"]) == (
            "knowledge-forge",
            "kf-1" if request.path.endswith("work-items/") else "m-7",
        )


def test_unnamed_fields_are_not_sent_and_cleared_ones_are_null() -> None:
    """An empty list clears people and labels; a date is cleared by null."""
    changes = TaskFields(assignee_ids=(), label_ids=(), starts=CLEAR, due=date(2026, 12, 24))
    assert wire.update_task(ACME, KB, TASK, changes).json == {
        "assignees": [],
        "labels": [],
        "start_date": None,
        "target_date": "2026-12-24",
    }
    assert wire.update_task(ACME, KB, TASK, TaskFields()).json == {}


@pytest.mark.parametrize(("told", "sent"), [("a/b?c#d", "a%2Fb%3Fc%23d"), ("ключ", "%D0%BA%D0%BB%D1%8E%D1%87")])
def test_a_name_in_a_path_names_one_thing(told: str, sent: str) -> None:
    """No text leads to another path."""
    assert wire.task_by_key(ACME, told).path == f"/api/v1/workspaces/acme/work-items/{sent}/"


@pytest.mark.parametrize("told", ["", ".", ".."])
def test_a_name_that_would_lead_elsewhere_names_nothing(told: str) -> None:
    """Servers and proxies resolve dots in paths, and an empty part is a list."""
    with pytest.raises(Missing):
        wire.task(ACME, KB, told)


def test_a_page_is_never_larger_than_plane_gives() -> None:
    """Source: work_items_list_per_page_over."""
    assert wire.tasks(ACME, KB, None, 5000, "name").query["per_page"] == "1000"
    assert wire.tasks(ACME, KB, None, 0, "name").query["per_page"] == "1"


@pytest.mark.parametrize("name", ["work_item_create_external_dup_409", "comment_create_external_dup_409"])
def test_a_key_that_is_taken_is_no_error(name: str) -> None:
    """The second create with a key returns the first one's id."""
    sample = SAMPLES[name]
    assert wire.read_taken(sample.reply) == KeyTaken(sample.body["id"])


@pytest.mark.parametrize("name", ["project_create_dup_409", "module_create_dup", "work_item_create", "comment_create"])
def test_only_a_conflict_with_an_id_says_that_a_key_is_taken(name: str) -> None:
    """A 400 with an id, a 409 without one and a 201 are something else."""
    assert wire.read_taken(SAMPLES[name].reply) is None


def test_relations_are_read_with_the_project_and_without() -> None:
    """Source: IssueRelationRefSerializer of github.com/makeplane/plane; older editions return only ids."""
    empty = SAMPLES["relations_list"].body
    told = {**empty, "blocking": [{"project_id": KB, "issue_id": TASK}], "duplicate": [RUSSIAN], "later_kind": [TASK]}
    assert wire.read_relations(told) == (
        Relation("blocks", TASK, KB),
        Relation("duplicate of", RUSSIAN, None),
    )


def test_a_comment_of_ours_has_its_key() -> None:
    """It finds a comment whose reply was lost."""
    told = {**SAMPLES["comment_create_external"].body, "external_source": wire.SOURCE, "external_id": "kf-9"}
    assert wire.read_comment(told).external_id == "kf-9"


def test_a_time_in_the_owner_s_zone_is_the_same_moment() -> None:
    """Plane gives times in the time zone of the key's owner."""
    told = {**SAMPLES["work_item_get"].body, "updated_at": "2026-11-21T02:31:04.693645+05:30"}
    assert wire.read_task(told) == FIRST


def test_an_unusable_reply_is_lost_for_writes_and_no_answer_for_reads() -> None:
    """A 200 that is no task may have created one."""
    odd = wire.UnreadableReply("an id is missing")
    assert isinstance(reply_check.no_usable_reply(POST("/x/"), odd), ReplyLost)
    assert isinstance(reply_check.no_usable_reply(GET("/x/"), odd), NoAnswer)
    for status in (304, 500, 503):
        with pytest.raises(ReplyLost):
            reply_check.require_success(POST("/x/"), ServiceReply(status, {}, None), "task")
        with pytest.raises(NoAnswer):
            reply_check.require_success(GET("/x/"), ServiceReply(status, {}, None), "task")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_a_page_for_people_says_that_the_address_may_be_wrong(status: int) -> None:
    """A proxy in front of Plane answers like this, or a server that is not Plane."""
    with pytest.raises(ServiceRefused, match="is PLANE_BASE_URL Plane's address"):
        reply_check.require_success(POST("/x/"), ServiceReply(status, {}, None, page=True), "task")


@pytest.mark.parametrize("waits", ["", "soon", "-3"])
def test_too_many_requests_without_a_wait_are_reported_too(waits: str) -> None:
    """A proxy may leave the header out."""
    with pytest.raises(ServiceLimited) as caught:
        reply_check.require_success(GET("/x/"), ServiceReply(429, {"retry-after": waits}, None), "task")
    assert caught.value.wait_s >= 0


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        7,
        {"description_html": ['Text of a task "with quotes" and more: ' + "secret " * 60]},
        {"name": [{"deep": ["\x1b[31mred\x00"]}]},
        {"error": {"a": None}},
        {"Something long that is no field at all, but " + "text " * 30: ["bad"]},
    ],
)
def test_a_reason_is_short_and_printable_whatever_the_body_is(body: Any) -> None:
    """Plane's own message is shown, and an HTML page is not one."""
    with pytest.raises(ServiceRefused) as caught:
        reply_check.require_success(POST("/x/"), ServiceReply(400, {}, body), "task")
    assert len(caught.value.why) <= reply_check.LONGEST_REASON
    assert caught.value.why.isprintable()
    assert "with quotes" not in caught.value.why
    assert len(str(caught.value)) <= 280


PARTIAL = {
    *("work_item_get_fields", "guest_list", "work_items_list_orderby"),
    *("work_items_list_default", "work_items_list_page1", "work_items_list_page2"),
}
"""Samples with fewer fields than our requests get, which our readers don't read."""


@pytest.mark.parametrize("name", sorted(set(READ) - PARTIAL))
def test_a_reply_with_one_part_of_another_kind_is_read_or_unreadable(name: str) -> None:
    """Unknown fields and nulls are ignored; only UnreadableReply is raised, and it quotes no value."""
    reading = READ[name]
    for broken in broken_bodies(SAMPLES[name].reply.body):
        assert "SURPRISE" not in told_odd(reading.read, broken)
    assert reading.of(reading.read(with_more(SAMPLES[name].reply.body))) == reading.told


def told_odd(read: Callable[[Any], Any], body: Any) -> str:
    """Return a reader's message about a body that it can't read, and nothing for one that it can."""
    try:
        read(body)
    except wire.UnreadableReply as odd:
        return str(odd)
    return ""


def broken_bodies(body: Any) -> Iterator[Any]:
    """Yield bodies with one part replaced, for each part down to the first element of lists."""
    others: list[Any] = [None, 7, "SURPRISE", [], {}, True, [7], ["SURPRISE"], [None]]
    for other in others:
        yield other
        for path in paths_of(body):
            changed = copy.deepcopy(body)
            inside = changed
            for step in path[:-1]:
                inside = inside[step]
            inside[path[-1]] = other
            yield changed


def paths_of(body: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all parts of a body."""
    steps: Any = body.items() if isinstance(body, dict) else enumerate(body[:1]) if isinstance(body, list) else ()
    for step, inside in steps:
        yield (step,)
        for rest in paths_of(inside):
            yield (step, *rest)


def with_more(body: Any) -> Any:
    """Return the body with an unknown field in every object."""
    if isinstance(body, dict):
        return {key: with_more(value) for key, value in body.items()} | {"from_a_later_version": {"x": [1]}}
    return [with_more(value) for value in body] if isinstance(body, list) else body
