"""Whether Plane did what it was asked, and what is wrong where it did not, in our words. Pure.

Source: https://developers.plane.so/api-reference/introduction, and replies recorded from a community edition 1.2.3
(tests/samples/plane; the names in brackets are theirs).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp_server.connectors.errors import (
    ConnectorError,
    Denied,
    Missing,
    NoAnswer,
    ReplyLost,
    ServiceLimited,
    ServiceRefused,
)
from mcp_server.connectors.plane.wire import ADDRESS_SETTING, HOW_TO_FIND, SERVICE, UnreadableReply
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest

FIELDS = {
    "name": "name",
    "description_html": "description",
    "comment_html": "text",
    "start_date": "start",
    "target_date": "due",
    "parent": "parent",
    "priority": "priority",
    "state": "state",
    "assignees": "assignees",
    "labels": "labels",
    "external_id": "external_id",
    "non_field_errors": "",
    "error": "",
    "detail": "",
}
"""Plane's words for what an error is about, in ours. Of other words only lists are told, as fields have them.

Anything else is no reason, or no answer of Plane: what another service says at its address is nobody's business.
"""

LONGEST_REASON = 110
UNKNOWN_PATH = f"this Plane does not know the question; check {ADDRESS_SETTING}, or its version"
DEFAULT_WAIT_S = 60.0


def judge(request: ServiceRequest, reply: ServiceReply, what: str) -> None:
    """Return where the reply says that it was done; `what` was asked about, in our words.

    Raises:
        Denied: 401, 403 (err_no_key_401, err_bad_key, err_guest_create_403, err_workspace_missing).
        Missing: 404 (err_work_item_404, err_bad_uuid_404, err_unknown_route_404).
        Limited: 429 (err_429).
        Refused: any other below 500 (work_item_create_badpriority_400, label_create_dup_409, err_method_405).
        ReplyLost, NoAnswer: anything else, for a request that writes and for one that reads.
    """
    if 200 <= reply.status < 300:
        return
    raise _verdict(request, reply, what)


def unreadable(request: ServiceRequest, odd: UnreadableReply) -> ConnectorError:
    """Return the error of a reply that says that it was done, and has not the shape that such a reply has."""
    return ReplyLost(SERVICE, str(odd)) if request.writes else NoAnswer(SERVICE, str(odd))


def _verdict(request: ServiceRequest, reply: ServiceReply, what: str) -> ConnectorError:
    reason = f"a page of HTML; is {ADDRESS_SETTING} Plane's address?" if reply.page else _reason(reply.body)
    if reply.page and 400 <= reply.status < 500:
        return ServiceRefused(SERVICE, reply.status, reason)
    if reply.status in (401, 403):
        return Denied(SERVICE, reply.status, reason, _mend(reply, what))
    if reply.status == 404:
        return Missing(SERVICE, what, UNKNOWN_PATH if "Page not found" in reason else HOW_TO_FIND)
    if reply.status == 429:
        return ServiceLimited(SERVICE, _wait_s(reply))
    if 400 <= reply.status < 500:
        return ServiceRefused(SERVICE, reply.status, reason)
    lost = f"status {reply.status}"
    return ReplyLost(SERVICE, lost) if request.writes else NoAnswer(SERVICE, lost)


def _mend(reply: ServiceReply, what: str) -> str:
    detail = reply.body.get("detail") if isinstance(reply.body, Mapping) else None
    if reply.status == 401 or "token" in str(detail).casefold():
        return "PLANE_API_KEY has to be a personal access token that is still valid"
    # Plane answers the same for what is not there: err_workspace_missing, err_project_items_missing_project.
    return f"either there is no {what}, or the key's owner is no member there; guests only read"


def _wait_s(reply: ServiceReply) -> float:
    try:
        return max(0.0, float(reply.headers.get("retry-after", "")))
    except ValueError:
        return DEFAULT_WAIT_S


def _reason(body: Any) -> str:
    """Return what the reply says is wrong, without the values that it quotes (they are text of tasks)."""
    told = "; ".join(dict.fromkeys(_sentences(body, ""))) or "no reason given"
    return told if len(told) <= LONGEST_REASON else told[: LONGEST_REASON - 3] + "..."


def _sentences(body: Any, about: str) -> Iterable[str]:
    if isinstance(body, str):
        bare = re.sub(r"\"[^\"]*\"|“[^”]*”", "", body)
        said = " ".join("".join(sign if sign.isprintable() else " " for sign in bare).split()).strip(" -.:")
        if said:
            yield f"{about}: {said}" if about else said
    elif isinstance(body, Mapping):
        for name, told in body.items():
            # Inside of a field are places in a list ("0"): they are about the same field.
            if about or name in FIELDS:
                yield from _sentences(told, about or FIELDS[name])
            elif isinstance(told, list) and re.fullmatch(r"[a-z_]{1,40}", name):
                yield from _sentences(told, name)
    elif isinstance(body, Sequence):
        for told in body:
            yield from _sentences(told, about)
