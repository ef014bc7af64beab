"""Conditions of a team's agents: for each predicate works that meet it, and near misses with the reported gaps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from textwrap import dedent
from typing import Any

import pytest
import yaml

from agents.engine.agent import Agent, Called, ConditionFinding, Fate, SubmitFacts
from agents.spec.predicates.conditions import BY_NAME, COMBINING
from agents.spec.predicates.leaf import Leaf
from tests.support.agents.agent_harness import ALTERED, ELSEWHERE, FLOWERS, NOWHERE, VARROA, WINTER, Pages, judged
from tests.support.agents.team_agents import HANDBOOK, read

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
        score: {type: number}
        questions:
          type: array
          items: {type: object, properties: {id: {type: string}, question: {type: string}}}
        causes:
          type: array
          items:
            type: object
            properties:
              id: {type: string}
              what: {type: string}
              event: {type: string}
              outcome: {type: string}
              words: {type: string}
              kind: {enum: [slow, quick]}
              needs: {type: array, items: {type: string}}
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
GATHERED: Mapping[str, Any] = {
    "GATHER": {"events": [{"id": "e1", "what": "There the swarm left"}, {"id": "e2", "what": "the hive was empty"}]},
    "clarify.SPECIFY": {
        "requirements": [{"id": "r1", "text": "At most two hives."}, {"id": "r2", "text": "No stings."}]
    },
}


def trying(predicate: str) -> Agent:
    """Return an agent whose condition `tried` is that predicate."""
    lines = "".join(f"    {line}\n" for line in dedent(predicate).strip().splitlines())
    definition = read(PLAN + lines)
    assert definition.agent is not None, definition.problems
    return definition.agent


@dataclass
class Tried:
    """A predicate, works that meet it, and near misses with the reported gaps."""

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
    "empty": Tried(
        "empty: [summary, causes.event]",
        [{}, {"summary": " ", "causes": []}, causes({"what": "a"})],
        [
            ({"summary": "x"}, "summary must be empty"),
            (causes({"event": "e1"}), "causes.event must be empty"),
        ],
    ),
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
    "covers, several places": Tried(
        "covers: {field: [causes.event, gap.after], of: [GATHER.events, questions]}",
        [{**causes({"event": "e1"}, {"event": "q1"}), "gap": {"after": "e2"}, "questions": [{"id": "q1"}]}],
        [
            (causes({"event": "e1"}), "causes.event or gap.after has nothing for e2 of GATHER.events or questions"),
            ({**causes({"event": "e1"}, {"event": "e2"}), "questions": [{"id": "q1"}]}, "has nothing for q1"),
        ],
    ),
    "covers, nothing": Tried(
        "covers: {field: causes.event, of: questions, if_any: true}",
        [{}, {"questions": []}, {**causes({"event": "q1"}), "questions": [{"id": "q1"}]}],
        [({"questions": [{"id": "q1"}]}, "causes.event has nothing for q1 of questions")],
    ),
    "covers, nothing that must be there": Tried(
        "covers: {field: causes.event, of: questions}",
        [],
        [({}, "questions has no ids yet: there is nothing to cover")],
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
    "known_in, several places": Tried(
        "known_in: {field: [causes.event, gap.after], of: [GATHER.events, questions]}",
        [{**causes({"event": "e1"}), "gap": {"after": "q1"}, "questions": [{"id": "q1"}]}, {"gap": {"after": "e2"}}],
        [
            ({"gap": {"after": "q2"}}, "causes.event or gap.after names q2, which GATHER.events or questions does not have"),
            ({}, "causes.event or gap.after names nothing of GATHER.events or questions"),
        ],
    ),
    "known_in, nothing": Tried(
        "known_in: {field: causes.event, of: GATHER.events, if_any: true}",
        [{}, causes({"what": "a"}), causes({"event": "e1"})],
        [(causes({"event": "e3"}), "causes.event names e3, which GATHER.events does not have")],
    ),
    "grounded, nothing": Tried(
        "grounded: {field: causes, words: what, if_any: true}",
        [{}, causes({"what": "Keep bees"})],
        [
            (causes({"what": "Keep wasps"}), "causes[c1].what are not in"),
            (causes({"event": "e1"}), "causes[c1] rests on nothing"),
        ],
    ),
    "grounded, on the first": Tried(
        "grounded: {field: causes, words: what, of: [documents, brief], first: true}",
        [causes({"what": "Keep bees"})],
        [
            (causes({"what": "Keep wasps"}), "causes[c1].what are not in the brief: copy at least 8 letters"),
            (causes({"event": "e1"}), "causes[c1] rests on nothing: give 'what' copied from the brief, or quote"),
        ],
    ),
    "no_circle": Tried(
        "no_circle: {field: causes, through: needs}",
        [
            {},
            causes({"what": "a"}, {"needs": []}),
            causes({"needs": ["c2", "c3"]}, {"needs": ["c3"]}, {"what": "a"}),
        ],
        [
            (causes({"needs": ["c2"]}, {"needs": ["c1"]}), "causes has a circle: "),
            (causes({"needs": ["c1"]}), "causes has a circle: c1 -> c1; remove one needs"),
            (causes({"needs": ["c2"]}), "causes[c1].needs names c2, which causes does not have"),
        ],
    ),
    "within": Tried(
        "within: {field: score, least: 0.5, most: 100}",
        [{"score": 0.5}, {"score": 100}],
        [
            ({"score": 0.4}, "score is not 0.5 or more and 100 or less"),
            ({"score": 101}, "score is not 0.5 or more"),
            ({}, "score is empty: it must be 0.5 or more and 100 or less"),
        ],
    ),
    "within, one bound": Tried(
        "within: {field: score, most: 3}", [{"score": -7}, {"score": 3}], [({"score": 3.5}, "score is not 3 or less")]
    ),
    "within, of what is no number": Tried(
        "within: {field: causes.what}", [], [(causes({"what": "5"}), "causes[c1].what is not a number")]
    ),
    "answered": Tried(
        "answered: questions",
        [{}, {"questions": []}],
        [({"questions": [{"id": "q1", "question": "Why?"}]}, "a person has not answered q1 of questions")],
    ),
    "below": Tried(
        "below: {field: page, folder: _learnings}",
        [{"page": "_learnings/analysis/bees.md"}, {"page": "_learnings/a.md"}],
        [
            ({"page": "notes/bees.md"}, "page is not the path of a page below _learnings/"),
            ({"page": "_learnings/../notes/bees.md"}, "page is not the path of a page below _learnings/"),
            ({"page": "/_learnings/bees.md"}, "page is not the path"),
            ({"page": "_learnings//bees.md"}, "page is not the path"),
            ({"page": "_learnings_of_us/bees.md"}, "page is not the path"),
            ({"page": "_learnings/bees.yaml"}, "page is not the path"),
            ({"page": "_learnings"}, "page is not the path"),
            ({}, "page is empty: name a path below _learnings/"),
        ],
    ),
    "learning_page": Tried(
        "learning_page: page",
        [
            {"page": "_learnings/analysis/bee-keeping.md"},
            {"page": "_learnings/all/general.md"},
            {"page": "_learnings/analysis/bienen-und-königinnen.md"},
        ],
        [
            ({}, "page is empty: name the page, _learnings/AGENT/DOMAIN.md"),
            ({"page": "_learnings/bees.md"}, "agents are given _learnings/AGENT/DOMAIN.md, and no other pages"),
            ({"page": "_learnings/all/bees/winter.md"}, "and no other pages"),
            ({"page": "_learnings/all/bees"}, "and no other pages"),
            ({"page": "notes/all/bees.md"}, "and no other pages"),
            ({"page": "_learnings/all/../../notes.md"}, "and no other pages"),
            ({"page": "_learnings/clarify/bees.md"}, "no agent 'clarify' reads learnings; AGENT is one of all, analysis"),
            ({"page": "_learnings/all/Bee keeping.md"}, "agents read _learnings/all/bee-keeping.md: use that path"),
            ({"page": "_learnings/all/_index.md"}, "agents read _learnings/all/index.md: use that path"),
        ],
    ),
    "search_insufficient, each": Tried(
        "search_insufficient: {field: queries, each: true}",
        [{"queries": ["swarm cause"]}, {"queries": ["swarm cause", "wasps"]}],
        [({"queries": ["bees", "swarm cause"]}, "a search finds enough for queries: use it")],
        Pages(scents={"bees": "sufficient", "swarm cause": "partial"}),
    ),
    "each": Tried(
        "each: {in: causes, holds: {at_least: {field: needs, count: 2}}}",
        [{}, causes({"needs": ["a", "b"]}, {"needs": ["c", "d"]})],
        [
            (causes({"needs": ["a", "b"]}, {"needs": ["c"]}), "causes[c2]: needs has 1, at least 2 different ones are needed"),
            (causes({"what": "a"}), "causes[c1]: needs has 0"),
        ],
    ),
    "each, of those that are so": Tried(
        "each: {in: causes.kind=quick, holds: {all: [{known_in: {field: event, of: GATHER.events}}, {quotes_resolve: evidence}]}}",
        [causes({"kind": "slow"}), causes({"kind": "quick", "event": "e1", "evidence": [WINTER]}, {"kind": "slow"})],
        [
            (causes({"kind": "quick", "event": "e9", "evidence": [WINTER]}), "causes[c1]: event names e9, which GATHER.events"),
            (causes({"kind": "quick", "event": "e1", "evidence": [ALTERED]}), "causes[c1]: evidence[0]: the quote is not in"),
        ],
    ),
    "each, beside others of the same work": Tried(
        "each: {in: causes, holds: {known_in: {field: needs, of: EXPLAIN.questions}}}",
        [{**causes({"needs": ["q1"]}), "questions": [{"id": "q1"}]}],
        [({**causes({"needs": ["q2"]}), "questions": [{"id": "q1"}]}, "causes[c1]: needs names q2, which EXPLAIN.questions")],
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
            (causes({"evidence": [WINTER, ALTERED]}), "causes[c1].evidence[1]: the quote is not in notes/bees.md"),
            (causes({"evidence": [WINTER, ELSEWHERE]}), "causes[c1].evidence[1]: the quote is not in section 'Varroa'"),
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
    "grounded": Tried(
        "grounded: {field: causes, words: what}",
        [
            causes({"what": "Keep bees"}, {"evidence": [WINTER]}, {"what": "bees on  the roof", "evidence": [FLOWERS]}),
        ],
        [
            ({"summary": "x"}, "causes is empty: fill it in"),
            (causes({"what": "Keep bees"}, {"outcome": "x"}), "causes[c2] rests on nothing: give 'what' copied from the brief"),
            (causes({"what": "Keep bees"}, {"what": " ", "evidence": []}), "causes[c2] rests on nothing"),
            (causes({"what": "Keep wasps"}), "causes[c1].what are not in the brief, the inputs, the person's answers, what"),
            (causes({"what": "eep bee"}), "causes[c1].what are not in"),
            (causes({"what": "eep bees on"}), "causes[c1].what are not in"),
            (causes({"what": "Keep bees", "evidence": [ALTERED]}), "causes[c1]: the quote is not in notes/bees.md"),
            (causes({"what": "Keep wasps", "evidence": [WINTER]}), "causes[c1].what are not in"),
        ],
    ),
    "grounded, of places": Tried(
        "grounded: {field: causes, words: what, of: [GATHER.events.what, inputs]}",
        [causes({"what": "the swarm left"})],
        [
            (causes({"what": "Keep bees"}), "causes[c1].what are not in GATHER.events.what or the inputs: copy at least 8 letters"),
            (causes({"what": "swarm left the hive"}), "causes[c1].what are not in"),
        ],
    ),
    "grounded, or a tool": Tried(
        "grounded: {field: causes, words: what, tool: outcome}",
        [causes({"outcome": "kb_merge"})],
        [
            (causes({"outcome": "kb_move"}), "causes[c1].outcome: no call of 'kb_move' with the journey_id of this journey"),
            (causes({"event": "e1"}), "or name the outcome that showed it"),
        ],
        MERGED,
    ),
    "grounded, or a tool of an earlier visit": Tried(
        "grounded: {field: causes, words: what, tool: outcome}",
        [causes({"outcome": "kb_move"}, {"outcome": "kb_merge"})],
        [(causes({"outcome": "kb_search"}), "no call of 'kb_search'")],
        Pages(called=[called()], called_before=[called("kb_move")]),
    ),
    "takes_up": Tried(
        "takes_up: {field: causes, words: what, of: [GATHER.events.what, answers]}",
        [causes({"what": "the swarm left"}, {"what": "hive was empty"}, {"what": "nothing of it"})],
        [
            (causes({"what": "the swarm left"}), "no item of causes covers number 2 of GATHER.events.what: copy its words"),
            (causes({"what": "a swarm left"}, {"event": "e1"}), "covers number 1, 2 of GATHER.events.what"),
            ({}, "covers number 1, 2 of GATHER.events.what"),
        ],
    ),
    "accounts_for": Tried(
        "accounts_for: {field: [causes.needs, pages], of: others.SPECIFY.requirements}",
        [causes({"needs": ["r1"]}, {"needs": ["r2", "r1"]}), {**causes({"needs": ["r2"]}), "pages": ["r1"]}],
        [
            (
                causes({"needs": ["r1"]}),
                "causes.needs or pages leaves out r2 (No stings.) of others.SPECIFY.requirements: name each where it is dealt",
            ),
            (causes({"needs": ["r1", "r2", "r3"]}), "names r3, and others.SPECIFY.requirements has r1, r2"),
            ({}, "leaves out r1 (At most two hives.), r2 (No stings.) of"),
        ],
    ),
    "accounts_for, without an earlier agent": Tried(
        "accounts_for: {field: causes.needs, of: others.PLAN.requirements}", [causes({"needs": ["c1"]}), {}], []
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
            ({"queries": [" "]}, "queries is empty: name the searches"),
            ({}, "queries is empty"),
        ],
        Pages(scents={"bees": "sufficient", "swarm cause": "partial"}),
    ),
    "tells": Tried(
        "tells: [summary, causes.what]",
        [{"summary": "It swarmed in May."}, {}, causes({"what": "15 kilograms"})],
        [
            ({"summary": "ok"}, "summary is only 'ok'"),
            (causes({"what": "It swarmed."}, {"what": "x"}), "causes[c2].what is only 'x'"),
            ({"summary": "summary"}, "summary repeats the name of its field"),
        ],
    ),
    "differ": Tried(
        "differ: causes.what",
        [causes({"what": "Use Redis"}, {"what": "Use Kafka"}), {}],
        [(causes({"what": "Use Redis."}, {"what": "redis, use"}), "causes[c2].what says the same as causes[c1].what")],
    ),
    "supported": Tried(
        "supported: {field: causes, says: what}",
        [causes({"what": "They eat honey.", "evidence": [WINTER]}), causes({"what": "anything"}), {}],
        [(causes({"what": "The mayor decides.", "evidence": [WINTER]}), "causes[c1].what has no word in common with its quotes")],
    ),
    "supported, by question": Tried(
        "supported: {field: causes, says: what, question: event, of: GATHER.events, asks: what}",
        [
            causes(
                {"what": "The swarm eats honey.", "event": "e1", "evidence": [WINTER]},
                {"what": "The hive has mites.", "event": "e2", "evidence": [VARROA]},
            )
        ],
        [
            (
                causes(
                    {"what": "The swarm eats honey.", "event": "e1", "evidence": [WINTER]},
                    {"what": "The swarm eats honey!", "event": "e2", "evidence": [WINTER]},
                ),
                "e2 has the same answer as e1",
            )
        ],
    ),
    "searched": Tried(
        "searched: queries",
        [{"queries": ["bees"]}, {}],
        [({"queries": ["bees", "never run"]}, "for each query that you name: 'never run' was not run")],
        Pages(unsearched=["never run"]),
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
        [({"page": "notes/bees.md"}, "proposal p-1 was applied, but to another page"), ({}, "proposal p-1")],
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
        "proposal_done: kb_merge", [], [({}, "proposal p-1 ended without an effect")], Pages(called=PROPOSED)
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
    "not": Tried("not: {filled: summary}", [{}, {"sure": True}], [({"summary": "x"}, "this must not be true: summary is filled in")]),
    "say": Tried(
        "at_least: {field: causes, count: 2}\nsay: name what set it off, and why nothing stopped it",
        [causes({"what": "a"}, {"what": "b"})],
        [(causes({"what": "a"}), "name what set it off, and why nothing stopped it")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRIED)
async def test_a_predicate_accepts_its_works_and_no_near_miss(name: str) -> None:
    """For each condition, works that meet it, and near misses."""
    tried = TRIED[name]
    agent = trying(tried.predicate)
    for work in tried.meets:
        assert (await judged(agent, "tried", "EXPLAIN", work, tried.look, works=GATHERED)).met, work
    for work, told in tried.misses:
        found = await judged(agent, "tried", "EXPLAIN", work, tried.look, works=GATHERED)
        assert not found.met, work
        assert any(told in text for text in found.missing), found.missing


def test_each_predicate_is_tried() -> None:
    # `given` and `signal` have tests of their own.
    untried = set(BY_NAME) - {name.partition(",")[0] for name in TRIED} - {"given", "signal"}
    assert untried == set(), "add to TRIED works that meet these, and near misses"


def test_every_predicate_can_be_named_in_a_file() -> None:
    written, waiting = set[str](), [Leaf]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        written |= {kind.__name__} if "NAME" in vars(kind) else set()
    assert written - {leaf.__name__ for leaf in BY_NAME.values()} == set(), "add these to LEAVES in conditions.py"


async def found(predicate: str, given: dict[str, Any], **more: Any) -> ConditionFinding:
    return await judged(trying(predicate), "tried", "EXPLAIN", given, **{"works": GATHERED, **more})


async def test_an_earlier_submits_field_is_not_given_now() -> None:
    works = {**GATHERED, "EXPLAIN": causes({"what": "a"})}
    assert (await found("given: causes", causes({"what": "b"}), works=works)).met
    later = await found("given: causes", {"summary": "x"}, works=works)
    assert later.missing == ("causes is not in this submit",)
    assert not (await found("given: summary", {"summary": " "}, works=works)).met
    assert not (await found("given: [summary, causes]", {"summary": "x"}, works=works)).met


async def test_questions_are_answered_when_a_person_answered_them_in_these_words() -> None:
    condition = trying("answered: questions").conditions["tried"]
    work: dict[str, Any] = {"questions": [{"id": "q1", "question": "Who?"}, {"id": "q2", "question": "When?"}]}
    said = {"q1": {"question": "Who?", "answer": "Ada"}, "q2": {"question": "When?", "answer": "now"}}

    async def tried(phase: str, answers: dict[str, dict[str, str]]) -> ConditionFinding:
        facts = SubmitFacts("EXPLAIN", 1, "Bees.", {}, work, work, {"EXPLAIN": work}, answers={phase: answers})
        return await condition(facts, Pages())

    assert (await tried("EXPLAIN", said)).met
    assert (await tried("EXPLAIN", {**said, "q2": {"question": "At what time?", "answer": "now"}})).missing == (
        "a person has not answered q2 of questions",
    )
    assert (await tried("EXPLAIN", {"q1": said["q1"]})).missing == ("a person has not answered q2 of questions",)
    assert not (await tried("GATHER", said)).met, "the answers of another phase are no answers here"


async def test_words_may_come_from_the_documents_of_the_journey() -> None:
    condition = trying("grounded: {field: causes, words: what, of: documents}").conditions["tried"]
    work = causes({"what": "the roof bears the hives"})
    facts = SubmitFacts("EXPLAIN", 1, "Bees.", {}, work, work, {"EXPLAIN": work})
    assert not (await condition(facts, Pages())).met
    documents = {"analysis": "# Analysis\n\nWe found that the roof  bears the hives."}
    assert (await condition(replace(facts, documents=documents), Pages())).met


async def test_words_may_have_to_come_from_the_first_place_that_says_anything() -> None:
    """An agent with documents relies on them; the brief counts only if there is none."""
    places = "[documents, inputs, brief]"
    condition = trying(f"grounded: {{field: causes, words: what, of: {places}, first: true}}").conditions["tried"]
    both = causes({"what": "the roof bears the hives"})
    facts = SubmitFacts("EXPLAIN", 1, "Say whether the roof bears the hives.", {}, both, both, {"EXPLAIN": both})
    assert (await condition(facts, Pages())).met, "there is no document"
    left = replace(facts, documents={"analysis": "The attic is damp in winter."})
    (told,) = (await condition(left, Pages())).missing
    assert told.startswith("causes[c1].what are not in the memory documents of this journey: copy")
    assert (await condition(replace(facts, documents={"analysis": both["causes"][0]["what"]}), Pages())).met
    assert not (await condition(replace(facts, inputs={"topic": "wasps in the attic"}), Pages())).met
    assert (await condition(replace(facts, documents={"analysis": " "}), Pages())).met, "an empty one says nothing"


async def test_a_condition_gives_feedback_of_its_kind_when_it_is_met() -> None:
    predicate = "feedback: {field: causes.outcome=failed.what, kind: hard_failure}\nfilled: causes.outcome=failed"
    failed = causes({"outcome": "failed", "what": "no queen"}, {"outcome": "passed", "what": "dry"})
    met = await found(predicate, failed)
    assert (met.feedback, met.kind) == (("no queen",), "hard_failure")
    unmet = await found(predicate, causes({"outcome": "passed", "what": "dry"}))
    assert (unmet.met, unmet.feedback) == (False, ())
    assert (await found("feedback: {field: causes.what}\nfilled: causes", failed)).kind == "validation"


@pytest.mark.parametrize(
    ("predicate", "told"),
    [
        ("each: {in: causes, holds: {given: what}}", "uses 'given', which is about a submit"),
        ("each: {in: causes, holds: {signal: tried}}", "can be met by a signal alone"),
        ("each: {in: causes, holds: {filled: wat}}", "has no 'wat' there; did you mean 'what'?"),
        ("each: {in: cases, holds: {filled: what}}", "has no 'cases' there; did you mean 'causes'?"),
        ("each: {in: causes}", "lacks 'holds'"),
        ("each: {in: causes, holds: {filled: what}, where: x}", "has the unknown key 'where'"),
        ("each: causes", "must be a mapping"),
        ("{filled: causes, feedback: {field: causes.wat}}", "has no 'wat' there; did you mean 'what'?"),
        ("{filled: causes, feedback: {field: causes.what, kind: soft}}", "the unknown kind 'soft'; there are validation"),
        ("within: {field: score, least: much}", "'least' must be a number, not text"),
    ],
)  # fmt: skip
def test_conditions_on_items_are_checked_against_the_form_too(predicate: str, told: str) -> None:
    definition = read(f"{PLAN}    {predicate}\n")
    assert definition.agent is None
    assert any(told in problem.text for problem in definition.problems), definition.problems


async def test_a_signal_is_a_hint_that_another_predicate_confirms() -> None:
    """A signal from the model is never the condition."""
    predicate = "all: [{signal: tried}, {filled: gap.what}]"
    work = {"gap": {"what": "why"}}
    assert (await found(predicate, work, signals=("tried",))).met
    assert (await found(predicate, work)).missing == ("the signal tried was not given",)
    assert (await found(predicate, work, signals=("Tried",))).missing == ("the signal tried was not given",)
    assert (await found(predicate, {}, signals=("tried",))).missing == ("gap.what is empty: fill it in",)


async def test_all_reports_everything_that_is_missing() -> None:
    predicate = "all: [{filled: summary}, {at_least: {field: causes, count: 2}}, {filled: sure}]"
    told = await found(predicate, {"sure": True})
    assert told.missing == ("summary is empty: fill it in", "causes has 0, at least 2 different ones are needed")


@pytest.mark.parametrize(
    "predicate",
    [
        "supported: {field: causes, says: what}",
        "all: [{supported: {field: causes, says: what}}, {filled: causes}]",
        "any: [{supported: {field: causes, says: what}}, {filled: summary}]",
    ],
)
async def test_a_met_condition_names_the_texts_that_it_compared_with_their_quotes(predicate: str) -> None:
    work = causes({"what": "They eat honey.", "evidence": [WINTER]}, {"what": "No quote, no comparison."})
    (statement,) = (await found(predicate, work)).statements
    assert (statement.place, statement.text, statement.question) == ("causes[c1]", "They eat honey.", "")
    assert statement.quotes == (WINTER["quote"],)
    assert statement.around


async def test_a_way_back_reports_its_subject() -> None:
    """The field that the condition names, or the predicates' findings, as the re-entry detail."""
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


