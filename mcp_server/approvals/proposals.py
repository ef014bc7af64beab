"""Proposals: calls that need a person's approval. One hash covers everything that the person decides on."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from knowledge.errors import KnowledgeError
from knowledge.merge.model import Doubt
from knowledge.state.quota.bounds import Quotas
from knowledge.trust.codec import JOINABLE
from knowledge.trust.ports import DOCUMENTED, PENDING, Kind, Proposal, ProposalLine
from mcp_server.absent import NotConfigured
from mcp_server.approvals.views.askers import joining, own_proposal
from mcp_server.gate.caller import Call
from mcp_server.gate.canonical_json import canonical, canonical_text
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.policy import POLICY, Propose, Trust, waiting
from mcp_server.ports import ElicitationServices
from mcp_server.toolsets.spec import AnySpec, CallPlan, CallPreview, CallsDoNotJoin

LIFETIME = timedelta(days=7)
MOST_PENDING = 20  # of one principal
MOST_JOINED = 20
"""How many calls one proposal may combine. A further call alone supersedes it."""
AGAINST = "$against"
"""A key next to a call's arguments: the texts of the page that an approval replaces. No argument can have this name."""
LONGEST = 6_000_000
"""The most characters of a proposal's arguments and preview, all of which are stored. Nobody would read more."""
PLACES = "places"
"""In a preview: places that the person could trust instead, so that text from there no longer raises the level."""
REPEATS = "repeats"
"""In a preview: digests of sentences from untrusted text that the call repeats, each with its source."""
DOUBTS = "doubts"
"""In a preview: a language model's remarks on the call's new text."""
RUN = "run"
CLIENT = "client"
"""In a preview: the run of `agent_run` that made the call, with the start of its goal and the key of the call."""
LONGEST_GOAL = 200


@dataclass(frozen=True, slots=True)
class ProposalDraft:
    """A proposal before it is stored."""

    kind: Kind
    calls: Sequence[Mapping[str, Any]]
    shown: CallPreview
    level_needed: int
    level_held: int
    why: str
    origin: str | None = None
    places: tuple[str, ...] = ()


def claims_draft(
    spec: AnySpec, asked: Mapping[str, Any], settling: CallPlan[Any], against: Sequence[str], *, held: int
) -> ProposalDraft:
    """Return the draft of a proposal to let a call's claims replace the texts that they contradict.

    `settling` is the plan that replaces those texts, which `against` has.
    """
    if settling.preview is None:
        raise TypeError(f"{spec.name} made no preview")
    why = "The new text contradicts existing text. Approving replaces it"
    arguments, shown = {**asked, AGAINST: list(against)}, with_plain_answer(spec, settling.preview)
    return ProposalDraft("flag", [arguments], shown, int(spec.level_for(settling)), int(held), why)


def hash_of(proposal: Proposal) -> str:
    """Return the hash (SHA-256, hexadecimal) over everything that a person decides on.

    It covers the id: a passkey signs this hash, and the signature must not be valid if the same call is proposed again.
    """
    about = {
        "id": proposal.id,
        "kind": proposal.kind,
        "tool": proposal.tool,
        "definition": proposal.tool_hash,
        "arguments": proposal.arguments,
        "revisions": dict(proposal.revisions),
        "effect": proposal.effect,
        "principal": proposal.principal,
        "level": proposal.level_needed,
        "policy": proposal.policy,
        "preview": hashlib.sha256(proposal.preview.encode("utf-8", "surrogatepass")).hexdigest(),
    }
    return hashlib.sha256(canonical(about)).hexdigest()


def principal_of(proposal: Proposal) -> Principal:
    """Return the principal that made the proposal."""
    user, _, host = proposal.principal.rpartition("@")
    return Principal(user, host, client_of(proposal))


def client_of(proposal: Proposal) -> str:
    """Return the mark that distinguishes the proposal's caller from others without a token; "" if there is none."""
    return str(json.loads(proposal.preview).get(CLIENT, ""))


def calls_of(proposal: Proposal) -> list[dict[str, Any]]:
    """Return the arguments of each call in the proposal."""
    calls: list[dict[str, Any]] = json.loads(proposal.arguments)
    return calls


def doubts_in(proposal: Proposal) -> tuple[Doubt, ...]:
    """Return a language model's remarks on the new text when the proposal was made. The approval covers them too."""
    return tuple(Doubt(**one) for one in json.loads(proposal.preview).get(DOUBTS, ()))


def repeats_in(proposal: Proposal) -> tuple[tuple[bytes, str], ...]:
    """Return the digests of untrusted sentences that the proposal repeats, each with its source."""
    return tuple((bytes.fromhex(digest), origin) for digest, origin in json.loads(proposal.preview).get(REPEATS, ()))


