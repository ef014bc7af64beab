"""The gate: every tool call passes here, whichever way it came. It plans, decides, then acts or proposes; it fails closed."""

from __future__ import annotations

import difflib
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from knowledge.errors import KnowledgeError, OutcomeUnknown, UnmarksNow
from knowledge.offload import CALLER
from knowledge.pages.claim_source import place_of, place_to_trust
from knowledge.trust.ports import Proposal
from mcp_server.approvals.proposals import AGAINST, ProposalDraft, Proposing, with_plain_answer
from mcp_server.approvals.summary import proposed, summary
from mcp_server.gate.caller import Call
from mcp_server.gate.handles import require_handle, without_handles
from mcp_server.gate.host_registration import REMEMBERED_S, Principal
from mcp_server.gate.journey_hook import ABOUT, JourneyHook, asked_of
from mcp_server.gate.policy import Allow, Decision, Grant, Propose, Refuse, Trust, decide
from mcp_server.gate.taint import origin_of, tainted_texts
from mcp_server.gate.trust.scores import held, trust_record_of
from mcp_server.ports import GateServices
from mcp_server.protocol.wire_errors import LONGEST_MESSAGE, short
from mcp_server.toolsets.spec import AnySpec, BadArguments, CallPlan, CallPreview

logger = logging.getLogger("knowledge_forge.gate")

CLOSED = "refused: the state database cannot be read, so trust is unknown; try again in a moment"
CANCELLED = "the caller went away before it was answered"
MOST_NAMED = 2
"""Places that a proposal names of those that its caller has read."""
MOST_OFFERED = 10
COUNTS_S = 1.0
"""How long what was read of a caller's trust counts within one call; what takes longer is decided on what they hold then."""
CRASHED = "failed inside the server; nothing was changed. Run `knowledge-forge doctor` to look for the cause"
CRASHED_ELSEWHERE = "failed inside the server, and it is not known whether it was done: check before you repeat it"


class UnknownTool(Exception):
    """No tool of that name is listed."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        shown = name if len(name) <= 60 else name[:57] + "..."
        near = difflib.get_close_matches(name[:60], known, n=3)
        told = (
            f"did you mean {' or '.join(near)}?" if near else f"call tools/list to see the {len(known)} available tools"
        )
        super().__init__(f"unknown tool {shown!r}; {told}")


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """The tool ran, or waits for a person; `content` fits its output schema. `waits` is the proposal that waits.

    `origins` are where text in it may come from that nobody vouches for.
    """

    content: dict[str, Any]
    waits: Proposal | None = None
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The call was refused or could not be answered; `why` is one plain sentence for the caller.

    `unsure`: nobody knows whether what it was to do was done.
    """

    why: str
    unsure: bool = False


Outcome = CallAnswered | CallFailed


class BrokeElsewhere(Exception):
    """Something that nobody foresaw broke in an act in another service, which may have happened; the cause says what."""


def crashed(error: Exception) -> str:
    """Return what a caller is told of a tool in which something broke that nobody foresaw."""
    return CRASHED_ELSEWHERE if isinstance(error, BrokeElsewhere) else CRASHED