# --- paths that narrow ------------------------------------------------------------------------------------------------

SOME = causes({"outcome": "passed", "event": "e1", "what": "a"}, {"outcome": "failed", "what": "b"}, {"what": "c"})
NARROWED: list[tuple[str, Mapping[str, Any], bool]] = [
    ("filled: causes.outcome=passed", SOME, True),
    ("filled: causes.outcome=Passed", SOME, False),
    ("at_least: {field: causes.outcome!=passed, count: 2}", SOME, True),
    ("at_least: {field: causes.outcome!=passed, count: 3}", SOME, False),
    ("each_has: {field: causes.outcome=passed, fields: [event]}", SOME, True),
    ("each_has: {field: causes.outcome!=passed, fields: [event]}", SOME, False),
    ("each_has: {field: causes.outcome=unsure, fields: [event]}", SOME, True),
    ("each_has: {field: causes.outcome=unsure, fields: [event]}", {}, True),
    ("known_in: {field: causes.outcome=passed.event, of: GATHER.events}", SOME, True),
    ("known_in: {field: causes.outcome=failed.event, of: GATHER.events}", SOME, False),
    ("known_in: {field: causes.outcome=unsure.event, of: GATHER.events}", SOME, True),
    ("unknown_in: {field: causes.outcome=failed, of: causes.outcome=passed}", SOME, True),
    ("unknown_in: {field: causes.outcome=unsure, of: causes.outcome=passed}", SOME, False),
    ("covers: {field: causes, of: causes.outcome=passed}", SOME, True),
    ("covers: {field: causes.outcome=passed, of: causes}", SOME, False),
    ("covers: {field: causes.outcome=passed, of: causes.outcome=unsure}", SOME, True),
    ("equals: {field: causes.outcome=passed.event, value: e1}", SOME, True),
    ("equals: {field: causes.outcome=failed.event, value: e1}", SOME, False),
    ("equals: {field: causes.outcome=unsure.event, value: e1}", SOME, True),
    ("quotes_resolve: causes.outcome=passed", SOME, False),
    ("quotes_resolve: causes.outcome=unsure", SOME, True),
    ("grounded: causes.outcome=passed", SOME, False),
    ("grounded: causes.outcome=unsure", SOME, True),
    ("pages_exist: causes.outcome=passed.what", SOME, False),
    ("pages_exist: causes.outcome=unsure.what", SOME, True),
    ("distinct: causes.outcome!=passed.what", SOME, True),
    ("filled: gap.what=why.after", {"gap": {"what": "why", "after": "e1"}}, True),
    ("filled: gap.what=how.after", {"gap": {"what": "why", "after": "e1"}}, False),
    ("filled: sure=true.summary", {"sure": True, "summary": "x"}, True),
    ("filled: sure=true.summary", {"sure": False, "summary": "x"}, False),
]


