"""The text of a notice: the principal, the act and its place, the deadline, and where to decide. Pure.

It never holds text of pages, arguments or diffs, because people without access to the knowledge base may read the
channel: only names, in code spans, where nothing is a mention or a link.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from knowledge.pages.claim_source import DIRECT, place_of
from knowledge.trust.ports import AskerLine, Channel, Proposal, State
from mcp_server.approvals.proposals import run_of
from mcp_server.cli.terminal.escape import visible
from mcp_server.connectors.errors import one_line

APPROVES: Final = ("2705", "1f44d")
"""The code points of the emoji that approve, whichever of their names was clicked: check, approved; thumbs_up, +1."""
REJECTS: Final = ("274c", "1f44e")
"""The code points of the emoji that reject: cross_mark, wrong; thumbs_down, -1."""
MOST_PLACES = 3
MOST_ASKERS = 5
LONGEST_NAME = 120
_ENDED: Final[Mapping[State, str]] = {
    "approved": "Approved, and being applied",
    "executed": "Approved and applied",
    "failed": "Approved, but it could not be applied",
    "rejected": "Rejected",
    "expired": "Expired: nobody decided in time",
    "withdrawn": "Withdrawn by the caller",
    "superseded": "Replaced by a newer proposal",
}
_WHERE: Final[Mapping[Channel, str]] = {
    "host": "in the host that asked",
    "page": "on the review page",
    "terminal": "in a terminal",
    "zulip": "by a reaction to this message",
}


def waiting(
    proposal: Proposal,
    joined: Sequence[AskerLine] = (),
    *,
    page: str | None,
    reacting: bool,
    approving: bool = True,
    touched: bool = False,
    trouble: str = "",
    powerless: int = 0,
) -> str:
    """Return the notice of a pending proposal, which the principals in `joined` ask for, too.

    `page` is the review page's public address. With `reacting`, reactions of listed people decide, unless somebody else
    `touched` the message. Without `approving`, they can only reject. `trouble` says why a reaction did not decide.
    `powerless` is how many listed reviewers cannot decide by a reaction, because Zulip shows no such account.
    """
    terminal = "`knowledge-forge review` on the server's machine"
    review = f"{page}/proposals/{proposal.id}, or {terminal}" if page else terminal
    lines = [
        f"**Waiting for approval** (`{proposal.id}`)",
        *_about(proposal, joined),
        f"* expires: {_time(proposal.expires_at)}",
        f"* review it: {review}",
    ]
    if reacting and touched:
        lines.append("* reactions no longer decide it, because this message was edited or moved")
    elif reacting and approving:
        lines.append("* reviewers may also react here, after reviewing it: :check: approves, :cross_mark: rejects")
    elif reacting:
        lines.append("* reviewers may also reject it here by :cross_mark:; a reaction cannot approve it")
    if reacting and powerless:
        verb = "1 listed reviewer cannot" if powerless == 1 else f"{powerless} listed reviewers cannot"
        lines.append(f"* {verb} decide it here: `knowledge-forge doctor` says why")
    if trouble:
        lines.append(
            f"* a reaction did not decide it: {code_span(trouble)}; to decide it here later, remove it and react again"
        )
    return "\n".join(lines)


def ended(proposal: Proposal, joined: Sequence[AskerLine] = ()) -> str:
    """Return the notice of a proposal that no longer waits."""
    lines = [f"**{_ENDED.get(proposal.state, proposal.state)}** (`{proposal.id}`)", *_about(proposal, joined)]
    verdict = proposal.verdict
    if verdict is not None:
        verb = "approved" if verdict.approved else "changes requested" if verdict.changes else "rejected"
        lines.append(f"* {verb} by {code_span(verdict.by)} {_WHERE[verdict.channel]}, {_time(verdict.at)}")
    if proposal.successor:
        lines.append(f"* replaced by: {code_span(proposal.successor)}")
    return "\n".join(lines)


def code_span(text: str) -> str:
    """Return a name as a code span: invisible characters become visible, and nothing in it is a mention or a link."""
    return f"`{one_line(visible(text).replace('`', chr(39)).strip() or '?', LONGEST_NAME)}`"


def _about(proposal: Proposal, joined: Sequence[AskerLine]) -> Sequence[str]:
    places = _places(proposal)
    more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    where = f" for {', '.join(map(code_span, places[:MOST_PLACES]))}{more}" if places else ""
    levels = f"level {proposal.level_needed} is needed, {proposal.level_held} is held"
    run = run_of(proposal)
    by_run = [f"* by a run of agent_run: {code_span(run['id'])}"] if run else []
    return [
        f"* requested by: {code_span(proposal.principal)}; {levels}",
        *(f"* also requested by: {code_span(one.principal)}, {_time(one.asked_at)}" for one in joined[:MOST_ASKERS]),
        *([f"* and by {len(joined) - MOST_ASKERS} more"] if len(joined) > MOST_ASKERS else []),
        *by_run,
        f"* call: {code_span(proposal.tool)}{where}",
    ]


def _places(proposal: Proposal) -> Sequence[str]:
    """Return the pages, or the projects, tasks or channels of other services, that the proposal is about."""
    if proposal.documents:
        return proposal.documents
    files = json.loads(proposal.preview).get("files", ())
    return tuple(dict.fromkeys(_place(str(file["path"])) if file.get("sent") else str(file["path"]) for file in files))


def _place(origin: str) -> str:
    # Not the people of a private conversation, and not a topic, which is text that somebody wrote.
    if origin.startswith(f"zulip:{DIRECT}"):
        return f"zulip:{DIRECT}".removesuffix("/")
    return place_of(origin) if origin.startswith("zulip:") else origin.split(maxsplit=1)[0]


def _time(moment: datetime) -> str:
    """Return a time in a form that Zulip shows in each reader's time zone. Source: https://zulip.com/help/global-times."""
    return f"<time:{moment.isoformat(timespec='seconds')}>"
