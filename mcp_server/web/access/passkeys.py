"""Passkeys: registering one, and checking a signature over the hash of a proposal, or of a rehearsal.

On the server's machine, nothing but such a signature proves that a person decided: a program of the same account could send any
form.

Source: W3C Web Authentication, level 2, sections 7.1 (registration) and 7.2 (assertion).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from knowledge.trust.ports import Passkey, TrustRecords
from mcp_server.approvals.approvers import CannotDecide, own_passkeys
from mcp_server.gate.host_registration import digest
from mcp_server.gate.trust.admin import packed
from mcp_server.web.access.sessions import Session

NAME = "localhost"
"""The relying party of passkeys on the server's machine. Browsers offer no passkeys at an address made of numbers."""
TIMEOUT_MS = 120_000  # for which the browser waits for the person
REGISTRATION_LIFETIME = timedelta(minutes=5)
MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors that the library and the lines around it raise for an answer that no browser made."""


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """The site as passkeys know it. A passkey that was made for one `name` signs only for that name, and only at `origin`."""

    name: str
    origin: str


def on_this_machine(port: int) -> RelyingParty:
    """Return the site on the server's machine."""
    return RelyingParty(NAME, f"http://{NAME}:{port}")


def at(origin: str) -> RelyingParty:
    """Return the site at a public address."""
    return RelyingParty(urlsplit(origin).hostname or "", origin)


def signing_options(shown_hash: str, passkeys: Sequence[Passkey], party: RelyingParty) -> str:
    """Return the browser's options for signing, as JSON: the challenge is the hash of what is shown."""
    return json.dumps(
        {
            "challenge": packed(bytes.fromhex(shown_hash)),
            "rpId": party.name,
            "allowCredentials": [{"type": "public-key", "id": packed(passkey.id)} for passkey in passkeys],
            "userVerification": "required",
            "timeout": TIMEOUT_MS,
        }
    )


async def verified(
    trust: TrustRecords, session: Session, shown_hash: str, assertion: str, *, party: RelyingParty, now: datetime
) -> str:
    """Return the name of the passkey of this person that signed the hash, and note its use.

    Raises:
        CannotDecide: no passkey of theirs signed this hash, or a copy of one did.
    """
    import webauthn  # 0.25 s, which the page need not wait for

    try:
        credential = json.loads(assertion)
        wanted = webauthn.base64url_to_bytes(str(credential["id"]))
        passkey = next(one for one in await own_passkeys(trust, session.user) if one.id == wanted)
        signed = webauthn.verify_authentication_response(
            credential=credential,
            expected_challenge=bytes.fromhex(shown_hash),
            expected_rp_id=party.name,
            expected_origin=party.origin,
            credential_public_key=passkey.public_key,
            # `use_passkey` below compares counts, in the same transaction in which it notes the use.
            credential_current_sign_count=0,
            require_user_verification=True,
        )
    except StopIteration:
        raise CannotDecide("the passkey that signed is not registered here for you") from None
    except (webauthn.helpers.exceptions.WebAuthnException, *MALFORMED) as error:
        raise CannotDecide(
            "the signature does not match what was shown and a registered passkey; sign again"
        ) from error
    if not await trust.use_passkey(passkey.id, sign_count=signed.new_sign_count, at=now):
        raise CannotDecide("this passkey may be a copy: it was used elsewhere in the meantime. Nothing was approved")
    return passkey.name


async def registration_options(
    trust: TrustRecords, session: Session, passkeys: Sequence[Passkey], party: RelyingParty, now: datetime
) -> tuple[str, str]:
    """Return a fresh challenge, and the browser's options for making a passkey, as JSON.

    The challenge is good for one registration in this session within five minutes.
    """
    import webauthn  # as above
    from webauthn.helpers import structs

    challenge = secrets.token_bytes(32)
    await trust.put_secret(
        _kept_as(packed(challenge), session), "challenge", session.user, expires_at=now + REGISTRATION_LIFETIME
    )
    options = webauthn.generate_registration_options(
        rp_id=party.name,
        rp_name="Knowledge Forge",
        user_name=session.user,
        challenge=challenge,
        timeout=TIMEOUT_MS,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.PREFERRED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[structs.PublicKeyCredentialDescriptor(id=one.id) for one in passkeys],
    )
    return packed(challenge), webauthn.options_to_json(options)


def _kept_as(challenge: str, session: Session) -> bytes:
    """Return the digest under which the challenge is kept. It includes the session, so that no other session finds it."""
    return digest(f"{session.csrf} {challenge}")


async def registered(
    trust: TrustRecords, session: Session, challenge: str, credential: str, *, party: RelyingParty, now: datetime
) -> dict[str, Any]:
    """Return `id`, `public_key` and `sign_count` of the passkey that the browser made for this challenge.

    Raises:
        CannotDecide: the challenge was used or has expired, or the browser's answer does not fit it.
    """
    import webauthn  # as above

    if await trust.take_secret(_kept_as(challenge, session), "challenge", now=now) is None:
        raise CannotDecide("this registration was already used or has expired; start again")
    try:
        made = webauthn.verify_registration_response(
            credential=json.loads(credential),
            expected_challenge=webauthn.base64url_to_bytes(challenge),
            expected_rp_id=party.name,
            expected_origin=party.origin,
            require_user_verification=True,
        )
    except (webauthn.helpers.exceptions.WebAuthnException, *MALFORMED) as error:
        raise CannotDecide("the browser did not return a new passkey for this page; start again") from error
    return {"id": made.credential_id, "public_key": made.credential_public_key, "sign_count": made.sign_count}
