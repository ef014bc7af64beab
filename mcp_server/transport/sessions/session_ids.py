"""Ids of HTTP sessions of the 2025 protocol that hold what `initialize` said, sealed, so that any process can continue the session."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp_types import ClientCapabilities, Implementation, InitializeRequestParams
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from knowledge.state.client_notes import KEPT

KEPT_CAPABILITIES = ("elicitation", "sampling", "roots")
"""What a server of the 2025 protocol may ask its client for. Others may be long, as `experimental`, and nothing here uses them."""
LONGEST_NAME = 100
HASH_DIGITS = 32
_PURPOSE = b"knowledge-forge http sessions"


@dataclass(frozen=True, slots=True)
class ClientSession:
    """A session: its id, the hash by which the state database knows it, and what the client said when it began.

    `owner` is the id of the principal whose token the session began with, "" without one.
    """

    id: str
    hash: str
    client: InitializeRequestParams
    owner: str = ""


class SessionIds:
    """Makes and opens the ids of sessions with the key that all processes of the knowledge base share."""

    def __init__(self, key: bytes, now: Callable[[], datetime]) -> None:
        # A key of its own: a question's sealed state can never pass as a session, nor a session as such a state.
        self._codec = AESGCMRequestStateCodec([hmac.digest(key, _PURPOSE, "sha256")])
        self._now = now

    def issue(self, params: object, owner: str) -> ClientSession | None:
        """Return a new session for the parameters of `initialize`, which only `owner` can use; None if they are malformed."""
        try:
            asked = InitializeRequestParams.model_validate(params, by_name=False)
        except ValidationError:
            return None
        version = asked.protocol_version
        capabilities = asked.capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)
        held = {
            "version": version if version in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION,
            "can": {name: _marks(capabilities[name]) for name in KEPT_CAPABILITIES if name in capabilities},
            "client": [asked.client_info.name[:LONGEST_NAME], asked.client_info.version[:LONGEST_NAME]],
            "owner": owner,
            "at": int(self._now().timestamp()),
            "nonce": secrets.token_hex(8),
        }
        return _session(self._codec.seal(json.dumps(held, separators=(",", ":")).encode()), held)

    def opened(self, told: str, owner: str) -> ClientSession | None:
        """Return the session with that id; None if it is not one of ours, is too old, or another caller's."""
        try:
            held = json.loads(self._codec.unseal(told))
        except InvalidRequestState:
            return None
        if held["owner"] != owner or self._now() - datetime.fromtimestamp(held["at"], UTC) > KEPT:
            return None
        return _session(told, held)


def _marks(capability: object) -> dict[str, Any]:
    """Return which parts the client has of a capability, without their details."""
    parts = capability if isinstance(capability, dict) else {}
    return {
        str(name)[:LONGEST_NAME]: value if isinstance(value, bool) else {} for name, value in list(parts.items())[:4]
    }


def _session(told: str, held: dict[str, Any]) -> ClientSession:
    name, version = held["client"]
    client = InitializeRequestParams(
        protocol_version=held["version"],
        capabilities=ClientCapabilities.model_validate(held["can"], by_name=False),
        client_info=Implementation(name=name, version=version),
    )
    return ClientSession(told, hashlib.sha256(told.encode()).hexdigest()[:HASH_DIGITS], client, held["owner"])
