from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from knowledge.pages.vault import LARGEST_BYTES
from mcp_server.__main__ import main
from mcp_server.app.dependencies import Services
from mcp_server.app.settings.reference_pages import tool_table
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.toolsets.knowledge.schemas import EARLIEST_NS, LATEST_NS, LONGEST_CONTENT, nanoseconds
from mcp_server.toolsets.knowledge.tools import KB_MAP, KB_MERGE, KB_READ, KB_SEARCH
from mcp_server.toolsets.registry import SERVICES, chosen, declared
from mcp_server.toolsets.spec import (
    SCHEMAS_FILE,
    Arguments,
    BadArguments,
    BadDeclaration,
    CallPlan,
    CallPreview,
    ToolSpec,
)
from mcp_server.transport.stdio import LONGEST_LINE

GENERATE = "python -m tests.bench generated"


def tokens(*parts: object) -> int:
    return sum(len(p if isinstance(p, str) else json.dumps(p, separators=(",", ":"))) for p in parts) // 4


@dataclass(frozen=True)
class Done:
    status: str
    proposal: str | None = None


@dataclass(frozen=True)
class Poor:
    status: str


class Note(Arguments):
    text: str


async def plan(_services: Services, _call: Call, asked: Note) -> CallPlan[Done]:
    async def execute(_call: Call) -> Done:
        return Done(asked.text)

    return CallPlan(
        execute=execute, preview=CallPreview(Done("done"), asked.text, effect=asked.text, documents=(asked.text,))
    )


async def answer(_services: Services, _call: Call, asked: Note) -> Done:
    return Done(asked.text)


ACT = ToolSpec[Any, Note, Done](
    "note",
    "Note",
    Trust.EDIT,
    "knowledge",
    "Writes a note.",
    Note,
    Done,
    plan=plan,
)


TRUST = ["trust_status", "proposal_status", "proposal_withdraw"]


def test_a_whole_declaration_is_accepted() -> None:
    assert chosen([ACT]) == (ACT,)


@pytest.mark.parametrize(
    "broken",
    [
        replace(ACT, level=None),
        replace(ACT, plan=None),
        replace(ACT, result=Poor),  # type: ignore[arg-type]  # an answer that cannot say that it waits
        replace(ACT, answer=answer),
        replace(ACT, level=Trust.READ),
        replace(ACT, read_only=True),
        replace(ACT, description=""),
    ],
)
def test_an_incomplete_declaration_stops_the_start(broken: ToolSpec[Any, Note, Done]) -> None:
    """The design, section 3: a tool without a level stops the start."""
    with pytest.raises(BadDeclaration):
        chosen([broken])


def test_two_tools_of_one_name_stop_the_start() -> None:
    with pytest.raises(BadDeclaration, match="two tools"):
        chosen([ACT, ACT])


def test_a_tool_that_is_filtered_away_is_checked_all_the_same() -> None:
    with pytest.raises(BadDeclaration):
        chosen([replace(ACT, level=None)], toolsets=["plane"])


def test_toolsets_narrow_and_trust_always_stays() -> None:
    assert [s.name for s in chosen(declared(), toolsets=["runs"])] == [*TRUST, "agent_run", "agent_trace"]
    assert [s.name for s in chosen(declared(), toolsets=["runs"], configured=())] == TRUST
    assert {s.toolset for s in chosen(declared(), toolsets=["plane"])} == {"trust", "plane"}


def test_tools_of_another_service_are_listed_only_where_it_is_configured() -> None:
    """Without configuration, the tools are not listed."""
    ours = {"knowledge", "trust", "journeys"}
    assert {s.toolset for s in chosen(declared(), configured=())} == ours
    assert {s.toolset for s in chosen(declared(), configured=["zulip"])} == ours | {"zulip"}
    assert [s.name for s in chosen(declared(), toolsets=["plane"], configured=())] == TRUST
    assert {s.toolset for s in chosen(declared(), configured=["runs"])} == ours | {"runs"}
    assert chosen(declared(), configured=["runs", "plane", "zulip", "webhook"]) == tuple(declared())


