"""A Zulip for tests: its HTTP API on a real socket, answering as the recorded one did.

`Zulip` is an ASGI application around a `World`; `tests/doubles/serving.py` runs it. Where no sample shows a behaviour, it follows
the vendor's pages, named where they are used. A test replays every recorded request on it.

Source: tests/samples/zulip (Zulip 9.0-dev, feature level 247), https://zulip.com/api/rest and https://zulip.com/api/changelog
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
import time
from collections.abc import Callable, Mapping
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from tests.doubles.zulip_handlers import FILE_NAME, FILE_TEXT, TEMPORARY, Answer, Handlers, Parameters
from tests.doubles.zulip_world import RECORDED_LEVEL, Refusal, User, World

ALLOWED_A_MINUTE = 200
PAGE = '<!DOCTYPE html>\n<html lang="en">\n<head><title>Page not found</title></head><body>Page not found (404)</body></html>'


class Zulip(Handlers):
    """The API of `world`. `heartbeat_s`: how long a request for events waits before it is answered with a heartbeat."""

    def __init__(
        self,
        level: int = RECORDED_LEVEL,
        *,
        modern: bool = False,
        now: Callable[[], float] = time.time,
        heartbeat_s: float = 45.0,
    ) -> None:
        super().__init__(World(level, modern=modern, now=now), heartbeat_s)
        self._used: dict[int, int] = {}
        self._routes: list[tuple[re.Pattern[str], dict[str, Callable[..., Any]]]] = [
            (re.compile(f"/api/v1{pattern}"), methods) for pattern, methods in self._table().items()
        ]

    def _table(self) -> dict[str, dict[str, Callable[..., Any]]]:
        return {
            r"/server_settings": {"GET": self._server_settings},
            r"/users/me": {"GET": self._me},
            r"/users": {"GET": self._users},
            r"/users/me/subscriptions": {
                "GET": self._subscriptions,
                "POST": self._subscribe,
                "DELETE": self._unsubscribe,
            },
            r"/users/me/alert_words": {"GET": self._alert_words},
            r"/users/me/(\d+)/topics": {"GET": self._topics},
            r"/users/(\d+)/presence": {"GET": self._presence},
            r"/users/([^/]+)": {"GET": self._user},
            r"/streams": {"GET": self._streams},
            r"/streams/(\d+)": {"GET": self._stream, "PATCH": self._update_stream},
            r"/streams/(\d+)/members": {"GET": self._members},
            r"/get_stream_id": {"GET": self._stream_id},
            r"/user_uploads/(\d+/.+)": {"GET": self._file_url},
            r"/bots": {"GET": self._bots, "POST": self._create_bot},
            r"/register": {"POST": self._register},
            r"/events": {"GET": self._events, "DELETE": self._drop},
            r"/messages": {"GET": self._messages, "POST": self._send, "HEAD": self._messages},
            r"/messages/flags": {"POST": self._flags},
            r"/messages/render": {"POST": self._render},
            r"/scheduled_messages": {"GET": self._scheduled, "POST": self._schedule},
            r"/scheduled_messages/(\d+)": {"DELETE": self._unschedule},
            r"/user_uploads": {"POST": self._upload},
            r"/messages/(\d+)": {"GET": self._message, "PATCH": self._edit, "DELETE": self._delete},
            r"/messages/(\d+)/history": {"GET": self._history},
            r"/messages/(\d+)/reactions": {"POST": self._react, "DELETE": self._unreact},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        content, more = b"", True
        while more:
            message = await receive()
            content += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        asked = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
        kind = headers.get("content-type", "")
        if kind.startswith("application/x-www-form-urlencoded"):
            asked |= dict(parse_qsl(content.decode(), keep_blank_values=True))
        if kind.startswith("multipart/form-data"):
            asked |= _sent_file(kind, content)
        status, body, extra = await self._answered(scope["method"], scope["path"], headers, asked)
        if isinstance(body, bytes):
            text, kind = body, "application/octet-stream"
        elif isinstance(body, str):
            text, kind = body.encode(), "text/html; charset=utf-8"
        else:
            text = json.dumps(body, ensure_ascii=False).encode()
            kind = "text/html; charset=utf-8" if status == 405 else "application/json"
        out = {"content-type": kind, "content-length": str(len(text)), "content-language": "en", **extra}
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(name.encode(), value.encode("latin-1")) for name, value in out.items()],
            }
        )
        await send({"type": "http.response.body", "body": text})

    async def _answered(
        self, method: str, path: str, headers: Mapping[str, str], asked: Parameters
    ) -> tuple[int, Answer | str | bytes, dict[str, str]]:
        if path.startswith(TEMPORARY):
            content = self.world.files.get(path.removeprefix(TEMPORARY))
            return (200, content, {}) if content is not None else (404, PAGE, {})
        found = next(((m, ways) for route, ways in self._routes if (m := route.fullmatch(path))), None)
        if found is None:
            return 404, PAGE, {}
        matched, ways = found
        if method not in ways:
            allowed = [*ways, *(["HEAD"] if "GET" in ways and "HEAD" not in ways else [])]
            order = [way for way in ("GET", "POST", "PATCH", "DELETE", "HEAD") if way in allowed]
            body: Answer = {"result": "error", "msg": "Method Not Allowed", "allowed_methods": order}
            return 405, body, {"allow": ", ".join(order)}
        extra: dict[str, str] = {}
        try:
            user = None if path.endswith("/server_settings") else self._authenticated(headers)
            if user is not None:
                extra = self._limited(user)
            answer = ways[method](user, asked, *matched.groups())
            body = await answer if asyncio.iscoroutine(answer) else answer
        except Refusal as refusal:
            return self._refused(refusal, extra)
        return 200, {"result": "success", "msg": "", **body}, extra

    @staticmethod
    def _refused(refusal: Refusal, extra: dict[str, str]) -> tuple[int, Answer | str, dict[str, str]]:
        if refusal.page:
            return refusal.status, f"<p>{refusal}</p>", extra
        if refusal.status == 401:
            extra = {"www-authenticate": 'Basic realm="zulip"'}
        if refusal.status == 429:
            wait = refusal.body["retry-after"]
            extra = {"retry-after": str(wait), "x-ratelimit-limit": str(ALLOWED_A_MINUTE), "x-ratelimit-remaining": "0"}
        return refusal.status, refusal.body, extra

    def _authenticated(self, headers: Mapping[str, str]) -> User:
        """Return whose key it is. Sources: err_no_auth_401.json, err_bearer_401.json, err_bad_key_401.json."""
        given = headers.get("authorization")
        if given is None:
            raise Refusal("Not logged in: API authentication or user session required", "UNAUTHORIZED", 401)
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "basic":
            raise Refusal("This endpoint requires HTTP basic authentication.")
        try:
            email, _, key = base64.b64decode(token).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise Refusal("Invalid authorization header for basic auth", "UNAUTHORIZED", 401) from None
        if not re.fullmatch(r"[0-9a-zA-Z]{32}", key):
            raise Refusal("Malformed API key", "UNAUTHORIZED", 401)
        found = next((user for user in self.world.users.values() if user.key == key), None)
        if found is None or email.casefold() not in (found.email.casefold(), _delivery(found).casefold()):
            raise Refusal("Invalid API key", "UNAUTHORIZED", 401)
        if not found.active:
            raise Refusal("Account is deactivated", "USER_DEACTIVATED", 401)
        return found

    def _limited(self, user: User) -> dict[str, str]:
        """Count the request. Sources: err_429.json, and the headers of every sample."""
        if user.id in self.world.exhausted:
            wait = self.world.exhausted[user.id]
            more: dict[str, Any] = {"retry-after": wait}
            raise Refusal("API usage exceeded rate limit", "RATE_LIMIT_HIT", 429, **more)
        self._used[user.id] = self._used.get(user.id, 0) + 1
        left = max(0, ALLOWED_A_MINUTE - self._used[user.id])
        reset = str(int(self.world.now()) + 60)
        return {
            "x-ratelimit-limit": str(ALLOWED_A_MINUTE),
            "x-ratelimit-remaining": str(left),
            "x-ratelimit-reset": reset,
        }


def _sent_file(kind: str, content: bytes) -> dict[str, str]:
    """Return the name and the text of the one file in a form."""
    form = BytesParser(policy=HTTP).parsebytes(f"content-type: {kind}\r\n\r\n".encode() + content)
    (part,) = form.iter_parts()
    return {
        FILE_NAME: str(part.get_filename()),
        FILE_TEXT: bytes(part.get_payload(decode=True)).decode("utf-8", "surrogateescape"),
    }


def _delivery(user: User) -> str:
    return str(user.record.get("delivery_email") or "")
