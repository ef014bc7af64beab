"""The validator of plans.

The findings of each rule, rules of teams and journeys, and messages about unreadable ones.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engine.agent import SubmitFacts
from agents.library.orchestrate.plan_rules.checks import KINDS, statements
from agents.library.orchestrate.plan_rules.durations import durations_in, in_words, limits_in, seconds_of
from agents.library.orchestrate.plan_rules.order import behind, circles, doable, longest, serving
from agents.library.orchestrate.plan_rules.rules import TEAM_FILE, Rule, failures, rule_set, rules_in
from agents.library.orchestrate.record import IMPLEMENTING, PLANNING, VALIDATING, Undertaking
from agents.library.orchestrate.validator import OWN_FILE, own_rules, validated
from knowledge.errors import InvalidPath, KnowledgeError, NoSuchPath
from tests.support.agents.agent_harness import Pages

KB = Path(__file__).parents[5] / "kb"
Json = Any
Work = Mapping[str, Json]

BRIEF = """\
Get the hive through the winter within three weeks.

It must have 15 kilograms of honey. Nobody likes wasps.
- Mites are treated.
"""


def step(id_: str, text: str, **more: Json) -> dict[str, Json]:
    return {"id": id_, "step": text, "done_when": f"one sees that {text}", "duration": "2 h", **more}


def requirement(id_: str, text: str, words: str) -> dict[str, Json]:
    return {"id": id_, "text": text, "words": words}


PLAN: Work = {
    "goal": "The hive lives in March.",
    "limit": {"duration": "3 weeks", "words": "within three weeks"},
    "requirements": [
        requirement("r1", "Enough honey", "must have 15 kilograms of honey"),
        requirement("r2", "No mites", "Mites are treated."),
    ],
    "left_out": [{"id": "l1", "words": "Get the hive through the winter", "why": "that is the goal"}],
    "steps": [
        step("s1", "weigh the hive", covers=["r1"]),
        step("s2", "buy acid"),
        step("s3", "treat the mites", depends_on=["s1", "s2"], covers=["r2"]),
    ],
}


def changed(name: str, at: int, **fields: Json) -> Work:
    """Return the plan with fields of one item changed."""
    return {**PLAN, name: [{**item, **fields} if n == at else item for n, item in enumerate(PLAN[name])]}


def without(*names: str) -> Work:
    return {name: value for name, value in PLAN.items() if name not in names}


def told(
    plan: Work,
    rules: Sequence[Rule] | None = None,
    *,
    inputs: Work | None = None,
    works: Mapping[str, Work] | None = None,
    brief: str = BRIEF,
    severity: str = "error",
) -> list[str]:
    u = Undertaking(brief, inputs or {}, {**(works or {}), PLANNING: plan})
    found = failures(own_rules() if rules is None else rules, u)
    return [f"{one.rule}: {one.text}" for one in found if one.severity == severity]


def rules_of(*rules: str) -> tuple[Rule, ...]:
    """Return that many rules as a team's file would give them."""
    text = "rules:\n" + "".join(f"  - {{{rule}}}\n" for rule in rules)
    found, problems = rules_in(text.encode(), TEAM_FILE)
    assert list(map(str, problems)) == []
    return found


# --- durations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 min", 5_400),
        ("1 h 30 min", 5_400),
        ("1 h, 30 min", 5_400),
        ("1 hour and 30 minutes", 5_400),
        ("1.5 h", 5_400),
        ("1,5 Hours", 5_400),
        ("0.125 h", 450),
        ("1,000 h", 3_600_000),
        ("12,000,000 s", 12_000_000),
        ("2h", 7_200),
        ("45s", 45),
        ("a day", 86_400),
        ("two days", 172_800),
        ("3-day", 259_200),
        ("1 week", 604_800),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert seconds_of(f"  {text}  ") == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "90",
        "soon",
        "2 fortnights",
        "2 h or so",
        "about 2 h",
        "2 hx",
        "-2 h",
        "h 2",
        "1e3 h",
        "1.500 h",
        "1,50,000 h",
        "1,500.5 h",
    ],
)
def test_an_invalid_duration_is_none(text: str) -> None:
    assert seconds_of(text) is None


