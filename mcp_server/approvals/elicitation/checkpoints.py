"""The form for a blocking checkpoint of a journey, and the meaning of the answer.

If the work asks questions, the form has a field for each; otherwise it asks whether the work may continue. A checkpoint grants no
authority, so a form is enough even at checkpoints that ask for a person.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from knowledge.errors import KnowledgeError
from mcp_server.approvals.elicitation.proposal_form import FIELD, ElicitationForm, FormReply
from mcp_server.approvals.wait import until
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import forms_count
from mcp_server.late_module import LateModule
from mcp_server.ports import ElicitationServices

if TYPE_CHECKING:
    from agents.engine import runner
    from agents.engine.progress.position import JourneyPosition
    from agents.engine.runner import JourneyDecision
    from agents.engine.work import questions
    from mcp_server.approvals.reviewers import work_deciders
    from mcp_server.web.text import sanitize
else:
    runner = LateModule("agents.engine.runner")
    questions = LateModule("agents.engine.work.questions")
    work_deciders = LateModule("mcp_server.approvals.reviewers.work_deciders")
    sanitize = LateModule("mcp_server.web.text.sanitize")

logger = logging.getLogger("knowledge_forge.gate")

ASKED = "checkpoint:"
"""The prefix of the state of a checkpoint's question. Version and journey follow."""
LONGEST_SHOWN = 6_000
MOST_FIELDS = 10
"""Questions with their own field in a form. Further ones are answered in the note."""
LONGEST_TITLE, LONGEST_ANSWER, LONGEST_NOTE = 300, 1_500, 2_000
"""Characters. All answers of a form together fit into one decision of a journey, in any language."""
ANSWER, NOTE = "answer_", "note"
"""Names of fields. The questions' own ids come from a model and could be anything."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        FIELD: {
            "type": "string",
            "title": "Decision",
            "description": "Continue as submitted, or redo the work",
            "enum": ["approve", "reject"],
        },
        "note": {
            "type": "string",
            "title": "Note",
            "description": "What should be different, and why",
            "maxLength": LONGEST_NOTE,
        },
    },
    "required": [FIELD],
}


@dataclass(frozen=True, slots=True)
class CheckpointQuestion:
    """A waiting checkpoint: the journey, and its version when the question was asked."""

    journey: str
    version: int

    @property
    def state(self) -> str:
        """The state that the client sends back with the answer."""
        return f"{ASKED}{self.version}:{self.journey}"


def question_in(content: Mapping[str, Any]) -> CheckpointQuestion | None:
    """Return the question that an answer of `journey_submit` leaves to a person, or None."""
    if content.get("state") != "waiting" or not content.get("checkpoint"):
        return None
    return CheckpointQuestion(str(content["journey_id"]), int(content["version"]))


def question_of(state: str) -> CheckpointQuestion | None:
    """Return the question that a client's state names; None if it is the state of something else."""
    version, _, journey = state.removeprefix(ASKED).partition(":")
    if not state.startswith(ASKED) or not version.isdecimal() or not journey:
        return None
    return CheckpointQuestion(journey, int(version))


async def form(services: ElicitationServices, asked: CheckpointQuestion) -> ElicitationForm:
    """Return the form; hidden and direction-changing characters of its texts are made visible."""
    from agents.prompts import prompt as prompting

    position = await services.journeys.position(asked.journey, version=asked.version)
    state, asks = position.state, questions.open_questions(position.state)
    page = await services.review_address()
    done = "\n".join(f"- {line}" for line in prompting.done_lines(position.agent, state))
    parts = (
        f"{position.agent.title}: {prompting.cut(state.brief, prompting.BRIEF_TOKENS)}",
        _listed(asks) if asks else prompting.question(position.agent, state),
        done,
    )
    text = "\n\n".join(part for part in parts if part)
    if len(text) > LONGEST_SHOWN:
        text = text[:LONGEST_SHOWN] + "\n[cut: the page has all of it]"
    below = f"\n\nAll of it: {page}/journeys/{asked.journey}" if page else ""
    return ElicitationForm(sanitize.spelled_out(text) + below, schema_of(asks) if asks else SCHEMA)


