"""Whether a plan may run by the rights in folders (decision 114)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mcp_server
from knowledge.access.rules import NoRightThere, PathAccess, Right
from mcp_server.gate.trust.folder_rights import NoRightToWrite, reason_to_propose, require_right, without_hidden_sources

ACCESS = PathAccess({"none": Right.NONE, "read": Right.READ, "propose": Right.PROPOSE, "write": Right.WRITE})


def test_a_call_about_a_page_that_may_only_be_read_is_refused_and_says_so() -> None:
    with pytest.raises(NoRightToWrite, match=r"you may read 'read/a.md', but not change it"):
        require_right(ACCESS, ["write/a.md", "read/a.md"])


def test_a_call_about_a_hidden_place_is_refused_without_a_word_about_what_is_there() -> None:
    with pytest.raises(NoRightThere, match="doesn't say whether a page is there"):
        require_right(ACCESS, ["none/a.md"])


def test_changes_are_proposed_where_the_caller_may_only_propose() -> None:
    require_right(ACCESS, ["propose/a.md"])
    assert (
        reason_to_propose(ACCESS, ["propose/a.md"], [])
        == "You may only propose changes to propose/a.md, so a person decides"
    )
    assert reason_to_propose(ACCESS, ["write/a.md", "elsewhere.md"], []) == ""


@pytest.mark.parametrize("other", ["propose/b.md", "read/b.md"])
def test_a_person_decides_if_links_on_a_page_change_that_the_caller_may_not_write(other: str) -> None:
    assert other in reason_to_propose(ACCESS, ["write/a.md"], [other])


def test_a_source_that_is_a_hidden_page_is_not_named() -> None:
    answer = {"origins": [{"source": "kb:none/a.md#Part"}, {"source": "kb:read/a.md"}], "text": "see kb:none/a.md"}
    shown = without_hidden_sources(answer, ACCESS)
    assert shown == {"origins": [{"source": "unknown"}, {"source": "kb:read/a.md"}], "text": "see kb:none/a.md"}


def test_only_the_gate_makes_answers() -> None:
    """If this fails: make the answer with `Gate.answered`, which leaves out what is hidden from the caller."""
    root = Path(mcp_server.__file__).parent
    makers = [path for path in root.rglob("*.py") if re.search(r"(?<!class )\bCallAnswered\(", path.read_text("utf-8"))]
    assert [path.relative_to(root).as_posix() for path in makers] == ["gate/dispatch.py"]