@pytest.mark.parametrize(("predicate", "work", "holds"), NARROWED)
async def test_a_path_narrows_to_the_items_that_are_so(predicate: str, work: dict[str, Any], *, holds: bool) -> None:
    """A check of all items holds for no items; `filled` and `at_least` require that there are some."""
    assert (await judged(trying(predicate), "tried", "EXPLAIN", work, works=GATHERED)).met is holds


async def test_a_submit_gives_a_condition_only_with_its_own_fields() -> None:
    works = {**GATHERED, "EXPLAIN": SOME}
    assert (await found("given: causes.outcome=passed", SOME, works=works)).met
    assert not (await found("given: causes.outcome=passed", {"summary": "x"}, works=works)).met


@pytest.mark.parametrize(
    ("predicate", "told"),
    [
        ("filled: causes.outcome=", "such as `events`"),
        ("filled: causes.=passed", "such as `events`"),
        ("filled: causes.a=b=c", "such as `events`"),
        ("filled: causes.outcom=passed", "has no 'outcom' there; did you mean 'outcome'?"),
        ("filled: causes.kind=low", "has no 'low' there; did you mean 'slow'?"),
        ("grounded: {field: causes, of: [brief, elsewhere.x]}", "has no 'elsewhere' there"),
        ("grounded: {field: causes, of: []}", "'of' of 'grounded' in condition 'tried'"),
        ("grounded: {field: causes, words: wat}", "has no 'wat' there; did you mean 'what'?"),
        ("grounded: {field: causes, of: inputs..x}", "such as `events`"),
        (
            "grounded: {field: causes, of: inputs.topic}",
            "condition 'tried' looks at 'inputs.topic'; there is no input 'topic'",
        ),
    ],
)
def test_a_path_that_can_never_resolve_is_reported(predicate: str, told: str) -> None:
    definition = read(f"{PLAN}    {predicate}\n")
    assert definition.agent is None
    assert any(told in problem.text for problem in definition.problems), definition.problems


