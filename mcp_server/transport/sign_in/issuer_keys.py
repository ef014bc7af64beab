"""The keys of a sign-in server: found by its metadata, kept for a while, and requested again when the server signs with a new key.

Sources: RFC 8414 and OpenID Connect Discovery 1.0 (metadata), RFC 7517 (keys).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import jwt

from knowledge.errors import StorageError
from mcp_server.app.settings.values import LOOPBACK

logger = logging.getLogger("knowledge_forge.sign_in")

Fetch = Callable[[str], Awaitable[bytes]]
"""Returns the document at an address; raises OSError if that can't be read."""

FRESH_S: Final = 600.0
"""How long keys are used before they are asked for again."""
STALE_S: Final = 3600.0
"""How long they are used if the server can't be reached. After that a key that it withdrew must not count."""
PAUSE_S: Final = 30.0
"""The least time between two requests to the server, whatever keys callers name."""
MOST_KEYS: Final = 100
LEAST_RSA_BITS: Final = 2048

_CURVES: Final = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",), "Ed25519": ("EdDSA",)}
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = frozenset((*_RSA, *(name for names in _CURVES.values() for name in names)))
"""The algorithms that count: signatures with a key that only the sign-in server has. No `none`, and no shared secret."""


class SignInAway(StorageError):
    """Access tokens can't be checked now, because the sign-in server's keys can't be read."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        super().__init__(
            f"the sign-in server {issuer} cannot be reached, so access tokens cannot be checked; try again in a moment"
        )


class BadMetadata(ValueError):
    """What a sign-in server says of itself can't be used; the message says why, for the log."""


class IssuerKeys:
    """The keys of one sign-in server."""

    def __init__(self, issuer: str, fetch: Fetch, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer, self._fetch, self._clock = issuer, fetch, clock
        self._keys: dict[tuple[str | None, str], list[jwt.PyJWK]] | None = None
        self._fetched_at = self._asked_at = float("-inf")
        self._asking = anyio.Lock()

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key with the id `kid` for the algorithm, None if the server has none. Without `kid`, its only key for it.

        Raises:
            SignInAway: the server can't be reached, and its keys are unknown or too old.
        """
        found = self._found(kid, algorithm)
        if found is None or self._clock() - self._fetched_at >= FRESH_S:
            # One request at a time, and none for those that waited for it.
            async with self._asking:
                if self._clock() - self._asked_at >= PAUSE_S:
                    await self._refresh()
            found = self._found(kid, algorithm)
        if self._keys is None or self._clock() - self._fetched_at > STALE_S:
            raise SignInAway(self._issuer)
        return found

    def _found(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        if self._keys is None:
            return None
        if kid is not None:
            keys = self._keys.get((kid, algorithm), [])
        else:
            keys = [key for (_, name), named in self._keys.items() if name == algorithm for key in named]
        return keys[0] if len(keys) == 1 else None

    async def _refresh(self) -> None:
        try:
            keys = await self.read_keys()
        except (OSError, ValueError) as error:
            logger.warning("cannot read the keys of the sign-in server %s: %s", self._issuer, error)
        else:
            self._keys, self._fetched_at = keys, self._clock()
        # Not before: a request that is cancelled here must not keep others from asking.
        self._asked_at = self._clock()

    async def read_keys(self) -> dict[tuple[str | None, str], list[jwt.PyJWK]]:
        """Ask the server for its keys, whatever is known of them, and return those that can verify signatures.

        Raises:
            OSError, ValueError: they can't be read.
        """
        address = (await self.metadata()).get("jwks_uri")
        if not isinstance(address, str) or not is_safe(address, self._issuer):
            raise BadMetadata("its metadata names no `jwks_uri` with https")
        return usable(json_object(await self._fetch(address)).get("keys"))

    async def metadata(self, *, openid: bool = False) -> Mapping[str, Any]:
        """Ask the server for its metadata, first for that of OpenID Connect if `openid`, and return it.

        Raises:
            OSError, ValueError: it can't be read.
        """
        problem: Exception = BadMetadata("it has no metadata")
        addresses = metadata_addresses(self._issuer)
        for address in reversed(addresses) if openid else addresses:
            try:
                found = json_object(await self._fetch(address))
            except (OSError, ValueError) as error:
                problem = error
                continue
            # RFC 8414, section 3.3: otherwise a server could pass as another one.
            if found.get("issuer") != self._issuer:
                raise BadMetadata(f"its metadata at {address} is that of another issuer")
            return found
        raise problem


def metadata_addresses(issuer: str) -> tuple[str, ...]:
    """Return where an issuer's metadata may be, in the order in which the MCP specification wants clients to look. Pure."""
    url = urlsplit(issuer)
    root, path = f"{url.scheme}://{url.netloc}", url.path.rstrip("/")
    oauth = f"{root}/.well-known/oauth-authorization-server{path}"
    inserted, appended = (
        f"{root}/.well-known/openid-configuration{path}",
        f"{root}{path}/.well-known/openid-configuration",
    )
    return tuple(dict.fromkeys((oauth, inserted, appended)))


def is_safe(address: str, issuer: str) -> bool:
    """Return whether keys may be read from there: over TLS, or on this machine if the issuer itself is there. Pure."""
    try:
        url, home = urlsplit(address), urlsplit(issuer)
    except ValueError:
        return False
    if url.scheme == "https":
        return bool(url.hostname)
    return url.scheme == home.scheme == "http" and url.hostname in LOOPBACK and home.hostname in LOOPBACK


def usable(keys: object) -> dict[tuple[str | None, str], list[jwt.PyJWK]]:
    """Return the keys that can verify signatures, by their id and algorithm. Others, such as secrets, are left out. Pure.

    Raises:
        BadMetadata: it is no list of keys.
    """
    if not isinstance(keys, list):
        raise BadMetadata("its `jwks_uri` has no list of keys")
    found: dict[tuple[str | None, str], list[jwt.PyJWK]] = {}
    for one in keys[:MOST_KEYS]:
        if not isinstance(one, dict):
            continue
        kid = one.get("kid")
        for algorithm in _algorithms_of(one):
            try:
                key = jwt.PyJWK(one, algorithm)
            except (jwt.PyJWTError, ValueError, TypeError, KeyError):
                continue
            if getattr(key.key, "key_size", LEAST_RSA_BITS) >= LEAST_RSA_BITS or one.get("kty") != "RSA":
                found.setdefault((kid if isinstance(kid, str) else None, algorithm), []).append(key)
    return found


def _algorithms_of(key: Mapping[str, Any]) -> Sequence[str]:
    """Return the algorithms that fit the type of the key, and its own `alg` if it names one."""
    # A private key in public is anybody's.
    if key.get("use") not in (None, "sig") or "verify" not in key.get("key_ops", ("verify",)) or "d" in key:
        return ()
    fitting = (
        _RSA
        if key.get("kty") == "RSA"
        else _CURVES.get(str(key.get("crv")), ())
        if key.get("kty") in ("EC", "OKP")
        else ()
    )
    return [name for name in fitting if key.get("alg") in (None, name)]


def json_object(text: bytes) -> Mapping[str, Any]:
    """Return the JSON object in the text. Pure.

    Raises:
        ValueError: it is none.
    """
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("its answer is nested too deeply") from None
    if not isinstance(found, dict):
        raise BadMetadata("its answer is no JSON object")
    return found
