"""The contract of trust records. Every engine passes the same contract suite, which compares it with `tests/support/state/memory/`.

They are stored in the state database of their knowledge base, beside the ledger. A person's decision is put on the audit chain
in the same transaction. Every method is one transaction. Times are passed in, aware UTC. Every change of a proposal publishes a
change event `proposal` with its id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from knowledge.state.quota.bounds import Quotas
from knowledge.state.retention.cuts import Shortened

Kind = Literal["call", "flag", "admin"]
"""`call`: a caller's call. `flag`: claims of a call that contradict existing text. `admin`: an act on trust itself."""
State = Literal["pending", "approved", "rejected", "executed", "failed", "expired", "withdrawn", "superseded"]
Channel = Literal["host", "page", "terminal", "zulip"]
"""Where a person decided: in the host that asked, on the review page, in a terminal, by a reaction to a message in Zulip."""
Purpose = Literal["login", "session", "person", "known", "challenge", "form"]

LONGEST_CLAIM_S = 60.0
"""How long a process may take to execute a proposal. A claim that ends later was made before the clock was set back."""


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """The trust in a principal. `floor <= score <= ceiling`, all in 0.0..5.0; while `frozen`, the score counts as 0."""

    principal: str
    score: float
    floor: float
    ceiling: float
    frozen: bool
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TrustChange:
    """One line of a principal's history, oldest first by `id`."""

    id: int
    principal: str
    at: datetime
    score_before: float
    score_after: float
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class ProposalVerdict:
    """A person's decision. `hash` is that of the proposal as shown; `signed` is the passkey that signed it, "" for none.

    `advisory`: nothing proves that it was a person and not a program of the same account. `changes`: a rejection that asks the host
    for a changed call; the `note` says which changes.
    """

    approved: bool
    by: str
    channel: Channel
    at: datetime
    hash: str
    note: str = ""
    signed: str = ""
    advisory: bool = False
    changes: bool = False


@dataclass(frozen=True, slots=True)
class ShortenedTexts:
    """A proposal whose texts were shortened: the SHA-256 (hexadecimal) of its arguments, and its earlier size in bytes."""

    arguments: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ProposalLine:
    """A proposal as lists show it: without arguments, preview and result. `run` is the run that asks, `{}` for none."""

    id: str
    kind: Kind
    tool: str
    principal: str
    effect: str
    hash: str
    level_needed: int
    sentence: str
    run: Mapping[str, str]
    documents: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    journey: str
    origin: str | None
    state: State
    verdict: ProposalVerdict | None
    answered: bool
    ended_at: datetime | None
    successor: str | None
    runs_until: datetime | None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call that waits, or waited, for a person.

    `arguments` is a canonical JSON list of the calls' arguments, executed in this order as one act; `revisions` are those of the
    files that it is based on, None for a file that does not exist; `effect` is a hash of its effect; a newer proposal for the same
    `documents` replaces it. `hash` covers everything that a decision is about. `preview` is the call's expected answer as JSON,
    `result` its actual one. `successor` is the proposal that took its place, `origin` the one that it was made from. `runner`
    executes it until `runs_until`. `cut` is set if only the beginning of its long texts is left, so that `hash` can no longer be
    verified; a proposal that is pending or being executed is always complete.
    """

    id: str
    kind: Kind
    tool: str
    tool_hash: str
    arguments: str
    principal: str
    revisions: Mapping[str, str | None]
    effect: str
    policy: int
    hash: str
    level_needed: int
    level_held: int
    why: str
    preview: str
    documents: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    journey: str = ""
    origin: str | None = None
    state: State = "pending"
    verdict: ProposalVerdict | None = None
    result: str | None = None
    error: str | None = None
    ended_at: datetime | None = None
    successor: str | None = None
    runner: str = ""
    runs_until: datetime | None = None
    cut: ShortenedTexts | None = None

    @property
    def open(self) -> bool:
        """Whether the proposal can still change."""
        return self.state == "pending" or self.underway

    @property
    def underway(self) -> bool:
        """Whether it is being executed: approved and not executed, or executed and without its result."""
        return self.state == "approved" or (self.state == "executed" and self.result is None)


@dataclass(frozen=True, slots=True)
class JoinedAsker:
    """A principal that asked for the same as another one's pending proposal, and joined it instead of making its own.

    The texts are those of its own call, in the form that `Proposal` has. `left_at` is when it withdrew.
    """

    principal: str
    asked_at: datetime
    arguments: str
    level_held: int
    why: str
    preview: str
    journey: str = ""
    left_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AskerLine:
    """A joined asker as lists show it."""

    principal: str
    asked_at: datetime


@dataclass(frozen=True, slots=True)
class Passkey:
    """A credential that a person registered. `id` and `public_key` (COSE) are those that the authenticator returned.

    Source: W3C Web Authentication, level 2, sections 4 and 6.5.
    """

    id: bytes
    public_key: bytes
    sign_count: int
    name: str
    user: str
    created_at: datetime
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TrustedPlace:
    """A place whose text a person vouches for, in the form of `knowledge.pages.claim_source.place`."""

    place: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token that a person created for somebody on another machine. `digest` is the SHA-256 of the whole token; nothing else is kept.

    It allows acts up to level `ceiling`, with the tools of `toolsets` (None for all), whatever trust its `name` has earned.
    `expires_at` is None for a token without an end.
    """

    id: str
    name: str
    digest: bytes
    ceiling: int
    toolsets: tuple[str, ...] | None
    by: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """The caller's part of an audit record: who acts, the kind of act (`proposal.decide`, `trust.grant`), and the reason."""

    by: str
    act: str
    about: str
    at: datetime
    reason: str = ""


