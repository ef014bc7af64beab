"""Proposals: calls that wait for a person, with everything that a decision is about under one hash."""

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
from knowledge.trust.ports import DOCUMENTED, PENDING, Kind, Proposal, ProposalLine
from mcp_server.absent import NotConfigured
from mcp_server.gate.caller import Call
from mcp_server.gate.canonical_json import canonical, canonical_text
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.policy import POLICY, Propose, Trust, waiting
from mcp_server.ports import ElicitationServices
from mcp_server.toolsets.spec import AnySpec, CallPreview, CallsDoNotJoin

LIFETIME = timedelta(days=7)
MOST_PENDING = 20
MOST_JOINED = 20
"""Calls that one proposal may gather before a newer one simply takes its place."""
AGAINST = "$against"
"""Beside a call's arguments: the texts of the page that a yes decides against. No argument can be named so."""
LONGEST = 6_000_000
"""Characters of arguments and preview of one proposal. Nobody reads as much, and all of it is kept."""
PLACES = "places"
"""In a preview: the places for which a person could vouch instead, so that what was read there would hold nothing up."""
REPEATS = "repeats"
"""In a preview: what the sentences are known by that the call repeats of somebody else's text, and where that comes from."""
DOUBTS = "doubts"
"""In a preview: what a language model held of what the call brings."""
RUN = "run"
"""In a preview: the run of `agent_run` that made the call, with the beginning of its goal and the key of the call."""
LONGEST_GOAL = 200


@dataclass(frozen=True, slots=True)
class ProposalDraft:
    """What is to be put to a person."""

    kind: Kind
    calls: Sequence[Mapping[str, Any]]
    shown: CallPreview
    level_needed: int
    level_held: int
    why: str
    origin: str | None = None
    places: tuple[str, ...] = ()


def hash_of(proposal: Proposal) -> str:
    """Return the hash over all that a decision is about, SHA-256, hexadecimal.

    The id is in it: a passkey signs this hash, and its signature must not count for the same call proposed again.
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
    """Return who proposed it."""
    user, _, host = proposal.principal.rpartition("@")
    return Principal(user, host)


def calls_of(proposal: Proposal) -> list[dict[str, Any]]:
    """Return the arguments of each of its calls."""
    calls: list[dict[str, Any]] = json.loads(proposal.arguments)
    return calls


def doubts_in(proposal: Proposal) -> tuple[Doubt, ...]:
    """Return what a language model held of what the proposal brings when it was shown: a yes is about that."""
    return tuple(Doubt(**one) for one in json.loads(proposal.preview).get(DOUBTS, ()))


def repeats_in(proposal: Proposal) -> tuple[tuple[bytes, str], ...]:
    """Return the sentences of somebody else's that the proposal was found to repeat when it was shown."""
    return tuple((bytes.fromhex(digest), origin) for digest, origin in json.loads(proposal.preview).get(REPEATS, ()))


