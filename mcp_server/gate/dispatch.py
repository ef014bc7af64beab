"""The gate. Every tool call passes through `Gate.dispatch`: it plans, decides, and then either acts or proposes.

It fails closed: any error while deciding refuses the call.
"""

from __future__ import annotations

import difflib
import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import anyio

from knowledge.access.rules import UNNAMED, PathAccess
from knowledge.errors import KnowledgeError, OutcomeUnknown, OverQuota, TooManyPending, UnmarksNow
from knowledge.offload import CALLER
from knowledge.pages.claim_source import place_of, place_to_trust
from knowledge.telemetry.operations import DONE, Operation
from mcp_server.approvals.summary import proposed, summary
from mcp_server.fair_use.admission import FairUse
from mcp_server.gate.caller import Call
from mcp_server.gate.handles import require_handle, without_handles
from mcp_server.gate.host_registration import REMEMBERED_S, Principal
from mcp_server.gate.journey_hook import SHOWN_ARGUMENTS, SUBJECT_ARGUMENTS, JourneyHook, subject_of
from mcp_server.gate.policy import Allow, Decision, Grant, Propose, Refuse, Trust, decide, limited
from mcp_server.gate.taint import origin_of, tainted_texts
from mcp_server.gate.trust.folder_rights import (
    AsBeginner,
    AsCaller,
    as_everybody,
    reason_to_propose,
    require_right,
    without_hidden_sources,
)
from mcp_server.late_module import LateModule
from mcp_server.ports import GateServices
from mcp_server.protocol.wire_errors import LONGEST_MESSAGE, short
from mcp_server.toolsets.spec import AnySpec, BadArguments, CallPlan, CallPreview

if TYPE_CHECKING:
    from agents.engine.progress.position import JourneyPosition
    from knowledge.trust.ports import Proposal
    from mcp_server.approvals import proposals
    from mcp_server.approvals.proposals import Proposing
    from mcp_server.gate.trust import scores
else:
    proposals = LateModule("mcp_server.approvals.proposals")
    scores = LateModule("mcp_server.gate.trust.scores")

logger = logging.getLogger("knowledge_forge.gate")

CLOSED = "refused: the state database cannot be read, so trust is unknown; try again in a moment"
CANCELLED = "the caller went away before it was answered"
MOST_NAMED = 2
"""How many sources of the caller's reading a proposal names."""
MOST_OFFERED = 10
"""How many places a proposal offers a person to trust."""
COUNTS_S = 1.0
"""How long a trust record is valid within one call. If planning takes longer, the record is read again."""
NOT_TOLD = "it failed, and its caller may read more than the one who began this journey"
CRASHED = "failed inside the server; nothing was changed. Run `knowledge-forge doctor` to look for the cause"
CRASHED_ELSEWHERE = "failed inside the server, and the act may have been done: check before you repeat it"


class UnknownTool(Exception):
    """No tool of that name is listed."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        shown = name if len(name) <= 60 else name[:57] + "..."
        # The name is the client's, and difflib's time grows with the square of its length.
        near = difflib.get_close_matches(name[:60], known, n=3)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else f"call tools/list to see the {len(known)} available tools"
        )
        super().__init__(f"unknown tool {shown!r}; {hint}")


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """The tool ran, or its call is now a proposal. `content` fits the tool's output schema; `waits` is the pending proposal.

    `origins` name the sources of untrusted text in the content. `Gate.answered` makes it, for its caller.
    """

    content: dict[str, Any]
    waits: Proposal | None = None
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The call was refused or failed; `why` is one plain sentence for the caller. With `unsure` the act may have been done."""

    why: str
    unsure: bool = False


Outcome = CallAnswered | CallFailed


class BrokeElsewhere(Exception):
    """An act in another service failed unexpectedly and may have been done. The cause has the details."""


def crashed(error: Exception) -> str:
    """Return the caller's message for an unexpected error."""
    return CRASHED_ELSEWHERE if isinstance(error, BrokeElsewhere) else CRASHED


