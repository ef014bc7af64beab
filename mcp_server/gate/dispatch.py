"""The gate: every tool call passes here, whichever way it came. It plans, decides, then acts or proposes; it fails closed."""

from __future__ import annotations

import difflib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from knowledge.errors import KnowledgeError, OutcomeUnknown
from knowledge.offload import CALLER
from knowledge.pages.claim_source import place_of, place_to_trust
from knowledge.trust.ports import Proposal
from mcp_server.app.dependencies import Services
from mcp_server.approvals.proposals import AGAINST, ProposalDraft, Proposing, with_plain_answer
from mcp_server.approvals.summary import proposed, summary
from mcp_server.gate.caller import Call
from mcp_server.gate.handles import require_handle, without_handles
from mcp_server.gate.host_registration import REMEMBERED_S, Principal
from mcp_server.gate.journey_hook import ABOUT, JourneyHook, asked_of
from mcp_server.gate.policy import Allow, Decision, Grant, Propose, Refuse, Trust, decide
from mcp_server.gate.taint import origin_of, tainted_texts
from mcp_server.gate.trust.scores import held, standing_of
from mcp_server.protocol.wire_errors import LONGEST_MESSAGE, short
from mcp_server.toolsets.spec import AnySpec, BadArguments

logger = logging.getLogger("knowledge_forge.gate")

CLOSED = "refused: the state database cannot be read, so trust is unknown; try again in a moment"
CANCELLED = "the caller went away before it was answered"
MOST_NAMED = 2
"""Places that a proposal names of those that its caller has read."""
MOST_OFFERED = 10
CRASHED = "failed inside the server; nothing was changed. `knowledge-forge doctor` may say why"
CRASHED_ELSEWHERE = (
    "failed inside the server, and it is not known whether it was done: look there before you do it again"
)