def _listed(asks: Sequence[questions.WorkQuestion]) -> str:
    lines = [f"{n}. {one.question}" + (f" ({one.why})" if one.why else "") for n, one in enumerate(asks, 1)]
    return "\n".join(["Please answer before the work continues. `I do not know` is a valid answer.", *lines])


def schema_of(asks: Sequence[questions.WorkQuestion]) -> dict[str, Any]:
    """Return the schema of a form with a field for each question, and a note for the rest."""
    shown = asks[:MOST_FIELDS]
    fields = {f"{ANSWER}{n}": _field(f"{n}. {one.question}", one.why) for n, one in enumerate(shown, 1)}
    more = len(asks) - len(shown)
    note = (
        _field(f"Questions {len(shown) + 1} to {len(asks)}", "They are listed above")
        if more
        else _field("Note", "Anything else that matters; it also answers the questions you leave empty")
    )
    return {
        "type": "object",
        "properties": {**fields, NOTE: {**note, "maxLength": LONGEST_NOTE}},
        "required": [*fields, *([NOTE] if more else [])],
    }


def _field(title: str, meaning: str) -> dict[str, Any]:
    short = title if len(title) <= LONGEST_TITLE else title[:LONGEST_TITLE] + " [...]"
    about = {"description": sanitize.spelled_out(meaning[:LONGEST_TITLE])} if meaning else {}
    return {"type": "string", "title": sanitize.spelled_out(short), **about, "maxLength": LONGEST_ANSWER}


def answered(asks: Sequence[questions.WorkQuestion], filled: Mapping[str, str]) -> JourneyDecision | None:
    """Return the answers of a form with these questions as a decision; None if every field is empty."""
    answers = {one.id: filled.get(f"{ANSWER}{n}", "").strip() for n, one in enumerate(asks[:MOST_FIELDS], 1)}
    given, note = {id_: text for id_, text in answers.items() if text}, filled.get(NOTE, "").strip()[:LONGEST_NOTE]
    return runner.JourneyDecision("answer", "host", note, given) if given or note else None


async def settle(
    services: ElicitationServices, call: Call, asked: CheckpointQuestion, reply: FormReply
) -> JourneyPosition:
    """Record the form's answer, unless somebody has already decided, and return the journey's new position.

    An answer in a host whose forms don't count, or no longer count, decides nothing.
    """
    journeys = services.journeys
    decision: JourneyDecision | None = None
    if await forms_count(services.state, call.principal):
        at_question = await journeys.position(asked.journey, version=asked.version)
        if asks := questions.open_questions(at_question.state):
            decision = answered(asks, reply.filled)
        elif reply.word != "nothing":
            decision = runner.JourneyDecision(reply.word, "host", reply.note)
    if decision:
        try:
            there = await work_deciders.decide_on_journey(
                services,
                asked.journey,
                asked.version,
                decision,
                by=f"{call.principal.id} (in the host)",
                principal=call.principal.id,
            )
            # A call that is sent again is answered with the position alone, so this one gets all of it, too.
            return replace(there, came_from=None)
        except KnowledgeError as error:
            # Somebody else decided first, or a question was left open: the position below shows it.
            logger.debug("%s: %s", asked.journey, error)
    return await journeys.position(asked.journey)


async def is_enough(services: ElicitationServices, asked: CheckpointQuestion, principal: str) -> bool:
    """Return whether a form in that principal's host can settle the question.

    It can't if other people review the pages that the journey changes.
    """
    state = await services.journeys.store.journey(asked.journey)
    decision = "answer" if state.checkpoint and state.checkpoint.asks else "approve"
    return not await services.work_reviewers.on_journey(asked.journey, decision, principal)


async def still_asked(services: ElicitationServices, asked: CheckpointQuestion) -> bool:
    """Return whether the journey is still at the version with the question."""
    return (await services.journeys.store.journey(asked.journey)).version == asked.version


async def decided(services: ElicitationServices, asked: CheckpointQuestion) -> None:
    """Wait until the journey has moved on from the question."""

    async def moved_on() -> bool:
        return not await still_asked(services, asked)

    async with services.waiting:
        await until(services.state, moved_on)
