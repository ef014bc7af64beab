"""The same call, made again after a person had agreed to it and it was done: found among what is on record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mcp_server.gate.canonical import canonical_text

if TYPE_CHECKING:
    from knowledge.trust.ports import State
    from mcp_server.services import Call, Services

LOOKED_AMONG = 100
APPROVED = "approved"
"""The origin of a call that is planned again because a person has agreed to it."""
EXECUTED: tuple[State, ...] = ("executed",)


@dataclass(frozen=True, slots=True)
class Earlier:
    """A proposal of the same call that was carried out; `answer` is what was answered then."""

    proposal: str
    at: datetime
    answer: Mapping[str, Any]


async def done_earlier(
    services: Services, call: Call, tool: str, asked: Mapping[str, Any], within: timedelta
) -> Earlier | None:
    """Return the caller's own call with the same arguments that a person approved within `within` before, and that was done."""
    if call.origin == APPROVED:
        return None
    done = await services.state.trust.proposals(principal=call.principal.id, states=EXECUTED, limit=LOOKED_AMONG)
    same = canonical_text([dict(asked)])
    for one in done:
        if one.tool == tool and one.arguments == same and one.verdict and one.verdict.at >= services.now() - within:
            answer = json.loads(one.result or "null")
            if isinstance(answer, dict):
                return Earlier(one.id, one.verdict.at, answer)
    return None