class TooLong(KnowledgeError):
    """The proposal has more text than a person can review."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        super().__init__(
            f"a person would have to review {characters:,} characters; at most {LONGEST:,} are allowed. Nothing was "
            "changed. Send it in smaller parts"
        )


class Proposing:
    """Makes proposals. `arrived` is called with each one."""

    def __init__(
        self,
        services: ElicitationServices,
        *,
        arrived: Callable[[Proposal], Awaitable[None]],
        most_pending: int = MOST_PENDING,
        quotas: Quotas | None = None,
        new_id: Callable[[], str] = lambda: "p-" + secrets.token_hex(10),
    ) -> None:
        self._services, self._arrived = services, arrived
        self._most_pending, self._quotas, self._new_id = most_pending, quotas, new_id

    async def call(
        self, spec: AnySpec, call: Call, asked: Mapping[str, Any], *, shown: CallPreview, decision: Propose
    ) -> Proposal:
        """Propose a call and return the pending proposal, combined with pending calls for the same page if they go together.

        A call that is already pending is not proposed again. Callers over HTTP without a token share one principal, so none of their
        calls are combined: one caller would otherwise get, or supersede, another's proposal.

        Raises:
            TooManyPending: the caller has as many pending proposals as allowed.
        """
        needed, held = int(decision.needed), int(decision.held)
        draft = ProposalDraft("call", [asked], shown, needed, held, decision.why, places=decision.places)
        # Oldest first: calls that are combined are planned in the order in which they were made.
        pending = [one for one in reversed(await self._own_pending(call.principal)) if one.kind == "call"]
        same = canonical_text(draft.calls)
        for one in await self._still_pending([p for p in pending if p.tool == spec.name and p.effect == shown.effect]):
            if one.arguments == same:
                return one
        older = await self._still_pending([p for p in pending if set(p.documents) & set(shown.documents)])
        # A run learns the outcome of the combined proposal, so what this caller has read may reach that run.
        for run in {run_of(one).get("id", "") for one in older} - {"", call.run}:
            await self._services.taints.carry(call.principal.id, run, run=call.run)
        joined = await self._joined(spec, call, older, draft)
        # The combined proposal belongs to the run that made one of its parts.
        if joined is not None and not call.run:
            call = next((of_its_run(call, one) for one in reversed(older) if run_of(one)), call)
        return await self.put(
            spec.name, spec.definition_hash, call, joined or draft, replacing=[one.id for one in older]
        )

    async def claims(self, spec: AnySpec, call: Call, draft: ProposalDraft) -> Proposal:
        """Propose claims that contradict existing text, or join another host's pending proposal of the same ones.

        Claims that this caller already proposed are not proposed again. The proposal is returned as this caller's.
        """
        wanted = ("flag", spec.name, draft.shown.effect)
        pending = await self._own_pending(call.principal)
        for found in await self._still_pending([p for p in pending if (p.kind, p.tool, p.effect) == wanted]):
            if own := await own_proposal(self._services.state.trust, found.id, call.principal.id):
                return own
        return await self.put(spec.name, spec.definition_hash, call, draft)

    async def put(
        self, tool: str, definition: str, call: Call, draft: ProposalDraft, *, replacing: Sequence[str] = ()
    ) -> Proposal:
        """Store the proposal and announce it. Claims may join another host's proposal, which is returned as this caller's.

        Raises:
            TooManyPending, OverQuota: the caller's limits of pending proposals, pending bytes or bytes a day are reached.
            TooLong: it is too long for a person to review.
        """
        now = self._services.now()
        shown = draft.shown
        preview: dict[str, Any] = {"answer": shown.answer, "files": list(shown.files), "sentence": shown.sentence}
        if shown.doubts:
            preview[DOUBTS] = list(shown.doubts)
        if shown.repeats:
            preview[REPEATS] = [[digest.hex(), origin] for digest, origin in shown.repeats]
        if draft.places:
            preview[PLACES] = list(draft.places)
        if call.principal.client:
            preview[CLIENT] = call.principal.client
        why = draft.why
        if call.run:
            preview[RUN] = run = await self._run(call)
            asker = f"asked for in {described_run(run)}"
            why = why if asker in why else f"{why}; {asker}"
        proposal = Proposal(
            id=self._new_id(),
            kind=draft.kind,
            tool=tool,
            tool_hash=definition,
            arguments=canonical_text(list(draft.calls)),
            principal=call.principal.id,
            revisions=dict(shown.revisions),
            effect=shown.effect,
            policy=POLICY,
            hash="",
            level_needed=draft.level_needed,
            level_held=draft.level_held,
            why=why,
            preview=json.dumps(preview, ensure_ascii=False, separators=(",", ":")),
            documents=shown.documents,
            created_at=now,
            expires_at=now + LIFETIME,
            journey=call.journey,
            origin=draft.origin,
        )
        if (characters := len(proposal.arguments) + len(proposal.preview)) > LONGEST:
            raise TooLong(characters)
        proposal = replace(proposal, hash=hash_of(proposal))
        state, wanted = self._services.state, proposal.id
        # Callers over HTTP without a token share one principal: if one of them withdrew, that would be for all.
        may_join = draft.kind == JOINABLE and not call.principal.by_handle
        proposal = await state.trust.propose(
            proposal,
            most_pending=self._most_pending,
            replacing=replacing,
            # The replacement of an approved proposal was already counted, and a person wants it.
            quotas=None if draft.origin else self._quotas,
            joins=await joining(state, proposal) if may_join else None,
        )
        await self._arrived(proposal)
        if proposal.id == wanted:
            return proposal
        return await own_proposal(state.trust, proposal.id, call.principal.id) or proposal

    async def _run(self, call: Call) -> dict[str, str]:
        """Return the preview's text about the run that makes the call."""
        from agents.loop.errors import NoSuchRun

        try:
            goal = (await self._services.runs.store.run(call.run)).header.goal
        except (NoSuchRun, NotConfigured):  # this process may execute acts of runs and lead no runs itself
            goal = ""
        return {"id": call.run, "goal": one_line(goal, LONGEST_GOAL), "key": call.key}

    async def _own_pending(self, principal: Principal) -> Sequence[ProposalLine]:
        """Return the caller's pending proposals, newest first; none for callers without a token, who share one principal."""
        if principal.by_handle:
            return ()
        return await self._services.state.trust.lines(principal=principal.id, states=PENDING, limit=DOCUMENTED)

    async def _still_pending(self, lines: Sequence[ProposalLine]) -> list[Proposal]:
        """Load the proposals and return those that are still pending."""
        found = [await self._services.state.trust.proposal(line.id) for line in lines]
        return [one for one in found if one is not None and one.state == "pending"]

    async def _joined(
        self, spec: AnySpec, call: Call, older: Sequence[Proposal], draft: ProposalDraft
    ) -> ProposalDraft | None:
        """Return one draft that combines the older proposals with the new call; None if they don't go together."""
        if not older or not spec.joins or spec.plan is None or any(one.tool != spec.name for one in older):
            return None
        calls = [*(one for proposal in older for one in calls_of(proposal)), *draft.calls]
        long = sum(len(one.arguments) for one in older) > LONGEST // 4
        if long or len(calls) > MOST_JOINED or any(AGAINST in one for one in calls):
            return None
        *earlier, last = [spec.parse(dict(one)) for one in calls]
        try:
            plan = await spec.plan(self._services, replace(call, earlier=tuple(earlier)), last)
        except CallsDoNotJoin:
            return None
        if plan.preview is None:
            return None
        joined = replace(draft, calls=calls, shown=with_plain_answer(spec, plan.preview))
        # The older calls, or all of them together, may need a higher level than the new call.
        needed = max(draft.level_needed, int(spec.level_for(plan)), *(one.level_needed for one in older))
        if needed == draft.level_needed:
            return joined
        why = waiting(spec.name, call.principal.id, Trust(needed), Trust(draft.level_held))
        return replace(joined, level_needed=needed, why=f"{why}. {plan.only_by_person}".removesuffix(". "))


