"""The text of a notice, and what it can never contain."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.trust.ports import AskerLine, Proposal, ProposalVerdict, State
from mcp_server.approvals.zulip.notice_text import LONGEST_NAME, code_span, ended, waiting

AT = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
PREVIEW = {"answer": {"text": "SECRET"}, "sentence": "SECRET", "files": [{"path": "a.md", "diff": "SECRET"}]}


def _proposal(**more: object) -> Proposal:
    fields: dict[str, object] = {
        "id": "p-1",
        "kind": "call",
        "tool": "kb_merge",
        "tool_hash": "t",
        "arguments": '[{"content": "SECRET"}]',
        "principal": "ann@host",
        "revisions": {},
        "effect": "e",
        "policy": 1,
        "hash": "h",
        "level_needed": 3,
        "level_held": 2,
        "why": "SECRET",
        "preview": json.dumps(PREVIEW),
        "documents": ("a.md",),
        "created_at": AT,
        "expires_at": AT,
        **more,
    }
    return Proposal(**fields)  # type: ignore[arg-type]  # as a call has them


def _elsewhere(*paths: str) -> Proposal:
    files = [{"path": path, "diff": "SECRET", "sent": True} for path in paths]
    return _proposal(documents=(), preview=json.dumps({**PREVIEW, "files": files}))


def test_a_notice_names_host_act_deadline_and_where_to_decide() -> None:
    """And none of the texts (ADR 38)."""
    assert waiting(_proposal(), page="https://forge.example.com", reacting=True) == (
        "**Waiting for approval** (`p-1`)\n"
        "* requested by: `ann@host`; level 3 is needed, 2 is held\n"
        "* call: `kb_merge` for `a.md`\n"
        "* expires: <time:2026-11-20T12:30:00+00:00>\n"
        "* review it: https://forge.example.com/proposals/p-1, or `knowledge-forge review` on the server's machine\n"
        "* reviewers may also react here, after reviewing it: :check: approves, :cross_mark: rejects"
    )
    plain = waiting(_proposal(), page=None, reacting=False)
    assert plain.endswith("* review it: `knowledge-forge review` on the server's machine")


def test_all_hosts_that_ask_are_named_with_when_each_asked_and_the_rest_counted() -> None:
    joined = [AskerLine(f"ann@host-{n}", AT) for n in range(7)]
    for said in (waiting(_proposal(), joined, page=None, reacting=False), ended(_proposal(state="expired"), joined)):
        assert "* also requested by: `ann@host-0`, <time:2026-11-20T12:30:00+00:00>\n" in said
        assert said.count("also requested by") == 5
        assert "* and by 2 more\n" in said


@pytest.mark.parametrize("state", get_args(State))
def test_every_end_has_its_words_and_none_of_the_texts(state: State) -> None:
    """Whatever becomes of a proposal."""
    verdict = ProposalVerdict(approved=True, by="ann", channel="zulip", at=AT, hash="h", note="SECRET")
    told = ended(_proposal(state=state, verdict=verdict, error="SECRET", result='"SECRET"', successor="p-2"))
    assert "`p-1`" in told
    assert "approved by `ann` by a reaction to this message, <time:2026-11-20T12:30:00+00:00>" in told
    assert "replaced by: `p-2`" in told
    assert "SECRET" not in told


@pytest.mark.parametrize(
    ("paths", "shown"),
    [
        (("zulip:design/a topic of an argument message 1 of 2", "zulip:design/x message 2 of 2"), "`zulip:design`"),
        (("plane:KB-12 description", "plane:KB-12 fields"), "`plane:KB-12`"),
        (("zulip:direct/ann, bob message 1 of 2", "zulip:direct/ann, bob message 2 of 2"), "`zulip:direct`"),
    ],
)
def test_for_other_services_only_the_place_is_named(paths: tuple[str, ...], shown: str) -> None:
    """A topic may be text from the call."""
    assert f"call: `kb_merge` for {shown}\n" in waiting(_elsewhere(*paths), page=None, reacting=False)


def test_of_many_pages_the_first_few_are_named() -> None:
    """A notice stays short."""
    told = waiting(_proposal(documents=("a", "b", "c", "d", "e")), page=None, reacting=False)
    assert "for `a`, `b`, `c` and 2 more\n" in told


def test_a_name_that_mentions_and_hides_does_neither() -> None:
    """In a code span Zulip interprets nothing as a command.

    Source: https://zulip.com/help/format-your-message-using-markdown.
    """
    assert code_span("notes/a`@**all** [x](http:evil)\u202e.md") == "`notes/a'@**all** [x](http:evil)⟦U+202E⟧.md`"


@given(st.text(max_size=400))
def test_whatever_a_name_is_it_stays_within_its_code_span(name: str) -> None:
    """One line, one pair of backticks, bounded."""
    shown = code_span(name)
    assert shown.count("`") == 2
    assert shown[0] == shown[-1] == "`"
    assert len(shown) <= LONGEST_NAME + 2
    assert len(shown.splitlines()) == 1
    assert shown.strip("`").strip()
