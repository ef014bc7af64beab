"""The level needed to take acts back: at least the level of the acts, and more if a person decided them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from mcp_server.gate.policy import Trust
from mcp_server.ports import HasState, HasTools

if TYPE_CHECKING:
    from knowledge.writing.undo.past_act import PastAct
    from knowledge.writing.undo.undo import UndoPlan

LEAST = Trust.EDIT
OF_A_PERSON = Trust.ROUTINE
"""The least level for taking back what a person did or approved: a host that may only edit must ask them."""


class LevelServices(HasState, HasTools, Protocol):
    """The services with which tools and proposals are looked up."""


async def level_to_take_back(services: LevelServices, acts: Iterable[PastAct]) -> Trust:
    """Return the level that a host needs to take back these acts."""
    needed = {tool.name: tool.needs for tool in services.tools()}
    level = LEAST
    for act in acts:
        level = max(level, needed.get(act.tool, LEAST), await _approved_at(services, act))
        if act.by_person:
            level = max(level, OF_A_PERSON)
    return level


async def level_of_undo(services: LevelServices, plan: UndoPlan) -> Trust:
    """Return the level of an undo: that of what it takes back, and of what it does to pages."""
    level = await level_to_take_back(services, plan.acts)
    if any(file.before is None or file.after is None or file.moved_from is not None for file in plan.files):
        level = max(level, Trust.ROUTINE)
    return Trust.HIGH_STAKES if plan.configures or plan.unmarks else level


async def _approved_at(services: LevelServices, act: PastAct) -> Trust:
    """Return the level at which a person approved the act; 0 if nobody did, or if its proposal is no longer kept."""
    proposal = await services.state.trust.proposal(act.proposal) if act.proposal else None
    return Trust(proposal.level_needed) if proposal is not None else Trust.NONE