def places_of(proposal: Proposal) -> tuple[str, ...]:
    """Return the places that the person could trust instead of approving."""
    return tuple(json.loads(proposal.preview).get(PLACES, ()))


def run_of(proposal: Proposal) -> dict[str, str]:
    """Return the `id` and `goal` of the run that made the proposal, and the `key` of its call; empty without a run."""
    run: dict[str, str] = json.loads(proposal.preview).get(RUN) or {}
    return run


def of_its_run(call: Call, proposal: Proposal) -> Call:
    """Return the call as a call of the run that made the proposal, if a run did."""
    run = run_of(proposal)
    return replace(call, run=run.get("id", ""), key=run.get("key", ""))


def begun_by(proposal: Proposal) -> str:
    """Return the run that the approved call started or answered, or ""."""
    result = json.loads(proposal.result) if proposal.state == "executed" and proposal.result else None
    return str(result.get("run_id") or "") if isinstance(result, dict) else ""


def scopes_of(proposal: Proposal) -> tuple[str, ...]:
    """Return the journey and the runs whose text may be in the proposal or in its result."""
    return tuple(filter(None, (proposal.journey, run_of(proposal).get("id", ""), begun_by(proposal))))


def described_run(run: Mapping[str, str]) -> str:
    """Describe the run. Its goal is untrusted text: `one_line` has removed closing quotes, so it can't end the quotation."""
    return f"run {run['id']} of agent_run" + (f", whose goal is “{run['goal']}”" if run["goal"] else "")


def one_line(text: str, most: int) -> str:
    """Return the text on one line without closing quotes, cut to `most` characters."""
    line = " ".join(text.replace("”", "'").split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def with_plain_answer(spec: AnySpec, shown: CallPreview) -> CallPreview:
    """Return the preview with its answer as plain JSON."""
    return replace(shown, answer=spec.as_json(shown.answer))
