"""Conditions of a team's agents: for each predicate works that meet it, and near misses that do not and are told what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from textwrap import dedent
from typing import Any

import pytest
import yaml

from agents.agent import Agent, Called, Fate, Finding
from agents.team.conditions import BY_NAME, COMBINING
from tests.agents_at_work import ALTERED, ELSEWHERE, FLOWERS, NOWHERE, VARROA, WINTER, Pages, judged
from tests.team_agents import HANDBOOK, read

REFERENCE = HANDBOOK / "reference" / "agent-conditions.md"
PLAN = """\
title: Plan
summary: For conditions to look at.
initial: GATHER
complete: DONE
phases:
  - name: GATHER
    prompt: Gather.
    work:
      properties:
        events: {type: array, items: {$ref: "#/$defs/event"}}
      $defs:
        event: {type: object, properties: {id: {type: string}, what: {type: string}}}
  - name: EXPLAIN
    prompt: Explain.
    tools: [kb_merge]
    work:
      properties:
        summary: {type: string}
        sure: {type: boolean}
        page: {type: string}
        pages: {type: array, items: {type: string}}
        queries: {type: array, items: {type: string}}
        causes:
          type: array
          items:
            type: object
            properties:
              id: {type: string}
              what: {type: string}
              event: {type: string}
              outcome: {type: string}
              evidence: {type: array, items: {$ref: "#/$defs/quoted"}}
        gap:
          type: object
          properties: {after: {type: string}, what: {type: string}}
      x-asks: [gap]
  - name: DONE
transitions:
  - {from: GATHER, to: EXPLAIN}
  - {from: EXPLAIN, to: DONE, condition: tried}
conditions:
  tried:
