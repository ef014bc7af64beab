"""The answers of the journey tools, and how they are read from a journey."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agents.engine.events import canonical, logged_form
from agents.engine.work.questions import open_questions, within
from agents.prompts import prompt as prompting
from agents.prompts.prompt import QUESTIONS_TOKENS, TO_ANSWER, question
from mcp_server.ports import JourneyServices
from mcp_server.toolsets.journeys.schemas import Journey

if TYPE_CHECKING:
    from agents.engine.events import Logged
    from agents.engine.progress.position import JourneyPosition


MOST_TOLD = 40
"""Events of one answer, the newest; the resource has all."""


LONGEST_FIELD = 200
"""Characters of one field of an event; the resource has all of it."""


UNLISTED = "Journeys are not listed over HTTP without a token. Continue one by its journey_id, or send the token of a registered host."


def _shortened(value: Any) -> Any:
    """Return the value of a field as it is; of a long one its beginning, as text."""
    text = value if isinstance(value, str) else canonical(value)
    return value if len(text) <= LONGEST_FIELD else text[:LONGEST_FIELD] + " [cut]"


def event_line(logged: Logged) -> dict[str, Any]:
    """Return an event as a flat object; works and briefs are only mentioned."""
    form = dict(logged_form(logged))
    form.pop("key", None)
    event = {name: value for name, value in form.pop("event").items() if name not in ("work", "brief", "inputs")}
    return {**form, **event}


async def told(
    services: JourneyServices, position: JourneyPosition, *, after_submit: bool = False, lean: bool = False
) -> Journey:
    """Return the position as a host sees it; `lean`: without what it can do next."""
    state, agent = position.state, position.agent
    stayed = after_submit and prompting.stayed(state)
    listed = [spec.name for spec in services.tools()]
    form = agent.forms.get(state.phase) if state.status == "active" and not lean and not stayed else None
    phase = position.phase
    return Journey(
        journey_id=position.journey,
        version=state.version,
        agent=agent.name,
        state=state.status,
        phase=state.phase,
        visit=state.visit,
        prompt="" if lean else prompting.incomplete(state) if stayed else prompting.prompt(agent, state),
        work_schema=form.schema if form else None,
        allowed_tools=prompting.tools_at(phase, listed) if state.status in ("active", "complete") and not lean else [],
        checkpoint=await checkpoint(services, position),
        conversation=state.conversation,
    )


async def checkpoint(services: JourneyServices, position: JourneyPosition) -> Mapping[str, Any] | None:
    """Return the open question and where a person can answer it, or None."""
    asked = position.state.checkpoint
    if asked is None:
        return None
    page = await services.review_address()
    questions = within(open_questions(position.state), QUESTIONS_TOKENS)
    told = [{"id": one.id, "question": one.question, "why": one.why} for one in questions]
    return {
        "phase": asked.phase,
        "next": asked.target,
        "kind": asked.kind,
        "question": TO_ANSWER if asked.asks else question(position.agent, position.state),
        "verified": asked.own_hand,
        "review_url": f"{page}/journeys/{position.journey}" if page else None,
        **({"questions": told} if asked.asks else {}),
    }