def test_read_only_lists_only_reading_tools() -> None:
    assert [s.name for s in chosen([*declared(), ACT], read_only=True)] == [s.name for s in declared() if s.read_only]
    assert "note" not in tool_table(chosen([*declared(), ACT], read_only=True))


def test_read_only_for_one_service_leaves_the_others_unchanged() -> None:
    gone = {s.name for s in declared()} - {s.name for s in chosen(declared(), read_only=["plane"])}
    assert gone == {"plane_create_task", "plane_update_task", "plane_comment_task", "plane_change_tasks"}
    gone = {s.name for s in declared()} - {s.name for s in chosen(declared(), read_only=["zulip"])}
    assert gone == {"zulip_send_message", "zulip_react", "zulip_update"}


@pytest.mark.parametrize("service", sorted({*SERVICES} - {"runs"}))
def test_tools_of_another_service_mix_no_reads_with_writes_and_say_that_the_world_is_open(service: str) -> None:
    """The design, section 3: level 1 reads, level 4 writes, and an act consists of two functions."""
    for spec in chosen(declared(), toolsets=[service]):
        if spec.toolset == service:
            # Marking messages as read is a change of zulip_update, too; its other changes need more.
            least = Trust.EDIT if spec.name == "zulip_update" else Trust.ROUTINE
            assert spec.needs == (Trust.READ if spec.read_only else least)
            assert spec.open_world
            if spec.read_only:
                assert (spec.taints is not None) == ("tainted" in spec.output_schema["properties"])


def test_starting_a_run_needs_the_level_of_edits_and_its_reading_counts_in_its_own_calls() -> None:
    """The design, sections 3 and 8: a run has no rights of its own, so starting one needs no more than editing does."""
    run, trace = (s for s in declared() if s.toolset == "runs")
    assert (run.needs, run.leads, run.open_world, run.idempotent) == (Trust.EDIT, True, True, False)
    assert (trace.needs, trace.read_only, trace.open_world) == (Trust.READ, True, False)
    assert trace.taints is not None
    assert {"run_id", "status", "proposal", "tainted"} <= {*run.output_schema["properties"]} & {
        *trace.output_schema["properties"]
    }


CORE = ("knowledge", "trust", "journeys")


@pytest.mark.parametrize(
    ("toolsets", "most_tools", "most_tokens"),
    [(CORE, 18, 3500), ((*CORE, "plane", "zulip"), 40, 6000), (("runs",), 2, 315)],
)
def test_the_list_is_within_its_budget(toolsets: tuple[str, ...], most_tools: int, most_tokens: int) -> None:
    """The design, section 3: name, description and input schema, characters / 4; output schemas at most as much again."""
    specs = [s for s in declared() if s.toolset in toolsets]
    listed = {s.name: tokens(s.name, s.description, s.input_schema) for s in specs}
    answered = {s.name: tokens(s.output_schema) for s in specs}
    assert len(specs) <= most_tools
    for what, costs in {"descriptions and arguments": listed, "results": answered}.items():
        over = sum(costs.values()) - most_tokens
        largest = ", ".join(f"{name} {costs[name]}" for name in sorted(costs, key=costs.__getitem__, reverse=True)[:5])
        assert over <= 0, f"{over} tokens too many in the tools' {what}: shorten some ({largest})"


@pytest.mark.parametrize("spec", declared(), ids=lambda s: s.name)
def test_schemas_are_lean_and_closed(spec: ToolSpec[Any, Arguments, object]) -> None:
    text = json.dumps(spec.input_schema)
    assert "$ref" not in text
    assert '"default": null' not in text
    assert '"type": "null"' not in text
    assert spec.input_schema["additionalProperties"] is False
    assert spec.output_schema["type"] == "object"
    assert '"type": [' not in text + json.dumps(spec.output_schema), "some hosts reject an array of types"


def test_the_reference_distinguishes_omitted_from_empty() -> None:
    """`assignees=[]` would remove all of them; left out, they stay."""
    table = tool_table(declared())
    update = next(line for line in table.splitlines() if "plane_update_task(" in line)
    create = next(line for line in table.splitlines() if "plane_create_task(" in line)
    assert "assignees=None" in update
    assert "assignees=[]" in create