class UnknownTool(Exception):
    """No tool of that name is listed."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        shown = name if len(name) <= 60 else name[:57] + "..."
        near = difflib.get_close_matches(name[:60], known, n=3)
        told = f"did you mean {' or '.join(near)}?" if near else f"tools/list names the {len(known)} that there are"
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


def _told(outcome: Outcome, call: Call) -> Outcome:
    """Return what the caller is told: one that is known by handles only is handed none that it does not hold."""
    if isinstance(outcome, CallAnswered) and call.principal.by_handle:
        return replace(outcome, content=without_handles(outcome.content))
    return outcome


class Gate:
    """Decides on calls by what the caller holds at that moment."""

    def __init__(
        self,
        specs: Sequence[AnySpec],
        services: Services,
        proposing: Proposing,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._specs: Mapping[str, AnySpec] = {spec.name: spec for spec in specs}
        self._services, self._proposing, self._clock = services, proposing, clock
        self._companion = JourneyHook(services)
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
        caller = CALLER.set(call.principal.id)
        try:
            return await self._answered(spec, call, arguments)
        finally:
            CALLER.reset(caller)

    async def _answered(self, spec: AnySpec, call: Call, arguments: dict[str, Any]) -> Outcome:
        name = spec.name
        try:
            asked = spec.parse(arguments)
            journey = spec.journey_of(asked)
            if journey:
                require_handle(call.principal, journey)
                return _told(await self._in_journey(spec, replace(call, journey=journey), asked), call)
            return _told(await self._run(spec, call, asked), call)
        except (BadArguments, KnowledgeError) as error:
            told = str(error) if isinstance(error, BadArguments) else f"{name}: {error}"
            unsure = isinstance(error, OutcomeUnknown)
            return CallFailed(short(told, getattr(error, "MOST_CHARS", LONGEST_MESSAGE)), unsure=unsure)
        except Exception as error:
            logger.exception("tool %s failed", name)
            return CallFailed(f"{name} {crashed(error)}", unsure=isinstance(error, BrokeElsewhere))

    async def _run(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        return await (self._answer(spec, call, asked) if spec.answer else self._act(spec, call, asked))

    async def _in_journey(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        """Answer a call that belongs to a journey, if its phase uses the tool, and record it there, start and end."""
        decision = await self.decide(spec.name, Trust.READ, call.principal)  # what a journey says is for who may read
        if isinstance(decision, Refuse):
            return CallFailed(decision.why)
        summary = asked_of(asked.model_dump(mode="json", include=set(ABOUT)))
        begun = await self._companion.begin(call, spec.name, spec.hash_of(asked), summary)
        try:
            outcome = await self._run(spec, call, asked)
        except KnowledgeError as error:
            await self._companion.failed(call, begun, str(error))
            raise
        except Exception as error:
            await self._companion.failed(call, begun, crashed(error))
            raise
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._companion.failed(call, begun, CANCELLED)
            raise
        if isinstance(outcome, CallFailed):
            await self._companion.failed(call, begun, outcome.why)
        else:
            await self._companion.succeeded(call, begun, outcome.content)
        return outcome

    async def _answer(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        decision = await self.decide(spec.name, spec.needs, call.principal)
        if isinstance(decision, Refuse):
            return CallFailed(decision.why)
        if spec.answer is None:  # `check` saw to it when the server started
            raise TypeError(f"{spec.name} cannot answer")
        result = await spec.answer(self._services, call, asked)
        origins, content = await self._note_taint(spec, call, result), spec.as_json(result)
        if origins:
            await self._services.taints.saw(call.principal.id, tainted_texts(content, spec.toolset, origins))
        return CallAnswered(content, origins=origins)

    async def _act(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        """Plan, decide on that plan, and only then act or propose."""
        if spec.plan is None or spec.shows is None:
            raise TypeError(f"{spec.name} cannot act")
        decision = await self.decide(spec.name, Trust.READ, call.principal)  # a plan shows what is written there
        if isinstance(decision, Refuse):
            return CallFailed(decision.why)
        usual = await self.decide(spec.name, spec.needs, call.principal)
        call = replace(call, trusted=isinstance(usual, Allow))
        plan = await spec.plan(self._services, call, asked)
        origins = await self._note_taint(spec, call, plan)
        shown = spec.rehearsed(plan) if spec.rehearsed else None
        if shown is not None:
            content = spec.as_json(shown)
            await self._saw_difference(call, content, origins)
            return CallAnswered(content, origins=origins)
        decision = await self._decide_on(spec, call, plan)
        if isinstance(decision, Refuse):
            return CallFailed(decision.why)
        if isinstance(decision, Allow):
            return replace(await self.carry_out(spec, call, asked, plan), origins=origins)
        if call.trusted:  # it was planned for one who needs no preview
            plan = await spec.plan(self._services, replace(call, trusted=False), asked)
            origins = await self._note_taint(spec, call, plan)  # it is shown now
        told = await self._propose(spec, replace(call, trusted=False), asked, plan=plan, decision=decision)
        return replace(told, origins=origins)

    async def _decide_on(self, spec: AnySpec, call: Call, plan: Any) -> Decision:
        person = spec.only_by_person(plan) if spec.only_by_person else ""
        taint, places = await self._taint(spec, call, plan)
        decision = await self.decide(spec.name, spec.level_for(plan), call.principal, taint=taint, person=person)
        return replace(decision, places=places) if isinstance(decision, Propose) else decision

    async def carry_out(self, spec: AnySpec, call: Call, asked: Any, plan: Any) -> CallAnswered:
        """Do what the plan says and return the answer; what is left for a person to decide becomes a proposal."""
        if spec.apply is None:
            raise TypeError(f"{spec.name} cannot act")
        result = await self._applied(spec.apply, spec, call, plan)
        try:
            flagged = await self._unsettled(spec, call, asked, result)
        except Exception:
            # What is done is done, and must not be told as failed. The claims stay listed as contradictions.
            logger.exception("what %s left for a person cannot be put to one now", spec.name)
            flagged = None
        if flagged is not None:
            return CallAnswered({**spec.as_json(result), "proposal": await summary(flagged, self._address)})
        return CallAnswered(spec.as_json(result))

    async def _applied(self, apply: Callable[..., Awaitable[Any]], spec: AnySpec, call: Call, plan: Any) -> Any:
        try:
            return await apply(self._services, call, plan)
        except KnowledgeError:
            raise
        except Exception as error:
            if spec.open_world:
                raise BrokeElsewhere from error
            raise

    async def _propose(self, spec: AnySpec, call: Call, asked: Any, *, plan: Any, decision: Propose) -> CallAnswered:
        if spec.shows is None:
            raise TypeError(f"{spec.name} cannot act")
        shown = spec.shows(plan)
        answer = shown.answer
        if shown.changes_nothing:
            return CallAnswered(spec.as_json(answer))
        flagged = None if shown.files else await self._unsettled(spec, call, asked, answer)
        if flagged is not None:
            return CallAnswered({**spec.as_json(answer), "proposal": await summary(flagged, self._address)})
        proposal = await self._proposing.call(
            spec, call, asked.model_dump(mode="json"), shown=with_plain_answer(spec, shown), decision=decision
        )
        told = proposed(spec.as_json(answer), proposal, await summary(proposal, self._address))
        return CallAnswered(told, waits=proposal if proposal.state == "pending" else None)

    async def _unsettled(self, spec: AnySpec, call: Call, asked: Any, answer: Any) -> Proposal | None:
        """Return the proposal of what the answer left for a person; None if it left nothing."""
        if spec.unsettled is None or spec.shows is None or call.against:
            return None
        left = await spec.unsettled(self._services, replace(call, trusted=False), asked, answer)
        if left is None:
            return None
        plan, against = left
        grant = await self._grant(call.principal, Trust.READ)
        why = "claims contradict what is there; a yes writes the new ones in place of those"
        shown = with_plain_answer(spec, spec.shows(plan))
        arguments = {**asked.model_dump(mode="json"), AGAINST: list(against)}
        draft = ProposalDraft("flag", [arguments], shown, int(spec.level_for(plan)), int(grant.level), why)
        return await self._proposing.claims(spec, call, draft)

    async def decide(
        self, what: str, needed: Trust, principal: Principal, *, taint: str = "", person: str = ""
    ) -> Decision:
        """Return whether `principal` may do `what` now. Whatever goes wrong while deciding is a refusal."""
        try:
            return decide(await self._grant(principal, needed), what, needed, taint=taint, person=person)
        except Exception:
            logger.exception("cannot decide on %s", what)
            return Refuse(f"{what} is {CLOSED}")

    async def _grant(self, principal: Principal, needed: Trust) -> Grant:
        try:
            grant = held(await standing_of(self._services.state, principal, now=self._services.now()))
        except Exception:
            known, at = self._remembered.get(principal.id, (None, 0.0))
            if known is None or needed > Trust.READ or self._clock() - at > REMEMBERED_S:
                raise
            logger.warning("state database unreachable: reading goes on with what %s held before", principal.id)
            return known
        self._remembered[principal.id] = (grant, self._clock())
        return grant

    async def _note_taint(self, spec: AnySpec, call: Call, told: Any) -> tuple[str, ...]:
        """Remember where text came from that nobody vouches for, before the caller can act on it, and return that."""
        origins = tuple(await spec.taints(self._services, told)) if spec.taints else ()
        for scope in call.scopes if origins else ():
            await self._services.taints.note(call.principal.id, scope, origins)
        return origins

    async def _saw_difference(self, call: Call, content: Mapping[str, Any], origins: Sequence[str]) -> None:
        """Remember what a difference quotes of a page that is somebody else's; what it adds is the caller's."""
        path, diff = content.get("path"), content.get("diff")
        if not origins or not isinstance(path, str) or not isinstance(diff, str):
            return
        source = await self._services.tiers.tainted(path)
        if source is not None:
            quoted = "\n".join(line[1:] for line in diff.split("\n") if not line.startswith("+"))
            await self._services.taints.saw(call.principal.id, [(origin_of(path, source), quoted)])

    async def _taint(self, spec: AnySpec, call: Call, plan: Any) -> tuple[str, tuple[str, ...]]:
        """Return why an act that leaves the machine, or that agents are taught by, needs a level more; "" if it does not.

        Also the places for which a person could vouch instead.
        """
        teaches = spec.teaches is not None and spec.teaches(plan)
        leaves = spec.open_world and spec.shows is not None and not spec.leads
        if not (leaves or teaches):
            return "", ()
        found = [origin for scope in call.scopes for origin in await self._services.taints.of(call.principal.id, scope)]
        destination = spec.shows(plan).destination if leaves and spec.shows is not None else ""
        foreign = [origin for origin in found if not destination or place_of(origin) != place_of(destination)]
        if not foreign:
            return "", ()
        places = tuple(sorted({place for origin in foreign if (place := place_to_trust(origin))}))
        where = _listed(sorted(set(foreign)))
        told = ", and agents are told what stands there" if teaches else ""
        return f"You read text from {where}, which nobody has vouched for{told}", places[:MOST_OFFERED]


def _listed(origins: Sequence[str]) -> str:
    shown, more = " and ".join(origins[:MOST_NAMED]), len(origins) - MOST_NAMED
    return f"{shown} and {more} other place{'s' if more > 1 else ''}" if more > 0 else shown
