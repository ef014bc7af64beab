"""A receiver of webhooks for tests: checks signatures as a consumer of Standard Webhooks does, and drops copies by their id.

Source: Standard Webhooks, "Verifying signatures", and the specification's Python library, `standardwebhooks/webhooks.py`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.types import Receive, Scope, Send

TOLERANCE_S = 5 * 60


@dataclass
class Receiver:
    """An endpoint. `taken` has each message once, by its id; `copies` counts deliveries of one that was taken before."""

    secret: str
    taken: dict[str, bytes] = field(default_factory=dict)
    copies: int = 0
    refused: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        content, more = b"", True
        while more:
            message = await receive()
            content += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        status = 204 if scope["method"] == "POST" and self.is_genuine(headers, content) else 401
        if status == 401:
            self.refused += 1
        elif headers["webhook-id"] in self.taken:
            self.copies += 1
        else:
            self.taken[headers["webhook-id"]] = content
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def is_genuine(self, headers: Mapping[str, str], content: bytes) -> bool:
        """Return whether one of the signatures fits the body, and the time is within the tolerance."""
        stamp, signed = headers.get("webhook-timestamp", ""), headers.get("webhook-signature", "")
        if (
            not stamp.isdecimal()
            or abs(time.time() - int(stamp)) > TOLERANCE_S
            or "." in headers.get("webhook-id", ".")
        ):
            return False
        key = base64.b64decode(self.secret.removeprefix("whsec_") + "==")
        whole = b".".join([headers["webhook-id"].encode(), stamp.encode(), content])
        wanted = base64.b64encode(hmac.new(key, whole, hashlib.sha256).digest()).decode()
        given = [part.partition(",") for part in signed.split(" ")]
        return any(version == "v1" and hmac.compare_digest(value, wanted) for version, _, value in given)