# --- words that stand somewhere ---------------------------------------------------------------------------------------


async def test_words_may_come_from_all_that_the_journey_was_given_and_not_from_its_own_work() -> None:
    condition = trying("grounded: {field: causes, words: what}").conditions["tried"]
    works = {**GATHERED, "before.GATHER": {"document": "# Title\n\nThey were hungry in March"}}
    answers = {"JOHARI": {"q1": {"question": "Who looks after them?", "answer": "Only our janitor does"}}}

    async def stands(words: str, **inputs: Any) -> bool:
        work = causes({"what": words})
        facts = SubmitFacts("EXPLAIN", 1, "Keep bees.", inputs, work, work, {**works, "EXPLAIN": work}, answers=answers)
        return (await condition(facts, Pages())).met

    assert await stands("hungry in March")
    assert not await stands("bees"), "words that stand nearly everywhere show nothing"
    assert await stands("yes", person="Yes"), "unless they are all that was said"
    assert not await stands("no", person="no idea")
    assert await stands("only our janitor".replace("only", "Only"))
    assert await stands("on the roof", place={"where": ["on the roof of the town hall"]})
    assert not await stands("on the roof")
    assert not await stands("Who looks after them?"), "a question is not the person's word"
    assert not await stands("There the swarm left"), "its own work is its word for itself"
    assert not await stands("Only our janitor does\n\0\nThey were hungry"), "words of two texts stand nowhere"
    assert not await stands("Only our janitor ... They were hungry"), "an ellipsis joins no two texts"


