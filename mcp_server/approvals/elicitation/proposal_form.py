"""The form for a proposal that a host shows to a person, and the meaning of the answer.

An accepted form doesn't prove that a person saw it: some hosts accept every form by themselves. So a form is enough
only for the lower levels, and raises nobody's score.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from knowledge.trust.ports import Proposal
from mcp_server.approvals.approvers import Approvals, Approver, requirement
from mcp_server.approvals.summary import file_text
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from mcp_server.web.text import sanitize
else:
    sanitize = LateModule("mcp_server.web.text.sanitize")

LONGEST_SHOWN = 4000
"""The most characters of a diff in a form. A proposal with a longer one is decided on the page, which shows all of it."""
LONGEST_NOTE = 500
FIELD = "decision"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        FIELD: {
            "type": "string",
            "title": "Decision",
            "description": "Approve exactly what is shown, or reject it",
            "enum": ["approve", "reject"],
        },
        "note": {
            "type": "string",
            "title": "Reason",
            "description": "What the host should know",
            "maxLength": LONGEST_NOTE,
        },
    },
    "required": [FIELD],
}

Word = Literal["approve", "reject", "nothing"]


@dataclass(frozen=True, slots=True)
class FormReply:
    """The decision in an answer, and its reason. `filled` has the full texts of an accepted form by field."""

    word: Word
    note: str = ""
    filled: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ElicitationForm:
    """A text that a host shows to its person, and the schema of the fields below it."""

    text: str
    schema: dict[str, Any]


def can_be_shown(proposal: Proposal) -> bool:
    """Return whether the whole diff fits into a form."""
    return len(_diffs(proposal)) <= LONGEST_SHOWN


async def is_enough(approvals: Approvals, proposal: Proposal) -> bool:
    """Return whether a form in the host can decide on the proposal: as far as its level, its length and its reviewers go."""
    # Passkeys make no difference here: in a host a person's word is enough, or nothing is.
    enough = requirement(proposal, "host", passkeys=False) == "word" and can_be_shown(proposal)
    return enough and not await approvals.why_barred(proposal, person_in_host(proposal))


def person_in_host(proposal: Proposal) -> Approver:
    """Return the person who answers a form of the host that asks for the proposal."""
    return Approver(f"{proposal.principal} (in the host)", "host", principal=proposal.principal)


def form(proposal: Proposal, shown: Mapping[str, Any]) -> ElicitationForm:
    """Return the form for a proposal with that summary; hidden and direction-changing characters are made visible."""
    sentence = json.loads(proposal.preview).get("sentence", "")
    page = f"\nMore, and who asks: {shown['review_url']}" if shown.get("review_url") else ""
    text = f"{proposal.principal} asks: {sentence}\n\n{_diffs(proposal)}\n\n{proposal.why}"
    return ElicitationForm(sanitize.spelled_out(text) + page, SCHEMA)


def _diffs(proposal: Proposal) -> str:
    preview = json.loads(proposal.preview)
    files = preview.get("files", ())
    return "\n".join(map(file_text, files)) or json.dumps(preview.get("answer"), ensure_ascii=False)


def reply(action: str, content: Mapping[str, Any] | None) -> FormReply:
    """Return the meaning of a client's answer. Only the word "approve" approves; a dismissed form decides nothing."""
    given = content or {}
    note = given["note"][:LONGEST_NOTE] if isinstance(given.get("note"), str) else ""
    # Declining is a person's no. Closing the form is `cancel`, which says nothing.
    if action == "decline":
        return FormReply("reject", note)
    if action != "accept":
        return FormReply("nothing")
    filled = {name: text for name, text in given.items() if isinstance(text, str)}
    word = given.get(FIELD)
    return FormReply(word if word in ("approve", "reject") else "nothing", note, filled)


async def decide(approvals: Approvals, proposal: Proposal, reply: FormReply) -> None:
    """Approve or reject the proposal as the form says, in the name of the host that showed it.

    Raises:
        KnowledgeError: somebody else decided first, or the decision doesn't count.
    """
    person = person_in_host(proposal)
    if reply.word == "approve":
        await approvals.approve(proposal.id, proposal.hash, person, reply.note)
    elif reply.word == "reject":
        await approvals.reject(proposal.id, proposal.hash, person, reply.note)
