"""Asking a person in the host at a blocking checkpoint of a journey: a form, and what an answer to it means.

A checkpoint grants no authority, so a form is enough for every one of them, also where the person's own hand is asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knowledge.errors import KnowledgeError
from mcp_server.gate.asking import FIELD, Reply
from mcp_server.services import Call, Services

if TYPE_CHECKING:
    from agents.running import Position

logger = logging.getLogger("knowledge_forge.gate")

TOOL = "journey_submit"
"""The tool whose answer may be a question to a person."""
ASKED = "checkpoint:"
"""Begins the state of such a question: then come version and journey."""
LONGEST_SHOWN = 6_000

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        FIELD: {
            "type": "string",
            "title": "Decision",
            "description": "Go on as submitted, or work on it again",
            "enum": ["approve", "reject"],
        },
        "note": {
            "type": "string",
            "title": "Note",
            "description": "What should be different, and why",
            "maxLength": 2000,
        },
    },
    "required": [FIELD],
}


@dataclass(frozen=True, slots=True)
class Question:
    """A checkpoint that waits: the journey at the version at which it was asked."""

    journey: str
    version: int

    @property
    def state(self) -> str:
        """Return what the client carries until it answers."""
        return f"{ASKED}{self.version}:{self.journey}"


def question_in(tool: str, content: Mapping[str, Any]) -> Question | None:
    """Return the question that an answer of that tool leaves to a person, if it leaves one."""
    if tool != TOOL or content.get("state") != "waiting" or not content.get("checkpoint"):
        return None
    return Question(str(content["journey_id"]), int(content["version"]))


def question_of(state: str) -> Question | None:
    """Return the question that a client carried; None if the state is none of these."""
    version, _, journey = state.removeprefix(ASKED).partition(":")
    if not state.startswith(ASKED) or not version.isdecimal() or not journey:
        return None
    return Question(journey, int(version))


async def message(services: Services, asked: Question) -> str:
    """Return what the form says above its fields; hidden and direction-changing characters are made visible."""
    from agents import prompting
    from mcp_server.review.inert import marks

    position = await services.journeys.position(asked.journey, version=asked.version)
    page = await services.review_address()
    done = "\n".join(f"- {line}" for line in prompting.done_lines(position.agent, position.state))
    parts = (
        f"{position.agent.title}: {prompting.cut(position.state.brief, prompting.BRIEF_TOKENS)}",
        prompting.question(position.agent, position.state),
        done,
    )
    text = "\n\n".join(part for part in parts if part)
    if len(text) > LONGEST_SHOWN:
        text = text[:LONGEST_SHOWN] + "\n[cut: the page has all of it]"
    for mark in reversed(marks(text)):
        text = text[: mark.start] + mark.shown + text[mark.end :]
    return text + (f"\n\nAll of it: {page}/journeys/{asked.journey}" if page else "")


async def settle(services: Services, call: Call, asked: Question, reply: Reply) -> Position:
    """Record what the form was answered with, if it was and nobody decided before, and return where the journey stands then."""
    from agents.running import Opinion

    journeys = services.journeys
    if reply.word in ("approve", "reject"):
        opinion = Opinion("approve" if reply.word == "approve" else "reject", "host", reply.note)
        try:
            return await journeys.decide(asked.journey, asked.version, opinion, by=f"{call.principal.id} (in the host)")
        except KnowledgeError as error:
            logger.debug("%s: %s", asked.journey, error)  # somebody else decided first: where it stands is told below
    return await journeys.position(asked.journey)


async def still_asked(services: Services, asked: Question) -> bool:
    """Return whether the journey still stands at the question."""
    return (await services.journeys.store.journey(asked.journey)).version == asked.version


async def decided(services: Services, asked: Question) -> None:
    """Return when the journey does not stand at the question any more."""
    async with services.waiting:
        while True:
            seen = await services.state.last_event()
            if not await still_asked(services, asked):
                return
            await services.state.changed(seen)
