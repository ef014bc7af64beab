"""The history of a question as turns that every vendor takes. Pure.

Vendors want tool results right behind the message that used the tools, one for each use, before anything else is said.
Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls and
https://platform.openai.com/docs/guides/function-calling
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.loop.model.ports import Echo, FromModel, FromTool, FromUser, Message, ModelRequest, ToolUse

NAME = re.compile(r"[^A-Za-z0-9_-]")
LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class UserTurn:
    """Texts from outside, none of them blank, one or more."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """What the model said, and what came of each of its tool uses, in their order."""

    text: str
    uses: tuple[ToolUse, ...]
    results: tuple[FromTool, ...]
    echo: Echo | None


Turn = UserTurn | ModelTurn


def turns_of(asked: ModelRequest) -> tuple[Turn, ...]:
    """Return the turns, begun by the user and ended by the user or by tool results.

    Messages without any text or use are left out, and neighbours from the user become one turn.

    Raises:
        ValueError: nobody asks anything, or a use is not answered, answered twice, or answered in the wrong place.
    """
    turns: list[Turn] = []
    messages = [message for message in asked.messages if _says_something(message)]
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        if isinstance(message, FromUser):
            _told(turns, message.text)
        elif isinstance(message, FromModel):
            results = _answers(message.uses, messages[place : place + len(message.uses)])
            turns.append(ModelTurn(message.text, message.uses, results, message.echo))
            place += len(results)
        else:
            raise ValueError(f"a result for the use {message.use!r} stands where no use is open")  # noqa: TRY004 - its place is wrong, not its type
    _checked(turns)
    return tuple(turns)


def tool_name(name: str) -> str:
    """Return a name as every vendor takes it back; a model may have made one up that has other characters."""
    return NAME.sub("_", name)[:LONGEST_NAME] or "unnamed"


def holds_echo(asked: ModelRequest, provider: str, model: str) -> bool:
    """Return whether something in the history is wanted back by that model."""
    echoes = [message.echo for message in asked.messages if isinstance(message, FromModel) and message.echo]
    return any((echo.provider, echo.model) == (provider, model) for echo in echoes)


def echoed(turn: ModelTurn, provider: str, model: str, kind: str) -> list[dict[str, Any]] | None:
    """Return what this model wants back of that turn; None where it is another's, or does not hold the turn's uses.

    `kind` is the type of the parts that are uses of tools, which have to be as many as the turn has.
    """
    echo = turn.echo
    if echo is None or (echo.provider, echo.model) != (provider, model):
        return None
    kept: list[dict[str, Any]] = json.loads(echo.content)
    return kept if sum(part.get("type") == kind for part in kept) == len(turn.uses) else None


def made_id(conversation: str, messages: int, place: int) -> str:
    """Return an id for a tool use that came without one, unique in its conversation and the same each time.

    Nine letters and digits: that is all that Mistral's servers take.
    """
    return hashlib.sha256(f"{conversation}/{messages}/{place}".encode()).hexdigest()[:9]


def _says_something(message: Message) -> bool:
    if isinstance(message, FromTool):
        return True
    return bool(message.text.strip()) or (isinstance(message, FromModel) and bool(message.uses))


def _told(turns: list[Turn], text: str) -> None:
    last = turns[-1] if turns else None
    if isinstance(last, UserTurn):
        turns[-1] = UserTurn((*last.texts, text))
    else:
        turns.append(UserTurn((text,)))


def _answers(uses: Sequence[ToolUse], following: Sequence[Message]) -> tuple[FromTool, ...]:
    results = {message.use: message for message in following if isinstance(message, FromTool)}
    missing = [use.id for use in uses if use.id not in results]
    if missing or len(results) != len(uses):
        raise ValueError(f"every use of a tool is answered once, right behind it; these are not: {missing}")
    return tuple(results[use.id] for use in uses)


def _checked(turns: Sequence[Turn]) -> None:
    if not turns or not isinstance(turns[0], UserTurn):
        raise ValueError("a conversation begins with what the user says")
    last = turns[-1]
    # Several models refuse to go on with a message of their own.
    if isinstance(last, ModelTurn) and not last.uses:
        raise ValueError("the last word must be the user's or a tool's")
