"""The rules for every request to the page and every answer from it.

Source: W3C Content Security Policy level 3; RFC 6454 (Origin); RFC 9110, section 7.2 (Host).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server.app.settings.sign_in import browser_origin

NAMES = ("localhost", "127.0.0.1", "[::1]")
POLICY = "content-security-policy"
HEADERS: Mapping[str, str] = {
    POLICY: (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # Not no-referrer: with that a browser sends "Origin: null" with our own forms, and the origin could not be checked.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "publickey-credentials-get=(self), publickey-credentials-create=(self)",
    "cache-control": "no-store",
}
_SAFE = ("GET", "HEAD")
_STRANGE_SITES = ("cross-site", "same-site")
"""To a browser, other ports of localhost are the same site, but they belong to other programs."""


def own_hosts(port: int) -> list[str]:
    """Return the values of the `Host` header with which requests from this machine reach the site at `port`."""
    return [f"{name}:{port}" for name in NAMES]


class Guard:
    """Refuse requests under another name or from another page, and put the safety headers on every answer."""

    def __init__(self, app: ASGIApp, port: int, public_url: str | None = None) -> None:
        self._app = app
        self._origins = {host: f"http://{host}" for host in own_hosts(port)}
        """The origin of pages under each accepted name."""
        if public_url is not None:
            origin = browser_origin(public_url)
            self._origins[origin.partition("://")[2]] = origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            return

        headers = Headers(scope=scope)
        # A request without a body has been read as a whole already.
        read = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers

        async def reading() -> Message:
            nonlocal read
            message = await receive()
            read = read or not message.get("more_body", False)
            return message

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    # Only files of the knowledge base bring their own policy, which forbids more.
                    if name != POLICY or not headers.get(POLICY, "").startswith("sandbox;"):
                        headers[name] = value
                if not read:
                    # Otherwise the web server would read the rest of a body that nobody wants, however long it is.
                    headers["connection"] = "close"
            await send(message)

        refusal = self._refusal(str(scope["method"]), headers)
        answer: ASGIApp = PlainTextResponse(status_code=refusal) if refusal else self._app
        await answer(scope, reading, guarded)

    @staticmethod
    def _embedded(headers: Mapping[str, Any]) -> bool:
        """Return whether a page of another site loads something from here, other than by a link that a person follows.

        Browsers send our cookie along from pages on other ports. A picture or stream in such a page could keep this server
        busy, or make it believe that a person is looking. (W3C Fetch Metadata. Browsers without it look like programs.)
        """
        followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return headers.get("sec-fetch-site") in _STRANGE_SITES and not followed

    def _refusal(self, method: str, headers: Mapping[str, Any]) -> int:
        """Return the status with which to refuse the request, 0 to let it pass."""
        # Another name for this address is DNS rebinding: a page of that name could read the answers.
        own = self._origins.get(str(headers.get("host", "")))
        if own is None:
            return 421
        if method in _SAFE:
            return 403 if self._embedded(headers) else 0
        origin = headers.get("origin")
        foreign = origin is not None and origin != own
        return 403 if foreign or headers.get("sec-fetch-site") in _STRANGE_SITES else 0