TrustUpdate = Callable[[TrustRecord | None, Sequence[TrustChange]], TrustRecord]
"""A function from a principal's record and its changes of the last day (newest first) to the new record. Pure."""


Joins = Callable[[Proposal], bool]
"""Whether a principal may join that pending proposal instead of making its own. Pure."""


class TrustRecords(Protocol):
    """Proposals, trust records, passkeys, single-use secrets and taint of one knowledge base."""

    async def propose(
        self,
        proposal: Proposal,
        *,
        most_pending: int,
        replacing: Collection[str] = (),
        quotas: Quotas | None = None,
        joins: Joins | None = None,
    ) -> Proposal:
        """Record the proposal, and that it supersedes those of `replacing` that are its principal's and still pending.

        A principal has at most `most_pending` pending proposals of the kind `call`, and as many of the kind `flag`.
        Superseded proposals count neither towards these numbers nor towards the bytes of pending proposals. A
        superseded proposal is shortened, unless the new one was made from it.

        With `joins`, if other principals have pending proposals of the kind `flag` with the same tool and effect, the
        principal joins the oldest of them for which `joins` returns true. Then no new proposal is made. The joined one
        is returned, with its own id and hash. Joining is put on the audit chain (`proposal.join`), and counts like a
        proposal for the principal. Of several principals that ask the same at once, one makes the proposal and the
        others join it.

        Raises:
            TooManyPending: `most_pending` are pending already. Nothing is recorded.
            OverQuota: it is more than `quotas` allow its principal. Nothing is recorded.
            ProposalSettled: its `origin` is one of `replacing`, and no longer pending. Nothing is recorded.
            ValueError: there is one with that id. Nothing is recorded.
        """
        ...

    async def proposal(self, proposal_id: str) -> Proposal | None:
        """Return the proposal, or None."""
        ...

    async def askers(self, proposal_id: str) -> Sequence[JoinedAsker]:
        """Return the principals that joined the proposal, including those that withdrew, in the order in which they asked."""
        ...

    async def asking(self, proposal_ids: Collection[str]) -> Mapping[str, Sequence[AskerLine]]:
        """Return the principals that joined each of these proposals and did not withdraw, in the order in which they asked.

        Proposals that nobody joined are left out.
        """
        ...

    async def proposals(
        self,
        *,
        principal: str | None = None,
        states: tuple[State, ...] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[Proposal]:
        """Return proposals with all their texts, newest first, from the one after the one with the id `before`; no `states` means any.

        Those of a `principal` are the ones that it made or joined. Each may be megabytes long: lists use `lines`.
        """
        ...

    async def lines(
        self,
        *,
        principal: str | None = None,
        states: tuple[State, ...] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[ProposalLine]:
        """Return the same proposals as lines, without reading their long texts."""
        ...

    async def shorten(self, *, ended_before: datetime | None, limit: int) -> Shortened:
        """Shorten at most `limit` ended proposals whose texts are longer than necessary. Zero records: none is left.

        Those that ended before `ended_before` keep a sentence of each long text. The others keep about `MOST_KEPT`
        characters of them as soon as they have ended and, if they were executed, have their result. Acts on trust
        itself stay complete. A proposal that an older program recorded gets its line.
        """
        ...

    async def pending(self, principal: str | None = None) -> int:
        """Return the number of pending proposals of all kinds, or only of those that one principal made or joined. Cheap."""
        ...

    async def unfinished(self, *, now: datetime) -> bool:
        """Return whether a proposal has to be expired or carried out and no process is doing it. Cheap enough for every few seconds.

        Such a proposal is pending and has expired, or it is approved (or executed, but without its result) and no
        process is running it.
        """
        ...

    async def decide(self, proposal_id: str, verdict: ProposalVerdict) -> Proposal | None:
        """Make a pending proposal approved or rejected and put that on the audit chain (`proposal.decide`).

        None, and nothing done, if it is not pending, has expired at `verdict.at`, or its hash is not `verdict.hash`. Of any
        number of concurrent decisions exactly one counts.
        """
        ...

    async def claim(self, proposal_id: str, runner: str, *, now: datetime, lease_s: float) -> Proposal | None:
        """Let `runner` execute an approved proposal until the lease ends; None if it is not approved or another runner has it.

        The same runner may claim again, which extends its time.
        """
        ...

    async def finish(
        self,
        proposal_id: str,
        state: Literal["executed", "failed", "superseded"],
        *,
        at: datetime,
        result: str | None = None,
        error: str | None = None,
        successor: str | None = None,
    ) -> Proposal | None:
        """End an approved proposal and return it; None if it can't be ended.

        A proposal that the ledger has ended as executed gets only its result, once.
        """
        ...

    async def withdraw(self, proposal_id: str, principal: str, *, at: datetime) -> Proposal | None:
        """Withdraw a pending proposal of the principal, and put that on the audit chain; None if it has no such proposal.

        A principal that joined the proposal only stops asking for it. The one that made it can't withdraw it while others ask:
        None, and nothing is done.
        """
        ...

    async def expire(self, *, now: datetime) -> Sequence[str]:
        """Expire every pending proposal whose time is up, and return their ids."""
        ...

    async def update_trust_record(
        self, principal: str, change: TrustUpdate, *, note: Note, unseen: float = 0.0
    ) -> TrustRecord:
        """Replace the principal's trust record by the result of `change`, all or nothing, and return it.

        Its history gets a line (`note.reason`), the audit chain the scores before and after. Concurrent updates run one after the
        other, each on the result of the previous one. `unseen` is the former score of a principal without a record. If only the time
        would change, nothing is recorded and the old record is returned. An error in `change` is raised, and nothing is recorded.
        """
        ...

    async def add_passkey(self, passkey: Passkey, *, note: Note) -> None:
        """Register a credential and put that on the chain.

        Raises:
            ValueError: one with that id is registered already.
        """
        ...

    async def passkeys(self) -> Sequence[Passkey]:
        """Return all passkeys, oldest first."""
        ...

    async def use_passkey(self, passkey_id: bytes, *, sign_count: int, at: datetime) -> bool:
        """Record a use; False if there is no such passkey, or if its authenticator counts uses and the count did not grow.

        A count that does not grow is a sign of a copied authenticator.
        """
        ...

    async def remove_passkey(self, passkey_id: bytes, *, note: Note) -> bool:
        """Remove the passkey and put that on the chain; False if there is no such passkey."""
        ...

    async def allow_forms(self, host: str, secret_digest: bytes, *, allowed: bool, note: Note) -> bool:
        """Record, on the audit chain too, whether answers to forms of the host with that secret count as its person's decisions.

        Disallowing (`allowed=False`) always takes effect. Allowing has no effect, and False is returned, if the forms
        are allowed already, or if a decision later than `note.at` is recorded: so a permission that is carried out late
        does not undo a newer refusal.
        """
        ...

    async def add_token(self, token: BearerToken, *, note: Note) -> None:
        """Register a bearer token and put that on the chain.

        Raises:
            ValueError: one with that id is registered already.
        """
        ...

    async def token(self, token_id: str) -> BearerToken | None:
        """Return the token with that id, also if it has expired or was revoked; None if there is none."""
        ...

    async def tokens(self) -> Sequence[BearerToken]:
        """Return all tokens, also those that have expired or were revoked, by name and age."""
        ...

    async def revoke_token(self, token_id: str, *, note: Note) -> bool:
        """Make the token invalid from `note.at` on and put that on the chain; False if there is none, or it was revoked before."""
        ...

    async def put_secret(self, digest: bytes, purpose: Purpose, value: str, *, expires_at: datetime) -> None:
        """Keep the value of a secret, under its digest, until then. It is deleted some time after that."""
        ...

    async def secret(self, digest: bytes, purpose: Purpose, *, now: datetime) -> str | None:
        """Return the value of the secret, or None."""
        ...

    async def take_secret(self, digest: bytes, purpose: Purpose, *, now: datetime) -> str | None:
        """Return the value of the secret and delete it: of any number of concurrent callers exactly one gets it."""
        ...

    async def note_taint(self, principal: str, journey: str, origins: Collection[str], *, at: datetime) -> None:
        """Record that the caller has read text from these untrusted origins.

        Outside of a journey, an origin may be forgotten after thirty days; within one it is kept, because a journey, or a run, may
        wait longer than that for a person.
        """
        ...

    async def taints(self, principal: str, journey: str, *, since: datetime) -> Mapping[str, datetime]:
        """Return the untrusted origins that the caller read in this journey, or outside any since then, with the last time of each."""
        ...

    async def trust_place(self, place: str, *, note: Note) -> bool:
        """Record, on the audit chain too, that a person trusts the place; False, and nothing done, if it is already trusted."""
        ...

    async def distrust_place(self, place: str, *, note: Note) -> bool:
        """Record, on the audit chain too, that the place is no longer trusted; False, and nothing done, if it was not."""
        ...

    async def trusted_places(self) -> Sequence[TrustedPlace]:
        """Return all trusted places, by place."""
        ...

    async def note_passages(self, principal: str, passages: Mapping[bytes, str], *, at: datetime) -> None:
        """Record the fingerprints of the sentences that the caller was shown, each with the origin of its text.

        They are deleted after `PASSAGES_KEPT`; of each caller only the newest `MOST_PASSAGES` are kept.
        """
        ...

    async def passages(self, principal: str, digests: Collection[bytes], *, since: datetime) -> Mapping[bytes, str]:
        """Return the sentences among these that the caller was shown since then, each with the origin of its text."""
        ...


PENDING: tuple[State, ...] = ("pending",)


DOCUMENTED = 200
"""Number of recent proposals that are searched for one about the same page."""
