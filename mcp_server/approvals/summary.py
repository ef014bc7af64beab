"""A proposal as its caller is told of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from knowledge.trust.ports import Proposal, ProposalVerdict

Address = Callable[[], Awaitable[str | None]]
"""Where people decide: the review page's address without any login, or None while nobody shows it."""
LONGEST_DIFF = 1500


async def summary(proposal: Proposal, address: Address, *, whole: bool = False) -> dict[str, Any]:
    """Return the proposal as plain JSON; `whole` with what the call answered once it was carried out.

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
    """Return the answer of a call that waits: what it would do, as nothing that happened. `told` is the proposal's summary.

    A revision in it is that of the page as it is, which the caller may go on from.
    """
    changes: dict[str, Any] = {"status": "proposed", "proposal": told, "verified": None}
    changes["revision"] = proposal.revisions.get(str(answer.get("path")))
    return {**answer, **{name: value for name, value in changes.items() if name in answer}}


def decision(verdict: ProposalVerdict | None) -> dict[str, Any] | None:
    """Return what a person said as plain JSON."""
    if verdict is None:
        return None
    return {
        "by": verdict.by,
        "channel": verdict.channel,
        "approved": verdict.approved,
        "note": verdict.note,
        "at": verdict.at.isoformat(timespec="seconds"),
    }


def file_text(file: Mapping[str, Any]) -> str:
    """Return what becomes of one file of a preview, or of a text that goes elsewhere, as text, also where no line changes."""
    if file.get("sent"):
        return f"{file['path']} {becomes(file)}\n{file['diff']}".rstrip("\n") + "\n"
    moved = f"{file['moved_from']} moves to {file['path']}\n" if file.get("moved_from") else ""
    return (
        f"{moved}{file['diff']}"
        or f"{file['path']} {'comes' if file.get('before') is None else 'goes'}, without any text\n"
    )


def becomes(file: Mapping[str, Any]) -> str:
    """Return in words what becomes of a text that another service has or is to have."""
    if file.get("before") is None:
        return "is sent"
    return "is taken back" if file.get("after") is None else "changes"


def _shown(preview: dict[str, Any]) -> str:
    diffs = "\n".join(map(file_text, preview.get("files", ())))
    cut = diffs if len(diffs) <= LONGEST_DIFF else diffs[:LONGEST_DIFF] + "\n... the rest is on the review page"
    return f"{preview.get('sentence', '')}\n{cut}".strip()
