"""A team's own agents are read from YAML: equal to built-in ones, and every mistake is named with file and line."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import NeedsOwnHand, NoSuchAgent
from agents.prompts.prompt import prompt
from agents.spec.catalogue import MOST_AGENTS, TeamCatalogue
from agents.spec.problems import MOST_PROBLEMS, Problems
from agents.spec.schema.json_schema import KEYWORDS, read_schema
from agents.spec.schema.work_form import SchemaForm
from agents.spec.yaml.values import MOST_BYTES, UnreadableFile, read_marked
from knowledge.pages.vault import Vault
from mcp_server.app.factories.team_files import VaultFiles, team_catalogue
from tests.support.agents.agent_harness import WINTER, leading
from tests.support.agents.small_agents import Only, noting
from tests.support.agents.team_agents import FILE, HANDBOOK, OWN_TOOLS, SMALL, VERDICT, agent, read, write

NAMES = ("a", "id", "x-a")
"""Names that hypothesis gives to properties, besides words of JSON Schema."""

# --- what is read -----------------------------------------------------------------------------------------------------


def test_an_agent_is_read_whole() -> None:
    found = agent()
    assert (found.name, found.title, found.origin) == ("review", "Review", FILE)
    assert (found.graph.initial, found.graph.complete) == ("NOTE", ("DONE",))
    note, judge, done = found.graph.phases
    assert (note.checkpoint, note.own_hand, note.tools) == ("optional", False, ("kb_read", "kb_search"))
    assert (judge.checkpoint, judge.own_hand, judge.tools) == ("blocking", True, ())
    assert set(found.forms) == {"NOTE", "JUDGE"}
    assert done.work_schema == ""
    assert [(t.source, t.target, t.condition, t.is_backward) for t in found.graph.transitions] == [
        ("NOTE", "JUDGE", "noted", False),
        ("JUDGE", "DONE", "judged", False),
        ("JUDGE", "NOTE", "note_lacks", True),
    ]
    assert set(found.conditions) == {"noted", "judged", "note_lacks"}
    assert found.questions == {"NOTE": "Is anything missing?"}
    assert found.inputs["properties"] == {"topic": {"type": "string", "description": "What it is about."}}


def test_a_prompt_is_text_or_a_file_without_its_front_matter() -> None:
    texts = agent().texts
    assert texts["NOTE"].startswith("Note what you see of {{ inputs.topic }}.\n\nBrief:")
    assert texts["NOTE_again"] == "Add what was missing.\nWhy: {{ why }}"
    note, judge, _ = agent().graph.phases
    assert (note.prompt, note.prompt_again) == ("NOTE", "NOTE_again")
    assert (judge.prompt, judge.prompt_again) == ("JUDGE", "JUDGE"), "without words for coming back the first ones hold"


def test_a_yaml_word_means_what_it_looks_like() -> None:
    """`no`, `on` and `12:30` are text, as in front matter."""
    raw = b"a: no\nb: on\nc: 12:30\nd: true\ne: ~\nf: 7\ng: -1.5\nh: '7'\ni: 2026-05-31\nj: 0x10\nk:\n"
    assert read_marked(raw).plain() == {
        "a": "no",
        "b": "on",
        "c": "12:30",
        "d": True,
        "e": None,
        "f": 7,
        "g": -1.5,
        "h": "7",
        "i": "2026-05-31",
        "j": "0x10",
        "k": None,
    }


def test_json_is_read_with_lines_too() -> None:
    marked = read_marked(b'{\n\t"a": {"b": [1,\n\t\t{"c": "d"}]}\n}')
    assert marked.plain() == {"a": {"b": [1, {"c": "d"}]}}
    assert marked.line_at(["a", "b", 1, "c"]) == 3
    assert marked.line_at(["a", "nothing"]) == 2


# --- every kind of mistake, with its line -----------------------------------------------------------------------------

MISTAKES = [
    json.loads(line)
    for line in (Path(__file__).parent / "team_mistakes.jsonl").read_text(encoding="utf-8").splitlines()
]
"""A part of the small agent, its replacement, and the resulting message."""


@pytest.mark.parametrize("case", MISTAKES, ids=[case["told"][:60] for case in MISTAKES])
def test_a_mistake_is_named_with_its_line(case: dict[str, str]) -> None:
    """Messages that name file and line."""
    assert case["old"] in SMALL
    definition = read(SMALL.replace(case["old"], case["new"], 1))
    assert definition.agent is None
    told = [str(problem) for problem in definition.problems]
    assert any(text.startswith(f"{FILE}:{case['told']}") for text in told), told


def test_all_mistakes_are_reported_together_in_the_order_of_lines() -> None:
    text = SMALL.replace("title: Review", "titel: Review").replace("kb_search]", "kb_serch]").replace("filled", "filed")
    lines = [problem.line for problem in read(text).problems]
    assert lines == sorted(lines)
    assert {1, 13, 47} <= set(lines)


def test_mistakes_in_files_beside_it_are_named_there() -> None:
    again = read(again="---\ntitle: Again\n---\n\nAdd\n\nwhat {{ was }} missing.\n")
    assert str(again.problems[0]).startswith("_agents/notes/again.md:7: the prompt has the unknown placeholder 'was'")
    empty = read(again="---\ntitle: Again\n---\n\n")
    assert str(empty.problems[0]) == "_agents/notes/again.md:1: the file has no text after its front matter"
    schema = read(verdict=VERDICT.replace('"string"', '"text"', 1))
    assert str(schema.problems[0]).startswith(
        "_agents/notes/verdict.json:4: 'work' of phase 'JUDGE' is not a valid JSON Schema"
    )
    broken = read(verdict='{\n"properties": {,}\n}')
    assert str(broken.problems[0]).startswith("_agents/notes/verdict.json:2: this is not valid YAML")
    assert all(definition.agent is None for definition in (again, empty, schema, broken))
    assert again.reads == {"_agents/notes/again.md", "_agents/notes/verdict.json"}


@pytest.mark.parametrize("name", ["Review", "1st", "two words", "x" * 41, "naïve"])
def test_a_file_is_named_as_an_agent_can_be_called(name: str) -> None:
    assert "an agent cannot be called" in str(read(file=f"_agents/{name}.yaml").problems[0])


@pytest.mark.parametrize("name", ["continue", "route"])
def test_an_agent_is_not_called_like_a_prompt_of_this_program(name: str) -> None:
    (problem,) = read(file=f"_agents/{name}.yaml").problems
    assert str(problem).startswith(f"_agents/{name}.yaml:1: this program already has a prompt {name!r}")


def test_an_agent_is_not_called_like_one_of_this_program() -> None:
    (problem,) = read(file="_agents/research.yaml").problems
    assert str(problem).startswith("_agents/research.yaml:1: this program already has an agent 'research'")


def test_of_very_many_mistakes_the_first_are_reported_and_the_rest_counted() -> None:
    problems = Problems(FILE)
    for line in range(1, 100):
        problems.add(line, "wrong")
    assert len(problems.in_order()) == MOST_PROBLEMS + 1
    assert str(problems.in_order()[-1]) == f"{FILE}:41: and 59 more problems"


# --- hostile files ----------------------------------------------------------------------------------------------------

HOSTILE = {
    "python objects": (b"title: !!python/object/apply:os.system ['touch /tmp/x']", 1, "tags"),
    "a billion laughs": (b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", 1, "anchors and aliases"),
    "an alias to itself": (b"a: &a [*a]", 1, "anchors and aliases"),
    "depth": (b"a: " + b"[" * 5_000 + b"]" * 5_000, 1, "nested deeper than"),
    "many values": (b"a: [" + b"x," * 10_001 + b"]", 1, "more than 10000 values"),
    "size": (b"a: " + b"x" * MOST_BYTES, 1, "at most 100000 are read"),
    "not UTF-8": (b"a: b\nc: \xff\xfe", 2, "not UTF-8"),
    "a key twice": (b"a: 1\nb: 2\na: 3", 3, "the key 'a' is a duplicate, first at line 1"),
    "a key twice, deeper": (b"a:\n  b: 1\n  b: 2", 3, "first at line 2"),
    "two documents": (b"a: 1\n---\nb: 2", 2, "a second document"),
    "control characters": (b"a: b\nc: \x00", 2, "it contains a character that YAML does not allow"),
    "a mapping as key": (b"? {a: 1}\n: 2", 1, "a key must be plain text"),
    "nothing": (b"", 1, "the file is empty"),
    "only a comment": (b"# hello\n", 1, "the file is empty"),
    "tabs": (b"a:\n\tb: 1", 2, "this is not valid YAML"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_with_its_line(kind: str) -> None:
    raw, line, reason = HOSTILE[kind]
    with pytest.raises(UnreadableFile) as refused:
        read_marked(raw)
    assert refused.value.line == line
    assert reason in refused.value.reason
    (problem,) = read(raw).problems
    assert (problem.file, problem.line) == (FILE, line)


@given(st.binary(max_size=400))
@settings(max_examples=80)
def test_no_bytes_raise_anything(raw: bytes) -> None:
    definition = read(raw)
    assert definition.agent is None
    assert definition.problems


@given(st.data())
@settings(max_examples=60)
def test_no_damage_to_a_file_raises_anything(data: st.DataObject) -> None:
    """Lines lost, doubled or cut: the agent is complete, or missing and the problems say why."""
    lines = SMALL.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        lines[at : at + 1] = data.draw(st.sampled_from([[], [line, line], [line[: len(line) // 2]], [f"  {line}"]]))
    definition = read("\n".join(lines))
    assert (definition.agent is None) == bool(definition.problems)
    assert all(problem.line >= 1 for problem in definition.problems)


def test_a_schema_with_multiplying_references_is_refused_immediately() -> None:
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
    schema = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**doubling, "d30": {"type": "string"}}}
    problems = Problems(FILE)
    assert read_schema(read_marked(json.dumps(schema).encode()), "'work'", problems) is None
    assert "is too large" in str(problems.in_order()[0])


def test_a_schema_that_refers_to_itself_is_refused() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"items": {"$ref": "#/$defs/y"}}, "y": {"$ref": "#/$defs/x"}},
    }
    problems = Problems(FILE)
    assert read_schema(read_marked(json.dumps(schema, indent=1).encode()), "'work'", problems) is None
    assert [problem.text for problem in problems.in_order()] == [
        "'work' defines 'x' in terms of itself",
        "'work' defines 'y' in terms of itself",
    ]


def schema_of(form: object) -> tuple[dict[str, Any] | None, list[str]]:
    problems = Problems(FILE)
    schema = read_schema(read_marked(json.dumps(form).encode()), "'work'", problems)
    return schema, [problem.text for problem in problems.in_order()]


def test_properties_may_have_any_name_even_a_json_schema_keyword() -> None:
    names = ["title", "type", "enum", "required", "properties", "items", "pattern", "default", "description"]
    schema, problems = schema_of({"properties": {name: {"$ref": "#/$defs/quoted"} for name in names}})
    assert problems == []
    assert schema is not None
    form = SchemaForm(schema)
    assert "$ref" not in json.dumps(form.schema)
    assert list(form.schema["properties"]) == names
    good = dict.fromkeys(names, WINTER)
    assert not form.problems(good)
    assert list(form.problems({**good, "enum": {**WINTER, "quote": ""}})) == ["'enum.quote' must not be empty"]
    assert schema_of({"properties": {"title": {"$ref": "#/$defs/other"}}})[0] is None
    assert "names can't begin with $" in schema_of({"properties": {"$ref": {"type": "string"}}})[1][0]


def test_a_reference_with_demands_beside_it_keeps_both() -> None:
    schema, _ = schema_of({"properties": {"a": {"$ref": "#/$defs/quoted", "required": ["why"], "description": "Why."}}})
    assert schema is not None
    told = SchemaForm(schema).problems({"a": {"path": "x"}})
    assert sorted(told) == ["'a.quote' is missing", "'a.section' is missing", "'a.why' is missing"]
    plain, _ = schema_of({"properties": {"a": {"$ref": "#/$defs/quoted", "description": "Why."}}})
    assert plain is not None
    assert plain["properties"]["a"]["description"] == "Why."
    assert SchemaForm(plain).problems({"a": {**WINTER, "more": 1}}), "unknown fields are refused"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "a", "string", "#/$defs/a", "#/$defs/quoted"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYWORDS, *NAMES]), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(form=JSON, work=JSON)
@settings(max_examples=100)
def test_no_schema_and_no_work_raises_anything(form: object, work: object) -> None:
    schema, problems = schema_of({"properties": form} if isinstance(form, dict) else form)
    assert (schema is None) == bool(problems)
    if schema is not None:
        told = SchemaForm(schema).problems(work)
        assert all(isinstance(text, str) and text for text in told)


# --- the form of a work -----------------------------------------------------------------------------------------------

GOOD_NOTE = {"id": "n1", "text": "The hive hums.", "evidence": [WINTER]}
MISFITS = [
    ({"notes": "none"}, "'notes' must be a list, not text"),
    ({"notes": [{"text": "x"}]}, "'notes[0].id' is missing"),
    ({"notes": [GOOD_NOTE, {"id": "n2", "text": 5}]}, "'notes[n2].text' must be text, not a number"),
    ({"notes": [{"id": "n1", "txt": "x"}]}, "there is no field 'notes[n1].txt'; did you mean 'text'?"),
    ({"nots": []}, "there is no field 'nots'; did you mean 'notes'?"),
    ({"notes": [{**GOOD_NOTE, "evidence": [{"path": "a", "section": ""}]}]}, "'notes[n1].evidence[0].quote' is missing"),
    ({"notes": [{**GOOD_NOTE, "evidence": [{**WINTER, "quote": ""}]}]}, "'notes[n1].evidence[0].quote' must not be empty"),
    ({"notes": [{"id": "n1", "text": "x" * 8001}]}, "'notes[n1].text' must be at most 8000 characters, and has 8001"),
    ({"notes": [{"id": str(n)} for n in range(501)]}, "'notes': it must have at most 500 items, and has 501"),
    ({"drop": "n1"}, "'drop' must be a list, not text"),
]  # fmt: skip


@pytest.mark.parametrize(("work", "told"), MISFITS, ids=[told for _, told in MISFITS])
def test_invalid_work_gets_the_same_messages_as_every_other_form(work: dict[str, object], told: str) -> None:
    form = agent().forms["NOTE"]
    assert not form.problems({"notes": [GOOD_NOTE]})
    assert list(form.problems(work)) == [told]


def test_each_rule_of_a_schema_has_its_words() -> None:
    form = SchemaForm(
        {
            "type": "object",
            "properties": {
                "kind": {"enum": ["a", "b"]},
                "one": {"const": 1},
                "few": {"type": "array", "minItems": 2, "uniqueItems": True},
                "share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "shape": {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]},
            },
        }
    )
    wrong = {"kind": "c", "one": 2, "few": [1], "share": 1, "either": [], "shape": {"a": 5}}
    assert list(form.problems(wrong)) == [
        "'either': it matches none of the allowed forms",
        "'few': it must have at least 2 items, and has 1",
        "'kind' must be 'a' or 'b'",
        "'one' must be 1",
        "'shape.a' must be text, not a number",
        "'share' must be below 1, not 1",
    ]
    assert list(form.problems({"few": [1, 1]})) == ["'few': no item may occur twice"]


def test_a_model_is_shown_the_schema_without_references_and_with_the_way_to_remove() -> None:
    shown = agent().forms["NOTE"].schema
    text = json.dumps(shown)
    assert "$ref" not in text
    assert "$defs" not in text
    assert shown["properties"]["drop"]["items"]["type"] == "string"
    quoted = shown["properties"]["notes"]["items"]["properties"]["evidence"]["items"]
    assert quoted["required"] == ["path", "section", "quote"]
    assert "maxItems" not in shown["properties"]["notes"], "limits that nobody wrote down cost no tokens"
    assert "drop" not in agent().forms["JUDGE"].schema["properties"]
    assert agent().forms["JUDGE"].asks == {"lacks"}


# --- hot reload -------------------------------------------------------------------------------------------------------


class Seconds:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def catalogue(folder: Path, clock: Seconds | None = None) -> TeamCatalogue:
    """Return a catalogue that checks the files each time, unless a clock says otherwise."""
    files = VaultFiles(Vault.open(folder))
    every_s = 1.0 if clock else 0.0
    return TeamCatalogue(
        Only(noting()), files, OWN_TOOLS, clock=clock or Seconds(), reserved={"noting"}, every_s=every_s
    )


async def names(there: TeamCatalogue) -> list[str]:
    return [found.name for found in await there.agents()]


async def test_agents_are_added_changed_broken_mended_and_removed_while_the_server_runs(tmp_path: Path) -> None:
    """Hot-reloaded."""
    there = catalogue(tmp_path)
    assert await names(there) == ["noting"]
    write(tmp_path)
    assert await names(there) == ["noting", "review"]
    first = await there.agent("review")
    assert await there.agent("review") is first, "what did not change is not read again"

    write(tmp_path, SMALL.replace("title: Review", "title: Second look"))
    assert (await there.agent("review")).title == "Second look"

    write(tmp_path, SMALL.replace("kb_search]", "kb_serch]"))
    assert await names(there) == ["noting"], "a broken agent is not there, not even as it was"
    with pytest.raises(NoSuchAgent, match=r"_agents/review\.yaml:13: phase 'NOTE' uses the unknown tool 'kb_serch'"):
        await there.agent("review")
    assert [problem.line for problem in await there.problems()] == [13]

    write(tmp_path)
    assert (await there.agent("review")).title == "Review"
    assert await there.problems() == ()

    (tmp_path / FILE).unlink()
    assert await names(there) == ["noting"]
    with pytest.raises(NoSuchAgent, match="there are noting"):
        await there.agent("review")


async def test_a_prompt_file_that_changes_comes_vanishes_or_breaks_is_seen(tmp_path: Path) -> None:
    write(tmp_path)
    there = catalogue(tmp_path)
    again = tmp_path / "_agents/notes/again.md"
    again.write_text("Other words.", encoding="utf-8")
    assert (await there.agent("review")).texts["NOTE_again"] == "Other words."
    again.unlink()
    with pytest.raises(NoSuchAgent, match=r"names the file 'notes/again\.md', which does not exist"):
        await there.agent("review")
    again.write_text("Back {{ again }}.", encoding="utf-8")
    with pytest.raises(NoSuchAgent, match=r"_agents/notes/again\.md:1: the prompt has the unknown placeholder 'again'"):
        await there.agent("review")
    again.write_text("Back.", encoding="utf-8")
    assert (await there.agent("review")).texts["NOTE_again"] == "Back."


async def test_a_broken_agent_does_not_keep_others_away(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "title: [", "_agents/broken.yaml")
    there = catalogue(tmp_path)
    assert await names(there) == ["noting", "review"]
    assert [problem.file for problem in await there.problems()] == ["_agents/broken.yaml"]


async def test_files_are_looked_at_at_most_once_a_second(tmp_path: Path) -> None:
    clock = Seconds()
    there = catalogue(tmp_path, clock)
    assert await names(there) == ["noting"]
    write(tmp_path)
    clock.now = 0.9
    assert await names(there) == ["noting"]
    clock.now = 1.0
    assert await names(there) == ["noting", "review"]


async def test_two_files_of_one_name_are_not_both_an_agent(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, SMALL, "_agents/review.yml")
    there = catalogue(tmp_path)
    assert (await there.agent("review")).origin == "_agents/review.yaml"
    (problem,) = await there.problems()
    assert str(problem).startswith("_agents/review.yml:1: the agent 'review' is already defined in _agents/review.yaml")


async def test_at_most_fifty_agents_are_taken_and_the_others_named(tmp_path: Path) -> None:
    for number in range(MOST_AGENTS + 2):
        write(tmp_path, SMALL, f"_agents/a{number:02}.yaml")
    there = catalogue(tmp_path)
    assert len(await there.team()) == MOST_AGENTS
    assert [problem.file for problem in await there.problems()] == ["_agents/a50.yaml", "_agents/a51.yaml"]


async def test_a_file_that_is_too_large_is_not_even_read(tmp_path: Path) -> None:
    write(tmp_path)
    with (tmp_path / FILE).open("ab") as file:
        file.truncate(10**9)  # sparse: a thousandth of it read would be noticed
    (problem,) = await catalogue(tmp_path).problems()
    assert "at most 100000 are read" in problem.text


async def test_an_agent_is_read_through_no_link(tmp_path: Path) -> None:
    inside, outside = tmp_path / "kb", tmp_path / "elsewhere"
    write(inside)
    write(outside, SMALL.replace("title: Review", "title: Outside"))
    (inside / "_agents/linked.yaml").symlink_to(outside / FILE)
    (inside / "_agents/inner.yaml").symlink_to(inside / FILE)
    (inside / "_agents/folder").symlink_to(outside / "_agents")
    (inside / "_agents/loop").symlink_to(inside / "_agents")
    os.mkfifo(inside / "_agents/pipe.yaml")
    there = catalogue(inside)
    assert [(found.name, found.title) for found in await there.team()] == [("review", "Review")]
    told = {problem.file: problem.text for problem in await there.problems()}
    assert list(told) == ["_agents/inner.yaml", "_agents/linked.yaml", "_agents/pipe.yaml"]
    assert "put the file itself there" in told["_agents/inner.yaml"], "who may edit its target could change the agent"
    assert "leaves the knowledge base" in told["_agents/linked.yaml"]


async def test_a_knowledge_base_that_is_away_has_no_agents_for_that_time(tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    write(kb)
    there = catalogue(kb)
    assert len(await there.team()) == 1
    kb.rename(tmp_path / "away")
    assert await there.team() == []
    (problem,) = await there.problems()
    assert (problem.file, "cannot be read" in problem.text) == ("_agents", True)
    with pytest.raises(NoSuchAgent, match="the folder cannot be read"):
        await there.agent("review")
    (tmp_path / "away").rename(kb)
    assert len(await there.team()) == 1


async def test_the_handbooks_own_agents_work_in_the_real_program() -> None:
    """The worked examples in `kb/`."""
    there = team_catalogue(Vault.open(HANDBOOK))
    assert [found.name for found in await there.team()] == [
        "decide",
        "decision-to-evidence",
        "incident-review",
        "task-to-page",
        "thread-to-page",
        "incident-to-runbook",
    ]
    assert await there.problems() == ()


def test_the_guides_first_agent_works_unchanged_and_its_mistake_is_reported_as_shown() -> None:
    page = (HANDBOOK / "guides" / "own-agents.md").read_text(encoding="utf-8")
    text = page.partition("```yaml\n")[2].partition("```")[0]
    file = "_agents/library-review.yaml"
    assert read(text, file=file).problems == ()
    (problem,) = read(text.replace("kb_search", "kb_serch"), file=file).problems
    assert str(problem) in page.splitlines()


def test_the_guide_names_every_key() -> None:
    page = (HANDBOOK / "guides" / "own-agents.md").read_text(encoding="utf-8")
    keys = re.findall(r"there are (.*)", str(read(SMALL.replace("title: Review", "title: Review\nq: 1")).problems[0]))
    keys += re.findall(r"there are (.*)", str(read(SMALL.replace("    purpose", "    q: 1\n    purpose")).problems[0]))
    keys += re.findall(r"there are (.*)", str(read(SMALL.replace("noted}", "noted, q: 1}")).problems[0]))
    names = [name for told in keys for name in told.split(", ")]
    assert {"title", "conditions", "prompt_again", "is_backward"} <= set(names)
    assert [name for name in names if f"`{name}`" not in page] == []


# --- what is told -----------------------------------------------------------------------------------------------------


async def test_the_record_fills_the_next_phases_prompt_and_inputs_are_shown() -> None:
    async with leading(agent(), topic="the hive") as led:
        assert "Note what you see of the hive." in await led.told()
        await led.submit(notes=[GOOD_NOTE, {"id": "n2", "text": "It is {{ warm }}."}])
        here = await led.position()
        assert here.state.phase == "JUDGE"
        told = prompt(here.agent, here.state)
        assert "Judge: - n1: The hive hums.; evidence: notes/bees.md" in told
        assert "- n2: It is {{ warm }}." in told, "what a work says is not filled in"
        assert "- NOTE notes: n1: The hive hums." in told
        events = [event.TYPE for event in await led.events()]
        assert events.count("data.source.found") == 1


# --- questions, conversations, feedback -------------------------------------------------------------------------------

ASKING = """\
title: Ask
summary: Asks before it answers, and is judged.
initial: ASK
complete: DONE
phases:
  - name: ASK
    speaker: asker
    prompt: "Ask what only a person knows."
    work:
      properties:
        questions:
          type: array
          items: {type: object, properties: {id: {type: string}, question: {type: string}}, required: [id, question]}
      required: [questions]
  - name: TELL
    speaker: asker
    feedback: [soft_failure]
    prompt: "They said: {{ answers }}"
    work: {properties: {text: {type: string}}}
  - name: JUDGE
    speaker: judge
    fresh: true
    prompt: "Judge: {{ TELL.text }}"
    work: {properties: {verdict: {enum: [good, poor, wrong]}, why: {type: string}}, required: [verdict, why]}
  - name: DONE
