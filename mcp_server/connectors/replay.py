"""The same call, made again after a person had agreed to it and it was done: found among what is on record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mcp_server.gate.canonical_json import canonical_text

if TYPE_CHECKING:
    from knowledge.trust.ports import State
    from mcp_server.gate.caller import Call
    from mcp_server.ports import HasState

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
    services: HasState, call: Call, tool: str, asked: Mapping[str, Any], within: timedelta
) -> Earlier | None:
    """Return the caller's own call with the same arguments that a person approved within `within` before, and that was done."""
    if call.origin == APPROVED:
        return None
    trust = services.state.trust
    done = await trust.lines(principal=call.principal.id, states=EXECUTED, limit=LOOKED_AMONG)
    same = canonical_text([dict(asked)])
    digest = hashlib.sha256(same.encode("utf-8", "surrogatepass")).hexdigest()
    since = services.now() - within
    for line in done:
        if line.tool != tool or line.verdict is None or line.verdict.at < since:
            continue
        one = await trust.proposal(line.id)
        if one is not None and (one.cut.arguments == digest if one.cut else one.arguments == same):
            answer = json.loads(one.result or "null")
            if isinstance(answer, dict):
                return Earlier(one.id, line.verdict.at, answer)
    return None
