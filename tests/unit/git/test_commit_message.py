"""Subjects and trailers of commits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.git.commit_message import ActOnPages, ChangedPath, act_of, author_of, message_of, subject_of

AT = datetime(2026, 11, 27, 4, 0, tzinfo=UTC)
PERSON = ("Ann", "ann@example.org")
EDITED = ChangedPath("a.md", "1", "2")
MOVED = (
    ChangedPath("old.md", "1", None),
    ChangedPath("new.md", None, "1", "old.md"),
    ChangedPath("links.md", "3", "4"),
)
ACT = ActOnPages(7, AT, "ann@claude-code", "kb_merge", "user", "", "", "", "done", (), (EDITED,))


@pytest.mark.parametrize(
    ("act", "subject"),
    [
        (ACT, "Edit a.md"),
        (replace(ACT, changes=(ChangedPath("a.md", None, "2"),)), "Create a.md"),
        (replace(ACT, tool="kb_delete", changes=(ChangedPath("a.md", "1", None),)), "Delete a.md"),
        (replace(ACT, tool="kb_move", changes=MOVED), "Move old.md to new.md and 1 more page"),
        (replace(ACT, tool="undo", undoes=(3,)), "Undo change 3 in a.md"),
        (replace(ACT, tool="undo", undoes=(3, 4, 5, 6)), "Undo changes 3, 4, 5, ... in a.md"),
        (replace(ACT, tool="contradiction.settle"), "Settle a contradiction in a.md"),
        (replace(ACT, tool="kb_revert"), "Restore a.md"),
        (
            replace(ACT, changes=(EDITED, replace(EDITED, path="b.md"), replace(EDITED, path="c.md"))),
            "Edit a.md and 2 more pages",
        ),
    ],
)
def test_a_subject_says_what_happened_to_which_page(act: ActOnPages, subject: str) -> None:
    assert subject_of(act) == subject


def test_the_trailers_name_host_source_proposal_approver_and_record() -> None:
    act = replace(
        ACT, source="plane:KB-12", proposal="p-1", decision="approved by ann (page, signed)", intent="asked for"
    )
    assert message_of(act) == (
        "Edit a.md\n\nReason: asked for\n\nForge-Host: claude-code\nForge-User: ann\nForge-Source: plane:KB-12\n"
        "Forge-Proposal: p-1\nForge-Approved-By: ann (page, signed)\nForge-Act: 7\n"
    )


def test_an_import_counts_its_pages_and_attachments_and_names_source_and_id() -> None:
    page, picture = ChangedPath("a.md", None, "2"), ChangedPath("cup.png", None, "3", is_kept=False)
    one = replace(ACT, tool="import", call="import/ab12-1", intent="import ab12-1", changes=(page,), record=6)
    act = replace(one, record=7, source="obsidian:Notes", changes=(page, picture), parts=(one, replace(one, record=7)))
    assert message_of(act) == (
        "Import 1 page and 1 attachment from obsidian:Notes\n\n- Create a.md\n- Create cup.png\n\n"
        "Forge-Host: claude-code\nForge-User: ann\nForge-Source: obsidian:Notes\nForge-Import: ab12-1\nForge-Act: 6-7\n"
    )


def test_an_imported_attachment_is_an_act_although_it_has_no_history() -> None:
    fields = {
        "at": AT.isoformat(),
        "tool": "import",
        "call": "import/ab12-1",
        "changes": [],
        "intent": "import the attachment a/cup.png",
        "arguments_hash": "ab" * 32,
    }
    act = act_of(1, fields)
    assert act is not None
    assert act.changes == (ChangedPath("a/cup.png", None, "ab" * 8, is_kept=False),)
    assert act_of(1, {**fields, "tool": "kb_merge"}) is None
    assert act_of(1, {**fields, "outcome": "undone"}) is None


def test_the_author_is_the_host_on_behalf_of_its_user_or_the_person() -> None:
    assert author_of(ACT, PERSON) == ("claude-code on behalf of ann", "claude-code@knowledge-forge.invalid")
    assert author_of(replace(ACT, principal="ann@page"), PERSON) == PERSON
    assert author_of(replace(ACT, principal="knowledge-forge"), PERSON) == (
        "Knowledge Forge",
        "knowledge-forge@knowledge-forge.invalid",
    )


@given(st.text(), st.text(), st.text(), st.text())
def test_no_text_of_others_begins_a_line(path: str, intent: str, source: str, principal: str) -> None:
    act = replace(ACT, changes=(replace(EDITED, path=path),), intent=intent, source=source, principal=principal)
    head, _, rest = message_of(act).partition("\n")
    assert head.startswith("Edit")
    lines = [line for line in rest.split("\n") if line]
    assert all(line.startswith(("Reason: ", "Forge-")) for line in lines)
    assert len({line.partition(":")[0] for line in lines}) == len(lines)
    assert lines[-1] == "Forge-Act: 7"


def test_records_without_changed_pages_are_no_acts_on_pages() -> None:
    same = {"path": "a.md", "before": "1", "after": "1", "moved_from": None}
    assert act_of(1, {"at": AT.isoformat(), "changes": [same]}) is None
    assert act_of(1, {"at": AT.isoformat(), "changes": []}) is None
    assert act_of(1, {"changes": [{**same, "after": "2"}]}) is None
    assert act_of(1, {}) is None