class Gate:
    """Decides on calls by what the caller holds at that moment."""

    def __init__(
        self,
        specs: Sequence[AnySpec],
        services: GateServices,
        proposing: Proposing,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._specs: Mapping[str, AnySpec] = {spec.name: spec for spec in specs}
        self._services, self._proposing, self._clock = services, proposing, clock
        self._journey_hook = JourneyHook(services)
        self._address = services.review_address
        self._remembered: dict[str, tuple[Grant, float]] = {}

    def spec(self, name: str) -> AnySpec | None:
        """Return the tool of that name."""
        return self._specs.get(name)

    async def dispatch(self, name: str, arguments: dict[str, Any], call: Call) -> Outcome:
        """Answer the call, or say why not.

        Raises:
            UnknownTool: no tool of that name is listed.
        """
        spec = self._specs.get(name)
        if spec is None:
            raise UnknownTool(name, list(self._specs))
        call = replace(call, began=self._clock())
        token = CALLER.set(call.principal.id)
        try:
            asked = spec.parse(arguments)
            if journey := spec.journey_of(asked):
                require_handle(call.principal, journey)
                outcome = await self._in_journey(spec, replace(call, journey=journey), asked)
            else:
                outcome = await self._run(spec, call, asked)
        except (BadArguments, KnowledgeError) as error:
            told = str(error) if isinstance(error, BadArguments) else f"{name}: {error}"
            unsure = isinstance(error, OutcomeUnknown)
            return CallFailed(short(told, getattr(error, "MOST_CHARS", LONGEST_MESSAGE)), unsure=unsure)
        except Exception as error:
            logger.exception("tool %s failed", name)
            return CallFailed(f"{name} {crashed(error)}", unsure=isinstance(error, BrokeElsewhere))
        finally:
            CALLER.reset(token)
        if isinstance(outcome, CallAnswered) and call.principal.by_handle:
            # Who is known by handles only is handed none that it does not hold.
            return replace(outcome, content=without_handles(outcome.content))
        return outcome

    async def _in_journey(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        """Answer a call that belongs to a journey, if its phase uses the tool, and record it there, start and end."""
        decision = await self.decide(spec.name, Trust.READ, call.principal, began=call.began)  # it is for who may read
        if isinstance(decision, Refuse):
            return CallFailed(decision.why)
        summary = asked_of(asked.model_dump(mode="json", include=set(ABOUT)))
        begun = await self._journey_hook.begin(call, spec.name, spec.hash_of(asked), summary)
        try:
            outcome = await self._run(spec, call, asked)
        except KnowledgeError as error:
            await self._journey_hook.failed(call, begun, str(error))
            raise
        except Exception as error:
            await self._journey_hook.failed(call, begun, crashed(error))
            raise
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._journey_hook.failed(call, begun, CANCELLED)
            raise
        if isinstance(outcome, CallFailed):
            await self._journey_hook.failed(call, begun, outcome.why)
        else:
            await self._journey_hook.succeeded(call, begun, outcome.content)
        return outcome

    async def _run(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        return await (self._answer(spec, call, asked) if spec.answer else self._act(spec, call, asked))

    async def _answer(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        decision = await self.decide(spec.name, spec.needs, call.principal, began=call.began)
        if isinstance(decision, Refuse):
            return CallFailed(decision.why)
        if spec.answer is None:  # `check` saw to it when the server started
            raise TypeError(f"{spec.name} cannot answer")
        result = await spec.answer(self._services, call, asked)
        origins = tuple(await spec.taints(self._services, result)) if spec.taints else ()
        await self._note_taint(call, origins)
        content = spec.as_json(result)
        if origins:
            await self._services.taints.saw(call.principal.id, tainted_texts(content, spec.toolset, origins))
        return CallAnswered(content, origins=origins)

    async def _act(self, spec: AnySpec, call: Call, asked: Any, *, to_be_shown: bool = False) -> Outcome:
        """Plan, decide on that plan, and only then act or propose. `to_be_shown`: whatever level the caller holds."""
        if spec.plan is None:
            raise TypeError(f"{spec.name} cannot act")
        may_read = await self.decide(spec.name, Trust.READ, call.principal, began=call.began)
        if isinstance(may_read, Refuse):  # a plan shows what is written there
            return CallFailed(may_read.why)
        usual = await self.decide(spec.name, spec.needs, call.principal, began=call.began)
        call = replace(call, trusted=isinstance(usual, Allow) and not to_be_shown)
        plan = await spec.plan(self._services, call, asked)
        await self._note_taint(call, plan.origins)
        if plan.answer is not None:
            content = spec.as_json(plan.answer)
            await self._saw_difference(call, content, plan.origins)
            return CallAnswered(content, origins=plan.origins)
        decision = await self._decide_on(spec, call, plan)
        if isinstance(decision, Refuse):
            return CallFailed(decision.why)
        if isinstance(decision, Allow):
            try:
                return replace(await self.carry_out(spec, call, asked, plan), origins=plan.origins)
            except UnmarksNow:
                if plan.preview is not None:
                    raise
                # The page was first looked at under its lock, and it is marked: what needs more is planned whole.
        if call.trusted:  # it was planned for one who needs no preview
            return await self._act(spec, call, asked, to_be_shown=True)
        if plan.preview is None or not isinstance(decision, Propose):
            raise TypeError(f"{spec.name} shows nobody what it would do")
        told = await self._propose(spec, call, asked, plan=plan, shown=plan.preview, decision=decision)
        return replace(told, origins=plan.origins)

    async def _decide_on(self, spec: AnySpec, call: Call, plan: CallPlan[Any]) -> Decision:
        """Return whether the plan may be executed.

        An act that leaves the machine, or that agents are taught by, needs a level more of who has read what nobody vouches for.
        """
        taint, places = "", tuple[str, ...]()
        leaves = spec.open_world and not spec.leads
        if leaves or plan.teaches:
            read = [one for scope in call.scopes for one in await self._services.taints.of(call.principal.id, scope)]
            home = place_of(plan.destination) if leaves and plan.destination else None
            foreign = sorted({origin for origin in read if home is None or place_of(origin) != home})
            if foreign:
                told = ", and agents are told what stands there" if plan.teaches else ""
                taint = f"You read text from {_listed(foreign)}, which nobody has vouched for{told}"
                # A person could vouch for these instead.
                places = tuple(sorted({place for origin in foreign if (place := place_to_trust(origin))}))[
                    :MOST_OFFERED
                ]
        needed, person = spec.level_for(plan), plan.only_by_person
        decision = await self.decide(spec.name, needed, call.principal, taint=taint, person=person, began=call.began)
        return replace(decision, places=places) if isinstance(decision, Propose) else decision

    async def carry_out(self, spec: AnySpec, call: Call, asked: Any, plan: CallPlan[Any]) -> CallAnswered:
        """Do what the plan says and return the answer; what is left for a person to decide becomes a proposal."""
        try:
            result = await plan.execute(call)
        except KnowledgeError:
            raise
        except Exception as error:
            if spec.open_world:
                raise BrokeElsewhere from error
            raise
        try:
            flagged = await self._unsettled(spec, call, asked, plan, result)
        except Exception:
            # What is done is done, and must not be told as failed. The claims stay listed as contradictions.
            logger.exception("what %s left for a person cannot be put to one now", spec.name)
            flagged = None
        content = spec.as_json(result)
        return CallAnswered(
            content if flagged is None else {**content, "proposal": await summary(flagged, self._address)}
        )

    async def _propose(
        self, spec: AnySpec, call: Call, asked: Any, *, plan: CallPlan[Any], shown: CallPreview, decision: Propose
    ) -> CallAnswered:
        content = spec.as_json(shown.answer)
        if shown.changes_nothing:
            return CallAnswered(content)
        flagged = None if shown.files else await self._unsettled(spec, call, asked, plan, shown.answer)
        if flagged is not None:
            return CallAnswered({**content, "proposal": await summary(flagged, self._address)})
        proposal = await self._proposing.call(
            spec, call, asked.model_dump(mode="json"), shown=replace(shown, answer=content), decision=decision
        )
        told = proposed(content, proposal, await summary(proposal, self._address))
        return CallAnswered(told, waits=proposal if proposal.state == "pending" else None)

    async def _unsettled(
        self, spec: AnySpec, call: Call, asked: Any, plan: CallPlan[Any], answer: Any
    ) -> Proposal | None:
        """Return the proposal of what the answer left for a person; None if it left nothing."""
        if plan.unsettled is None or call.against:
            return None
        left = await plan.unsettled(replace(call, trusted=False), answer)
        if left is None:
            return None
        settling, against = left
        if settling.preview is None:
            raise TypeError(f"{spec.name} shows nobody what it would do")
        held = (await self._grant(call.principal, Trust.READ, began=call.began)).level
        why = "claims contradict what is there; a yes writes the new ones in place of those"
        arguments = {**asked.model_dump(mode="json"), AGAINST: list(against)}
        shown = with_plain_answer(spec, settling.preview)
        draft = ProposalDraft("flag", [arguments], shown, int(spec.level_for(settling)), int(held), why)
        return await self._proposing.claims(spec, call, draft)

    async def decide(
        self,
        what: str,
        needed: Trust,
        principal: Principal,
        *,
        taint: str = "",
        person: str = "",
        began: float = math.inf,
    ) -> Decision:
        """Return whether `principal` may do `what` now. Whatever goes wrong while deciding is a refusal.

        `began` is that of the call that this is about (`Call.began`); without it trust is read anew.
        """
        try:
            return decide(await self._grant(principal, needed, began=began), what, needed, taint=taint, person=person)
        except Exception:
            logger.exception("cannot decide on %s", what)
            return Refuse(f"{what} is {CLOSED}")

    async def _grant(self, principal: Principal, needed: Trust, *, began: float) -> Grant:
        """Return what the principal holds: read once for a call, and again when that is a second old, for planning may take long."""
        known, at = self._remembered.get(principal.id, (None, 0.0))
        if known is not None and at > began and self._clock() - at <= COUNTS_S:
            return known
        asked_at = (
            self._clock()
        )  # before it is read: what another call was reading when this one began is too old for it
        try:
            grant = held(await trust_record_of(self._services.state, principal, now=self._services.now()))
        except Exception:
            if known is None or needed > Trust.READ or asked_at - at > REMEMBERED_S:
                raise
            logger.warning("state database unreachable: reading goes on with what %s held before", principal.id)
            return known
        self._remembered[principal.id] = (grant, asked_at)
        return grant

    async def _note_taint(self, call: Call, origins: Sequence[str]) -> None:
        """Remember where text came from that nobody vouches for, before the caller can act on it."""
        for scope in call.scopes if origins else ():
            await self._services.taints.note(call.principal.id, scope, origins)

    async def _saw_difference(self, call: Call, content: Mapping[str, Any], origins: Sequence[str]) -> None:
        """Remember what a difference quotes of a page that is somebody else's; what it adds is the caller's."""
        path, diff = content.get("path"), content.get("diff")
        if not origins or not isinstance(path, str) or not isinstance(diff, str):
            return
        source = await self._services.tiers.tainted(path)
        if source is not None:
            quoted = "\n".join(line[1:] for line in diff.split("\n") if not line.startswith("+"))
            await self._services.taints.saw(call.principal.id, [(origin_of(path, source), quoted)])


def _listed(origins: Sequence[str]) -> str:
    shown, more = " and ".join(origins[:MOST_NAMED]), len(origins) - MOST_NAMED
    return f"{shown} and {more} other place{'s' if more > 1 else ''}" if more > 0 else shown
