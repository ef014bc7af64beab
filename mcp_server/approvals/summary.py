"""A proposal as its caller sees it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge.trust.ports import Proposal, ProposalVerdict


Address = Callable[[], Awaitable[str | None]]
"""Returns the review page's address without a login, or None while no process shows the page."""
LONGEST_DIFF = 1500


async def summary(proposal: Proposal, address: Address, *, whole: bool = False) -> dict[str, Any]:
    """Return the proposal as plain JSON; `whole` adds the diffs and, once executed, the result.

    `id tool state level_needed level_held why preview review_url expires_at decision result error successor`.
    """
    page = await address()
    preview = json.loads(proposal.preview)
    return {
        "id": proposal.id,
        "tool": proposal.tool,
        "state": proposal.state,
        "level_needed": proposal.level_needed,
        "level_held": proposal.level_held,
        "why": proposal.why,
        "preview": _shown(preview) if whole else str(preview.get("sentence", "")),
        "review_url": f"{page}/proposals/{proposal.id}" if page else None,
        "expires_at": proposal.expires_at.isoformat(timespec="seconds"),
        "decision": decision(proposal.verdict),
        "result": json.loads(proposal.result) if whole and proposal.result else None,
        "error": proposal.error,
        "successor": proposal.successor,
    }


def proposed(answer: Mapping[str, Any], proposal: Proposal, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a call that is now a proposal. `told` is the proposal's summary.

    The `revision` in the answer is that of the page as it is now, so that the caller can base its next edit on that.
    """
    changes: dict[str, Any] = {"status": "proposed", "proposal": told, "verified": None}
    changes["revision"] = proposal.revisions.get(str(answer.get("path")))
    return {**answer, **{name: value for name, value in changes.items() if name in answer}}


def decision(verdict: ProposalVerdict | None) -> dict[str, Any] | None:
    """Return the decision as plain JSON. A request for changes says so; its `note` is the person's comment."""
    if verdict is None:
        return None
    asks = {"changes_requested": True} if verdict.changes else {}
    return {
        "by": verdict.by,
        "channel": verdict.channel,
        "approved": verdict.approved,
        "note": verdict.note,
        "at": verdict.at.isoformat(timespec="seconds"),
        **asks,
    }


def file_text(file: Mapping[str, Any]) -> str:
    """Describe what happens to one file of a preview, or to a text sent to a service, even if no line changes."""
    if file.get("sent"):
        return f"{file['path']} {becomes(file)}\n{file['diff']}".rstrip("\n") + "\n"
    moved = f"{file['moved_from']} is renamed to {file['path']}\n" if file.get("moved_from") else ""
    empty = f"{file['path']} is {'created' if file.get('before') is None else 'deleted'}; it is empty\n"
    return f"{moved}{file['diff']}" or empty


def becomes(file: Mapping[str, Any]) -> str:
    """Return in words what happens to a text in a service."""
    if file.get("before") is None:
        return "is sent"
    return "is deleted" if file.get("after") is None else "changes"


def _shown(preview: dict[str, Any]) -> str:
    diffs = "\n".join(map(file_text, preview.get("files", ())))
    cut = diffs if len(diffs) <= LONGEST_DIFF else diffs[:LONGEST_DIFF] + "\n... the rest is on the review page"
    return f"{preview.get('sentence', '')}\n{cut}".strip()
