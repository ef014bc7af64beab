"""Plans a pending proposal again, because a page that it depends on has changed. Changes nothing."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from knowledge.errors import KnowledgeError, StorageError, TooMuchWaiting, TooMuchWork
from knowledge.offload import CALLER
from knowledge.trust.ports import Proposal
from mcp_server.approvals.views.present import PATIENCE_S, Outcome, Present
from mcp_server.toolsets.spec import BadArguments, CallPreview

if TYPE_CHECKING:
    from knowledge.writing.answers import PageSince
    from mcp_server.approvals.proposal_executor import ProposalExecutor

logger = logging.getLogger("knowledge_forge.gate")

MOST_FILES = 200
"""The most files of one proposal that are compared."""
MOST_CHANGES = 5
"""The most changes of one page that are named."""
TOO_SLOW = "computing it takes too long"
NOT_HERE = "its tool is not listed here"
HIDDEN = "its caller may read pages that you may not, so only somebody who may read them, too, can compute it"
NOTHING_LEFT = "the requested change is already on the page, or the page has changed so that nothing is left to do"


async def present(executor: ProposalExecutor, proposal: Proposal, *, patience_s: float = PATIENCE_S) -> Present | None:
    """Return the proposal's present state; None if it isn't pending, or no page that it depends on has changed. Changes nothing.

    Planning takes at most `patience_s`. It is done with the pages that the proposal's principal may read, so it is left out for a
    person who may not read them all.

    Raises:
        StorageError: the state database can't be read.
    """
    if proposal.state != "pending" or proposal.kind == "admin":
        return None
    changed: Sequence[PageSince] = ()
    try:
        changed = await _changed(executor, proposal)
        if not changed:
            return None
        if executor.is_for_others(proposal):
            return Present(changed, "unknown", why=NOT_HERE)
        if not await executor.for_callers.may_see_work_of(proposal.principal):
            return Present(changed, "unknown", why=HIDDEN)
        return await _planned(executor, proposal, changed, patience_s)
    except StorageError:
        raise
    except (TooMuchWork, TooMuchWaiting) as error:
        return Present(changed, "unknown", why=_sentence(error))
    except (BadArguments, KnowledgeError) as error:
        return Present(changed, "impossible" if changed else "unknown", why=_sentence(error))
    except Exception:
        logger.exception("cannot compute what %s would do now", proposal.id)
        return Present(changed, "unknown", why="it failed inside the server")


async def _planned(
    executor: ProposalExecutor, proposal: Proposal, changed: Sequence[PageSince], patience_s: float
) -> Present:
    # Hosts and people take turns at the workers, so this is not counted as work for a host.
    token = CALLER.set(f"review {secrets.token_hex(8)}")
    try:
        with anyio.fail_after(patience_s):
            planned = await executor.plan(proposal)
    except TimeoutError:
        return Present(changed, "unknown", why=TOO_SLOW)
    finally:
        CALLER.reset(token)
    if planned.shown.changes_nothing:
        return Present(changed, "impossible", why=NOTHING_LEFT)
    outcome: Outcome = "same" if planned.is_as(proposal) else "different"
    return Present(changed, outcome, _preview(proposal, planned.shown))


async def _changed(executor: ProposalExecutor, proposal: Proposal) -> Sequence[PageSince]:
    """Return the pages whose revision is no longer the one in the proposal, with what changed them."""
    history = executor.for_callers.page_history
    rests_on = list(proposal.revisions.items())[:MOST_FILES]
    found = [await history.since(path, revision, limit=MOST_CHANGES) for path, revision in rests_on]
    return [one for (_, revision), one in zip(rests_on, found, strict=True) if one.revision != revision]


def _preview(proposal: Proposal, shown: CallPreview) -> str:
    """Return the proposal's preview with the parts that planning makes."""
    now = {"answer": shown.answer, "files": list(shown.files), "sentence": shown.sentence}
    return json.dumps({**json.loads(proposal.preview), **now}, ensure_ascii=False, separators=(",", ":"))


def _sentence(error: Exception) -> str:
    return str(error).rstrip(".")
