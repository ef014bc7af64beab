"""Says which people may decide on a journey or answer a run: the reviewers of the pages that its calls change or ask to change.

Proposals have the same rule. The account of the server at a terminal is the owner here, too, whom the rule does not
bind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from agents.engine.events import ToolStart, ToolSuccess
from agents.loop.record.frames import ToolResult
from knowledge.state.ports import StateStore
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.approvals.reviewers.deciders import is_same_person, pages_of, reviewed_by_others
from mcp_server.approvals.views.askers import in_journey
from mcp_server.toolsets.registry import declared

if TYPE_CHECKING:
    from agents.engine.events import Logged
    from agents.engine.progress.position import JourneyPosition
    from agents.engine.runner import JourneyDecision
    from agents.loop.record.run import Run
    from agents.store.ports import JourneyStore
    from mcp_server.ports import DecidingServices

OWNER: Final = "the owner can, too, in a terminal of the server's account"
REVIEWED: Final = f"it changes pages in {{folder}}, or asks to, where only {{names}} can decide; {OWNER}"
OWN: Final = (
    f"{{principal}} began it, which is you, and FORGE_PREVENT_SELF_REVIEW leaves its approval to others; {OWNER}"
)
APPROVING: Final = frozenset({"approve", "modify"})
"""Decisions that let the work continue as it is, or as the person changes it. The others give an answer, or take work back."""
WITHDRAWING: Final = "cancel"
MOVES: Final = "kb_move"
"""The tool that is about two pages, and whose answer names only one of them."""


@cache
def changing_tools() -> frozenset[str]:
    """Return the names of the tools that change pages."""
    return frozenset(spec.name for spec in declared(()) if spec.toolset == "knowledge" and not spec.read_only)


@dataclass(frozen=True, slots=True)
class WorkReviewers:
    """Says why people can't decide on journeys and answer runs. `journeys` returns the store with the journeys of everybody."""

    state: StateStore
    journeys: Callable[[], JourneyStore]
    prevent_self_review: bool = False

    async def on_journey(self, journey: str, decision: str, principal: str) -> str:
        """Return why this person can't make that decision on the journey, as the end of a sentence; "" if they can.

        Raises:
            NoSuchJourney: there is no such journey.
        """
        directory = await self.state.people.directory()
        if not (directory.reviewers or self.prevent_self_review):
            return ""
        store = self.journeys()
        began = (await store.journey(journey)).principal
        if is_same_person(directory, principal, began):
            if decision == WITHDRAWING:
                return ""
            if self.prevent_self_review and decision in APPROVING:
                return OWN.format(principal=began)
        if not directory.reviewers:
            return ""
        pages = await self._pages_of_journey(journey, await store.events(journey))
        return reviewed_by_others(directory, pages, principal, REVIEWED)

    async def on_run(self, run: Run, principal: str) -> str:
        """Return why this person can't answer the run, as the end of a sentence; "" if they can.

        An answer approves nothing, so it does not matter who began the run.
        """
        directory = await self.state.people.directory()
        if not directory.reviewers:
            return ""
        return reviewed_by_others(directory, await self._pages_of_run(run), principal, REVIEWED)

    async def _pages_of_journey(self, journey: str, log: Sequence[Logged]) -> Sequence[str]:
        asked, pages, proposals = dict[str, str](), list[str](), dict[str, None]()
        for logged in log:
            event = logged.event
            if isinstance(event, ToolStart):
                asked[event.call] = event.summary
            elif isinstance(event, ToolSuccess) and event.tool in changing_tools():
                pages += _texts([event.facts.get("path"), asked.get(event.call) if event.tool == MOVES else None])
                proposals |= dict.fromkeys(_texts([event.facts.get("proposal")]))
        for proposal in proposals:
            for one in await in_journey(self.state.trust, proposal, journey):
                pages += await pages_of(self.state, one)
        return list(dict.fromkeys(pages))

    async def _pages_of_run(self, run: Run) -> Sequence[str]:
        pages = list[str]()
        for call in run.calls:
            if call.tool == MOVES:
                pages += _texts([call.arguments.get("path"), call.arguments.get("to")])
        for result in (frame for frame in run.frames if isinstance(frame, ToolResult)):
            if result.tool in changing_tools() and isinstance(result.structured, Mapping):
                pages += _texts([result.structured.get("path")])
            if result.proposal and (found := await self.state.trust.proposal(result.proposal)) is not None:
                pages += await pages_of(self.state, found)
        return list(dict.fromkeys(pages))


async def decide_on_journey(
    services: DecidingServices, journey: str, version: int, opinion: JourneyDecision, *, by: str, principal: str
) -> JourneyPosition:
    """Record the decision of the person with that principal on a journey, if they may decide on it; `by` is their name on record.

    Raises:
        CannotDecide: others decide on it. StaleJourney, NotToDecide, and so on: as `Runner.decide`. Nothing is recorded.
    """
    if why := await services.work_reviewers.on_journey(journey, opinion.decision, principal):
        raise CannotDecide(f"you can't decide on {journey}: {why}")
    return await services.journeys.decide(journey, version, opinion, by=by)


async def require_answerer(services: DecidingServices, run: Run, principal: str) -> None:
    """Check that the person with that principal may answer the run's question.

    Raises:
        CannotDecide: others answer it.
    """
    if why := await services.work_reviewers.on_run(run, principal):
        raise CannotDecide(f"you can't answer {run.id}: {why}")


def _texts(values: Iterable[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str) and value]