async def test_a_short_text_may_be_copied_whole() -> None:
    """An answer may be "No", and a criterion one word: they are still the person's words."""
    grounded = trying("grounded: {field: causes, words: what, of: [answers, inputs]}").conditions["tried"]
    takes_up = trying("takes_up: {field: causes, words: what, of: [answers, inputs]}").conditions["tried"]
    answers = {"JOHARI": {"q1": {"question": "Honey?", "answer": "No."}}}

    def facts(*words: str) -> SubmitFacts:
        work = causes(*({"what": text} for text in words))
        inputs = {"criteria": ["Polite", "Not longer than a page"]}
        return SubmitFacts("EXPLAIN", 1, "Bees.", inputs, work, work, {"EXPLAIN": work}, answers=answers)

    assert (await grounded(facts("no."), Pages())).met
    assert (await grounded(facts("Polite"), Pages())).met
    assert not (await grounded(facts("Po"), Pages())).met
    assert not (await grounded(facts("a page"), Pages())).met
    assert (await takes_up(facts("No.", "Polite", "longer than a page"), Pages())).met
    told = await takes_up(facts("longer than a page"), Pages())
    assert told.missing == (
        "no item of causes covers number 1 of the person's answers: copy its words",
        "no item of causes covers number 1 of the inputs: copy its words",
    )


