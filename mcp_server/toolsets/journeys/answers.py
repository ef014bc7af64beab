"""The answers of the journey tools, and how they are read from a journey."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.engine.events import canonical, logged_form
from agents.engine.work.questions import open_questions, within
from agents.prompts import prompt as prompting
from agents.prompts.ahead import ahead, outcome, told_with, tools_here
from agents.prompts.prompt import QUESTIONS_TOKENS, TO_ANSWER, question, recorded_result
from mcp_server.ports import JourneyServices
from mcp_server.toolsets.journeys.schemas import Journey

if TYPE_CHECKING:
    from agents.engine.events import Logged
    from agents.engine.progress.position import JourneyPosition
    from agents.engine.state import JourneyState, TransitionRecord
    from agents.engine.work.several import Recorded
    from mcp_server.approvals.zulip.topic_questions import AskedIn


MOST_EVENTS = 40
"""The most events in one answer, which has the newest; the resource has all."""
LONGEST_FIELD = 200
"""Characters of one field of an event in an answer; the resource has all of it."""
KEEPS = "kb_merge"
KEEP = (
    "To keep this result as a page, call {tool} with its path and source journey:{journey}, and without content: the server writes "
    "the result and its sources. Use dry_run true first, and show the person what would be written."
)
UNLISTED = "Journeys are not listed over HTTP without a token. Continue one by its journey_id, or send the token of a registered host."


def shortened(value: Any) -> Any:
    """Return the value, or if it is long its beginning as text."""
    text = value if isinstance(value, str) else canonical(value)
    return value if len(text) <= LONGEST_FIELD else text[:LONGEST_FIELD] + " [cut]"


def event_fields(logged: Logged) -> dict[str, Any]:
    """Return an event as a flat object, without its work, brief and inputs, which can be large."""
    form = dict(logged_form(logged))
    form.pop("key", None)
    event = {name: value for name, value in form.pop("event").items() if name not in ("work", "brief", "inputs")}
    return {**form, **event}


async def journey_answer(
    services: JourneyServices,
    position: JourneyPosition,
    *,
    after_submit: bool = False,
    lean: bool = False,
    asked: AskedIn | None = None,
) -> Journey:
    """Return the position as a host sees it. `lean` leaves out the prompt, the schema of the work and the tools.

    `asked` is the place in Zulip where the question of the checkpoint waits.
    """
    state, agent, phase = position.state, position.agent, position.phase
    recorded = position.recorded_now if after_submit else None
    # After work that was not enough, the host still has the schema and most of the prompt: it gets only what is missing.
    stayed = after_submit and prompting.stayed(state) and not (recorded and len(recorded.phases) > 1)
    known = told_with(agent, position.came_from.phase) if position.came_from else ()
    # A form that was described with an earlier phase is not sent again.
    told = stayed or prompting.as_before(agent, state, known)
    form = agent.forms.get(state.phase) if state.status == "active" and not lean and not told else None
    text = prompting.incomplete(state) if stayed else ""
    specs = services.tools()
    listed, acting = [spec.name for spec in specs], [spec.name for spec in specs if not spec.read_only]
    return Journey(
        journey_id=position.journey,
        version=state.version,
        agent=agent.name,
        state=state.status,
        phase=state.phase,
        visit=state.visit,
        prompt="" if lean else _noted(position.note, text or _instructions(position, recorded, acting, known)),
        work_schema=form.schema if form else None,
        # Some agents name tools in their last phase, with which what the journey found can still be kept.
        allowed_tools=tools_here(agent, phase.name, listed, acting)
        if state.status in ("active", "complete") and not lean
        else [],
        checkpoint=await checkpoint(services, position, asked),
        conversation=state.conversation,
    )


def _noted(note: str, text: str) -> str:
    return f"Note: {note}.\n\n{text}" if note else text


def _instructions(
    position: JourneyPosition, recorded: Recorded | None, acting: Sequence[str], known: Collection[str]
) -> str:
    """Return one text: how far the submission came, the instructions for the present phase, and those for the phases after it."""
    state, agent = position.state, position.agent
    before = outcome(recorded) if recorded else ""
    if before and prompting.stayed(state):
        before += f" {state.phase} is not complete yet."
    if recorded and len(recorded.phases) > 1:
        # The present prompt has the last one; those of the phases before it would be lost.
        before = "\n\n".join(
            part for part in (before, prompting.information(agent, _earlier_moves(state, recorded))) if part
        )
    after = ahead(agent, state.phase, acting, known=known, inputs=state.inputs) if state.status == "active" else ""
    if state.status == "complete" and KEEPS in acting and recorded_result(agent, state).parts:
        after = KEEP.format(tool=KEEPS, journey=position.journey)
    here = prompting.prompt(agent, state, before=position.came_from, known=known)
    return "\n\n".join(part for part in (before, here, after) if part)


def _earlier_moves(state: JourneyState, recorded: Recorded) -> Sequence[TransitionRecord]:
    """Return the moves of a submission for several phases, without the last one."""
    history = list(state.transition_history)
    first = max((n for n, move in enumerate(history) if move.source == recorded.phases[0]), default=len(history))
    return history[first:-1]


async def checkpoint(
    services: JourneyServices, position: JourneyPosition, asked: AskedIn | None = None
) -> Mapping[str, Any] | None:
    """Return the open question to the person and where they can answer it, or None."""
    waits = position.state.checkpoint
    if waits is None:
        return None
    page = await services.review_address()
    fields = {
        "phase": waits.phase,
        "next": waits.target,
        "kind": waits.kind,
        "question": TO_ANSWER if waits.asks else question(position.agent, position.state),
        "verified": waits.own_hand,
        "review_url": f"{page}/journeys/{position.journey}" if page else None,
    }
    if asked is not None:
        fields["asked_in"] = {"place": asked.place, "url": asked.url or None, "note": asked.trouble or None}
    if waits.asks:
        questions = within(open_questions(position.state), QUESTIONS_TOKENS)
        fields["questions"] = [{"id": one.id, "question": one.question, "why": one.why} for one in questions]
    return fields
