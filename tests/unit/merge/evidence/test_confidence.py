from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from knowledge.merge.evidence.confidence import (
    DEFAULT_RULES,
    INHERITING,
    Rules,
    confidence,
    independent,
    lineage_of,
    rules_of,
    same_lineage,
)
from knowledge.pages.claim_source import AUTHORITY, UNKNOWN_AUTHORITY

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KINDS = st.sampled_from([*AUTHORITY, "kb", "url", "rumour", ""])
SOURCES = st.builds(lambda kind, rest: f"{kind}:{rest}" if rest else kind, KINDS, st.text(max_size=30))
ANYTHING: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


def test_the_handbook_s_example_comes_out() -> None:
    """kb/concepts/confidence.md: a chat message from 360 days ago against today's code."""
    old = confidence("zulip:ops/limits/1", NOW - timedelta(days=360), now=NOW)
    new = confidence("code:src/limits.py@4f2a", NOW, now=NOW)
    assert (old.recency, old.authority, old.corroboration) == (0.25, 0.3, 0.0)
    assert old.confidence == pytest.approx(0.22)
    assert (new.recency, new.authority, new.corroboration) == (1.0, 0.9, 0.0)
    assert new.confidence == pytest.approx(0.76)


@pytest.mark.parametrize(
    ("kind", "authority"),
    [
        ("official", 1.0),
        ("decision", 0.95),
        ("code", 0.9),
        ("maintainer", 0.8),
        ("user", 0.8),
        ("plane", 0.6),
        ("wiki", 0.5),
        ("zulip", 0.3),
        ("kb", 0.2),
        ("url", 0.2),
        ("unknown", 0.2),
    ],
)
def test_authority_is_the_design_s_table(kind: str, authority: float) -> None:
    assert confidence(f"{kind}:x", NOW, now=NOW).authority == authority


@given(SOURCES, st.floats())
def test_a_caller_may_claim_less_than_the_table_and_never_more(source: str, claimed: float) -> None:
    assume(source.partition(":")[0] not in INHERITING)
    weighed = confidence(source, NOW, now=NOW, authority=claimed).authority
    assert weighed <= DEFAULT_RULES.authority_of(source)
    assert weighed == (0.0 if math.isnan(claimed) else min(max(0.0, claimed), DEFAULT_RULES.authority_of(source)))


def test_a_page_as_source_has_the_authority_that_the_server_found_unless_a_directory_sets_one() -> None:
    assert confidence("kb:guides/trust", NOW, now=NOW).authority == UNKNOWN_AUTHORITY
    assert confidence("kb:guides/trust", NOW, now=NOW, authority=0.8).authority == 0.8
    own = Rules(authority={"kb": 0.5})
    assert confidence("kb:guides/trust", NOW, now=NOW, authority=0.8, rules=own).authority == 0.5


def test_recency_halves_every_half_life_and_the_future_is_now() -> None:
    def recency(days: float, half_life: float = 180) -> float:
        return confidence("user", NOW - timedelta(days=days), now=NOW, rules=Rules(half_life_days=half_life)).recency

    assert [recency(days) for days in (0, 180, 360, 540)] == [1.0, 0.5, 0.25, 0.125]
    assert recency(-30) == 1.0
    assert recency(30, half_life=30) == 0.5
    assert confidence("user", None, now=NOW).recency == 0.0
    assert confidence("user", NOW.replace(tzinfo=None), now=NOW).recency == 1.0


def test_corroboration_counts_independent_lineages_up_to_two() -> None:
    def support(*lineages: str) -> float:
        return confidence("code:a.py@1", NOW, now=NOW, corroborated_by=lineages).corroboration

    assert support() == 0.0
    assert support("plane:PROJ-12") == 0.5
    assert support("plane:PROJ-12", "zulip:design/merge/1") == 1.0
    assert support("plane:PROJ-12", "zulip:design/merge/1", "kb:a") == 1.0
    assert support("zulip:design/merge/1", "zulip:design/merge/2") == 0.5, "two messages of one thread are one source"
    assert support("code:a.py@2", "code:a.py") == 0.0, "nobody is his own witness"
    assert support("unknown", "") == 0.0, "what is unknown is no witness"


@given(SOURCES, st.lists(SOURCES, max_size=5), st.integers(-1000, 10_000), st.floats() | st.none())
def test_every_part_lies_between_0_and_1(source: str, others: list[str], days: int, claimed: float | None) -> None:
    weighed = confidence(
        source, NOW - timedelta(days=days), now=NOW, authority=claimed, corroborated_by=map(lineage_of, others)
    )
    assert all(0 <= part <= 1 for part in (weighed.confidence, weighed.recency, weighed.authority))
    assert weighed.corroboration in (0.0, 0.5, 1.0)


