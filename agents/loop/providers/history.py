"""The history of a request as turns that every vendor accepts. Pure.

Vendors want the tool results directly after the message that used the tools, one for each use, before anything else.
Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls and
https://platform.openai.com/docs/guides/function-calling
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from agents.loop.model.ports import Echo, FromModel, FromTool, FromUser, ModelRequest, ToolUse

LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class UserTurn:
    """One or more texts from outside, none of them blank."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A message of the model, and the results of its tool uses in their order."""

    text: str
    uses: tuple[ToolUse, ...]
    results: tuple[FromTool, ...]
    echo: Echo | None


Turn = UserTurn | ModelTurn


def turns_of(request: ModelRequest) -> tuple[Turn, ...]:
    """Return the turns: the first is the user's, the last is the user's or has tool results.

    Messages with neither text nor uses are left out, and consecutive messages of the user become one turn.

    Raises:
        ValueError: there is no message of the user; or a tool use has no result, two results, or a result in the wrong
            place.
    """
    turns: list[Turn] = []
    messages = [
        message
        for message in request.messages
        if isinstance(message, FromTool) or message.text.strip() or (isinstance(message, FromModel) and message.uses)
    ]
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        last = turns[-1] if turns else None
        if isinstance(message, FromUser) and isinstance(last, UserTurn):
            turns[-1] = UserTurn((*last.texts, message.text))
        elif isinstance(message, FromUser):
            turns.append(UserTurn((message.text,)))
        elif isinstance(message, FromModel):
            following = messages[place : place + len(message.uses)]
            results = {result.use: result for result in following if isinstance(result, FromTool)}
            missing = [use.id for use in message.uses if use.id not in results]
            if missing or len(results) != len(message.uses):
                raise ValueError(f"every use of a tool needs one result directly after it; these have none: {missing}")
            ordered = tuple(results[use.id] for use in message.uses)
            turns.append(ModelTurn(message.text, message.uses, ordered, message.echo))
            place += len(results)
        else:
            raise ValueError(f"the result for the use {message.use!r} does not follow that use")  # noqa: TRY004 - its place is wrong, not its type
    if not turns or not isinstance(turns[0], UserTurn):
        raise ValueError("a conversation begins with a message of the user")
    last = turns[-1]
    # Several models refuse to continue a message of their own.
    if isinstance(last, ModelTurn) and not last.uses:
        raise ValueError("the last message must be the user's or a tool's")
    return tuple(turns)


def tool_name(name: str) -> str:
    """Return a name that every vendor accepts in a history; a model may have made up one with other characters."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:LONGEST_NAME] or "unnamed"


def echoed(turn: ModelTurn, provider: str, model: str, kind: str) -> list[dict[str, Any]] | None:
    """Return the parts that this model wants back with the turn; None if they are another model's or lack uses of the turn.

    `kind` is the type of the parts that are tool uses; there must be as many as the turn has.
    """
    echo = turn.echo
    if echo is None or (echo.provider, echo.model) != (provider, model):
        return None
    kept: list[dict[str, Any]] = json.loads(echo.content)
    # If the turn has fewer uses, a call was left out of the record, and a signature for the whole message is invalid.
    return kept if sum(part.get("type") == kind for part in kept) == len(turn.uses) else None


def made_id(conversation: str, messages: int, place: int) -> str:
    """Return an id for a tool use that came without one: unique in its conversation, and the same each time.

    Nine letters and digits, because Mistral's servers accept nothing else.
    """
    return hashlib.sha256(f"{conversation}/{messages}/{place}".encode()).hexdigest()[:9]