transitions:
  - {from: ASK, to: TELL, asks: questions}
  - {from: TELL, to: JUDGE, condition: told}
  - {from: JUDGE, to: DONE, condition: good}
  - {from: JUDGE, to: TELL, condition: poor, is_backward: true}
  - {from: JUDGE, to: ASK, condition: wrong, is_backward: true, anew: true}
conditions:
  told: {filled: text}
  good: {equals: {field: verdict, value: good}}
  poor:
    feedback: {field: why, kind: soft_failure}
    equals: {field: verdict, value: poor}
  wrong:
    feedback: {field: why, kind: hard_failure}
    equals: {field: verdict, value: wrong}
"""


GIVING_UP = (
    ASKING.replace("  - name: TELL\n", "  - name: TELL\n    question: May it be given up?\n    verified: true\n")
    .replace("complete: DONE", "complete: [DONE, GIVEN_UP]")
    .replace("  - name: DONE\n", "  - name: DONE\n  - name: GIVEN_UP\n")
    .replace(
        "condition: told}\n",
        "condition: told}\n  - {from: TELL, to: GIVEN_UP, condition: nothing, checkpoint: blocking}\n",
    )
    .replace("conditions:\n", "conditions:\n  nothing: {equals: {field: text, value: ''}}\n")
)


ASKED_IN = SMALL.replace(
    "    checkpoint: blocking\n", "    checkpoint: blocking\n    ask_in: '#team / reviews/a'\n    question: Is it so?\n"
)


async def test_a_question_that_is_asked_in_a_topic_is_never_relayed() -> None:
    read_agent = agent(ASKED_IN)
    (phase,) = [one for one in read_agent.graph.phases if one.ask_in]
    assert (phase.ask_in, phase.own_hand) == ("team/reviews/a", True)


@pytest.mark.parametrize(
    ("now", "then", "says"),
    [
        ("'#team / reviews/a'", "team", "has the invalid place 'team' to ask in: write CHANNEL/TOPIC"),
        ("    question: Is it so?\n", "", "has 'ask_in', but nothing waits for the answer"),
        ("    checkpoint: blocking\n    ask", "    checkpoint: optional\n    ask", "has 'ask_in', but nothing waits"),
    ],
)
def test_a_place_to_ask_in_needs_a_question_that_waits(now: str, then: str, says: str) -> None:
    assert now in ASKED_IN
    assert says in str(read(ASKED_IN.replace(now, then)).problems[0])


async def test_one_transition_of_a_team_agents_phase_asks_a_person_and_the_other_does_not() -> None:
    async with leading(agent(GIVING_UP)) as led:
        assert (await led.submit(questions=[])).phase == "TELL"
        state = await led.submit(text="")
        assert (state.status, state.phase) == ("waiting", "TELL")
        assert state.checkpoint is not None
        assert (state.checkpoint.kind, state.checkpoint.target) == ("blocking", "GIVEN_UP")
        assert state.checkpoint.own_hand, "the phase is verified"
        assert "May it be given up?" in await led.told()
        with pytest.raises(NeedsOwnHand):
            await led.decide("approve", channel="relayed")
        assert (await led.decide("approve")).phase == "GIVEN_UP"
    async with leading(agent(GIVING_UP)) as led:
        await led.submit(questions=[])
        assert (await led.submit(text="There are nine.")).phase == "JUDGE"


async def test_a_team_agent_asks_a_person_and_continues_in_conversations() -> None:
    """A team's agent can do everything that the engine can."""
    question = {"id": "q1", "question": "How many hives?"}
    async with leading(agent(ASKING)) as led:
        asker = (await led.state()).conversation
        assert (await led.submit(questions=[question])).status == "waiting"
        assert (await led.decide("answer", changes={"q1": "Nine of them"})).phase == "TELL"
        assert "They said: - q1: How many hives? Nine of them" in await led.told()
        state = await led.submit(text="There are nine hives.")
        judge = state.conversation
        assert judge is not None
        assert judge.startswith("judge_iter1_")
        state = await led.submit(verdict="poor", why="It does not say where.")
        assert (state.phase, state.conversation) == ("TELL", asker), "a soft failure goes on in the same conversation"
        assert "- soft failure in JUDGE: It does not say where." in await led.told()
        state = await led.submit(text="There are nine hives on the roof.")
        assert state.conversation not in (asker, judge), "who is fresh knows nothing of the time before"
        state = await led.submit(verdict="wrong", why="Nobody asked about wasps.")
        assert (state.phase, state.iteration) == ("ASK", 3)
        assert state.conversation not in (asker, judge)
        state = await led.submit(questions=[question])
        assert (state.phase, state.status) == ("TELL", "active"), "what was answered is not asked again"
        told = await led.told()
        assert "soft failure in JUDGE: It does not say where." in told
        assert "hard failure" not in told, "the phase asks for no feedback of that kind"
        await led.submit(text="There are nine hives and no wasps.")
        assert (await led.submit(verdict="good", why="so it is")).status == "complete"