@pytest.mark.parametrize(
    ("source", "lineage"),
    [
        ("user", "user"),
        ("user:anna", "user"),
        ("zulip:design/merge/4711", "zulip:design/merge"),
        ("Zulip:#Design/Merge/4712", "zulip:design/merge"),
        ("zulip:design/issue #4/4711", "zulip:design/issue #4"),
        ("plane:PROJ-12", "plane:PROJ-12"),
        ("plane:proj-12#comment-3", "plane:PROJ-12"),
        ("code:src/limits.py@4f2a", "code:src/limits.py"),
        ("code:src/limits.py:42", "code:src/limits.py"),
        ("code:src/limits.py:42@4f2a", "code:src/limits.py"),
        ("code:@scope/pkg/index.js@1.2", "code:@scope/pkg/index.js"),
        ("kb:guides/trust#levels", "kb:guides/trust"),
        ("kb:guides/trust.md", "kb:guides/trust"),
        ("official:postgresql.org/docs@16.2", "official:postgresql.org/docs"),
        ("maintainer:anna@example.org", "maintainer:anna@example.org"),
        ("url:HTTPS://Example.org/a/#part", "url:https://example.org/a"),
        ("url:http://[", "url:http://["),
        ("", "unknown"),
        ("unknown:x", "unknown"),
    ],
)
def test_a_lineage_is_the_source_without_revision_or_message_number(source: str, lineage: str) -> None:
    """The design, section 3."""
    assert lineage_of(source) == lineage


@given(SOURCES)
@example("zulip:#")
@example("zulip:ops/2024/4711")
@example("kb:/")
@example("url:#")
@example("code:a.py@4f2a@4f2a")
def test_a_lineage_is_its_own_lineage(source: str) -> None:
    assert lineage_of(lineage_of(source)) == lineage_of(source)
    assert independent(source, [source]) == ()


def test_two_unknown_sources_are_not_the_same() -> None:
    assert same_lineage("code:a@1", "code:a@2")
    assert not same_lineage("unknown", "unknown")
    assert not same_lineage("code:a", "code:b")


def test_the_nearest_directory_wins_key_by_key() -> None:
    near = {"merge": {"half_life_days": 30, "authority": {"zulip": 0.5}}}
    far = {"merge": {"half_life_days": 365, "authority": {"zulip": 0.1, "Wiki": 0.7}, "weights": {"recency": 0.4}}}
    rules, problems = rules_of([near, {"title": "no rules"}, far])
    assert problems == ()
    assert rules.half_life_days == 30
    assert rules.authority_of("zulip:a") == 0.5
    assert rules.authority_of("wiki:a") == 0.7
    assert rules.authority_of("code:a") == 0.9


def test_weights_that_do_not_add_up_are_scaled_and_said_so() -> None:
    rules, problems = rules_of([{"merge": {"weights": {"recency": 2, "authority": 2, "corroboration": 1}}}])
    assert rules.weights == pytest.approx((0.4, 0.4, 0.2))
    assert problems == ("`merge.weights` add up to 5; scaled so that they add up to 1",)


@pytest.mark.parametrize(
    "wanted",
    [
        "fast",
        {"weights": [1, 2, 3]},
        {"weights": {"recency": -1}},
        {"weights": {"recency": "much"}},
        {"weights": {"recency": True}},
        {"weights": {"beauty": 1}},
        {"weights": {"recency": 0, "authority": 0, "corroboration": 0}},
        {"half_life_days": 0},
        {"half_life_days": "a year"},
        {"half_life_days": 10**400},
        {"authority": 3},
        {"authority": {"zulip": 1.5}},
        {"colour": "blue"},
    ],
)
def test_a_value_that_means_nothing_changes_nothing_and_is_named(wanted: object) -> None:
    rules, problems = rules_of([{"merge": wanted}])
    assert (rules.weights, rules.half_life_days) == (DEFAULT_RULES.weights, DEFAULT_RULES.half_life_days)
    assert rules.authority_of("zulip:a") == 0.3
    assert len(problems) == 1
    assert "merge" in problems[0]


@given(st.lists(st.fixed_dictionaries({}, optional={"merge": ANYTHING}), max_size=3))
def test_no_front_matter_breaks_the_rules(front_matters: list[dict[str, object]]) -> None:
    rules, problems = rules_of(front_matters)
    assert math.isclose(sum(rules.weights), 1.0)
    assert rules.half_life_days > 0
    assert all(len(problem) < 300 for problem in problems)


@given(
    st.fixed_dictionaries({key: st.floats(0, 1e6) for key in ("recency", "authority", "corroboration")}),
    st.floats(0.01, 1e4),
)
def test_any_weights_give_a_confidence_between_0_and_1(weights: dict[str, float], half_life: float) -> None:
    rules, _ = rules_of([{"merge": {"weights": weights, "half_life_days": half_life}}])
    weighed = confidence("plane:A-1", NOW - timedelta(days=3), now=NOW, rules=rules, corroborated_by=["kb:x"])
    assert 0 <= weighed.confidence <= 1