def test_a_field_named_title_survives_the_diet() -> None:
    assert "title" in KB_MAP.output_schema["properties"]


@pytest.mark.parametrize(
    ("spec", "arguments", "says"),
    [
        (KB_SEARCH, {}, "'query' is missing"),
        (KB_SEARCH, {"query": "x", "limit": "5"}, "'limit' must be a whole number, not text"),
        (KB_SEARCH, {"query": "x", "limit": 0}, "'limit' must be at least 1, not 0"),
        (KB_SEARCH, {"query": "x", "limit": True}, "'limit' must be a whole number, not true or false"),
        (KB_SEARCH, {"query": 7}, "'query' must be text, not a number"),
        (KB_SEARCH, {"query": "  "}, "it is empty"),
        (KB_SEARCH, {"query": "x" * 30_000}, "at most 20000 characters"),
        (KB_SEARCH, {"query": "x", "qeury": "y"}, "there is no argument 'qeury'; did you mean 'query'?"),
        (KB_SEARCH, {"query": "x", "mode": "magic"}, "'mode' must be 'auto', 'navigation' or 'discovery'"),
        (
            KB_SEARCH,
            {"query": "x", "filters": {"tag": ["a"]}},
            "there is no argument 'filters.tag'; did you mean 'tags'?",
        ),
        (KB_SEARCH, {"query": "x", "filters": {"modified_after": "soon"}}, "not an ISO date"),
        (KB_MERGE, {"path": "a", "content": "x", "observed_at": "9999-12-31T23:59:59-23:59"}, "not an ISO date"),
        (KB_SEARCH, {"query": "x", "filters": "nonsense"}, "'filters' must be an object, not text"),
        (KB_READ, {"path": ""}, "'path' must not be empty"),
        (KB_READ, {"path": "a", "offset": -1}, "'offset' must be at least 0"),
        (KB_READ, {"path": "a", "offset": 10**18}, "'offset' must lie within -9007199254740991 and 9007199254740991"),
    ],
)
def test_wrong_arguments_are_reported_in_plain_words(
    spec: ToolSpec[Any, Arguments, object], arguments: dict[str, object], says: str
) -> None:
    with pytest.raises(BadArguments) as caught:
        spec.parse(arguments)
    told = str(caught.value)
    assert says in told
    assert told.startswith(f"{spec.name}: ")
    assert "pydantic" not in told
    assert "http" not in told
    assert len(told) < 400


def test_the_longest_content_fits_into_a_message() -> None:
    assert LONGEST_CONTENT < LONGEST_LINE, "raise LONGEST_LINE in mcp_server/transport/stdio.py too"
    assert LONGEST_CONTENT < LARGEST_BYTES, "raise LARGEST_BYTES in knowledge/pages/vault.py too"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("2026-03-31", 1_774_915_200 * 10**9),
        ("2026-03-31T02:00:00+02:00", 1_774_915_200 * 10**9),
        ("9999-12-31", LATEST_NS),
        ("0001-01-01", EARLIEST_NS),
    ],
)
def test_dates_are_nanoseconds_within_the_indexs_range(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected


def test_common_mistakes_of_hosts_are_accepted() -> None:
    """Some hosts send an object as its JSON text, and whole numbers as 5.0."""
    asked = KB_SEARCH.parse({"query": "x", "limit": 5.0, "filters": '{"tags": ["a"]}'})
    assert asked.limit == 5
    assert asked.filters.tags == ["a"]


def test_the_schemas_that_ship_with_the_program_are_those_of_its_classes(capsys: pytest.CaptureFixture[str]) -> None:
    """They are read at every start instead of being made."""
    assert main(["reference", "schemas"]) == 0
    same = SCHEMAS_FILE.read_text(encoding="utf-8") == capsys.readouterr().out
    assert same, f"{SCHEMAS_FILE.name} is out of date; run `{GENERATE}`"
