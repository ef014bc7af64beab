"""The state database as a caller with limited rights may use it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from knowledge.access.rules import PathAccess
from knowledge.history.ports import Ledger
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Proposal, ProposalLine, TrustRecords

AS_IT_IS: Final = frozenset(
    {
        *("outbox", "enrolments", "host_of", "trust_record", "trust_records", "history"),
        *("acquire_lease", "release_lease", "lease", "publish", "events_after", "last_event", "changed"),
        *("note_looks", "looks", "give_nudge"),
    }
)
"""The parts of the state that tools use and that name no page, or only pages that the caller has seen."""
CLOSED: Final = frozenset(
    {"place", "tables", "people", "held", "size", "give_back", "gives_back", "rewrite", "check", "enrol", "close"}
)
"""The parts that only the server itself and its owner use."""
TRUST_AS_IT_IS: Final = frozenset(
    {
        *("propose", "askers", "asking", "pending", "unfinished", "decide", "claim", "finish", "withdraw", "expire"),
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
    """Delegates what is listed in `AS_IT_IS`, and nothing else: what is added to the store is closed until somebody decides on it."""

    def __init__(self, state: StateStore, ledger: Ledger, access: PathAccess) -> None:
        self._state, self.ledger = state, ledger
        self.trust = ReadableTrust(state.trust, access)

    def __getattr__(self, name: str) -> Any:
        return _listed(self._state, name, AS_IT_IS)


class ReadableTrust:
    """The trust records, without proposals about hidden pages."""

    def __init__(self, trust: TrustRecords, access: PathAccess) -> None:
        self._trust, self._access = trust, access

    def __getattr__(self, name: str) -> Any:
        return _listed(self._trust, name, TRUST_AS_IT_IS)

    async def proposal(self, proposal_id: str) -> Proposal | None:
        """Return the proposal, unless it is about a hidden page."""
        found = await self._trust.proposal(proposal_id)
        return None if found is None or not self._shows([*found.documents, *_files(found)]) else found

    async def lines(self, **wanted: Any) -> Sequence[ProposalLine]:
        """Return the lines of proposals about readable pages."""
        return [line for line in await self._trust.lines(**wanted) if self._shows(line.documents)]

    def _shows(self, paths: Sequence[str]) -> bool:
        return all(map(self._access.may_read, paths))


def _files(proposal: Proposal) -> list[str]:
    """Return the pages whose changes the proposal shows. Texts that are sent to services have no page."""
    preview = json.loads(proposal.preview)
    files = preview.get("files", ()) if isinstance(preview, dict) else ()
    named = [file.get(key) for file in files if not file.get("sent") for key in ("path", "moved_from")]
    return [path for path in named if isinstance(path, str)]


def _listed(whole: object, name: str, listed: frozenset[str]) -> Any:
    if name not in listed:
        raise AttributeError(f"{name!r} of the state is not decided on for callers with limited rights")
    return getattr(whole, name)
