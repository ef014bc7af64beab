"""The conditions under which a server for other machines starts."""

from __future__ import annotations

import ssl

from knowledge.state.ports import StateStore
from mcp_server.app.settings.access import HttpAccess
from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.values import HttpAddress
from mcp_server.gate.caller import Clock
from mcp_server.gate.trust.tokens import state_of

NO_URL = (
    "other machines can reach this address, so callers must sign in, and over TLS: set FORGE_HTTP_URL to the https address at which "
    "clients reach the server, then create a token for each of them (knowledge-forge token create NAME). For this machine alone "
    "use 127.0.0.1"
)
NO_RESOURCE = "access tokens are issued for one server, which is known by its address: set FORGE_HTTP_URL, too"
NOBODY = (
    "every request needs a token, and there is none that is valid: create one for each person or program "
    "(knowledge-forge token create NAME), or name a sign-in server (FORGE_OAUTH_ISSUERS)"
)


async def require_sign_in(address: HttpAddress, access: HttpAccess, state: StateStore, now: Clock) -> None:
    """Check that a server at this address is safe from strangers, and that somebody can use it.

    Raises:
        BadSetting: other machines could reach it without sign-in; nobody could sign in; or the certificate can't be used.
    """
    if not address.loopback and access.url is None:
        raise BadSetting("FORGE_HTTP", str(address), NO_URL)
    if access.issuers and access.url is None:
        raise BadSetting("FORGE_OAUTH_ISSUERS", access.issuers[0].name, NO_RESOURCE)
    if access.url is not None and not access.issuers and not await _anybody(state, now):
        raise BadSetting("FORGE_HTTP_URL", access.url, NOBODY)
    require_certificate(access)


def require_certificate(access: HttpAccess) -> None:
    """Check that certificate and key belong together and can be read without a passphrase.

    Raises:
        BadSetting: they can't be used.
    """
    if access.certificate is None and access.key is None:
        return
    if access.certificate is None or access.key is None:
        given, lacking = (
            ("FORGE_TLS_KEY", "FORGE_TLS_CERTIFICATE") if access.key else ("FORGE_TLS_CERTIFICATE", "FORGE_TLS_KEY")
        )
        raise BadSetting(given, "set alone", f"it needs {lacking}, too")
    try:
        # A function as the password: otherwise OpenSSL would ask at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(access.certificate, access.key, password=lambda: "")
    except OSError as error:  # also OpenSSL's errors, whose texts say nothing to a person
        unreadable = not isinstance(error, ssl.SSLError) and error.strerror
        problem = unreadable or "they are not a certificate and its key in PEM, without a passphrase"
        raise BadSetting("FORGE_TLS_CERTIFICATE", str(access.certificate), f"cannot be used: {problem}") from None


async def _anybody(state: StateStore, now: Clock) -> bool:
    """Return whether there is a valid token, or a host with a secret."""
    valid = any(state_of(one, now=now()) == "valid" for one in await state.trust.tokens())
    return valid or bool(await state.enrolments())
