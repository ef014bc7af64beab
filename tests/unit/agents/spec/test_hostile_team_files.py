"""How the author of a team's agents, or a host that works in them, could try to make the server hang.

Promise: a file or work of the largest accepted size costs a bounded number of steps, the answer names what is too much,
and the other agents continue. Steps are calls of functions: they are the same on every machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.spec.definition import Definition, defined
from agents.spec.problems import Problems
from agents.spec.schema.json_schema import read_schema
from agents.spec.schema.work_form import TOO_MUCH, SchemaForm
from agents.spec.yaml.values import MOST_BYTES, read_marked
from tests.support.agents.model_form import ModelForm
from tests.support.agents.small_agents import Notes
from tests.support.agents.team_agents import FILE, OWN_TOOLS, SMALL, VERDICT
from tests.support.agents.team_agents import write as write_agent
from tests.unit.agents.spec.test_team_agents import catalogue, names

MOST_STEPS = 1_500_000
"""Half a second of Python; the attacks here took ten to a thousand times as many, or never ended."""


def steps_of(act: Callable[[], object]) -> int:
    """Return how many functions `act` calls; give up at far too many."""
    count = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count > 2 * MOST_STEPS:
            sys.setprofile(None)
            raise AssertionError(f"more than {count} steps")

    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def schema_of(form: object) -> tuple[dict[str, Any] | None, list[str]]:
    problems = Problems(FILE)
    schema = read_schema(read_marked(json.dumps(form).encode()), "'work'", problems)
    return schema, [problem.text for problem in problems.in_order()]


def form_of(described: dict[str, Any]) -> SchemaForm:
    schema, problems = schema_of({"properties": {"a": described}})
    assert schema is not None, problems
    return SchemaForm(schema)


# --- files ------------------------------------------------------------------------------------------------------------

CHAINED = {
    "properties": {"a": {"$ref": "#/$defs/d0"}},
    "$defs": {f"d{n}": {"items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(400)} | {"d400": {}},
}
SCHEMAS: dict[str, Any] = {
    "references without end": CHAINED,
    "unknown words": {f"propertees{n}": 1 for n in range(900)},
    "unknown references": {
        "properties": {f"a{n}": {"$ref": f"#/$defs/x{n}"} for n in range(400)},
        "$defs": {f"y{n}": {} for n in range(300)},
    },
    "one reference to another document": {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
    "a dynamic reference": {"properties": {"a": {"$dynamicRef": "#a"}}},
    "an identifier to resolve against": {"$id": "http://127.0.0.1:9/", "properties": {"a": {"$ref": "b.json"}}},
    "a file": {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
    "a vocabulary from elsewhere": {"$schema": "http://127.0.0.1:9/schema", "properties": {}},
    "a pattern": {"properties": {"a": {"type": "string", "pattern": "(a+)+$"}}},
    "patterns of names": {"patternProperties": {"(a+)+$": {}}},
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_that_would_explode_or_be_fetched_is_refused_in_bounded_steps(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: object, **__: object) -> object:
        raise AssertionError("a schema was fetched")

    monkeypatch.setattr("socket.socket.connect", no_network)
    monkeypatch.setattr("urllib.request.urlopen", no_network)
    told: list[str] = []
    assert steps_of(lambda: told.extend(schema_of(SCHEMAS[kind])[1])) < MOST_STEPS
    assert told


LINES = {
    "keys that do not exist": "\n".join(f"titlle{n}: x" for n in range(1_500)),
    "tools that do not exist": SMALL.replace(
        "[kb_read, kb_search]", f"[{','.join(f'kb_reead{n}' for n in range(1_000))}]"
    ),
    "ways from nowhere": SMALL.partition("transitions:")[0]
    + "transitions:\n"
    + "".join(f"  - {{from: X{n}, to: Y{n}, condition: c{n}}}\n" for n in range(2_000)),
    "conditions that nobody knows": SMALL.partition("conditions:")[0]
    + "conditions:\n"
    + "".join(f"  nooted{n}:\n    al: [x]\n" for n in range(3_000)),
    "ten thousand phases": SMALL.partition("phases:")[0]
    + "phases:\n"
    + "".join(f"  - {{name: P{n}}}\n" for n in range(4_000)),
    "a phase that leads to itself": SMALL.replace("from: NOTE, to: JUDGE", "from: NOTE, to: NOTE"),
    "a large number": SMALL.replace("count: 2", f"count: {'9' * 5_000}"),
    "no number": SMALL.replace("count: 2", "count: .nan"),
    "a number below all": SMALL.replace("count: 2", "count: -99999999999999999"),
    "attributes of Python in a template": SMALL.replace("{{ brief }}", "{{ brief.__class__.__mro__ }}"),
    "a template that calls": SMALL.replace(
        "{{ brief }}", "{{ cycler.__init__.__globals__.os.popen('id') }} {{ inputs['topic'] }}"
    ),
    "keys that are merged": SMALL.replace("title: Review", "title: Review\n<<: {summary: other}"),
}


@pytest.mark.parametrize("kind", LINES)
def test_a_hostile_agent_is_refused_in_bounded_steps(kind: str) -> None:
    raw = LINES[kind].encode()
    assert len(raw) <= MOST_BYTES
    found: list[Definition] = []
    assert steps_of(lambda: found.append(defined(FILE, {FILE: raw}, OWN_TOOLS))) < MOST_STEPS
    assert found[0].agent is None
    assert found[0].problems


def test_a_templates_text_is_never_executed_whatever_language_it_resembles() -> None:
    """Only names between double braces are filled in; nothing in that text is executed or formatted."""
    looks = "{0.__class__} {brief.__init__.__globals__} ${brief} %(brief)s {% for x in y %} <%= 1 %> #{1}"
    said = SMALL.replace("Brief: {{ brief }}", looks).replace("prompt_again: notes/again.md\n    ", "")
    definition = defined(FILE, {FILE: said.encode(), "_agents/notes/verdict.json": VERDICT.encode()}, OWN_TOOLS)
    assert definition.agent is not None, definition.problems
    assert looks in definition.agent.texts["NOTE"]


async def test_a_file_that_explodes_keeps_no_other_agent_away(tmp_path: Path) -> None:
    """Before, the error escaped the reader, and every agent of the team was lost with it."""
    write_agent(tmp_path)
    bomb = SMALL.replace("title: Review", "title: Bomb").replace(
        "work: notes/verdict.json", f"work: {json.dumps(CHAINED)}"
    )
    write_agent(tmp_path, bomb, "_agents/bomb.yaml")
    there = catalogue(tmp_path)
    assert await names(there) == ["noting", "review"]
    assert "too large" in str((await there.problems())[0])


# --- works ------------------------------------------------------------------------------------------------------------

OBJECTS = {"type": "object", "properties": {"x": {"type": "integer"}}}
WORKS: dict[str, tuple[dict[str, Any], Any]] = {
    "items of which none is like another": ({"type": "array", "uniqueItems": True}, [{"x": n} for n in range(12_000)]),
    "the same, as many as the schema lets": (
        {"type": "array", "uniqueItems": True, "maxItems": 1_000_000_000, "items": OBJECTS},
        [{"x": n} for n in range(12_000)],
    ),
    "items that are none of those": (
        {"type": "array", "items": {"enum": [f"kind {n}" for n in range(300)]}},
        ["x"] * 40_000,
    ),
    "items that fit none of the ways": (
        {"type": "array", "items": {"anyOf": [{"type": "object", "properties": {f"p{n}": {}}} for n in range(50)]}},
        [5] * 40_000,
    ),
    "fields that nobody knows": (
        {"type": "object", "properties": {f"summary_{n}": {} for n in range(30)}},
        {f"sumary_{n}": n for n in range(25_000)},
    ),
    "a number too large for a float": ({"type": "number", "multipleOf": 0.1}, 10**4_000),
}


@pytest.mark.parametrize("kind", WORKS)
def test_a_hostile_work_is_checked_in_bounded_steps(kind: str) -> None:
    """Any host may submit 400,000 characters to an honest schema."""
    described, value = WORKS[kind]
    form = form_of(described)
    told: list[str] = []
    assert steps_of(lambda: told.extend(form.problems({"a": value}))) < MOST_STEPS
    assert "uniqueItems" in described or told
    assert len(told) <= 13


def test_unchecked_work_is_never_accepted() -> None:
    """The check gives up before it reaches the last item, which is the wrong one."""
    form = form_of({"type": "array", "maxItems": 10**9, "items": {"type": "object", "properties": {"x": {"const": 1}}}})
    assert form.problems({"a": [{"x": 1}] * 100}) == ()
    assert form.problems({"a": [{"x": 1}] * 60_000 + [{"x": 2}]})[0] == TOO_MUCH


SAME: list[tuple[list[Any], bool]] = [
    ([1, 1.0], False),
    ([1, True], True),
    ([0, False], True),
    ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
    ([[1], [1.0]], False),
    (["1", 1], True),
    ([None, 0, "", [], {}], True),
    ([{"a": [1.0]}, {"a": [1]}], False),
]


@pytest.mark.parametrize(("items", "fits"), SAME)
def test_which_items_are_the_same_is_as_json_schema_says(items: list[Any], *, fits: bool) -> None:
    from jsonschema import Draft202012Validator

    described = {"type": "array", "uniqueItems": True}
    assert Draft202012Validator(described).is_valid(items) == fits
    assert (form_of(described).problems({"a": items}) == ()) == fits


def test_thousands_of_unknown_fields_in_the_work_take_bounded_steps() -> None:
    told: list[str] = []
    wrong = {f"nottes_{n}": n for n in range(25_000)}
    assert steps_of(lambda: told.extend(ModelForm(Notes).problems(wrong))) < MOST_STEPS
    assert told[-1] == f"and {25_000 - 12} more"