class TooLong(KnowledgeError):
    """More text than can be put to a person at once."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        super().__init__(
            f"a person would have to review {characters:,} characters; at most {LONGEST:,} are allowed. Nothing was "
            "changed. Send it in smaller parts"
        )


class Proposing:
    """Makes proposals. `arrived` is told of each that waits for a person."""

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
        """Put a call to a person and return what waits: together with what already waits for the same page, if that goes.

        The very same call waits once only. Callers over HTTP without a token may be several: each call of theirs waits for itself,
        or one of them would be handed, or replace, what another began.

        Raises:
            TooManyPending: as many as may wait do.
        """
        needed, held = int(decision.needed), int(decision.held)
        draft = ProposalDraft("call", [asked], shown, needed, held, decision.why, places=decision.places)
        waiting, same = await self._waiting(call.principal), canonical_text(draft.calls)
        alike = [one.id for one in waiting if one.tool == spec.name and one.effect == shown.effect]
        for one in await self._whole(alike):
            if one.arguments == same:
                return one
        older = await self._whole([one.id for one in waiting if set(one.documents) & set(shown.documents)])
        for run in {run_of(one).get("id", "") for one in older} - {"", call.run}:  # it is told what became of this
            await self._services.taints.carry(call.principal.id, run, run=call.run)
        joined = await self._joined(spec, call, older, draft)
        if joined is not None and not call.run:  # what it joins may be what a run wants
            call = next((of_its_run(call, one) for one in reversed(older) if run_of(one)), call)
        return await self.put(
            spec.name, spec.definition_hash, call, joined or draft, replacing=[one.id for one in older]
        )

    async def claims(self, spec: AnySpec, call: Call, draft: ProposalDraft) -> Proposal:
        """Put claims that contradict what is there to a person; the same ones wait once only, whoever brought them how often."""
        waiting = await self._own_pending(call.principal)
        same = (one for one in waiting if (one.kind, one.tool, one.effect) == ("flag", spec.name, draft.shown.effect))
        for found in await self._whole([one.id for one in same]):
            return found
        return await self.put(spec.name, spec.definition_hash, call, draft)

    async def put(
        self, tool: str, definition: str, call: Call, draft: ProposalDraft, *, replacing: Sequence[str] = ()
    ) -> Proposal:
        """Record the proposal and tell who looks after people.

        Raises:
            TooManyPending, OverQuota: as many, or as much, as may wait does, or as may be proposed in a day was.
            TooLong: nobody could read it.
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
        why = draft.why
        if call.run:
            preview[RUN] = run = await self._run(call)
            told = f"asked for in {told_of(run)}"
            why = why if told in why else f"{why}; {told}"
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
        proposal = await self._services.state.trust.propose(
            proposal,
            most_pending=self._most_pending,
            replacing=replacing,
            quotas=None if draft.origin else self._quotas,  # then a person asks for it
        )
        await self._arrived(proposal)
        return proposal

    async def _run(self, call: Call) -> dict[str, str]:
        """Return what a person is told of the run that makes the call."""
        from agents.loop.errors import NoSuchRun

        try:
            goal = (await self._services.runs.store.run(call.run)).header.goal
        except (NoSuchRun, NotConfigured):  # an act of a run can be carried out where none is led
            goal = ""
        return {"id": call.run, "goal": one_line(goal, LONGEST_GOAL), "key": call.key}

    async def _waiting(self, principal: Principal) -> list[ProposalLine]:
        """Return the caller's own pending proposals of calls, oldest first."""
        return [one for one in reversed(await self._own_pending(principal)) if one.kind == "call"]

    async def _own_pending(self, principal: Principal) -> Sequence[ProposalLine]:
        """Return what waits of this caller, newest first; of callers that nothing tells apart, nothing."""
        if principal.by_handle:
            return ()
        return await self._services.state.trust.lines(principal=principal.id, states=PENDING, limit=DOCUMENTED)

    async def _whole(self, ids: Sequence[str]) -> list[Proposal]:
        """Return those of them that still wait."""
        found = [await self._services.state.trust.proposal(id_) for id_ in ids]
        return [one for one in found if one is not None and one.state == "pending"]

    async def _joined(
        self, spec: AnySpec, call: Call, older: Sequence[Proposal], draft: ProposalDraft
    ) -> ProposalDraft | None:
        """Return one draft for what waits and what came; None if they do not go together."""
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
        # What waits already, and all of it together, may need more than the call that came last.
        needed = max(draft.level_needed, int(spec.level_for(plan)), *(one.level_needed for one in older))
        if needed == draft.level_needed:
            return joined
        why = waiting(spec.name, call.principal.id, Trust(needed), Trust(draft.level_held))
        return replace(joined, level_needed=needed, why=f"{why}. {plan.only_by_person}".removesuffix(". "))


def places_of(proposal: Proposal) -> tuple[str, ...]:
    """Return the places for which a person could vouch, so that what was read there would hold nothing up."""
    return tuple(json.loads(proposal.preview).get(PLACES, ()))


def run_of(proposal: Proposal) -> dict[str, str]:
    """Return the run that the proposal comes from: `id`, `goal`, and the `key` of its call; nothing where it comes from none."""
    run: dict[str, str] = json.loads(proposal.preview).get(RUN) or {}
    return run


def of_its_run(call: Call, proposal: Proposal) -> Call:
    """Return the call as one of the run that the proposal comes from, if it comes from one."""
    run = run_of(proposal)
    return replace(call, run=run.get("id", ""), key=run.get("key", ""))


def begun_by(proposal: Proposal) -> str:
    """Return the run that was begun, or answered, when a person agreed; "" if none was."""
    result = json.loads(proposal.result) if proposal.state == "executed" and proposal.result else None
    return str(result.get("run_id") or "") if isinstance(result, dict) else ""


def scopes_of(proposal: Proposal) -> tuple[str, ...]:
    """Return the runs and the journey whose text may stand in the proposal, or in what it answered."""
    return tuple(filter(None, (proposal.journey, run_of(proposal).get("id", ""), begun_by(proposal))))


def told_of(run: Mapping[str, str]) -> str:
    """Return in words which run that is. Its goal is somebody's text: it stands between quotes, which it does not close."""
    return f"run {run['id']} of agent_run" + (f", whose goal is “{run['goal']}”" if run["goal"] else "")


def one_line(text: str, most: int) -> str:
    """Return the text on one line, without closing quotes, cut to so many characters."""
    line = " ".join(text.replace("”", "'").split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def with_plain_answer(spec: AnySpec, shown: CallPreview) -> CallPreview:
    """Return the same with the answer as plain JSON."""
    return replace(shown, answer=spec.as_json(shown.answer))