@given(st.integers(1, 10**8))
def test_a_printed_duration_can_be_parsed_again(seconds: int) -> None:
    assert seconds_of(in_words(seconds)) == seconds


@given(st.text(max_size=200))
def test_any_text_may_be_searched_for_durations(text: str) -> None:
    assert all(said.words in text and said.seconds >= 0 for said in durations_in(text))
    assert all(said.words in text for said in limits_in(text))


def test_limits_are_durations_that_the_words_before_them_make_limits() -> None:
    text = "It takes 2 h a day. It must be done within two days, no step longer than 1 h; at most 30 min each, under 3 h 5 min."
    assert [(said.words, said.seconds) for said in limits_in(text)] == [
        ("within two days", 172_800),
        ("at most 30 min", 1_800),
        ("under 3 h 5 min", 11_100),
    ]


# --- the order of steps -----------------------------------------------------------------------------------------------

NEEDS = st.dictionaries(st.sampled_from("abcdefg"), st.lists(st.sampled_from("abcdefgz"), max_size=4), max_size=7)


@given(NEEDS)
def test_impossible_steps_are_in_a_circle_or_wait_for_one_or_for_something_unknown(
    needs: dict[str, list[str]],
) -> None:
    order, found = doable(needs), list(circles(needs))
    for step_, before in needs.items():
        if step_ in order:
            assert all(order.index(one) < order.index(step_) for one in before)
    inside = {one for circle in found for one in circle}
    for circle in found:
        assert circle[0] == circle[-1]
        assert all(later in needs[one] for one, later in pairwise(circle))
    for step_ in set(needs) - set(order):
        served = serving(needs, [step_])
        missing = {one for waiting in served & needs.keys() for one in needs[waiting]} - needs.keys()
        assert served & inside or missing
        assert served & inside or step_ not in {one for later in needs[step_] for one in serving(needs, [later])}


@given(NEEDS, st.sets(st.sampled_from("abcdefgh"), max_size=3))
def test_a_steps_dependents_are_found_over_any_path(needs: dict[str, list[str]], begins: set[str]) -> None:
    known = begins & needs.keys()
    assert behind(needs, known) == {one for one in needs if serving(needs, needs[one]) & known}


@given(NEEDS)
def test_the_longest_chain_is_a_chain_and_no_other_is_longer(needs: dict[str, list[str]]) -> None:
    lasting = {one: float(ord(one) - 96) for one in needs}
    took, chain = longest(needs, lasting)
    assert took == sum(lasting[one] for one in chain)
    assert all(earlier in needs[later] for earlier, later in pairwise(chain))
    assert all(took >= lasting[one] for one in doable(needs))


def test_thousands_of_steps_are_ordered_in_no_time() -> None:
    """Steps that all depend on each other in one line, and in one circle.

    Nothing recurses, nothing is visited twice.
    """
    names = [f"s{n}" for n in range(3_000)]
    line = {name: [names[n - 1]] if n else [] for n, name in enumerate(names)}
    began = time.process_time()
    assert longest(line, dict.fromkeys(names, 1.0)) == (3_000.0, names)
    found = list(circles({**line, "s0": ["s2999"]}))
    assert len(found) == 1
    plan = {"steps": [step(name, name, depends_on=before) for name, before in {**line, "s0": ["s2999"]}.items()]}
    circle = [text for text in told(plan) if text.startswith("no-circle")]
    assert len(circle) == 1
    assert "more ..." in circle[0]
    assert time.process_time() - began < 3


