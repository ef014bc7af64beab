"""Says which people may decide on a proposal.

If pages have reviewers, only a reviewer can decide. A setting leaves proposals of a person's own hosts to other people.
The account of the server at a terminal is the owner. Neither rule binds the owner, who can change the reviewers and the
setting, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from knowledge.access.directory import Directory, FolderReviewers
from knowledge.access.rules import Right
from knowledge.access.view.readable_ledger import ReadableLedger
from knowledge.errors import InvalidPath
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Proposal
from mcp_server.approvals.approvers import Approver, CannotDecide
from mcp_server.approvals.proposals import calls_of
from mcp_server.approvals.views.askers import of_each_asker
from mcp_server.gate.host_registration import TERMINAL

if TYPE_CHECKING:
    from knowledge.writing.effect import FileEffect

OWNER: Final = (
    "in a terminal of the server's account (knowledge-forge review) the owner can, too, unless it needs a passkey"
)
OWN: Final = f"{{principal}} asks for it, which is you, and FORGE_PREVENT_SELF_REVIEW leaves that to others; {OWNER}"
REVIEWED: Final = f"it touches pages in {{folder}}, where only {{names}} can decide; {OWNER}"
NO_RIGHT: Final = "you can't do this: a rule of its folder doesn't let you write {path}; propose the change instead"
_DISMISSAL = "kb_dismiss"


async def why_barred(state: StateStore, proposal: Proposal, person: Approver, *, prevent_self_review: bool) -> str:
    """Return why this person can't decide on the proposal, as the end of a sentence; "" if they can."""
    if person.channel == TERMINAL or (proposal.kind == "admin" and not await pages_of(state, proposal)):
        return ""
    directory = await state.people.directory()
    if prevent_self_review and proposal.kind != "admin":
        for one in await of_each_asker(state.trust, proposal):
            if is_same_person(directory, person.principal_id, one.principal):
                return OWN.format(principal=one.principal)
    return reviewed_by_others(directory, await pages_of(state, proposal), person.principal_id)


async def require_pages(state: StateStore, paths: Iterable[str], person: Approver) -> None:
    """Check that a person may change these pages at once, without a proposal, as an undo or the end of a contradiction does.

    Raises:
        CannotDecide: this is not the owner, and a folder's rule or reviewers leave the person out. Nothing was changed.
    """
    if not person.signed_in:
        return
    directory, touched = await state.people.directory(), tuple(paths)
    access = directory.access_of(person.principal_id)
    for path in touched:
        if access.right(path) < Right.WRITE:
            raise CannotDecide(NO_RIGHT.format(path=path))
    if why := reviewed_by_others(directory, touched, person.principal_id):
        raise CannotDecide(f"you can't do this: {why}")


def paths_of(files: Iterable[FileEffect]) -> Iterator[str]:
    """Yield each path that these changes touch. Pure."""
    for file in files:
        yield from (path for path in (file.path, file.moved_from) if path)


async def reviewers_of(state: StateStore, proposal: Proposal) -> Sequence[FolderReviewers]:
    """Return the reviewers of each touched folder that has some, by folder. Only somebody who reviews all these folders can decide."""
    directory = await state.people.directory()
    return _reviewers(directory, await pages_of(state, proposal)) if directory.reviewers else ()


def reviewed_by_others(directory: Directory, paths: Iterable[str], principal: str, sentence: str = REVIEWED) -> str:
    """Return the sentence about the first folder whose reviewers don't include this principal's person, "" if there is none. Pure."""
    name = directory.person_of(principal)
    for found in _reviewers(directory, paths):
        if not directory.among(name, found.names):
            return sentence.format(folder=found.where, names=", ".join(found.names))
    return ""


def _reviewers(directory: Directory, paths: Iterable[str]) -> Sequence[FolderReviewers]:
    found = {}
    for path in paths:
        try:
            reviewers = directory.reviewers_of(path)
        except InvalidPath:  # a proposal that was edited in the database
            reviewers = directory.reviewers_of("")
        if reviewers is not None:
            found[reviewers.folder] = reviewers
    return [found[folder] for folder in sorted(found)]


def is_same_person(directory: Directory, one: str, other: str) -> bool:
    """Return whether two principals are the same person: on record, or else by the same account of this machine. Pure."""
    first, second = directory.person_of(one), directory.person_of(other)
    if first or second or one == other:
        return first == second
    (user, _, host), (other_user, _, other_host) = one.rpartition("@"), other.rpartition("@")
    # A colon marks principals over HTTP: somebody there may have the name of this account.
    return user == other_user and not any(":" in each for each in (host, other_host))


async def pages_of(state: StateStore, proposal: Proposal) -> Sequence[str]:
    """Return the paths of all pages that the proposal would change, move, delete, or decide about."""
    paths = dict.fromkeys(_changed(proposal))
    if proposal.kind != "admin":
        paths |= dict.fromkeys(proposal.documents)
    if proposal.tool == _DISMISSAL and isinstance(number := calls_of(proposal)[-1].get("contradiction_id"), int):
        # A caller from whom pages are hidden has numbers of its own for the contradictions that it sees.
        access = (await state.people.directory()).access_of(proposal.principal)
        flag = await (state.ledger if access.reads_all else ReadableLedger(state.ledger, access)).flag(number)
        if flag is not None:
            paths |= {flag.contradiction.existing.path: None, flag.contradiction.new.path: None}
    return [path for path in paths if path]


def _changed(proposal: Proposal) -> Iterator[str]:
    try:
        preview = json.loads(proposal.preview)
    except ValueError:  # retention has shortened it: the proposal is closed
        return
    for one in preview.get("files") or () if isinstance(preview, dict) else ():
        # A text that is sent to another service is no page.
        if not one.get("sent"):
            yield from (str(one[name]) for name in ("path", "moved_from") if one.get(name))