"""
GATHERED: Mapping[str, Any] = {"GATHER": {"events": [{"id": "e1", "what": "a"}, {"id": "e2", "what": "b"}]}}


def trying(predicate: str) -> Agent:
    """Return an agent whose condition `tried` is that predicate."""
    lines = "".join(f"    {line}\n" for line in dedent(predicate).strip().splitlines())
    definition = read(PLAN + lines)
    assert definition.agent is not None, definition.problems
    return definition.agent


@dataclass
class Tried:
    """A predicate, works that meet it, and near misses with what is told."""

    predicate: str
    meets: list[dict[str, Any]]
    misses: list[tuple[dict[str, Any], str]]
    look: Pages = field(default_factory=Pages)


def causes(*items: Mapping[str, Any]) -> dict[str, Any]:
    return {"causes": [{"id": f"c{number}", **item} for number, item in enumerate(items, 1)]}


def called(tool: str = "kb_merge", **facts: Any) -> Called:
    return Called(tool, "EXPLAIN", facts)


MERGED = Pages(called=[called(status="done", path="plans/honey.md")])
PROPOSED = [called(status="proposed", path="plans/honey.md", proposal="p-1")]
TRIED = {
    "filled": Tried(
        "filled: [summary, gap.what]",
        [{"summary": "It swarmed.", "gap": {"what": "why"}}],
        [
            ({"summary": "  \n", "gap": {"what": "why"}}, "summary is empty: fill it in"),
            ({"summary": "It swarmed."}, "gap.what is empty: fill it in"),
            ({"summary": "It swarmed.", "gap": {"after": "e1"}}, "gap.what is empty: fill it in"),
        ],
    ),
    "filled, of what is false": Tried("filled: sure", [{"sure": False}], [({}, "sure is empty"), ({"summary": "x"}, "sure")]),
    "at_least": Tried(
        "at_least: {field: causes, count: 2}",
        [causes({"what": "a"}, {"what": "b"})],
        [
            (causes({"what": "a"}), "causes has 1, at least 2 different ones are needed"),
            ({}, "causes has 0"),
        ],
    ),
    "at_least, of texts": Tried(
        "at_least: {field: causes.what, count: 2}",
        [causes({"what": "a"}, {"what": "b"})],
        [
            (causes({"what": "Too hot"}, {"what": "too  hot"}), "causes.what has 1, at least 2"),
            (causes({"what": "a"}, {"what": " "}), "causes.what has 1, at least 2"),
        ],
    ),
    "each_has": Tried(
        "each_has: {field: causes, fields: [what, event]}",
        [causes({"what": "a", "event": "e1"})],
        [
            (causes({"what": "a", "event": "e1"}, {"what": "b"}), "causes[c2] lacks 'event'"),
            (causes({"what": "", "event": "e1"}), "causes[c1] lacks 'what'"),
            ({"causes": []}, "causes is empty: fill it in"),
        ],
    ),
    "covers": Tried(
        "covers: {field: causes.event, of: GATHER.events}",
        [causes({"event": "e1"}, {"event": "e2"}), causes({"event": "e2"}, {"event": "e9"}, {"event": "e1"})],
        [
            (causes({"event": "e1"}), "causes.event has nothing for e2 of GATHER.events"),
            (causes({"event": "e1"}, {"event": "E2"}), "has nothing for e2"),
            ({}, "has nothing for e1, e2"),
        ],
    ),
    "known_in": Tried(
        "known_in: {field: causes.event, of: GATHER.events}",
        [causes({"event": "e1"})],
        [
            (causes({"event": "e1"}, {"event": "e3"}), "causes.event names e3, which GATHER.events does not have"),
            (causes({"event": "E1"}), "causes.event names E1, which GATHER.events does not have"),
            (causes({"what": "e1"}), "causes.event names nothing of GATHER.events"),
        ],
    ),
    "unknown_in": Tried(
        "unknown_in: {field: causes.event, of: GATHER.events}",
        [causes({"event": "e1"}, {"event": "e3"})],
        [
            (causes({"event": "e1"}), "causes.event names nothing that GATHER.events does not have already"),
            (causes({"event": " E1 "}), "names nothing that"),
            ({}, "names nothing that"),
        ],
    ),
    "distinct": Tried(
        "distinct: causes.what",
        [causes({"what": "too hot"}, {"what": "too cold"})],
        [
            (causes({"what": "Too hot"}, {"what": "too  hot"}), "causes[c2].what says the same as causes[c1].what"),
            (causes({"what": "a"}, {"what": "b"}, {"what": "A"}), "causes[c3].what says the same as causes[c1].what"),
        ],
    ),
    "equals": Tried(
        "equals: {field: causes.outcome, value: passed}",
        [causes({"outcome": "passed"}, {"outcome": "passed"})],
        [
            (causes({"outcome": "passed"}, {"outcome": "Passed"}), "causes[c2].outcome is not 'passed'"),
            (causes({"what": "passed"}), "causes.outcome is empty: it must be 'passed'"),
        ],
    ),
    "equals, of true": Tried(
        "equals: {field: sure, value: true}", [{"sure": True}], [({"sure": False}, "sure is not true"), ({}, "sure is empty")]
    ),
    "quotes_resolve": Tried(
        "quotes_resolve: {field: causes, count: 2}",
        [causes({"evidence": [WINTER]}, {"evidence": [FLOWERS]}), causes({"evidence": [WINTER, VARROA]})],
        [
            (causes({"evidence": [WINTER, ALTERED]}), "causes[c1].evidence[1]: the quote does not stand in notes/bees.md"),
            (causes({"evidence": [WINTER, ELSEWHERE]}), "causes[c1].evidence[1]: the quote does not stand in section 'Varroa'"),
            (causes({"evidence": [WINTER, NOWHERE]}), "causes[c1].evidence[1]: there is no page"),
            (causes({"evidence": [WINTER]}, {"evidence": [WINTER]}), "causes rests on 1 quote, at least 2 are needed"),
        ],
    ),
    "quotes_resolve, each": Tried(
        "quotes_resolve: {field: causes, each: true}",
        [causes({"evidence": [WINTER]}, {"evidence": [WINTER]})],
        [
            (causes({"evidence": [WINTER]}, {"evidence": []}), "causes[c2] has no quote: add one from the knowledge base"),
            (causes({"evidence": [WINTER]}, {"what": "b"}), "causes[c2] has no quote"),
            ({}, "causes rests on 0 different quotes, at least 1 are needed"),
        ],
    ),
    "pages_exist": Tried(
        "pages_exist: {field: pages, count: 2}",
        [{"pages": ["notes/bees.md", "notes/garden.md"]}],
        [
            ({"pages": ["notes/bees.md", "notes"]}, "pages[1]: 'notes' is a directory, not a page"),
            ({"pages": ["notes/bees.md", "notes/bee.md"]}, "pages[1]: 'notes/bee.md' is nothing, not a page"),
            ({"pages": ["notes/bees.md", "notes/bees.md"]}, "pages names 1, at least 2 different pages are needed"),
            ({"pages": ["notes/bees.md", " "]}, "pages[1] must be the path of a page"),
        ],
    ),
    "search_insufficient": Tried(
        "search_insufficient: queries",
        [{"queries": ["bees", "swarm cause"]}],
        [
            ({"queries": ["bees"]}, "a search finds enough for queries: use it"),
            ({"queries": [" "]}, "queries is empty: say what was looked for"),
            ({}, "queries is empty"),
        ],
        Pages(scents={"bees": "sufficient", "swarm cause": "partial"}),
    ),
    "tool_called": Tried(
        "tool_called: {tool: kb_merge, status: [done, unchanged], path: page}",
        [{"page": "plans/honey.md"}],
        [
            ({"page": "plans/other.md"}, "call kb_merge about page with the journey_id of this journey that ends with done or"),
            ({}, "call kb_merge"),
        ],
        MERGED,
    ),
    "tool_called, otherwise": Tried(
        "tool_called: {tool: kb_merge, status: done}",
        [],
        [({}, "call kb_merge with the journey_id of this journey that ends with done, in this phase")],
        Pages(called=[called(status="conflict"), called("kb_move", status="done")]),
    ),
    "proposal_done": Tried(
        "proposal_done: {tool: kb_merge, path: page}",
        [{"page": "plans/honey.md"}],
        [({"page": "notes/bees.md"}, "proposal p-1 was carried out, but for another page"), ({}, "proposal p-1")],
        Pages(called=PROPOSED, fates={"p-1": Fate("kb_merge", "done", path="plans/honey.md")}),
    ),
    "proposal_done, waiting": Tried(
        "proposal_done: kb_merge",
        [],
        [({}, "proposal p-1 waits for a person")],
        Pages(called=PROPOSED, fates={"p-1": Fate("kb_merge", "pending")}),
    ),
    "proposal_done, rejected": Tried(
        "proposal_done: kb_merge",
        [],
        [({}, "proposal p-1 was rejected by a person")],
        Pages(called=PROPOSED, fates={"p-1": Fate("kb_merge", "rejected", "not now")}),
    ),
    "proposal_done, of another journey": Tried(
        "proposal_done: kb_merge", [], [({}, "proposal p-1 is over without an effect")], Pages(called=PROPOSED)
    ),
    "proposal_done, none": Tried("proposal_done: kb_merge", [], [({}, "kb_merge proposed nothing in this phase")], MERGED),
    "proposal_rejected": Tried(
        "proposal_rejected: kb_merge",
        [{}],
        [],
        Pages(called=PROPOSED, fates={"p-1": Fate("kb_merge", "rejected", "not now")}),
    ),
    "proposal_rejected, then proposed anew": Tried(
        "proposal_rejected: kb_merge",
        [],
        [({}, "no proposal of kb_merge was rejected")],
        Pages(
            called=[*PROPOSED, called(proposal="p-2")],
            fates={"p-1": Fate("kb_merge", "rejected"), "p-2": Fate("kb_merge", "pending")},
        ),
    ),
    "proposal_rejected, none": Tried("proposal_rejected: kb_merge", [], [({}, "no proposal of kb_merge was rejected")], MERGED),
    "any": Tried(
        "any: [{filled: summary}, {at_least: {field: causes, count: 1}}]",
        [{"summary": "x"}, causes({"what": "a"})],
        [({}, "one of these is needed: summary is empty: fill it in; or causes has 0, at least 1 different ones are needed")],
    ),
    "not": Tried("not: {filled: summary}", [{}, {"sure": True}], [({"summary": "x"}, "this must not be so: summary is filled in")]),
    "say": Tried(
        "at_least: {field: causes, count: 2}\nsay: name what set it off, and why nothing stopped it",
        [causes({"what": "a"}, {"what": "b"})],
        [(causes({"what": "a"}), "name what set it off, and why nothing stopped it")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRIED)
async def test_a_predicate_is_met_by_what_it_asks_for_and_by_no_near_miss(name: str) -> None:
    """Issue 6, must show: per condition works that meet it and near misses that do not."""
    tried = TRIED[name]
    agent = trying(tried.predicate)
    for work in tried.meets:
        assert (await judged(agent, "tried", "EXPLAIN", work, tried.look, works=GATHERED)).met, work
    for work, told in tried.misses:
        found = await judged(agent, "tried", "EXPLAIN", work, tried.look, works=GATHERED)
        assert not found.met, work
        assert any(told in text for text in found.missing), found.missing


def test_each_predicate_is_tried() -> None:
    assert set(BY_NAME) - {name.partition(",")[0] for name in TRIED} == {"given", "signal"}, (
        "which have tests of their own"
    )


async def found(predicate: str, given: dict[str, Any], **more: Any) -> Finding:
    return await judged(trying(predicate), "tried", "EXPLAIN", given, **{"works": GATHERED, **more})


async def test_what_an_earlier_submit_brought_is_not_given_now() -> None:
    works = {**GATHERED, "EXPLAIN": causes({"what": "a"})}
    assert (await found("given: causes", causes({"what": "b"}), works=works)).met
    later = await found("given: causes", {"summary": "x"}, works=works)
    assert later.missing == ("causes is not in this submit",)
    assert not (await found("given: summary", {"summary": " "}, works=works)).met
    assert not (await found("given: [summary, causes]", {"summary": "x"}, works=works)).met


async def test_a_signal_is_a_hint_that_another_predicate_confirms() -> None:
    """Issue 6, item 5: a signal from the model is never the condition."""
    predicate = "all: [{signal: tried}, {filled: gap.what}]"
    work = {"gap": {"what": "why"}}
    assert (await found(predicate, work, signals=("tried",))).met
    assert (await found(predicate, work)).missing == ("the signal tried was not given",)
    assert (await found(predicate, work, signals=("Tried",))).missing == ("the signal tried was not given",)
    assert (await found(predicate, {}, signals=("tried",))).missing == ("gap.what is empty: fill it in",)


async def test_all_tells_everything_that_is_missing() -> None:
    predicate = "all: [{filled: summary}, {at_least: {field: causes, count: 2}}, {filled: sure}]"
    told = await found(predicate, {"sure": True})
    assert told.missing == ("summary is empty: fill it in", "causes has 0, at least 2 different ones are needed")


async def test_a_way_back_tells_what_it_is_about() -> None:
    """The field that the condition names, or what the predicates found, for who comes back."""
    named = "detail: gap.what\nall: [{given: gap}, {known_in: {field: gap.after, of: GATHER.events}}]"
    assert (await found(named, {"gap": {"after": "e1", "what": "who opened it"}})).detail == "who opened it"
    strange = await found("unknown_in: {field: causes.event, of: GATHER.events}", causes({"event": "e7"}))
    assert strange.detail == "GATHER.events does not have e7"
    look = TRIED["proposal_rejected"].look
    assert (await found("proposal_rejected: kb_merge", {}, look=look)).detail == "not now"
    lost = await found("search_insufficient: queries", {"queries": ["x"]})
    assert lost.detail == "a search does not find enough for: x"


async def test_nothing_that_is_missing_repeats_text_of_a_page() -> None:
    work = causes({"evidence": [{**WINTER, "quote": "The varroa mite is the main cause of winter losses."}]})
    told = await found("quotes_resolve: causes", work)
    assert "Varroa" in told.missing[0]
    assert "winter losses" not in told.missing[0]


# --- the reference ----------------------------------------------------------------------------------------------------


def sections() -> Mapping[str, str]:
    """Return the reference page's sections by their heading."""
    parts = re.split(r"^### `(\w+)`\n", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_reference_tells_each_predicate_with_its_arguments() -> None:
    told = sections()
    assert list(told) == [*BY_NAME, *COMBINING, "say", "detail"]
    for name, kind in BY_NAME.items():
        for argument in fields(kind):
            assert f"`{argument.name}`" in told[name] or argument.name == kind.BARE, (name, argument.name)


@pytest.mark.parametrize("name", [*BY_NAME, *COMBINING, "say", "detail"])
def test_the_reference_s_examples_can_be_used_as_they_stand(name: str) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", sections()[name], flags=re.DOTALL)
    assert examples
    for example in examples:
        assert name in yaml.safe_load(example)["tried"] or name in example
        trying(example.partition("tried:\n")[2])
