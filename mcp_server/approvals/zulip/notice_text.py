"""What a notice of a proposal says: who asks for what, where, until when, and where to decide. Pure.

It never holds text of pages, of arguments or of differences: only names, as they are, in code spans in which nothing acts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from knowledge.pages.claim_source import DIRECT, place_of
from knowledge.trust.ports import Channel, Proposal, State
from mcp_server.approvals.proposals import run_of
from mcp_server.cli.terminal.escape import visible

APPROVES: Final = ("2705", "1f44d")
"""The code points of the emoji that say yes, whichever of their names was clicked: check, approved; thumbs_up, +1."""
REJECTS: Final = ("274c", "1f44e")
"""The same of those that say no: cross_mark, wrong; thumbs_down, -1."""
MOST_PLACES = 3
LONGEST_NAME = 120
_ENDED: Final[Mapping[State, str]] = {
    "approved": "Approved, and being carried out",
    "executed": "Approved and carried out",
    "failed": "Approved, but it could not be carried out",
    "rejected": "Rejected",
    "expired": "Nobody decided in time",
    "withdrawn": "Taken back by who asked",
    "superseded": "Replaced by a newer proposal",
}
_WHERE: Final[Mapping[Channel, str]] = {
    "host": "in the host that asked",
    "page": "on the review page",
    "terminal": "in a terminal",
    "zulip": "by a reaction to this message",
}


def waiting(proposal: Proposal, *, page: str | None, reacting: bool, touched: bool = False, trouble: str = "") -> str:
    """Return what a channel is told of a proposal that waits.

    `page` is the review page's address, `reacting` whether reactions of some people decide, unless the message was `touched` by
    somebody else, `trouble` why one did not.
    """
    terminal = "`knowledge-forge review` in a terminal"
    shown = f"{page}/proposals/{proposal.id} on the machine of the server, or {terminal}" if page else terminal
    lines = [
        f"**Waits for a person** (`{proposal.id}`)",
        *_about(proposal),
        f"* until: {_time(proposal.expires_at)}",
        f"* look at it and decide: {shown}",
    ]
    if reacting and touched:
        lines.append("* reactions no longer decide it, because this message was edited or moved")
    elif reacting:
        lines.append("* reviewers may also react here, once they have looked: :check: approves, :cross_mark: rejects")
    if trouble:
        lines.append(
            f"* a reaction did not decide it: {named(trouble)}; to decide it here later, remove it and react again"
        )
    return "\n".join(lines)


def ended(proposal: Proposal) -> str:
    """Return what a channel is told of a proposal that does not wait any more."""
    lines = [f"**{_ENDED.get(proposal.state, proposal.state)}** (`{proposal.id}`)", *_about(proposal)]
    verdict = proposal.verdict
    if verdict is not None:
        said = "approved" if verdict.approved else "rejected"
        lines.append(f"* {said} by {named(verdict.by)} {_WHERE[verdict.channel]}, {_time(verdict.at)}")
    if proposal.successor:
        lines.append(f"* its successor: {named(proposal.successor)}")
    return "\n".join(lines)


def named(text: str) -> str:
    """Return a name as a code span: what would hide in it is seen, and nothing in it mentions anybody or links anywhere."""
    shown = visible(text).replace("`", "'").strip() or "?"
    return f"`{shown if len(shown) <= LONGEST_NAME else shown[: LONGEST_NAME - 3] + '...'}`"


def _about(proposal: Proposal) -> Sequence[str]:
    places = _places(proposal)
    more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    where = f" for {', '.join(map(named, places[:MOST_PLACES]))}{more}" if places else ""
    levels = f"level {proposal.level_needed} is needed, {proposal.level_held} is held"
    run = run_of(proposal)
    by_run = [f"* by a run of agent_run: {named(run['id'])}"] if run else []
    return [f"* who asks: {named(proposal.principal)}; {levels}", *by_run, f"* for what: {named(proposal.tool)}{where}"]


def _places(proposal: Proposal) -> Sequence[str]:
    """Return the pages that it is about; of other services the project, task or channel.

    Never a topic, which may be text, nor with whom somebody talks alone.
    """
    if proposal.documents:
        return proposal.documents
    files = json.loads(proposal.preview).get("files", ())
    return tuple(dict.fromkeys(_place(str(file["path"])) if file.get("sent") else str(file["path"]) for file in files))


def _place(origin: str) -> str:
    if origin.startswith(f"zulip:{DIRECT}"):
        return f"zulip:{DIRECT}".removesuffix("/")
    return place_of(origin) if origin.startswith("zulip:") else origin.split(maxsplit=1)[0]


def _time(moment: datetime) -> str:
    """Return a moment that everybody sees in their own zone. Source: https://zulip.com/help/global-times."""
    return f"<time:{moment.isoformat(timespec='seconds')}>"