def test_as_many_requirements_and_steps_as_a_plan_may_have_are_validated_in_no_time() -> None:
    brief = "\n".join(f"- The hive number {n} must be weighed and have honey" for n in range(400))
    rules = [requirement(f"r{n}", f"hive {n}", f"hive number {n} must be weighed") for n in range(200)]
    left = [{"id": f"l{n}", "words": f"hive number {n} must be weighed", "why": "sold"} for n in range(200, 400)]
    names = [rule["id"] for rule in rules]
    steps = [
        step(f"s{n}", f"weigh hive {n} of all", covers=names, depends_on=[f"s{m}" for m in range(n)])
        for n in range(500)
    ]
    began = time.process_time()
    plan = {**without("limit"), "requirements": rules, "left_out": left, "steps": steps}
    assert told(plan, brief=brief) == []
    words = ["fly", *(f"w{n}" for n in range(59))]
    before = [{"id": f"x{n}", "kind": "before", "first": words, "then": ["weigh"], "message": "m"} for n in range(10)]
    assert len(told(plan, rule_set((), None, before).rules, brief=brief)) == 5_000
    assert time.process_time() - began < 5


# --- our rules --------------------------------------------------------------------------------------------------------


def test_a_good_plan_breaks_no_rule() -> None:
    assert told(PLAN) == []
    assert told(PLAN, severity="warning") == []


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (without("goal"), "goal: there is no goal"),
        ({**PLAN, "goal": " "}, "goal: there is no goal"),
        (without("requirements"), "some-requirement: there is no requirement"),
        (without("steps"), "some-step: there is no step"),
        (changed("requirements", 0, text=""), "requirement-fields: requirement r1 lacks text"),
        (changed("steps", 1, step=" "), "step-fields: step s2 lacks step"),
        (changed("steps", 1, done_when=""), "step-fields: step s2 lacks done_when"),
        (changed("steps", 1, duration=""), "step-fields: step s2 lacks duration"),
        (changed("left_out", 0, why=""), "left-out-fields: l1 of left_out lacks why"),
        (changed("steps", 1, id="r1"), "distinct: r1 has the same id as another item"),
        (changed("steps", 1, step="Weigh the hive!"), "distinct: s2 says the same as s1"),
        (
            changed("requirements", 0, words="20 kilograms of honey"),
            "words-of-requirements: the words of requirement r1",
        ),
        (changed("requirements", 0, words=""), "words-of-requirements: the words of requirement r1"),
        (changed("left_out", 0, words="through the summer"), "words-left-out: the words of l1 in left_out"),
        ({**PLAN, "requirements": PLAN["requirements"][:1]}, "brief-covered: the brief says 'Mites are treated.'"),
        (
            without("left_out", "limit"),
            "brief-covered: the brief says 'Get the hive through the winter within three weeks.'",
        ),
        (changed("steps", 2, covers=[]), "requirement-covered: requirement r2 (No mites) is covered by no step"),
        (
            changed("steps", 1, depends_on=["s9"]),
            "known-dependencies: step s2 depends on something that is not a step: s9",
        ),
        (
            changed("steps", 1, covers=["r9", "s1"]),
            "known-requirements: step s2 covers something that is not a requirement: r9, s1",
        ),
        (changed("steps", 1, depends_on=["s3"]), "no-circle: these steps wait for each other: s2 -> s3 -> s2"),
        (changed("steps", 1, depends_on=["s2"]), "no-circle: these steps wait for each other: s2 -> s2"),
        (changed("steps", 0, depends_on=["s0"]), "can-begin: step s3 can never begin: it waits for s1"),
        (
            changed("steps", 1, depends_on=["s2"]),
            "requirement-covered: requirement r2 (No mites) is covered only by s3",
        ),
        (changed("steps", 2, depends_on=[]), "useful: step s2 (buy acid) covers no requirement"),
        (
            changed("steps", 1, duration="soon"),
            "durations: step s2 takes 'soon': it is not a duration: write a number with s, min",
        ),
        (changed("steps", 1, duration="90"), "durations: step s2 takes '90': it is not a duration"),
        (changed("steps", 1, duration="0 h"), "durations: step s2 takes '0 h'"),
        (
            {**PLAN, "limit": {"duration": "soon", "words": "within three weeks"}},
            "limit-holds: the limit is not valid: 'soon'",
        ),
        (
            {**PLAN, "limit": {"duration": "3 weeks", "words": "in three weeks"}},
            "limit-holds: the limit is not valid: its words",
        ),
        (
            {**PLAN, "limit": {"duration": "4 weeks", "words": "within three weeks"}},
            "limit-holds: the limit is not valid: its",
        ),
        (
            changed("steps", 1, duration="3 weeks"),
            "within-limit: all steps together take 21 days 4 h, the limit of the brief is",
        ),
        (changed("steps", 1, done_when="TBD."), "vague: step s2 is done when 'tbd'"),
    ],
)
def test_a_broken_rule_is_named_with_its_remedy(plan: Work, said: str) -> None:
    assert any(text.startswith(said) for text in told(plan)), told(plan)


