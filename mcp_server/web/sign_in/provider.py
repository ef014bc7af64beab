"""The sign-in server as the site uses it: where a login begins and ends, and what it says about a person.

Sources: OpenID Connect Core 1.0 (code flow, ID token), RFC 7636 (PKCE), RFC 9207 (the issuer in answers), OpenID Connect RP-Initiated
Logout 1.0.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit, urlunsplit

import anyio
import jwt

from knowledge.errors import StorageError
from mcp_server.app.settings.sign_in import SiteAccess
from mcp_server.transport.sign_in.access_tokens import LEEWAY_S, LONGEST_TOKEN
from mcp_server.transport.sign_in.documents import document, new_client
from mcp_server.transport.sign_in.issuer_keys import ALGORITHMS, FRESH_S, IssuerKeys, is_safe, json_object
from mcp_server.web.access.sessions import same
from mcp_server.web.sign_in.login_attempt import CALLBACK, LoginAttempt, LoginFailed

logger = logging.getLogger("knowledge_forge.sign_in")

LOGGED_OUT: Final = "/"
"""Where the sign-in server sends browsers after a logout."""
AWAY: Final = "the sign-in server can't be reached now; try again in a moment"
NO_PERSON: Final = "the sign-in server's answer can't be used; the server's log says why. Log in again"
PAUSE_S: Final = 3.0
"""The least time between two requests for metadata that could not be read."""
MOST_LOGINS: Final = 20
"""Logins that wait for the sign-in server at the same time, so that strangers can't have this server flood it."""
SCOPES: Final = ("openid", "profile")


