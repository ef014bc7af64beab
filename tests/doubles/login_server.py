"""A sign-in server at which people log in: the authorization code flow with PKCE, as far as OpenID Connect asks of it.

Whoever comes is logged in at once, as `person`. A test can have it answer wrongly: `forge` makes another ID token of the claims of a
good one, and a test may change the address that it sends a browser to.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus, urlencode

import jwt
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.doubles.sign_in_server import REALM, SignInServer

CLIENT, SECRET = "forge site", "s3cret/+&="
CALLBACK = "https://forge.example.com/login/callback"


@dataclass
class LoginServer(SignInServer):
    """The server. `tokens` are the requests for tokens that it answered, `forge` makes ID tokens."""

    person: dict[str, Any] = field(default_factory=dict)
    forge: Callable[[dict[str, Any]], str] | None = None
    codes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Answer rightly again, and forget what was asked."""
        self.person = {"sub": "ann", "name": "Ann Lee", "groups": ["reviewers"]}
        self.forge, self.userinfo, self.down, self.tokens = None, {}, False, 0
        self.asked.clear()
        self.metadata = {
            "authorization_response_iss_parameter_supported": True,
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "scopes_supported": ["openid", "profile", "email", "groups"],
        }

    def app(self) -> Any:
        """Return the application to serve."""
        application = super().app()
        found = [
            Route(f"{REALM}/.well-known/openid-configuration", self._metadata),
            Route(f"{REALM}/authorize", self._authorize),
            Route(f"{REALM}/token", self._code, methods=["POST"]),
            Route(f"{REALM}/userinfo", self._userinfo),
        ]
        application.router.routes[:0] = found
        return application

    async def _authorize(self, request: Request) -> Response:
        asked = request.query_params
        if asked["client_id"] != CLIENT or asked["redirect_uri"] != CALLBACK:
            return JSONResponse({"error": "unknown client, or another redirect URI"}, 400)
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = dict(asked)
        answer = {"code": code, "state": asked["state"], "iss": self.url}
        return RedirectResponse(f"{CALLBACK}?{urlencode(answer)}", 302)

    async def _code(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        asked = self.codes.pop(form["code"], None)
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        if asked is None or form["redirect_uri"] != CALLBACK or challenge != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if not self._is_client(request, form):
            return JSONResponse({"error": "invalid_client"}, 401)
        self.tokens += 1
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.person}
        made = self.forge(claims) if self.forge else self.signed(claims)
        return JSONResponse({"id_token": made, "access_token": "at-1", "token_type": "Bearer"})

    def signed(self, claims: Mapping[str, Any], **header: Any) -> str:
        """Return an ID token with these claims."""
        key, algorithm = self.keys["k1"]
        return jwt.encode(dict(claims), key, algorithm, headers={"kid": "k1", **header})

    def _is_client(self, request: Request, form: Mapping[str, str]) -> bool:
        methods = self.metadata["token_endpoint_auth_methods_supported"]
        if "client_secret_basic" in methods:
            given = request.headers.get("authorization", "").removeprefix("Basic ")
            pair = base64.b64decode(given).decode().split(":") if given else []
            return [unquote_plus(part) for part in pair] == [CLIENT, SECRET]
        secret = None if methods == ["none"] else SECRET
        return form.get("client_id") == CLIENT and form.get("client_secret") == secret

    async def _userinfo(self, request: Request) -> Response:
        known = request.headers.get("authorization") == "Bearer at-1"
        return JSONResponse(self.userinfo if known else {}, 200 if known else 401)