def test_each_of_our_rules_is_broken_by_one_of_these_tests() -> None:
    """A rule that nothing can break would be useless."""
    marks = test_a_broken_rule_is_named_with_its_remedy.pytestmark  # type: ignore[attr-defined]  # pytest puts it there
    named = {said.partition(":")[0] for mark in marks if mark.name == "parametrize" for _, said in mark.args[1]}
    elsewhere = {"reused-step", "limit-taken", "long-steps"}
    assert {rule.id for rule in own_rules()} == named | elsewhere


def test_an_acceptable_finding_is_a_warning() -> None:
    plan = {
        **without("limit"),
        "requirements": [*PLAN["requirements"], requirement("r3", "Soon", "within three weeks")],
    }
    plan["steps"] = [*PLAN["steps"], step("s4", "look again", covers=["r3"], duration="15 days")]
    assert told(plan) == []
    assert [text.partition(";")[0] for text in told(plan, severity="warning")] == [
        "limit-taken: the brief says 'within three weeks', and the plan has no limit: if this is one, name it in `limit`",
        "long-steps: step s4 takes 15 days: it is more than 14 days",
    ]


def test_a_completed_step_may_not_change_its_meaning() -> None:
    works: dict[str, Work] = {
        VALIDATING: {"validated": {"s1": "of other words", "s2": "of other words"}},
        IMPLEMENTING: {"done": [{"id": "s1", "result": "weighed"}]},
    }
    assert [text.partition(" and")[0] for text in told(PLAN, works=works)] == ["reused-step: step s1 was done already"]


def test_requirements_and_limit_of_the_inputs_are_complete() -> None:
    given_ = [{"id": "r1", "text": "Honey"}, {"id": "r2", "text": "Mites"}]
    plan = without("requirements", "left_out", "limit")
    assert told(plan, inputs={"requirements": given_, "limit": "1 day"}) == []
    short = told(plan, inputs={"requirements": given_, "limit": "5 h"})
    assert short == [
        "within-limit: all steps together take 6 h, the limit of the inputs is 5 h; longest: s1 2 h, s2 2 h, s3 2 h"
    ]
    assert told(plan, inputs={"requirements": given_, "limit": "5"})[0].startswith(
        "limit-holds: the limit is not valid: '5'"
    )
    more = told(plan, inputs={"requirements": [*given_, {"id": "r3", "text": "Wasps"}]})
    assert [text.partition(":")[0] for text in more] == ["requirement-covered"]


@pytest.mark.parametrize(
    ("words", "open_"),
    [
        (["The hive must have"], [1, 2, 3]),
        (["The hive must have honey", "The hive must have"], [2, 3]),
        (["The hive must have honey. The hive must have no mites"], [1, 2, 3]),
        (["have honey", "have no mites", "have a queen"], []),
        (["The hive must have honey.", "The hive must have no mites.", "The hive must have a queen."], []),
    ],
)
def test_words_that_occur_everywhere_cover_nothing(words: list[str], open_: list[int]) -> None:
    """The guide: each sentence that asks for something becomes a requirement, and none is lost."""
    brief = "The hive must have honey. The hive must have no mites. The hive must have a queen."
    taken = [{"id": f"r{n}", "text": "t", "words": one} for n, one in enumerate(words)]
    found = KINDS["brief_covered"].check(
        Undertaking(brief, {}, {PLANNING: {"requirements": taken}}), {"words": ["must"]}
    )
    assert [one.about for one in found] == [f"plan.{n}" for n in open_]