def test_a_schema_may_ask_for_text_that_shows_items_that_differ_and_null() -> None:
    """The handbook, own agents: `x-text`, `x-distinct` and `x-null` are checked, and not shown to models."""
    part = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    properties = {
        "why": {"type": "string", "minLength": 1, "x-text": "visible"},
        "made": {"type": "array", "items": {"type": "string", "x-text": "locator"}},
        "gap": {**part, "x-null": True},
        "asked": {"type": "object", "properties": {"x-text": {"type": "array", "items": part, "x-distinct": "id"}}},
    }
    form = SchemaForm({"type": "object", "properties": properties})
    good = {"why": "so", "made": ["code:a.py"], "gap": {"id": "a"}, "asked": {"x-text": [{"id": "a"}, {"id": "b"}]}}
    assert form.problems(good) == ()
    assert form.problems({**good, "gap": None}) == ()
    wrong = {"why": " \u200b", "made": ["a.py"], "gap": {"more": 1}, "asked": {"x-text": [{"id": "a"}, {"id": "a"}]}}
    assert list(form.problems(wrong)) == [
        "'asked.x-text': two items have the id a; each needs its own",
        "'gap.id' is missing",
        "there is no field 'gap.more'; it takes id",
        "'made[0]': must be kind:place, for example code:src/hive.py or kb:guides/hive.md",
        "'why': must say something",
    ]
    assert list(form.problems({"why": ""})) == ["'why' must not be empty"]
    shown = json.dumps(form.schema)
    assert "x-distinct" not in shown
    assert "x-null" not in shown
    assert shown.count("x-text") == 1, "a field may be called so"


def test_a_schema_may_refer_to_an_id_and_a_line() -> None:
    """The handbook, own agents: `#/$defs/id` and `#/$defs/line` are the usual forms of both."""
    text = SMALL.replace("text: {type: string}", 'text: {$ref: "#/$defs/line", description: What.}')
    form = agent(text.replace("id: {type: string}", 'id: {$ref: "#/$defs/id"}')).forms["NOTE"]
    assert form.problems({"notes": [{"id": "a", "text": "b"}]}) == ()
    assert list(form.problems({"notes": [{"id": "", "text": " "}]})) == [
        "'notes[0].id' must not be empty",
        "'notes[0].text': must say something",
    ]