class Gate:
    """Decides on each call by the trust that its caller has at that moment."""

    def __init__(
        self,
        specs: Sequence[AnySpec],
        services: GateServices,
        load_proposing: Callable[[], Proposing],
        *,
        clock: Callable[[], float] = time.monotonic,
        fair_use: FairUse | None = None,
        as_caller: AsCaller = as_everybody,
        as_beginner: AsBeginner = as_everybody,
    ) -> None:
        self.fair_use = fair_use or FairUse()
        self._specs: Mapping[str, AnySpec] = {spec.name: spec for spec in specs}
        self._services, self._load_proposing, self._clock = services, load_proposing, clock
        self._journey_hook = JourneyHook(services)
        self._address = services.review_address
        self.as_caller = as_caller
        """Binds a caller, so that the services show only what that caller may read."""
        self._as_beginner = as_beginner
        self._remembered: dict[str, tuple[Grant, float]] = {}

    def spec(self, name: str) -> AnySpec | None:
        """Return the tool with that name."""
        return self._specs.get(name)

    async def dispatch(self, name: str, arguments: dict[str, Any], call: Call) -> Outcome:
        """Answer the call, or say why it was refused or failed.

        Raises:
            UnknownTool: no tool with that name is listed.
        """
        spec = self._specs.get(name)
        if spec is None:
            raise UnknownTool(name, list(self._specs))
        with Operation("tool", tool=name, caller=call.principal.id) as current:
            outcome = await self._answered(spec, arguments, call)
            current.note(outcome=_word_for(outcome))
            return outcome

    async def _answered(self, spec: AnySpec, arguments: dict[str, Any], call: Call) -> Outcome:
        reach = call.principal.reach
        if reach is not None and not reach.allows(spec.toolset):
            return CallFailed(f"{spec.name} is refused: {reach.why} (toolset {spec.toolset})")
        name, token = spec.name, CALLER.set(call.principal.id)
        try:
            # Runs call tools on behalf of their principal, within limits of their own.
            kinds = () if call.run else spec.counts_as
            async with self.fair_use.admitted(call.principal.id, spec.lane, kinds):
                await self._services.catch_up_pages()
                # The trust record counts from here, not from before a wait for the turn.
                outcome = await self._parsed(spec, arguments, replace(call, began=self._clock()))
        except (BadArguments, KnowledgeError) as error:
            why = str(error) if isinstance(error, BadArguments) else f"{name}: {error}"
            unsure = isinstance(error, OutcomeUnknown)
            return CallFailed(short(why, getattr(error, "MOST_CHARS", LONGEST_MESSAGE)), unsure=unsure)
        except Exception as error:
            logger.exception("tool %s failed", name)
            return CallFailed(f"{name} {crashed(error)}", unsure=isinstance(error, BrokeElsewhere))
        finally:
            CALLER.reset(token)
        if isinstance(outcome, CallAnswered) and call.principal.by_handle:
            # Callers without a token share one principal, so one of them could use a handle that another was shown.
            return replace(outcome, content=without_handles(outcome.content))
        return outcome

    async def _parsed(self, spec: AnySpec, arguments: dict[str, Any], call: Call) -> Outcome:
        asked = spec.parse(arguments)
        async with self.as_caller(call.principal) as access:
            call = replace(call, access=access)
            if journey := spec.journey_of(asked):
                require_handle(call.principal, journey)
                return await self._of_a_journey(spec, replace(call, journey=journey), asked)
            return await self._run(spec, call, asked)

    async def _of_a_journey(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        """Answer a call that belongs to a journey.

        The answer has nothing that is hidden from the caller who began the journey, because the journey records it.
        """
        # Looking up the journey already reveals something, so even a tool of level 0 needs the level for reading here.
        decision = await self.decide(spec.name, Trust.READ, call.principal, began=call.began)
        if isinstance(decision, Refuse):
            return CallFailed(decision.why)
        position = await self._services.journeys.position(call.journey)
        async with self._as_beginner(position.state.principal) as shown:
            quietly = shown != call.access
            return await self._in_journey(spec, replace(call, access=shown), asked, position, quietly=quietly)

    async def _in_journey(
        self, spec: AnySpec, call: Call, asked: Any, position: JourneyPosition, *, quietly: bool
    ) -> Outcome:
        """Answer the call if the journey's phase allows the tool. The journey records its start and end.

        `quietly` is for a caller who may read more than the one who began the journey: the journey doesn't record their words.
        """
        arguments = asked.model_dump(mode="json", include={*SUBJECT_ARGUMENTS, *SHOWN_ARGUMENTS})
        subject = "" if quietly else subject_of(arguments)
        begun = await self._journey_hook.begin(
            call, spec.name, spec.hash_of(asked), subject, arguments, position=position
        )
        try:
            outcome = await self._run(spec, call, asked)
        except KnowledgeError as error:
            await self._journey_hook.failed(call, begun, NOT_TOLD if quietly else str(error))
            raise
        except Exception as error:
            await self._journey_hook.failed(call, begun, crashed(error))
            raise
        except anyio.get_cancelled_exc_class():
            # Without the shield the journey would show the call as running forever.
            with anyio.CancelScope(shield=True):
                await self._journey_hook.failed(call, begun, CANCELLED)
            raise
        if isinstance(outcome, CallFailed):
            await self._journey_hook.failed(call, begun, NOT_TOLD if quietly else outcome.why)
        else:
            await self._journey_hook.succeeded(call, begun, outcome.content)
        return outcome

    async def _run(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        return await (self._answer(spec, call, asked) if spec.answer else self._act(spec, call, asked))

    async def _answer(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        decision = await self.decide(spec.name, spec.needs, call.principal, began=call.began)
        if isinstance(decision, Refuse):
            return CallFailed(decision.why)
        if spec.answer is None:
            raise TypeError(f"{spec.name} cannot answer")
        result = await spec.answer(self._services, call, asked)
        origins = tuple(await spec.taints(self._services, call, result)) if spec.taints else ()
        await self._note_taint(call, origins)
        content = spec.as_json(result)
        if origins:
            await self._services.taints.saw(call.principal.id, tainted_texts(content, spec.toolset, origins))
        return self.answered(content, origins=origins)

    async def _act(self, spec: AnySpec, call: Call, asked: Any, *, to_be_shown: bool = False) -> Outcome:
        """Plan, decide on that plan, and then act or propose. `to_be_shown`: make a preview whatever the caller's level is."""
        if spec.plan is None:
            raise TypeError(f"{spec.name} cannot act")
        # A plan quotes the page that it changes, so the caller must be allowed to read it.
        may_read = await self.decide(spec.name, Trust.READ, call.principal, began=call.began)
        if isinstance(may_read, Refuse):
            return CallFailed(may_read.why)
        usual = await self.decide(spec.name, spec.needs, call.principal, began=call.began)
        call = replace(call, trusted=isinstance(usual, Allow) and not to_be_shown)
        plan = await spec.plan(self._services, call, asked)
        require_right(call.access, plan.writes)
        await self._note_taint(call, plan.origins)
        if plan.answer is not None:
            content = spec.as_json(plan.answer)
            await self._saw_difference(call, content, plan.origins)
            return self.answered(content, origins=plan.origins)
        decision = await self._decide_on(spec, call, plan)
        if isinstance(decision, Refuse):
            return CallFailed(decision.why)
        if isinstance(decision, Allow):
            try:
                return replace(await self.carry_out(spec, call, asked, plan), origins=plan.origins)
            except UnmarksNow:
                if plan.preview is not None:
                    raise
                # A trusted caller's page is first read under its lock. It turns out to have a mark of origin, which only a person
                # may remove, so the call is planned again, now with a preview.
        # The effect or the caller's reading raised the level above the caller's, and a trusted plan has no preview for the person.
        if call.trusted:
            return await self._act(spec, call, asked, to_be_shown=True)
        if plan.preview is None or not isinstance(decision, Propose):
            raise TypeError(f"{spec.name} made no preview")
        answer = await self._propose(spec, call, asked, plan=plan, shown=plan.preview, decision=decision)
        return replace(answer, origins=plan.origins)

    async def _decide_on(self, spec: AnySpec, call: Call, plan: CallPlan[Any]) -> Decision:
        """Return whether the plan may be executed.

        After reading untrusted text, a caller needs one more level for an act that leaves the machine or that changes
        what agents are taught, because the text may have told the model to act. An act that goes back to where the text
        came from needs no extra level.
        """
        taint, places = "", tuple[str, ...]()
        leaves = spec.open_world and not spec.leads
        if leaves or plan.teaches:
            read = [one for scope in call.scopes for one in await self._services.taints.of(call.principal.id, scope)]
            home = place_of(plan.destination) if leaves and plan.destination else None
            foreign = sorted({origin for origin in read if home is None or place_of(origin) != home})
            if foreign:
                teaching = ", and this page tells agents what to do" if plan.teaches else ""
                named = _listed(_named(foreign, call.access))
                taint = f"You read text from {named}, which nobody has vouched for{teaching}"
                places = tuple(sorted({place for origin in foreign if (place := place_to_trust(origin))}))[
                    :MOST_OFFERED
                ]
        needed = spec.level_for(plan)
        person = plan.only_by_person or reason_to_propose(call.access, plan.writes, plan.also)
        decision = await self.decide(spec.name, needed, call.principal, taint=taint, person=person, began=call.began)
        return replace(decision, places=places) if isinstance(decision, Propose) else decision

    async def carry_out(self, spec: AnySpec, call: Call, asked: Any, plan: CallPlan[Any]) -> CallAnswered:
        """Execute the plan and return the answer. Claims that it left for a person to decide become a proposal."""
        try:
            result = await plan.execute(call)
        except KnowledgeError:  # its message says whether the act may have been done
            raise
        except Exception as error:
            if spec.open_world:
                raise BrokeElsewhere from error
            raise
        content = spec.as_json(result)
        try:
            flagged = await self._with_claims(spec, call, asked, plan, result)
        except Exception:
            # The act is done and must not be reported as failed. Its claims are still listed as contradictions.
            logger.exception("the claims that %s left open cannot be proposed now", spec.name)
            flagged = None
        return self.answered(flagged or content)

    async def _propose(
        self, spec: AnySpec, call: Call, asked: Any, *, plan: CallPlan[Any], shown: CallPreview, decision: Propose
    ) -> CallAnswered:
        content = spec.as_json(shown.answer)
        if shown.changes_nothing:
            return self.answered(content)
        # Nothing would be written, only claims are open: the person decides about those, not about an empty act.
        flagged = None if shown.files else await self._with_claims(spec, call, asked, plan, shown.answer)
        if flagged is not None:
            try:
                if plan.note is not None:
                    await plan.note()
            except Exception:
                # The proposal is made and shows both sides. The contradiction is recorded when the claim is sent again.
                logger.exception("the contradictions that %s found cannot be recorded now", spec.name)
            return self.answered(flagged)
        proposal = await self._load_proposing().call(
            spec, call, asked.model_dump(mode="json"), shown=replace(shown, answer=content), decision=decision
        )
        answer = proposed(content, proposal, await summary(proposal, self._address))
        return self.answered(answer, waits=proposal if proposal.state == "pending" else None)

    async def outcome_of(self, proposal: Proposal, answer: Mapping[str, Any]) -> Outcome:
        """Return the answer of the call that became the proposal: its result, its error, or that nothing was done (yet).

        `answer` is the preview of the call's answer.
        """
        told = await summary(proposal, self._address)
        if proposal.state == "executed" and proposal.result:
            content = json.loads(proposal.result)
            return self.answered({**content, "proposal": content.get("proposal") or told})
        if proposal.state == "failed":
            return CallFailed(f"{proposal.tool}: approved, but not done: {proposal.error}")
        return self.answered(proposed(answer, proposal, told))

    def answered(
        self, content: Mapping[str, Any], *, waits: Proposal | None = None, origins: tuple[str, ...] = ()
    ) -> CallAnswered:
        """Return the answer as the present caller may read it: no hidden page is named as a source.

        Every answer of the gate is made here.
        """
        access = self._services.access
        if access.reads_all:
            return CallAnswered(dict(content), waits, origins)
        return CallAnswered(without_hidden_sources(content, access), waits, _named(origins, access))

    async def _with_claims(
        self, spec: AnySpec, call: Call, asked: Any, plan: CallPlan[Any], answer: Any
    ) -> dict[str, Any] | None:
        """Propose the claims that the answer left open and return its content with the proposal; None if it left none.

        If the caller may propose no more now, a note says so, because the content still tells what contradicts what.
        """
        content = spec.as_json(answer)
        try:
            flagged = await self._unsettled(spec, call, asked, plan, answer)
        except (TooManyPending, OverQuota) as error:
            why = f"no person can be asked about the contradiction now: {error}"
            return {**content, "note": "; ".join(filter(None, (content.get("note"), why)))}
        return None if flagged is None else {**content, "proposal": await summary(flagged, self._address)}

    async def _unsettled(
        self, spec: AnySpec, call: Call, asked: Any, plan: CallPlan[Any], answer: Any
    ) -> Proposal | None:
        """Propose the claims that the answer left open and return the proposal; None if there are none."""
        if plan.unsettled is None or call.against:
            return None
        left = await plan.unsettled(replace(call, trusted=False), answer)
        if left is None:
            return None
        settling, against = left
        grant = await self._grant(call.principal, Trust.READ, began=call.began)
        held = limited(grant, call.principal.reach, spec.toolset).level
        draft = proposals.claims_draft(spec, asked.model_dump(mode="json"), settling, against, held=held)
        return await self._load_proposing().claims(spec, call, draft)

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
        """Return whether `principal` may do `what` now. Any error while deciding is a refusal.

        `began` is when the call in question began (`Call.began`); without it the trust record is read again.
        """
        try:
            grant = await self._grant(principal, needed, began=began)
            spec = self._specs.get(what)
            grant = limited(grant, principal.reach, spec.toolset if spec else None)
            return decide(grant, what, needed, taint=taint, person=person)
        except Exception:
            logger.exception("cannot decide on %s", what)
            return Refuse(f"{what} is {CLOSED}")

    async def _grant(self, principal: Principal, needed: Trust, *, began: float) -> Grant:
        """Return the principal's grant. It is read once in each call, and again if planning took longer than a second.

        If the database can't be read, reading is allowed for `REMEMBERED_S` with the grant read last; everything else is refused.
        """
        known, at = self._remembered.get(principal.id, (None, 0.0))
        if known is not None and at > began and self._clock() - at <= COUNTS_S:
            return known
        # Taken before the read: a read by another call that started before this call began may return an outdated record.
        asked_at = self._clock()
        try:
            grant = scores.grant_of(
                await scores.trust_record_of(self._services.state, principal, now=self._services.now())
            )
        except Exception:
            if known is None or needed > Trust.READ or asked_at - at > REMEMBERED_S:
                raise
            logger.warning(
                "state database unreachable: %s can still read, with its last known trust level", principal.id
            )
            return known
        self._remembered[principal.id] = (grant, asked_at)
        return grant

    async def _note_taint(self, call: Call, origins: Sequence[str]) -> None:
        """Record the sources of untrusted text before the caller sees it and can act on it."""
        for scope in call.scopes if origins else ():
            await self._services.taints.note(call.principal.id, scope, origins)

    async def _saw_difference(self, call: Call, content: Mapping[str, Any], origins: Sequence[str]) -> None:
        """Record the sentences of an untrusted page that a diff quotes. Added lines are the caller's own."""
        path, diff = content.get("path"), content.get("diff")
        if not origins or not isinstance(path, str) or not isinstance(diff, str):
            return
        source = await self._services.tiers.tainted(path)
        if source is not None:
            quoted = "\n".join(line[1:] for line in diff.split("\n") if not line.startswith("+"))
            await self._services.taints.saw(call.principal.id, [(origin_of(path, source), quoted)])


def _word_for(outcome: Outcome) -> str:
    """Return the outcome of a call as operators see it."""
    if isinstance(outcome, CallFailed):
        return "unsure" if outcome.unsure else "failed"
    return DONE if outcome.waits is None else "proposed"


def _named(origins: Sequence[str], access: PathAccess) -> tuple[str, ...]:
    """Return the origins, each once. A page that is hidden from the caller gets no name.

    Such a page can be among them because somebody else has read it in the same journey.
    """
    return tuple(dict.fromkeys(one if access.may_name(one) else UNNAMED for one in origins))


def _listed(origins: Sequence[str]) -> str:
    shown, more = " and ".join(origins[:MOST_NAMED]), len(origins) - MOST_NAMED
    return f"{shown} and {more} other place{'s' if more > 1 else ''}" if more > 0 else shown