@given(st.lists(st.text("ab .!\n-", min_size=1, max_size=30), min_size=1, max_size=6).map("\n".join))
def test_copying_each_statement_covers_all_of_them(brief: str) -> None:
    copied = list(statements(brief, ["a"]))
    taken = [{"id": f"r{n}", "text": "t", "words": one} for n, one in enumerate(copied)]
    u = Undertaking(brief, {}, {PLANNING: {"requirements": taken}})
    assert not [*KINDS["brief_covered"].check(u, {"words": ["a"]})]
    assert not [*KINDS["stands_in_brief"].check(u, {"of": "requirements", "field": "words"})]


def test_a_short_item_or_brief_is_copied_whole() -> None:
    for brief, words, stands in (
        ("Do it.", "Do it", True),
        ("- Tea\n- Coffee", "tea", True),
        ("Make tea.", "tea", False),
    ):
        u = Undertaking(brief, {}, {PLANNING: {"requirements": [{"id": "r1", "words": words}]}})
        found = [*KINDS["stands_in_brief"].check(u, {"of": "requirements", "field": "words"})]
        assert (not found) == stands, brief


def test_a_rule_of_a_journey_may_have_letters_of_any_language() -> None:
    rule = {
        "id": "bees",
        "kind": "words",
        "of": "steps",
        "field": "step",
        "any_of": ["\U0001f41d", "\x7f\x85"],
        "message": "\U0001f41d",
    }
    found = rule_set(own_rules(), None, [rule])
    assert found.mistakes == ()
    assert "bees: \U0001f41d" in told(PLAN, found.rules)


def test_a_brief_asks_in_lists_and_in_sentences_with_words_that_ask() -> None:
    brief = "We keep\nbees. They must live;  nobody\nshould freeze! Fine.\n\n1. First\n* Second one\n-no item"
    assert list(statements(brief, ["must", "should"])) == [
        "They must live;",
        "nobody should freeze!",
        "First",
        "Second one",
    ]


# --- kinds that our rules do not use ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("id: x, kind: required, of: steps, fields: [details.owner], message: '{{ about }} {{ field }}'", "s1 details.owner"),
        ("id: x, kind: count, of: steps, most: 2, message: '{{ count }}, {{ wanted }}'", "3, at most 2"),
        ("id: x, kind: count, of: left_out, least: 2, message: '{{ count }}, {{ wanted }}'", "1, at least 2"),
        ("id: x, kind: length, of: steps, field: step, least: 3, message: '{{ about }} {{ count }} {{ wanted }}'", "s2 2 at least 3"),
        ("id: x, kind: length, of: plan, field: goal, most: 3, message: '{{ about }} {{ count }} {{ wanted }}'", "plan 5 at most 3"),
        ("id: x, kind: words, of: steps, field: step, any_of: [weigh, treat], message: '{{ about }} {{ word }}'", "s2 weigh, treat"),
        ("id: x, kind: covered, least: 2, message: '{{ about }} {{ by }}'", "r1 by s1 alone"),
        ("id: x, kind: before, first: [ask], then: [treat], message: '{{ about }} {{ word }}, {{ first }}'", "s3 treat, ask"),
        ("id: x, kind: together, where: [acid], also: [gloves], message: '{{ about }} {{ also }}'", "s2 gloves"),
        ("id: x, kind: durations, least: 3 h, message: '{{ about }} {{ why }}'", "s1 it is less than 3 h"),
        ("id: x, kind: total, most: 5 h, message: '{{ total }} of {{ limit }} by {{ of }}'", "6 h of 5 h by this rule"),
        (
            "id: x, kind: total, most: 3 h, along: longest_chain, message: '{{ what }} {{ total }}'",
            "the steps of the longest chain, s2 -> s3, 4 h",
        ),
        ("id: x, kind: stands_in_brief, of: requirements, field: text, message: '{{ about }} {{ field }}'", "r1 text"),
    ],
)  # fmt: skip
def test_a_teams_rule_finds_its_violation(rule: str, said: str) -> None:
    assert f"x: {said}" in told(PLAN, rules_of(rule))


