"""Access tokens of sign-in servers: JWTs, checked as the MCP specification and RFC 9068 demand, and never passed on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import jwt

from mcp_server.app.settings.sign_in import Issuer, ScopeReach
from mcp_server.gate.host_registration import SIGNED_IN, Principal, RefusedToken
from mcp_server.transport.sign_in.issuer_keys import ALGORITHMS, IssuerKeys
from mcp_server.transport.sign_in.scopes import limits_of, scopes_in

LONGEST_TOKEN: Final = 12_000
LEEWAY_S: Final = 30
"""How far the clocks of this machine and of the sign-in server may differ."""
TYPES: Final = (None, "jwt", "at+jwt", "application/at+jwt")
"""Types of access tokens (RFC 9068, section 2.1); many servers name none, or `JWT`."""
LONGEST_NAME: Final = 120

NOT_VALID = "the access token is not valid here: it is damaged, or not signed by a sign-in server that this one trusts"
OF_OTHERS = "the access token was issued for another server"
EXPIRED = "the access token has expired; get a new one from the sign-in server"
TOO_EARLY = "the access token is not valid yet; check the clocks of this server and of the sign-in server"


class AccessTokens:
    """Checks access tokens of the configured sign-in servers."""

    def __init__(
        self, issuers: Sequence[Issuer], resource: str, scopes: Sequence[ScopeReach], keys: Mapping[str, IssuerKeys]
    ) -> None:
        self._issuers = {one.url: one for one in issuers}
        self._resource, self._scopes, self._keys = resource, scopes, keys

    async def principal(self, token: str) -> Principal:
        """Return who the token was issued to, with what its scopes allow.

        Raises:
            RefusedToken: it proves nothing here.
            SignInAway: the sign-in server's keys can't be read now.
        """
        if len(token) > LONGEST_TOKEN:
            raise RefusedToken(NOT_VALID)
        try:
            header, claimed = _unverified(token)
            issuer, algorithm = self._issuers.get(str(claimed.get("iss"))), str(header.get("alg"))
            if issuer is None or algorithm not in ALGORITHMS or not _is_access_token(header):
                raise RefusedToken(NOT_VALID)
            # Where a key could be is never taken from the token (`jku`, `x5u`, `jwk`): only its id, to choose among the issuer's own.
            key = await self._keys[issuer.url].key(header.get("kid"), algorithm)
            if key is None:
                raise RefusedToken(NOT_VALID)
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=issuer.url,
                audience=[self._resource, f"{self._resource}/"],
                leeway=LEEWAY_S,
                options={"require": ["iss", "sub", "aud", "exp"]},
            )
            name = subject_name(str(claims["sub"]))
        except jwt.InvalidAudienceError:
            raise RefusedToken(OF_OTHERS) from None
        except jwt.ExpiredSignatureError:
            raise RefusedToken(EXPIRED) from None
        except jwt.ImmatureSignatureError:
            raise RefusedToken(TOO_EARLY) from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            # Not the cause: its message may quote the token.
            raise RefusedToken(NOT_VALID) from None
        return Principal(name, f"{issuer.name}{SIGNED_IN}", limits=limits_of(scopes_in(claims), self._scopes))


def subject_name(subject: str) -> str:
    """Return the subject as the first part of a principal: letters and digits as they are, everything unusual as `%..`. Pure.

    Different subjects have different names. A long one is replaced by its hash, after a `#` that no other name has.

    Raises:
        ValueError: it is empty, or no text that can be written down.
    """
    if not subject:
        raise ValueError("the subject is empty")
    name = quote(subject, safe="@+|:")
    return name if len(name) <= LONGEST_NAME else f"#{hashlib.sha256(subject.encode()).hexdigest()}"


def _unverified(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return header and claims as the token has them. They only say which issuer and key to ask."""
    read = jwt.decode_complete(token, options={"verify_signature": False})
    return read["header"], read["payload"]


def _is_access_token(header: Mapping[str, Any]) -> bool:
    kind = header.get("typ")
    # An extension that must be understood (RFC 7515, section 4.1.11) is none that we know.
    return (kind.lower() if isinstance(kind, str) else kind) in TYPES and "crit" not in header