async def test_words_of_others_may_be_looked_for_in_one_phase_and_field_only() -> None:
    condition = trying("grounded: {field: causes, words: what, of: others.MAKE.made}").conditions["tried"]
    works: dict[str, dict[str, Any]] = {
        "a.MAKE": {"made": [{"id": "m1", "text": "a hive of oak boards"}], "note": "made in a hurry"},
        ".MAKE": {"made": [{"id": "m2", "text": "frames of lime wood"}]},
        "a.PLAN": {"made": "planned by the carpenter"},
    }

    async def stands(words: str) -> ConditionFinding:
        work = causes({"what": words})
        facts = SubmitFacts("EXPLAIN", 1, "Keep bees.", {}, work, work, {**works, "EXPLAIN": work})
        return await condition(facts, Pages())

    assert (await stands("hive of oak")).met
    assert (await stands("frames of lime wood")).met
    assert not (await stands("made in a hurry")).met
    assert (await stands("by the carpenter")).missing == (
        "causes[c1].what are not in others.MAKE.made: copy at least 8 letters, word for word",
    )


# --- the reference ----------------------------------------------------------------------------------------------------


def sections() -> Mapping[str, str]:
    """Return the reference page's sections by their heading."""
    parts = re.split(r"^### `(\w+)`\n", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_reference_has_each_predicate_with_its_arguments() -> None:
    told = sections()
    wanted = [*BY_NAME, *COMBINING, "say", "detail", "feedback"]
    assert list(told) == wanted, f"{REFERENCE.name} needs one `###` section for each, in the order of LEAVES"
    for name, kind in BY_NAME.items():
        for argument in kind.model_fields:
            assert f"`{argument}`" in told[name] or argument == kind.BARE, (name, argument)


@pytest.mark.parametrize("name", [*BY_NAME, *COMBINING, "say", "detail", "feedback"])
def test_the_references_examples_work_unchanged(name: str) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", sections().get(name, ""), flags=re.DOTALL)
    assert examples, f"the section on `{name}` in {REFERENCE.name} needs an example"
    for example in examples:
        assert name in yaml.safe_load(example)["tried"] or name in example
        trying(example.partition("tried:\n")[2])
