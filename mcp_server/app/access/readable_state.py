"""The state database as a caller with limited rights may use it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from knowledge.access.directory import Directory
from knowledge.access.ports import PeopleRecords
from knowledge.access.rules import PathAccess
from knowledge.history.ports import Ledger
from knowledge.state.ports import StateStore
from knowledge.trust.codec import JOINABLE
from knowledge.trust.ports import PENDING, Proposal, ProposalLine, TrustChange, TrustRecords
from mcp_server.app.access.named_pages import json_names_hidden, sentence_names_hidden

MaySee = Callable[[str], Awaitable[bool]]
"""Returns whether the caller may see the acts of the principal with that id: whether it may read all that the principal may."""
AT_ONCE = 100
MOST_KNOWN = 5_000
"""The most proposals that a view remembers as shown or hidden."""

AS_IT_IS: Final = frozenset(
    {
        *("outbox", "enrolments", "host_of", "trust_record", "trust_records"),
        *("acquire_lease", "release_lease", "lease", "publish", "events_after", "last_event", "changed"),
        *("note_looks", "looks", "give_nudge"),
    }
)
"""The parts of the state that tools use and that name no page, or only pages that the caller has seen."""
CLOSED: Final = frozenset(
    {"place", "tables", "held", "size", "give_back", "gives_back", "rewrite", "check", "enrol", "close"}
)
"""The parts that only the server itself and its owner use."""
TRUST_AS_IT_IS: Final = frozenset(
    {
        *("propose", "askers", "asking", "unfinished", "decide", "claim", "finish", "withdraw", "expire"),
        *("update_trust_record", "passkeys", "put_secret", "secret", "take_secret", "note_taint", "taints"),
        *("trusted_places", "note_passages", "passages", "tokens", "token"),
    }
)
TRUST_CLOSED: Final = frozenset(
    {
        *("proposals", "shorten", "add_passkey", "use_passkey", "remove_passkey", "allow_forms"),
        *("add_token", "revoke_token", "trust_place", "distrust_place"),
    }
)


class ReadableState:
    """Delegates the parts listed in `AS_IT_IS`, and no others: a new part of the store stays closed until somebody decides on it."""

    def __init__(self, state: StateStore, ledger: Ledger, access: PathAccess, may_see: MaySee) -> None:
        self._state, self.ledger, self._may_see = state, ledger, may_see
        self.trust = ReadableTrust(state.trust, access, may_see)

    def __getattr__(self, name: str) -> Any:
        return _listed(self._state, name, AS_IT_IS)

    @property
    def people(self) -> ReadablePeople:
        """The people, groups, rules and reviewers, which determine who may do what."""
        return ReadablePeople(self._state.people)

    async def history(self, principal: str, *, limit: int) -> Sequence[TrustChange]:
        """Return the changes of a principal's trust; none for one who may read more than the caller.

        Decisions on hidden pages change trust, too.
        """
        return await self._state.history(principal, limit=limit) if await self._may_see(principal) else ()


class ReadablePeople:
    """The directory, which can't be changed from here."""

    def __init__(self, people: PeopleRecords) -> None:
        self._people = people

    async def directory(self) -> Directory:
        """Return the directory as it is now."""
        return await self._people.directory()


class ReadableTrust:
    """The trust records, without proposals that are about hidden pages or name one."""

    def __init__(self, trust: TrustRecords, access: PathAccess, may_see: MaySee) -> None:
        self._trust, self._access, self._may_see = trust, access, may_see
        self._silent: dict[tuple[str, str, bool], bool] = {}
        """Whether a proposal names no hidden page: by its id, its state, and whether it has a result."""

    def __getattr__(self, name: str) -> Any:
        return _listed(self._trust, name, TRUST_AS_IT_IS)

    async def proposal(self, proposal_id: str) -> Proposal | None:
        """Return the proposal, unless it is about a hidden page or names one."""
        found = await self._trust.proposal(proposal_id)
        return found if found is not None and await self._shows(found) else None

    async def lines(self, *, limit: int = 100, before: str | None = None, **wanted: Any) -> Sequence[ProposalLine]:
        """Return the lines of the proposals that `proposal` returns, newest first."""
        found: list[ProposalLine] = []
        while len(found) < limit:
            lines = await self._trust.lines(limit=AT_ONCE, before=before, **wanted)
            found += [line for line in lines if await self._shows_line(line)]
            if len(lines) < AT_ONCE:
                break
            before = lines[-1].id
        return found[:limit]

    async def pending(self, principal: str | None = None) -> int:
        """Return the number of pending proposals that are shown."""
        return len(await self.lines(principal=principal, states=PENDING, limit=MOST_KNOWN))

    async def _shows_line(self, line: ProposalLine) -> bool:
        if not self._reads(_documents(line)):
            return False
        known = self._silent.get((line.id, line.state, line.answered))
        if known is not None:
            return known or await self._is_of_equal(line)
        found = await self._trust.proposal(line.id)
        return found is not None and await self._shows(found)

    async def _shows(self, proposal: Proposal) -> bool:
        if not self._reads([*_documents(proposal), *proposal.revisions, *_files(proposal)]):
            return False
        key = (proposal.id, proposal.state, proposal.result is not None)
        if key not in self._silent:
            if len(self._silent) >= MOST_KNOWN:
                self._silent.clear()
            self._silent[key] = not await self._names_hidden(proposal)
        return self._silent[key] or await self._is_of_equal(proposal)

    async def _is_of_equal(self, proposal: Proposal | ProposalLine) -> bool:
        """Return whether the proposal was planned only with pages that the caller may read.

        False for an act on trust: it has no pages.
        """
        return proposal.kind != "admin" and await self._may_see(proposal.principal)

    async def _names_hidden(self, proposal: Proposal) -> bool:
        parts = [proposal.preview, proposal.arguments, proposal.result]
        if proposal.kind == JOINABLE:
            parts += [one.arguments for one in await self._trust.askers(proposal.id)]
        sentences = (proposal.why, proposal.error or "")
        return any(json_names_hidden(part, self._access) for part in parts) or any(
            sentence_names_hidden(sentence, self._access) for sentence in sentences
        )

    def _reads(self, paths: Sequence[str]) -> bool:
        return all(map(self._access.may_read, paths))


def _documents(proposal: Proposal | ProposalLine) -> Sequence[str]:
    """Return the documents that the proposal is about. The documents of an act on trust are names, not pages."""
    return () if proposal.kind == "admin" else proposal.documents


def _files(proposal: Proposal) -> list[str]:
    """Return the pages whose changes the proposal shows. Texts that are sent to services have no page."""
    try:
        preview = json.loads(proposal.preview)
    except ValueError:  # retention has shortened it
        return []
    files = preview.get("files", ()) if isinstance(preview, dict) else ()
    named = [file.get(key) for file in files if not file.get("sent") for key in ("path", "moved_from")]
    return [path for path in named if isinstance(path, str)]


def _listed(whole: object, name: str, listed: frozenset[str]) -> Any:
    if name not in listed:
        raise AttributeError(f"{name!r} of the state is not decided on for callers with limited rights")
    return getattr(whole, name)
