"""Asking in the host: a form that shows what would happen, and what an answer to it means.

An accepted form proves no person: some hosts accept every form by themselves. So it is enough for the lower levels only, and
raises nobody's score.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from knowledge.trust.ports import Proposal
from mcp_server.approvals.summary import file_text

LONGEST_SHOWN = 4000
"""Characters of the diff in a form; what is longer is decided on the page, where all of it can be seen."""
FIELD = "decision"

Word = Literal["approve", "reject", "nothing"]


@dataclass(frozen=True, slots=True)
class FormReply:
    """An answer's decision and reason. `filled` has the texts of an accepted form, by field, however long they are."""

    word: Word
    note: str = ""
    filled: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ElicitationForm:
    """A form that a host shows its person: a text, and the schema of the fields below it."""

    text: str
    schema: dict[str, Any]


def can_be_shown(proposal: Proposal) -> bool:
    """Return whether all of what would happen has room in a form."""
    return len(_diffs(proposal)) <= LONGEST_SHOWN


def message(proposal: Proposal, shown: Mapping[str, Any]) -> str:
    """Return what the form says above its fields; hidden and direction-changing characters are made visible."""
    from mcp_server.web.text.sanitize import spelled_out

    sentence = json.loads(proposal.preview).get("sentence", "")
    page = f"\nMore, and who asks: {shown['review_url']}" if shown.get("review_url") else ""
    text = f"{proposal.principal} asks: {sentence}\n\n{_diffs(proposal)}\n\n{proposal.why}"
    return spelled_out(text) + page


def _diffs(proposal: Proposal) -> str:
    preview = json.loads(proposal.preview)
    files = preview.get("files", ())
    return "\n".join(map(file_text, files)) or json.dumps(preview.get("answer"), ensure_ascii=False)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        FIELD: {
            "type": "string",
            "title": "Decision",
            "description": "Approve exactly what is shown, or reject it",
            "enum": ["approve", "reject"],
        },
        "note": {"type": "string", "title": "Reason", "description": "What the host should know", "maxLength": 500},
    },
    "required": [FIELD],
}


def reply(action: str, content: Mapping[str, Any] | None) -> FormReply:
    """Return what an answer means. Only the word itself approves; a form that was dismissed decides nothing."""
    given = content or {}
    note = given.get("note")
    said = note[:500] if isinstance(note, str) else ""
    if action == "decline":
        return FormReply("reject", said)
    if action != "accept":
        return FormReply("nothing")
    filled = {name: text for name, text in given.items() if isinstance(text, str)}
    word = given.get(FIELD)
    if word not in ("approve", "reject"):
        return FormReply("nothing", said, filled)
    return FormReply("approve" if word == "approve" else "reject", said, filled)