@pytest.mark.parametrize(
    "rule",
    [
        "id: x, kind: required, of: steps, fields: [step, duration], message: m",
        "id: x, kind: count, of: steps, least: 3, most: 3, message: m",
        "id: x, kind: length, of: steps, field: details.note, least: 3, message: m",
        "id: x, kind: words, of: steps, field: step, none_of: [hive weigh, weig], message: m",
        "id: x, kind: before, first: [buy], then: [treat], message: m",
        "id: x, kind: before, first: [treat], then: [treat], message: m",
        "id: x, kind: together, where: [acid], also: [mites], message: m",
        "id: x, kind: together, where: [wasps], also: [gloves], message: m",
        "id: x, kind: total, most: 4 h, along: longest_chain, message: m",
        "id: x, kind: total, most: 1 h, severity: off, message: m",
    ],
)
def test_a_team_s_rule_finds_nothing_where_it_holds(rule: str) -> None:
    assert told(PLAN, rules_of(rule)) == []


# --- rule files -------------------------------------------------------------------------------------------------------


def test_a_team_replaces_and_adds_rules_and_switches_them_off() -> None:
    text = """\
rules:
  - {id: useful, kind: useful, severity: off}
  - {id: some-step, kind: count, of: steps, least: 4, message: "{{ count }} steps are {{ wanted }}"}
  - {id: owner, kind: required, of: steps, fields: [details.owner], severity: warning, message: "{{ about }} has no owner"}
"""
    found = rule_set(own_rules(), text, None)
    assert found.mistakes == ()
    assert [rule.id for rule in found.rules] == [*(rule.id for rule in own_rules()), "owner"]
    assert told(changed("steps", 2, depends_on=[]), found.rules) == ["some-step: 3 steps are at least 4"]
    assert told(PLAN, found.rules, severity="warning") == [f"owner: {id_} has no owner" for id_ in ("s1", "s2", "s3")]


def test_a_journey_adds_rules_and_removes_none() -> None:
    mine = [
        {"id": "few", "kind": "count", "of": "steps", "most": 2, "message": "{{ count }} steps"},
        {"id": "useful", "kind": "useful", "severity": "off"},
        {"id": "few", "kind": "useful", "message": "again"},
        {"id": "team", "kind": "useful", "severity": "off"},
        "useful",
    ]
    team = "rules:\n  - {id: team, kind: count, of: steps, least: 9, message: too few}\n"
    found = rule_set(own_rules(), team, mine)
    assert found.mistakes == (
        "inputs.rules[1]: there is already a rule 'useful': give this one another id",
        "inputs.rules[2]: there is already a rule 'few': give this one another id",
        "inputs.rules[3]: there is already a rule 'team': give this one another id",
        "inputs.rules[4]: the rule must be a mapping, not text",
    )
    assert told(changed("steps", 2, depends_on=[]), found.rules)[-2:] == ["team: too few", "few: 3 steps"]
    assert any(text.startswith("useful") for text in told(changed("steps", 2, depends_on=[]), found.rules))


