"""Bearer tokens that a person creates for people and programs on other machines. Each looks like `kf_<id>_<secret>`.

The id finds the record, the hash of the whole token proves the holder. The prefix lets secret scanners find a token that leaked.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from knowledge.errors import KnowledgeError
from mcp_server.gate.host_registration import (
    TOKEN_HOLDER,
    BadHostName,
    Principal,
    RefusedToken,
    checked_host_name,
    digest,
)
from mcp_server.gate.policy import Limits, Reach, Trust
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from knowledge.trust import ports as trust_ports
    from knowledge.trust.ports import BearerToken
else:
    trust_ports = LateModule("knowledge.trust.ports")

PREFIX = "kf_"
ID_BYTES = 6
_TOKEN = re.compile(rf"{PREFIX}([0-9a-f]{{{2 * ID_BYTES}}})_[A-Za-z0-9_-]{{43}}")
_ID = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")

UNKNOWN = (
    "the bearer token is not valid here: it is misspelt, or another knowledge base's. A person creates one with "
    "`knowledge-forge token create NAME`"
)


class BadToken(KnowledgeError):
    """A token can't be created like that."""


def minted() -> tuple[str, str]:
    """Return the id of a new token and the token, which is stored nowhere. Its secret has 256 random bits."""
    token_id = secrets.token_hex(ID_BYTES)
    return token_id, f"{PREFIX}{token_id}_{secrets.token_urlsafe(32)}"


def id_in(text: str) -> str | None:
    """Return the id in a text that has the form of a token, else None."""
    found = _TOKEN.fullmatch(text)
    return found[1] if found else None


def token_of(arguments: Mapping[str, Any], *, by: str, now: datetime) -> BearerToken:
    """Return the token that an act `token.create` describes.

    Raises:
        BadToken: it describes none that may be created.
    """
    name, expires, toolsets = str(arguments["name"]), arguments["expires_at"], arguments["toolsets"]
    try:
        checked_host_name(name)
    except BadHostName:
        raise BadToken(
            f"{name[:100]!r} cannot be the name of a token: use up to 64 lower-case letters, digits, '.', '_' or '-', as in ann"
        ) from None
    if not _ID.fullmatch(str(arguments["id"])):
        raise BadToken("the id of a token has 12 hexadecimal digits")
    if arguments["ceiling"] not in range(Trust.READ, Trust.HIGH_STAKES + 1):
        raise BadToken(f"a token allows level 1 to 5, not {arguments['ceiling']}")
    expires_at = None if expires is None else datetime.fromisoformat(str(expires))
    if expires_at is not None and expires_at <= now:
        raise BadToken("the token would have expired already")
    return trust_ports.BearerToken(
        id=str(arguments["id"]),
        name=name,
        digest=bytes.fromhex(str(arguments["secret_digest"])),
        ceiling=int(arguments["ceiling"]),
        toolsets=None if toolsets is None else tuple(toolsets),
        by=by,
        created_at=now,
        expires_at=expires_at,
    )


def token_principal(token: BearerToken) -> Principal:
    """Return the principal that the token's holder is, with the token's limits."""
    reach = Reach(Trust(token.ceiling), None if token.toolsets is None else frozenset(token.toolsets))
    return Principal(token.name, TOKEN_HOLDER, limits=Limits((reach,), "its token allows no more"))


def holder_of(given: str, token: BearerToken | None, *, now: datetime) -> Principal:
    """Return the principal of the token `given`; `token` is the record under its id.

    Raises:
        RefusedToken: it is not that token, has expired, or was revoked.
    """
    if token is None or not hmac.compare_digest(token.digest, digest(given)):
        raise RefusedToken(UNKNOWN)
    if (state := state_of(token, now=now)) != "valid":
        how = "expired" if state == "expired" else "was revoked"
        raise RefusedToken(
            f"the bearer token {token.id} {how}; a person creates a new one with `knowledge-forge token create {token.name}`"
        )
    return token_principal(token)


def state_of(token: BearerToken, *, now: datetime) -> Literal["valid", "expired", "revoked"]:
    """Return whether the token can be used."""
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now else "valid"
