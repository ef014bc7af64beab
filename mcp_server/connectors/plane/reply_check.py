"""Checks whether Plane did what was requested, and turns its errors into ours. Pure.

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
    one_line,
)
from mcp_server.connectors.plane.wire import ADDRESS_SETTING, HOW_TO_FIND, SERVICE, UnreadableReply
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest

FIELDS = {
    **{name: name for name in ("name", "priority", "state", "assignees", "labels", "external_id")},
    "description_html": "description",
    "comment_html": "text",
    "start_date": "start",
    "target_date": "due",
    **dict.fromkeys(("non_field_errors", "error", "detail"), ""),
}
"""Plane's names for the subject of an error, and ours.

Under any other name, only lists of sentences are quoted: that is the form of Plane's errors about a field. Anything else is not a
reason, or does not come from Plane. Another service may answer at Plane's address, and its text must not be repeated.
"""

LONGEST_REASON = 110
UNKNOWN_PATH = f"this Plane does not know the request; check {ADDRESS_SETTING}, or its version"
DEFAULT_WAIT_S = 60.0  # Plane counts requests by the minute


def require_success(request: ServiceRequest, reply: ServiceReply, what: str) -> None:
    """Check that the reply reports success; `what` names the request's subject, in our words.

    Raises:
        Denied: 401, 403 (err_no_key_401, err_bad_key, err_guest_create_403, err_workspace_missing).
        Missing: 404 (err_work_item_404, err_bad_uuid_404, err_unknown_route_404).
        ServiceLimited: 429 (err_429).
        ServiceRefused: any other below 500 (work_item_create_badpriority_400, label_create_dup_409, err_method_405).
        ReplyLost, NoAnswer: anything else, for a write and for a read.
    """
    status = reply.status
    if 200 <= status < 300:
        return
    reason = _reason(reply.body)
    if reply.page and 400 <= status < 500:
        raise ServiceRefused(SERVICE, status, f"a page of HTML; is {ADDRESS_SETTING} Plane's address?")
    if status in (401, 403):
        raise Denied(SERVICE, status, reason, _remedy(reply, what))
    if status == 404:
        # Only for a path that it does not know, Plane answers "Page not found" (err_unknown_route_404).
        raise Missing(SERVICE, what, UNKNOWN_PATH if "Page not found" in reason else HOW_TO_FIND)
    if status == 429:
        raise ServiceLimited(SERVICE, _wait_s(reply))
    if 400 <= status < 500:
        raise ServiceRefused(SERVICE, status, reason)
    raise no_usable_reply(request, f"status {status}")


def no_usable_reply(request: ServiceRequest, why: str | UnreadableReply) -> ConnectorError:
    """Return the error of a reply that says nothing about the request, or does not have the documented structure."""
    return ReplyLost(SERVICE, str(why)) if request.writes else NoAnswer(SERVICE, str(why))


def _remedy(reply: ServiceReply, what: str) -> str:
    detail = reply.body.get("detail") if isinstance(reply.body, Mapping) else None
    # A bad key is a 403 with the word "token" in it (err_bad_key); no key at all is a 401 (err_no_key_401).
    if reply.status == 401 or "token" in str(detail).casefold():
        return "PLANE_API_KEY must be a personal access token that is still valid"
    # Plane answers the same for a workspace or project that does not exist: err_workspace_missing,
    # err_project_items_missing_project.
    return f"there is no {what}, or the key's owner is not a member there; guests can only read"


def _wait_s(reply: ServiceReply) -> float:
    try:
        return max(0.0, float(reply.headers.get("retry-after", "")))
    except ValueError:
        return DEFAULT_WAIT_S


def _reason(body: Any) -> str:
    return one_line("; ".join(dict.fromkeys(_sentences(body, ""))) or "no reason given", LONGEST_REASON)


def _sentences(body: Any, about: str) -> Iterable[str]:
    """Yield the reply's reasons without the values that it quotes, because those are text of tasks."""
    if isinstance(body, str):
        bare = re.sub(r"\"[^\"]*\"|“[^”]*”", "", body)
        sentence = " ".join("".join(sign if sign.isprintable() else " " for sign in bare).split()).strip(" -.:")
        if sentence:
            yield f"{about}: {sentence}" if about else sentence
    elif isinstance(body, Mapping):
        for name, value in body.items():
            # Inside of a field the names are places in a list ("0"): they are about the same field.
            if about or name in FIELDS:
                yield from _sentences(value, about or FIELDS[name])
            elif isinstance(value, list) and re.fullmatch(r"[a-z_]{1,40}", name):
                yield from _sentences(value, name)
    elif isinstance(body, Sequence):
        for value in body:
            yield from _sentences(value, about)
