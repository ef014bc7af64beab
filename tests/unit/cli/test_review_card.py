"""A person's view of a proposal in a terminal: complete, escaped, with long parts folded and counted."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.merge.model import Contradiction
from knowledge.trust.ports import Proposal, ProposalVerdict
from knowledge.writing.answers import HistoryLine, PageSince
from mcp_server.approvals.approvers import Requirement
from mcp_server.approvals.views.present import Present
from mcp_server.cli.review.card import (
    MOST_LINES,
    CardBlock,
    card,
    fields,
    folded,
    listed,
)
from mcp_server.cli.review.screen import wrapped
from mcp_server.cli.terminal.escape import visible
from mcp_server.presenters.proposal import Asker, ending, summary_of
from tests.support.state.ledgers import contradiction

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DIFF = "--- a/guides/deploy.md\n+++ b/guides/deploy.md\n@@ -1,2 +1,2 @@\n one\n-It takes 40 seconds.\n+It takes 45 seconds.\n"
WEIGHED = {"confidence": 0.91, "recency": 1.0, "authority": 0.8, "corroboration": 0.0}
BLOCKS = [
    {
        "section": "Guide > Times",
        "verdict": "update",
        "reason": "replaces the text you read",
        "new": WEIGHED,
        "existing": {**WEIGHED, "confidence": 0.45},
    }
]
CONFLICTS = [{"section": "Guide", "base": "was", "ours": "is", "theirs": "comes", "line": 3}]
ASKER = Asker("ann@cursor", 3.14, 3, "edit", frozen=False, counts={"executed": 4, "rejected": 1})


def proposal(
    *,
    arguments: object = None,
    sentence: str = "change guides/deploy.md",
    diff: str = DIFF,
    answer: object = None,
    **more: object,
) -> Proposal:
    """Return a proposal to change one page; `more` are its other fields."""
    answer = {"status": "done", "blocks": BLOCKS, "conflicts": CONFLICTS, "diff": diff} if answer is None else answer
    file = {"path": "guides/deploy.md", "moved_from": None, "before": "aa", "after": "bb", "diff": diff}
    said = Proposal(
        id="p-1",
        kind="call",
        tool="kb_merge",
        tool_hash="",
        arguments=json.dumps([{"path": "guides/deploy.md", "content": "a\nb"}] if arguments is None else arguments),
        principal="ann@cursor",
        revisions={},
        effect="e",
        policy=1,
        hash="abcdef0123",
        level_needed=3,
        level_held=2,
        why="kb_merge needs a person's approval: it needs level 3",
        preview=json.dumps({"answer": answer, "files": [file], "sentence": sentence}),
        documents=(),
        created_at=NOW,
        expires_at=NOW + timedelta(days=6, hours=23),
    )
    return replace(said, **more)  # type: ignore[arg-type]  # the fields that a test names


def shown(
    one: Proposal, needs: Requirement = "word", asker: Asker = ASKER, sides: Sequence[Contradiction] = ()
) -> tuple[CardBlock, ...]:
    return card(summary_of(one, asker, needs, sides, now=NOW))


def text(blocks: Sequence[CardBlock]) -> str:
    return "\n".join(part for block in blocks for part in (block.title, *(line.text for line in block.lines)))


def test_a_card_says_all_that_a_decision_is_about() -> None:
    said = text(shown(proposal()))
    for fact in (
        "change guides/deploy.md",
        "ann@cursor, score 3.14, level 3",
        "needed level 3, had 2; 4 carried out, 1 rejected before",
        "kb_merge needs a person's approval",
        "update  Guide > Times",
        "replaces the text you read",
        "new       confidence 0.91, recency 1.00, authority 0.80, corroboration 0.00",
        "existing  confidence 0.45",
        "guides/deploy.md changes",
        "-It takes 40 seconds.",
        "+It takes 45 seconds.",
        'path: "guides/deploy.md"',
        "content: 2 lines",
        "  | b",
        "in 6 days 23 hours",
        "hash     abcdef0123",
        "  comes",
    ):
        assert fact in said


def test_a_diff_is_coloured_by_the_kind_of_line() -> None:
    (diff,) = [block for block in shown(proposal()) if block.title == "guides/deploy.md changes"]
    assert [line.style for line in diff.lines] == ["bold", "bold", "cyan", "", "red", "green"]


@pytest.mark.parametrize(
    ("before", "after", "moved", "title"),
    [
        (None, "bb", None, "x.md is created"),
        ("aa", None, None, "x.md is deleted"),
        (None, "bb", "y.md", "x.md is renamed, from y.md"),
    ],
)
def test_a_files_fate_is_shown(before: str | None, after: str | None, moved: str | None, title: str) -> None:
    file = {"path": "x.md", "moved_from": moved, "before": before, "after": after, "diff": ""}
    preview = json.dumps({"answer": {}, "files": [file], "sentence": "s"})
    assert title in [block.title for block in shown(proposal(preview=preview))]


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        ("word", "no passkey needed"),
        ("advisory", "not protected by a passkey: any program of your account could approve here"),
        ("elsewhere", "needs a passkey, on the review page"),
    ],
)
def test_a_card_says_how_strong_a_decision_here_is(needs: Requirement, says: str) -> None:
    assert says in text(shown(proposal(), needs))


def test_unusual_fields_of_a_tools_answer_are_shown_too() -> None:
    said = text(shown(proposal(answer={"status": "done", "message": "hello\nworld", "channel": "design"})))
    assert 'channel: "design"' in said
    assert "  | world" in said


def test_both_sides_of_a_contradiction_are_shown_with_their_sources() -> None:
    said = text(shown(proposal(kind="flag"), sides=[contradiction()]))
    assert "number: 5 minutes here, 6 minutes there" in said
    assert "In the knowledge base: user in guides/a.md, confidence 0.70, authority 0.80, observed 2026-03-01" in said
    assert "  It takes 6 minutes." in said


def test_several_calls_of_one_act_are_all_shown() -> None:
    said = text(shown(proposal(arguments=[{"path": "one.md"}, {"path": "two.md"}])))
    assert "kb_merge  (1 of 2, one act)" in said
    assert '"two.md"' in said


def test_all_asking_hosts_are_shown_with_time_and_trust() -> None:
    first = replace(ASKER, asked_at=NOW)
    joined = Asker(
        "ann@zed", 0.0, 0, "nothing", frozen=True, counts={}, asked_at=NOW, sentence="merge, as told by plane:KB-1"
    )
    said = text(card(summary_of(proposal(kind="flag"), first, "word", now=NOW, also=[joined])))
    for fact in (
        "2 hosts ask for the same change",
        "ann@cursor, score 3.14, level 3, asked 2026-03-01 12:00 UTC",
        "needed level 3, had 2; 4 carried out, 1 rejected before",
        "ann@zed, frozen until a person unfreezes it, asked 2026-03-01 12:00 UTC\nmerge, as told by plane:KB-1\nno earlier",
        "h (harmful) freezes all 2 hosts that ask",
    ):
        assert fact in said
    assert "freezes all" not in text(shown(proposal()))
    found = fields(proposal(), [first, joined])["askers"]
    assert found == [
        {"principal": "ann@cursor", "asked_at": NOW.isoformat(), "score": 3.14, "level": 3, "frozen": False},
        {"principal": "ann@zed", "asked_at": NOW.isoformat(), "score": 0.0, "level": 0, "frozen": True},
    ]


def test_later_changes_are_named_and_the_present_diff_is_shown() -> None:
    line = HistoryLine("cc", "2026-03-01T12:00:00Z", "bob@zed", "kb_merge", "user", None, None, "", 1, 0, None)
    changed = [PageSince("guides/deploy.md", "cc", [line, replace(line, by="", tool="")])]
    stored = proposal()
    now = json.dumps(
        {**json.loads(stored.preview), "files": [{"path": "guides/deploy.md", "before": "cc", "diff": "+now\n"}]}
    )
    summary = replace(
        summary_of(replace(stored, preview=now), ASKER, "word", now=NOW),
        proposal=stored,
        present=Present(changed, "different", now),
        as_proposed=summary_of(stored, ASKER, "word", now=NOW).files,
    )
    blocks = card(summary)
    said = text(blocks)
    assert "guides/deploy.md, changed 2026-03-01 12:00 UTC, by bob@zed with kb_merge" in said
    assert "guides/deploy.md, changed 2026-03-01 12:00 UTC, outside the server" in said
    assert "would now be a different one" in said
    assert [block.title for block in blocks if "deploy.md" in block.title] == [
        "guides/deploy.md is deleted",
        "As proposed: guides/deploy.md changes",
    ]
    assert not summary.approvable
    assert len(summary.version) == 64
    found = fields(stored, [ASKER], summary.present)["present"]
    assert isinstance(found, dict)
    assert (found["outcome"], found["changed"][0]["changes"][0]["by"]) == ("different", "bob@zed")


@pytest.mark.parametrize(
    ("present", "says"),
    [
        (Present((), "same", "{}"), "still makes the same change"),
        (
            Present((), "impossible", why="the page is gone"),
            "It can no longer be made: the page is gone. Reject it.",
        ),
        (
            Present((), "unknown", why="it takes too long"),
            "could not be computed: it takes too long. The change is",
        ),
    ],
)
def test_each_present_state_has_its_text(present: Present, says: str) -> None:
    summary = replace(summary_of(proposal(), ASKER, "word", now=NOW), present=present)
    assert says in text(card(summary))
    assert summary.approvable == (present.outcome != "impossible")


def test_a_frozen_asker_and_a_new_one_are_marked() -> None:
    frozen = Asker("ann@cursor", 0.0, 0, "", frozen=True, counts={})
    said = text(shown(proposal(), asker=frozen))
    assert "frozen until a person unfreezes it" in said
    assert "no earlier proposals" in said


def test_a_person_who_asks_about_trust_is_named_without_a_level() -> None:
    asking = proposal(kind="admin", tool="trust.grant", principal="ann@terminal", arguments=[{"level": 4}])
    said = text(shown(asking, asker=Asker("ann@terminal", 2.0, 2, "", frozen=False, counts={})))
    assert "ann, by the terminal" in said
    assert "score" not in said
    assert "level: 4" in said


def test_only_long_blocks_and_long_lines_are_folded_and_counted() -> None:
    long = proposal(diff="\n".join(f"+line {n}" for n in range(1000)), arguments=[{"content": "x" * 5000}])
    parts, some = folded(shown(long))
    assert some
    said = text(parts)
    assert f"... {1000 - MOST_LINES} more lines (o opens everything)" in said
    assert "more characters (o opens everything)" in said
    assert "line 999" not in said
    assert "line 999" in text(shown(long))
    assert folded(shown(proposal())) == (shown(proposal()), False)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("executed", "approved, and carried out"),
        ("failed", "approved, but it failed: the page is gone"),
        ("superseded", "p-9"),
        ("expired", "nothing was done"),
    ],
)
def test_how_it_ended_is_one_sentence(state: str, says: str) -> None:
    assert says in ending(proposal(state=state, error="the page is gone", successor="p-9"))


def test_the_form_for_programs_has_the_hash_and_the_decision() -> None:
    verdict = ProposalVerdict(approved=False, by="ann", channel="terminal", at=NOW, hash="abcdef0123", note="no")
    found = json.loads(json.dumps(fields(proposal(state="rejected", verdict=verdict), [ASKER])))
    assert (found["hash"], found["arguments"][0]["path"]) == ("abcdef0123", "guides/deploy.md")
    assert (found["decision"]["by"], found["decision"]["note"], found["decision"]["signed"]) == ("ann", "no", False)


def test_approving_a_runs_start_says_how_to_see_it() -> None:
    underway = json.dumps({"run_id": "r-1", "status": "running"})
    said = ending(proposal(tool="agent_run", state="executed", result=underway))
    assert "runs follow r-1" in said
    assert "runs resume r-1" in said
    assert (
        ending(proposal(tool="agent_run", state="executed", result='{"status": "done"}')) == "approved, and carried out"
    )


HOSTILE = [
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07",
    "\x9b31m",
    "a\u202eb\u2066c",
    "zero\u200bwidth\ufeff",
    "\U000e0041\U000e0042\U000e0043\U000e0044",
    "bell\x07 back\x08space",
    "line\u2028separator\x85next",
    "carriage\rreturn",
    "\ud800 alone",
]


def acting(said: str) -> list[str]:
    """Return the characters that a terminal would act on, or not show. The joiner between two emoji does neither."""
    return [c for c in said if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in "\n\u200d"]


@pytest.mark.parametrize("payload", HOSTILE, ids=ascii)
def test_nothing_that_came_from_others_acts_on_the_terminal(payload: str) -> None:
    """Wherever it is: in the arguments, the diff, the sentence, the reason, the names."""
    block = {**BLOCKS[0], "section": payload, "reason": payload}
    answer = {"status": "done", "blocks": [block], "conflicts": [{**CONFLICTS[0], "ours": payload}], "odd": payload}
    hostile = proposal(
        arguments=[{"path": payload, payload: payload, "content": f"a\n{payload}"}],
        sentence=payload,
        diff=f"+{payload}\n",
        answer=answer,
        principal=f"ann@{payload}",
        tool=payload,
        why=payload,
        error=payload,
        state="failed",
    )
    asker = replace(ASKER, principal=hostile.principal)
    said = text(shown(hostile, asker=asker)) + listed(hostile)
    assert acting(said) == []
    assert "⟦" in said


@given(st.text())
def test_no_text_acts_or_ends_a_line(payload: str) -> None:
    assert acting(visible(payload)) == []
    assert "\n" not in visible(payload)


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_plain_text_is_shown_unchanged(payload: str) -> None:
    if " " * 40 not in payload:
        assert visible(payload) == payload


@given(st.lists(st.text(alphabet="ab 界é", max_size=300), max_size=5), st.integers(8, 120))
def test_lines_are_cut_to_the_width_and_no_character_is_lost(lines: list[str], width: int) -> None:
    from rich.cells import cell_len

    one = proposal(answer={}, diff="", why="\n".join(lines))
    (why,) = [block for block in shown(one) if block.title == "Why this needs approval"] or [CardBlock("", ())]
    cut = wrapped([why], width)[:-1]
    assert all(cell_len(line.plain) <= width for line in cut)
    assert "".join(line.plain for line in cut) == why.title + "".join(line.text for line in why.lines)
