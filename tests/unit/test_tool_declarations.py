from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest

from mcp_server.gate.policy import Trust
from mcp_server.reference import tool_table
from mcp_server.services import Call, Services
from mcp_server.tools.knowledge import KB_MAP, KB_READ, KB_SEARCH
from mcp_server.tools.registry import chosen, declared
from mcp_server.tools.spec import Arguments, BadArguments, BadDeclaration, Shown, ToolSpec


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


async def plan(_services: Services, _call: Call, asked: Note) -> str:
    return asked.text


async def apply(_services: Services, _call: Call, planned: str) -> Done:
    return Done(planned)


async def answer(_services: Services, _call: Call, asked: Note) -> Done:
    return Done(asked.text)


ACT = ToolSpec[Note, str, Done](
    "note",
    "Note",
    Trust.EDIT,
    "knowledge",
    "Writes a note.",
    Note,
    Done,
    plan=plan,
    apply=apply,
    shows=lambda planned: Shown(Done("done"), planned, effect=planned, documents=(planned,)),
)


TRUST = ["trust_status", "proposal_status", "proposal_withdraw"]


def test_a_whole_declaration_is_accepted() -> None:
    assert chosen([ACT]) == (ACT,)


@pytest.mark.parametrize(
    "broken",
    [
        replace(ACT, level=None),
        replace(ACT, apply=None),
        replace(ACT, shows=None),
        replace(ACT, result=Poor),  # type: ignore[arg-type]  # an answer that cannot say that it waits
        replace(ACT, answer=answer),
        replace(ACT, level=Trust.READ),
        replace(ACT, read_only=True),
        replace(ACT, description=""),
    ],
)
def test_an_incomplete_declaration_stops_the_start(broken: ToolSpec[Note, str, Done]) -> None:
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
    assert [s.name for s in chosen(declared(), toolsets=["plane"])] == TRUST


def test_read_only_lists_only_what_reads() -> None:
    assert [s.name for s in chosen([*declared(), ACT], read_only=True)] == [s.name for s in declared() if s.read_only]
    assert "note" not in tool_table(chosen([*declared(), ACT], read_only=True))


def test_the_list_is_within_its_budget() -> None:
    """The design, section 3: name, description and input schema, characters / 4; output schemas at most as much again."""
    listed = sum(tokens(s.name, s.description, s.input_schema) for s in declared())
    answered = sum(tokens(s.output_schema) for s in declared())
    assert listed <= 2500
    assert answered <= 2500


@pytest.mark.parametrize("spec", declared(), ids=lambda s: s.name)
def test_schemas_are_lean_and_closed(spec: ToolSpec[Arguments, object, object]) -> None:
    text = json.dumps(spec.input_schema)
    assert "$ref" not in text
    assert '"default": null' not in text
    assert '"type": "null"' not in text
    assert spec.input_schema["additionalProperties"] is False
    assert spec.output_schema["type"] == "object"


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
        (KB_SEARCH, {"query": "x", "filters": {"modified_after": "soon"}}, "no ISO date"),
        (KB_SEARCH, {"query": "x", "filters": "nonsense"}, "'filters' must be an object, not text"),
        (KB_READ, {"path": ""}, "'path' must not be empty"),
        (KB_READ, {"path": "a", "offset": -1}, "'offset' must be at least 0"),
    ],
)
def test_wrong_arguments_are_told_in_plain_words(
    spec: ToolSpec[Arguments, object, object], arguments: dict[str, object], says: str
) -> None:
    with pytest.raises(BadArguments) as caught:
        spec.parse(arguments)
    told = str(caught.value)
    assert says in told
    assert told.startswith(f"{spec.name}: ")
    assert "pydantic" not in told
    assert "http" not in told
    assert len(told) < 400


def test_what_hosts_habitually_do_is_forgiven() -> None:
    """Some hosts send an object as its JSON text, and whole numbers as 5.0."""
    asked = KB_SEARCH.parse({"query": "x", "limit": 5.0, "filters": '{"tags": ["a"]}'})
    assert asked.limit == 5
    assert asked.filters.tags == ["a"]