MANY_RULES = "rules:\n" + "".join(f"  - {{id: x{number}, kind: useful, message: m}}\n" for number in range(101))


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "the file is empty"),
        ("rules: [", 2, "this is not valid YAML"),
        ("- 1\n- 2", 1, "the file must be a mapping, not a list"),
        ("rulez: []", 1, "the file lacks 'rules'"),
        ("rules: []\nrulez: []", 2, "the file has the unknown key 'rulez'; did you mean 'rules'?"),
        ("rules: {}", 1, "'rules' must be a list, not a mapping"),
        ("rules:\n  - one", 2, "the rule must be a mapping, not text"),
        ("rules:\n  - kind: useful\n    message: m", 2, "the rule lacks 'id'"),
        ("rules:\n  - id: x\n    message: m", 2, "the rule lacks 'kind'"),
        ("rules:\n  - id: x\n    kind: usefull\n    message: m", 3, "no kind of rule 'usefull'; did you mean 'useful'?"),
        ("rules:\n  - id: x\n    kind: useful", 2, "the rule lacks 'message'"),
        ("rules:\n  - id: x\n    kind: useful\n    message: m\n    severity: fatal", 5, "has the unknown severity 'fatal'"),
        ("rules:\n  - id: x\n    kind: useful\n    message: m\n    most: 3", 5, "the rule has the unknown key 'most'"),
        ("rules:\n  - id: x\n    kind: useful\n    message: '{{ txt }}'", 4, "has no placeholder 'txt'; did you mean 'text'?"),
        ("rules:\n  - id: x\n    kind: count\n    of: step\n    message: m", 4, "cannot have 'step' in 'of'; did you mean 'steps'?"),
        ("rules:\n  - id: x\n    kind: count\n    of: steps\n    least: few\n    message: m", 5, "'least' must be a whole number"),
        ("rules:\n  - id: x\n    kind: durations\n    most: 90\n    message: m", 4, "'most' must be text, not a number"),
        ("rules:\n  - id: x\n    kind: durations\n    most: soon\n    message: m", 4, "has no duration in 'most': write a number"),
        ("rules:\n  - id: x\n    kind: before\n    first: [a]\n    message: m", 2, "the rule lacks 'then'"),
        ("rules:\n  - id: x\n    kind: before\n    first: [a, '']\n    then: b\n    message: m", 4, "has an empty word in 'first'"),
        ("rules:\n  - {id: x, kind: useful, message: m}\n  - {id: x, kind: useful, message: m}", 3, "there is already a rule 'x'"),
        (MANY_RULES, 102, "there are 101 rules, at most 100 are allowed"),
        ("rules:\n  - id: x\n    kind: before\n    first: a\n    then: [" + "a," * 61 + "]\n    message: m", 5, "has 61 words"),
    ],
)  # fmt: skip
def test_each_mistake_of_a_rule_file_is_named_with_its_line(text: str, line: int, said: str) -> None:
    _, problems = rules_in(text.encode(), TEAM_FILE)
    lines = {problem.line for problem in problems if said in problem.text}
    assert lines == {line}, list(map(str, problems))
    assert all(problem.file == TEAM_FILE for problem in problems)


def test_a_mistake_in_one_rule_leaves_the_others() -> None:
    text = (
        "rules:\n  - {id: a, kind: usefull, message: m}\n  - {id: b, kind: count, of: steps, least: 9, message: few}\n"
    )
    found = rule_set(own_rules(), text, None)
    assert [mistake.partition(": ")[0] for mistake in found.mistakes] == [f"{TEAM_FILE}:2"]
    assert told(PLAN, found.rules) == ["b: few"]


def test_every_kind_of_rule_names_its_parts_and_no_message_has_a_gap() -> None:
    for rule in own_rules():
        assert rule.origin == OWN_FILE
        assert rule.kind in KINDS
    broken = {"steps": [step("s1", "", done_when="", duration="x", depends_on=["s1", "s9"], covers=["r9"])]}
    for text in (*told(broken), *told(broken, severity="warning")):
        assert "{{" not in text
        assert "  " not in text
        assert "()" not in text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from([*KINDS, "steps", "error"]),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["id", "kind", "of", "field", "fields", "message", "severity", "least", "most", "in", "any_of"]
                ),
                inner,
                max_size=8,
            )
        ),
        max_leaves=20,
    )
)
def test_whatever_a_journey_brings_as_rules_is_read_or_named(rules: Json) -> None:
    found = rule_set(own_rules(), None, [rules])
    assert (len(found.rules) > len(own_rules())) != bool(found.mistakes)
    assert all(mistake.startswith("inputs.rules[0]: ") for mistake in found.mistakes)
    told(PLAN, found.rules)


def test_the_reference_page_has_every_kind_of_rule_and_every_rule_of_ours() -> None:
    page = (KB / "reference" / "plan-rules.md").read_text(encoding="utf-8")
    kinds = page.partition("## Kinds")[2].partition("\n## ")[0]
    rows = {line.split("`")[1]: line for line in kinds.splitlines() if line.startswith("| `")}
    assert list(rows) == list(KINDS)
    for name, kind in KINDS.items():
        assert all(f"`{word}`" in rows[name] for word in (*kind.arguments, *kind.tells)), name
        assert all(f"`{word}`" in rows[name] for argument in kind.arguments.values() for word in argument.among)
    listed = [line for line in page.splitlines() if line.startswith("| `")]
    for rule in own_rules():
        assert f"| `{rule.id}` | `{rule.kind}` | {rule.severity} |" in listed


