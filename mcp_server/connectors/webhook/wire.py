"""Builds signed webhook requests and judges replies. Pure.

Source: Standard Webhooks, spec/standard-webhooks.md (https://github.com/standard-webhooks/standard-webhooks).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from mcp_server.connectors.errors import ConnectorError, Denied, ServiceRefused
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest

SERVICE = "Webhook"
SETTING = "FORGE_WEBHOOKS"
GONE = 410


class TargetGone(ConnectorError):
    """The receiver accepts no more webhooks (410). `name` is its name for hosts."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            SERVICE,
            f"the receiver {name} answered that it accepts no more webhooks (410); nothing was done, and nothing more is "
            f"sent there until the server restarts. A person corrects or removes it in {SETTING}",
        )


def delivery(path: str, body: bytes, message_id: str, at: datetime, secrets: Sequence[str]) -> ServiceRequest:
    """Return the request that delivers a message at that time, signed with each of the secrets.

    The id is the same in every attempt, and the time is that of this attempt. Source: "Webhook headers" and "Signature scheme".
    """
    timestamp = str(int(at.timestamp()))
    return ServiceRequest(
        "POST",
        path,
        content=body,
        headers={
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": " ".join(signature(secret, message_id, timestamp, body) for secret in secrets),
        },
        reads_reply=False,
    )


def signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the symmetric signature of a message. Source: "Signature scheme" (HMAC-SHA256, identifier `v1`)."""
    encoded = secret.removeprefix("whsec_").rstrip("=")
    key = base64.b64decode(encoded + "=" * (-len(encoded) % 4))
    signed = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed.digest()).decode()}"


def require_accepted(reply: ServiceReply, name: str) -> None:
    """Check that the receiver accepted the message. Source: "Delivery success and failure".

    Raises: TargetGone, Denied, ServiceRefused: it certainly did not. The reply's text is not repeated, because anybody
    may have written it.
    """
    if 200 <= reply.status < 300:
        return
    if reply.status == GONE:
        raise TargetGone(name)
    if reply.status in (401, 403):
        remedy = f"nothing was done; compare the secret of {name} in {SETTING} with the receiver's"
        raise Denied(f"the receiver {name}", reply.status, "it does not accept the signature", remedy)
    raise ServiceRefused(f"the receiver {name}", reply.status, "it does not accept this message")
