from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_server.gate.policy import ALWAYS, Allow, Grant, Limits, Propose, Reach, Refuse, Trust, decide, limited

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


@given(scores, levels, st.sampled_from(["", "text from url:x was read"]))
def test_taint_never_makes_a_call_easier(score: float, needed: Trust, taint: str) -> None:
    ease = {Allow: 2, Propose: 1, Refuse: 0}
    grant = Grant("ann@cursor", score, frozen=False)
    clean, tainted = decide(grant, "tool", needed), decide(grant, "tool", needed, taint=taint)
    assert ease[type(tainted)] <= ease[type(clean)]


def test_after_untrusted_text_one_level_more_is_needed_and_the_reason_is_said() -> None:
    decision = decide(Grant("ann@cursor", 4.5, frozen=False), "send", Trust.ROUTINE, taint="text from url:x was read")
    assert isinstance(decision, Propose)
    assert (decision.needed, decision.held) == (Trust.HIGH_STAKES, Trust.ROUTINE)
    assert "text from url:x was read" in decision.why


@given(st.floats(0, 5), levels)
def test_below_level_2_nothing_is_proposed_and_reads_never_are(score: float, needed: Trust) -> None:
    """The design, section 6: below the required level the call becomes a proposal; below 2 it is refused."""
    decision = decide(Grant("ann@cursor", score, frozen=False), "tool", needed)
    if isinstance(decision, Propose):
        assert 2 <= score < needed


def test_a_refusal_is_one_sentence_with_needed_and_present_level_and_what_to_do() -> None:
    decision = decide(Grant("ann@cursor", 1.9, frozen=False), "kb_merge", Trust.EDIT)
    assert isinstance(decision, Refuse)
    assert "needs trust level 3" in decision.why
    assert "has level 1" in decision.why
    assert "knowledge-forge trust grant" in decision.why
    assert "\n" not in decision.why


def test_a_proposal_names_the_needed_level_the_callers_and_who_decides() -> None:
    below = decide(Grant("ann@cursor", 2, frozen=False), "kb_merge", Trust.EDIT)
    assert isinstance(below, Propose)
    assert below.why == (
        f"kb_merge needs a person's approval: it needs trust level 3 ({Trust.EDIT.meaning}) and ann@cursor has level 2"
    )
    assert Trust.EDIT.meaning
    enough = decide(Grant("ann@cursor", 4, frozen=False), "kb_merge", Trust.EDIT, person="It replaces a claim")
    assert isinstance(enough, Propose)
    assert enough.why == "kb_merge needs a person's approval. It replaces a claim"


def test_a_frozen_caller_learns_that_and_who_can_unfreeze_it() -> None:
    decision = decide(Grant("ann@cursor", 5, frozen=True), "kb_search", Trust.READ)
    assert isinstance(decision, Refuse)
    assert "ann@cursor is frozen until a person unfreezes it" in decision.why
    assert "knowledge-forge trust thaw" in decision.why


toolsets = st.sampled_from(["knowledge", "runs", "plane", ALWAYS])
reaches = st.lists(st.builds(Reach, levels, st.none() | st.frozensets(toolsets)), max_size=4).map(tuple)


@given(st.floats(0, 5), reaches, toolsets, st.booleans())
def test_a_credential_only_takes_away(score: float, reached: tuple[Reach, ...], toolset: str, frozen: bool) -> None:  # noqa: FBT001 - hypothesis passes by name
    """Decision 106: a token or scope never raises trust, and never allows more than its own ceiling."""
    grant, limits = Grant("ann@token:http", score, frozen), Limits(reached, "its token allows no more")
    left = limited(grant, limits, toolset)
    assert left.level == min(grant.level, limits.ceiling(toolset))
    assert left.frozen == frozen
    assert limited(grant, None, toolset) == grant


def test_a_credential_reaches_the_tools_of_its_toolsets_and_always_questions_about_itself() -> None:
    limits = Limits(
        (Reach(Trust.EDIT, frozenset({"knowledge"})), Reach(Trust.READ, frozenset({"runs"}))), "its token ends"
    )
    assert [limits.ceiling(one) for one in ("knowledge", "runs", "plane", ALWAYS, None)] == [3, 1, 0, 3, 3]
    assert [limits.allows(one) for one in ("knowledge", "runs", "plane", ALWAYS)] == [True, True, False, True]


def test_a_refusal_because_of_a_token_names_the_token_and_not_a_grant_that_would_not_help() -> None:
    limits = Limits((Reach(Trust.READ),), "its token allows no more")
    decision = decide(limited(Grant("ann@token:http", 3.5, frozen=False), limits), "kb_merge", Trust.EDIT)
    assert isinstance(decision, Refuse)
    assert "has level 1, because its token allows no more" in decision.why
    assert "trust grant" not in decision.why
