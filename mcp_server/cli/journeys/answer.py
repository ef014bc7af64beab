"""`journeys answer`: a person answers an agent's questions, one by one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from agents.engine.runner import JourneyDecision
from agents.engine.work.questions import WorkQuestion, open_questions
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.journeys.records import led
from mcp_server.cli.journeys.view import at_version, state_fields
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.input import object_of
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import print_answer, say
from mcp_server.gate.host_registration import os_user

DONE, NOT_DONE = 0, 1


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this action's arguments."""
    parser.add_argument("--answer", metavar="ID=TEXT", action="append", default=[], help="the answer to one question")
    parser.add_argument("--answers", metavar="FILE", help="answers as a JSON object by id; - for standard input")
    parser.add_argument(
        "--note", metavar="TEXT", default="", help="anything else, or one answer to all remaining questions"
    )


async def answer(args: argparse.Namespace, settings: Settings) -> int:
    """Ask the questions that the command does not answer, and record all answers at the version that asked them."""
    given = await _given(args)
    async with led(settings) as runner:
        here = await runner.position(args.id)
        questions = open_questions(here.state)
        if not questions:
            say(f"{args.id} has no open question; see `knowledge-forge journeys show {args.id}`")
            return NOT_DONE
        if keyboard.is_terminal() and not args.note:
            given |= await _typed(here.agent.title, [question for question in questions if question.id not in given])
        if not given and not args.note.strip():
            waiting = ", ".join(visible(one.id) for one in questions)
            say(f"nothing was answered; still open: {waiting}; answer in a terminal, or with --answer ID=TEXT for each")
            return NOT_DONE
        decision = JourneyDecision("answer", keyboard.decision_channel(), args.note, given)
        now = await runner.decide(args.id, here.state.version, decision, by=os_user())
    line = visible(f"your answers were recorded; {at_version(args.id, now.state)}")
    print_answer(state_fields(args.id, now.agent, now.state), [line], as_json=settings.json)
    return DONE


async def _typed(title: str, questions: Sequence[WorkQuestion]) -> dict[str, str]:
    """Return the person's typed answers; an empty line leaves a question open."""
    if questions:
        say(visible(f"{title} asks. Press Enter to leave a question open; `I don't know` is a valid answer."))
    answers: dict[str, str] = {}
    for number, one in enumerate(questions, 1):
        say(visible(f"{number}/{len(questions)} {one.question}" + (f" ({one.why})" if one.why else "")))
        if text := await keyboard.line("> "):
            answers[one.id] = text
    return answers


async def _given(args: argparse.Namespace) -> dict[str, Any]:
    """Return the answers that came with the command.

    Raises:
        WronglyAsked: they are not in the form that the options take.
    """
    given = await object_of(args.answers, "--answers") if args.answers else {}
    for pair in args.answer:
        id_, equals, text = pair.partition("=")
        if not equals or not id_ or not text.strip():
            raise WronglyAsked(f"--answer {pair[:60]!r} is not ID=TEXT")
        given[id_] = text
    return given
