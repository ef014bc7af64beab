"""A sign-in server for tests: metadata, keys, and tokens for programs that have a client id (`client_credentials`).

It signs with keys that it makes itself. A test can take keys away, add others, and make any token with any of them.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

REALM = "/realms/corp"


def private_key(algorithm: str) -> Any:
    """Return a new key for that algorithm."""
    if algorithm.startswith("ES"):
        return ec.generate_private_key({"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def _usual_key() -> Any:
    # Two large primes are found in 50 ms. Tests of another server's key ask for a new one.
    return private_key("RS256")


def public_jwk(key: Any, algorithm: str, kid: str | None) -> dict[str, Any]:
    """Return the public half of a key as the server publishes it."""
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**made, "use": "sig", "alg": algorithm} | ({"kid": kid} if kid else {})


def forged(header: Mapping[str, Any], claims: Mapping[str, Any], signature: bytes = b"") -> str:
    """Return a token with exactly that header and those claims, whatever a library thinks of them."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@dataclass
class SignInServer:
    """The server. `url` is its issuer identifier once it is served; `asked` are the paths of the requests that it got."""

    url: str = ""
    keys: dict[str, tuple[Any, str]] = field(default_factory=lambda: {"k1": (_usual_key(), "RS256")})
    asked: list[str] = field(default_factory=list)
    more_keys: list[Any] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    down: bool = False

    def claims(self, resource: str, **more: Any) -> dict[str, Any]:
        """Return the claims of a good token for that resource, with changes; a change to None leaves the claim out."""
        now = int(time.time())
        usual = {"iss": self.url, "sub": "ann", "aud": resource, "iat": now, "exp": now + 7_200, "scope": "forge:read"}
        return {name: value for name, value in {**usual, **more}.items() if value is not None}

    def token(self, resource: str, *, kid: str = "k1", header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """Return a token that this server signed."""
        key, algorithm = self.keys[kid]
        headers = {"kid": kid, "typ": "at+jwt", **(header or {})}
        # Signed as bytes, because the library refuses to make claims of a wrong type.
        text = json.dumps(self.claims(resource, **claims)).encode()
        return jwt.PyJWS().encode(text, key, algorithm, headers=headers)

    def app(self) -> Starlette:
        """Return the application to serve."""
        paths = {
            f"/.well-known/oauth-authorization-server{REALM}": self._metadata,
            f"{REALM}/keys": self._keys,
            f"{REALM}/token": self._token,
            "/{path:path}": self._nothing,
        }
        return Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path, answer in paths.items()])

    async def _metadata(self, request: Request) -> JSONResponse:
        self.asked.append(request.url.path)
        found = {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint": f"{self.url}/token",
            "authorization_endpoint": f"{self.url}/authorize",
            "response_types_supported": ["code"],
            "grant_types_supported": ["client_credentials"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            **self.metadata,
        }
        return JSONResponse(found, 503 if self.down else 200)

    async def _keys(self, request: Request) -> JSONResponse:
        self.asked.append(request.url.path)
        keys = [public_jwk(key, algorithm, kid) for kid, (key, algorithm) in self.keys.items()]
        return JSONResponse({"keys": [*keys, *self.more_keys]}, 503 if self.down else 200)

    async def _token(self, request: Request) -> JSONResponse:
        form = await request.form()
        self.asked.append(f"{request.url.path} {form.get('scope', '')}")
        scope, resource = str(form.get("scope", "")), str(form["resource"])
        made = self.token(resource, sub=str(form["client_id"]), scope=scope)
        return JSONResponse({"access_token": made, "token_type": "Bearer", "expires_in": 600, "scope": scope})

    async def _nothing(self, request: Request) -> JSONResponse:
        self.asked.append(request.url.path)
        return JSONResponse({"error": "not found"}, 404)