class SiteProvider:
    """The sign-in server at which the site is a client."""

    def __init__(self, access: SiteAccess, clock: Callable[[], float] = time.monotonic) -> None:
        self._access, self._clock = access, clock
        self._keys = IssuerKeys(access.issuer.url, self._fetched, clock)
        self._metadata: Mapping[str, Any] = {}
        self._metadata_at = self._failed_at = float("-inf")
        self._logins = anyio.CapacityLimiter(MOST_LOGINS)
        self._asking = anyio.Lock()

    @property
    def name(self) -> str:
        """The sign-in server's name in the settings."""
        return self._access.issuer.name

    async def login_address(self, attempt: LoginAttempt) -> str:
        """Return the address at the sign-in server where this login begins.

        Raises:
            LoginFailed: the server can't be reached, or its metadata can't be used.
        """
        metadata = await self._known()
        query = {
            "response_type": "code",
            "client_id": self._access.client_id,
            "redirect_uri": self._access.url + CALLBACK,
            "scope": " ".join(self._scopes(metadata)),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        return _with_query(self._endpoint(metadata, "authorization_endpoint"), query)

    async def claims(self, answer: Mapping[str, str], attempt: LoginAttempt) -> Mapping[str, Any]:
        """Return what the sign-in server says about the person who logged in, from its answer to this attempt.

        Raises:
            LoginFailed: nobody logged in, or the answer belongs to another attempt or server.
        """
        if not same(answer.get("state", ""), attempt.state):
            raise LoginFailed("this answer belongs to another login, perhaps one in another tab; log in again")
        metadata = await self._known()
        # Otherwise a bad server among several could have its answer taken for another one's (RFC 9207).
        promised = metadata.get("authorization_response_iss_parameter_supported") is True
        if answer.get("iss") != self._access.issuer.url and ("iss" in answer or promised):
            raise LoginFailed("this answer comes from another sign-in server; log in again")
        if "error" in answer:
            logger.info("a login on the site was refused by the sign-in server: %.100r", answer["error"])
            raise LoginFailed("the sign-in server refused the login; log in again, or ask the person who runs it")
        if not answer.get("code"):
            raise LoginFailed(NO_PERSON)
        async with self._logins:
            tokens = await self._redeemed(metadata, answer["code"], attempt)
            claims = await self._checked(tokens.get("id_token"), attempt)
            return await self._completed(metadata, claims, tokens.get("access_token"))

    async def logout_address(self) -> str | None:
        """Return the address at which a person logs out at the sign-in server, too; None if there is none that can be used now."""
        try:
            address = (await self._known()).get("end_session_endpoint")
        except LoginFailed:
            return None
        if not isinstance(address, str) or not is_safe(address, self._access.issuer.url):
            return None
        query = {"client_id": self._access.client_id, "post_logout_redirect_uri": self._access.url + LOGGED_OUT}
        return _with_query(address, query)

    async def unusable(self) -> str:
        """Return why people can't log in, "" if they can as far as the server's metadata tells."""
        try:
            metadata = await self._keys.metadata(openid=True)
            for name in ("authorization_endpoint", "token_endpoint"):
                self._endpoint(metadata, name)
        except (OSError, ValueError, LoginFailed) as error:
            return str(error) or type(error).__name__
        methods = metadata.get("code_challenge_methods_supported")
        if isinstance(methods, list) and "S256" not in methods:
            return "it does not support PKCE with S256"
        return ""

    async def _known(self) -> Mapping[str, Any]:
        """Return the server's metadata, which is requested again once it is older than `FRESH_S`."""
        async with self._asking:
            if self._clock() - self._metadata_at >= FRESH_S:
                # Otherwise each of many people who try again would wait for all before them.
                if self._clock() - self._failed_at < PAUSE_S:
                    raise LoginFailed(AWAY)
                try:
                    self._metadata = await self._keys.metadata(openid=True)
                except (OSError, ValueError) as error:
                    logger.warning("cannot read the metadata of the sign-in server %s: %s", self.name, error)
                    self._failed_at = self._clock()
                    raise LoginFailed(AWAY) from None
                self._metadata_at = self._clock()
            return self._metadata

    def _endpoint(self, metadata: Mapping[str, Any], name: str) -> str:
        address = metadata.get(name)
        if not isinstance(address, str) or not is_safe(address, self._access.issuer.url):
            raise LoginFailed(f"the sign-in server's metadata names no `{name}` with https")
        return address

    def _scopes(self, metadata: Mapping[str, Any]) -> list[str]:
        """Return the scopes to ask for: a name, and the claims that decide who may log in, where scopes have their names."""
        offered = metadata.get("scopes_supported")
        wanted = [one.name for one in (*self._access.people, *self._access.managers)]
        more = [name for name in dict.fromkeys(wanted) if isinstance(offered, list) and name in offered]
        usual = [name for name in SCOPES if not isinstance(offered, list) or name in (*offered, "openid")]
        return list(dict.fromkeys((*usual, *more)))

    async def _redeemed(self, metadata: Mapping[str, Any], code: str, attempt: LoginAttempt) -> Mapping[str, Any]:
        """Return the tokens for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._access.url + CALLBACK,
            "code_verifier": attempt.verifier,
        }
        headers: dict[str, str] = {}
        client_id, secret = self._access.client_id, self._access.secret
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if secret is None:
            form["client_id"] = client_id
        elif isinstance(methods, list) and "client_secret_basic" not in methods:
            form |= {"client_id": client_id, "client_secret": secret}
        else:
            # RFC 6749, section 2.3.1: both are encoded as in a form first.
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        try:
            async with new_client() as client:
                return json_object(
                    await document(client, self._endpoint(metadata, "token_endpoint"), form=form, headers=headers)
                )
        except (OSError, ValueError) as error:
            logger.warning("the sign-in server %s gave no token for a login on the site: %s", self.name, error)
            raise LoginFailed(NO_PERSON) from None

    async def _checked(self, token: object, attempt: LoginAttempt) -> Mapping[str, Any]:
        """Return the claims of an ID token that is for this site and this attempt (OpenID Connect Core, section 3.1.3.7)."""
        try:
            claims = await self._signed(token if isinstance(token, str) else "")
            problem = _problem_of(claims, self._access.client_id, attempt)
        except StorageError:
            raise LoginFailed(AWAY) from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            # The class and not the text of the library's errors, which may quote the token.
            why = type(error).__name__ if isinstance(error, jwt.PyJWTError) else error
            logger.warning("the ID token of a login on the site is refused: %s", why)
            raise LoginFailed(NO_PERSON) from None
        if problem:
            logger.warning("the ID token of a login on the site is refused: %s", problem)
            raise LoginFailed(NO_PERSON)
        return claims

    async def _signed(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token that the server signed for this client, and that has not expired."""
        if len(token) > LONGEST_TOKEN:
            raise jwt.DecodeError
        header = jwt.get_unverified_header(token)
        algorithm, kind = str(header.get("alg")), str(header.get("typ", "JWT")).lower()
        if algorithm not in ALGORITHMS or kind != "jwt" or "crit" in header:
            raise jwt.InvalidAlgorithmError
        # As with access tokens: only the id of the key is taken from the token, never the key.
        key = await self._keys.key(header.get("kid"), algorithm)
        if key is None:
            raise jwt.InvalidKeyError
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=self._access.issuer.url,
            audience=self._access.client_id,
            leeway=LEEWAY_S,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
        return claims

    async def _completed(
        self, metadata: Mapping[str, Any], claims: Mapping[str, Any], token: object
    ) -> Mapping[str, Any]:
        """Return the claims of the ID token.

        If one is missing that the settings or the page use, claims that the server gives for the access token `token` are added.
        """
        wanted = {"name", *(one.name for one in (*self._access.people, *self._access.managers))}
        address = metadata.get("userinfo_endpoint")
        if wanted <= set(claims) or not isinstance(address, str) or not isinstance(token, str) or not token.isascii():
            return claims
        if not is_safe(address, self._access.issuer.url):
            return claims
        try:
            async with new_client() as client:
                told = json_object(await document(client, address, headers={"authorization": f"Bearer {token}"}))
        except (OSError, ValueError) as error:
            logger.warning("the sign-in server %s told nothing more about a person: %s", self.name, error)
            return claims
        # Section 5.3.2: another subject is another person, whatever else it says.
        return {**told, **claims} if told.get("sub") == claims["sub"] else claims

    async def _fetched(self, address: str) -> bytes:
        async with new_client() as client:
            return await document(client, address)


def _problem_of(claims: Mapping[str, Any], client_id: str, attempt: LoginAttempt) -> str:
    """Return why a signed token doesn't count for this attempt, "" if it does."""
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if several else client_id) != client_id:
        return "it was issued for another client"
    return "" if same(str(claims.get("nonce", "")), attempt.nonce) else "it belongs to another login (nonce)"


def _with_query(address: str, query: Mapping[str, str]) -> str:
    """Return the address with these parameters added to its own."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(query=urlencode([*parse_qsl(parts.query), *query.items()]), fragment=""))
