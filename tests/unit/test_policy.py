from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_server.gate.policy import Allow, Grant, Refuse, Trust, decide

levels = st.sampled_from(list(Trust))
scores = st.floats(0, 5)


@given(scores, levels)
def test_a_call_passes_exactly_when_the_score_reaches_its_level(score: float, needed: Trust) -> None:
    decision = decide(Grant("ann@cursor", score, frozen=False), "tool", needed)
    assert isinstance(decision, Allow) == (score >= needed)


@given(scores, levels)
def test_a_frozen_principal_may_only_ask_about_itself(score: float, needed: Trust) -> None:
    decision = decide(Grant("ann@cursor", score, frozen=True), "tool", needed)
    assert isinstance(decision, Allow) == (needed == Trust.NONE)


@given(scores, levels, st.integers(0, 2))
def test_taint_never_makes_a_call_easier(score: float, needed: Trust, taint: int) -> None:
    grant = Grant("ann@cursor", score, frozen=False)
    if isinstance(decide(grant, "tool", needed), Refuse):
        assert isinstance(decide(grant, "tool", needed, taint=taint), Refuse)


def test_a_refusal_is_one_sentence_with_what_is_needed_held_and_to_be_done() -> None:
    decision = decide(Grant("ann@cursor", 2.9, frozen=False), "kb_merge", Trust.EDIT)
    assert isinstance(decision, Refuse)
    assert "needs trust level 3" in decision.why
    assert "holds level 2" in decision.why
    assert "knowledge-forge trust grant" in decision.why
    assert "\n" not in decision.why