def test_the_examples_of_the_handbook_can_be_used() -> None:
    guide = (KB / "guides" / "orchestrate.md").read_text(encoding="utf-8")
    shown = re.search(r"```yaml\n(.*?)```", guide, re.DOTALL)
    assert shown is not None
    for text in (shown.group(1), (KB / TEAM_FILE).read_text(encoding="utf-8")):
        found = rule_set(own_rules(), text, None)
        assert found.mistakes == ()
        assert {"backup-first", "owner"} <= {rule.id for rule in found.rules}
    moving = {**PLAN, "steps": [*PLAN["steps"], step("s4", "Upgrade the scale", covers=["r1"])]}
    assert [text.partition(":")[0] for text in told(moving, found.rules)] == ["backup-first"]


# --- the work of the validator ----------------------------------------------------------------------------------------


def facts(plan: Work, before: Work | None = None, **inputs: Json) -> SubmitFacts:
    return SubmitFacts(VALIDATING, 1, BRIEF, inputs, {}, before or {}, {PLANNING: plan, VALIDATING: before or {}})


async def test_equal_failures_are_counted_and_different_ones_restart_the_count() -> None:
    broken, otherwise = changed("steps", 2, covers=[]), changed("steps", 1, duration="")
    first = await validated(facts(broken), Pages())
    again = await validated(facts({**broken, "goal": "The hive lives."}, first), Pages())
    other = await validated(facts(otherwise, again), Pages())
    good = await validated(facts(PLAN, other), Pages())
    assert [work["in_a_row"] for work in (first, again, other, good)] == [1, 2, 1, 0]
    assert [bool(work["validated"]) for work in (first, again, other, good)] == [False, False, False, True]
    assert first["errors"][0]["id"] == "requirement-covered:r2"
    later = await validated(facts(broken, good), Pages())
    assert later["validated"] == good["validated"]


async def test_a_teams_broken_file_is_reported_and_stops_nothing() -> None:
    found = await validated(facts(PLAN), Pages(texts={TEAM_FILE: "rules: ["}))
    assert found["errors"] == []
    assert found["rules_not_read"][0].startswith(f"{TEAM_FILE}:2: this is not valid YAML")
    assert found["rules"] == len(own_rules())


@dataclass
class Locked(Pages):
    """Pages whose files can't be read now."""

    error: KnowledgeError = field(default_factory=lambda: NoSuchPath(TEAM_FILE, "it is locked"))

    async def configured(self, path: str) -> str | None:
        del path
        raise self.error


async def test_a_teams_unreadable_file_is_reported_and_stops_nothing() -> None:
    leaving = await validated(
        facts(PLAN), Locked(error=InvalidPath(TEAM_FILE, "it is a link that leaves the knowledge base"))
    )
    assert leaving["rules_not_read"][0].endswith("it is a link that leaves the knowledge base")
    found = await validated(facts(PLAN, rules=[{"id": "x"}]), Locked())
    assert found["errors"] == []
    assert found["rules_not_read"][0] == f"{TEAM_FILE}: the file cannot be read now"
    assert found["rules_not_read"][1].startswith("inputs.rules[0]: ")


async def test_others_are_served_while_many_rules_look_at_a_plan() -> None:
    turns = count()

    async def others() -> None:
        while True:
            next(turns)
            await asyncio.sleep(0)

    served = asyncio.create_task(others())
    await validated(facts(PLAN), Pages())
    served.cancel()
    assert next(turns) >= len(own_rules())


async def test_very_many_failures_are_counted_and_not_all_kept() -> None:
    plan = {**PLAN, "steps": [*PLAN["steps"], *(step(f"x{n}", f"idle {n}") for n in range(300))]}
    found = await validated(facts(plan), Pages())
    assert len(found["errors"]) == 61
    assert found["errors"][-1]["text"] == "and 241 more of these"
