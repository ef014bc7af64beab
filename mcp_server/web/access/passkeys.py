"""Passkeys: enrolling one, and a signature over the hash of what will run.

A signature proves what nothing else can on one machine: that a person touched a device, and not that a program of the same
account sent a form.

Source: W3C Web Authentication, level 2, sections 7.1 (registration) and 7.2 (assertion).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from knowledge.trust.ports import Passkey, Proposal, TrustRecords
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.gate.host_registration import digest
from mcp_server.gate.trust.admin import packed
from mcp_server.web.access.sessions import Session

NAME = "localhost"
"""Whom a passkey is for (the relying party). Browsers give passkeys to no address with a number."""
TIMEOUT_MS = 120_000
ENROLLING_LIFETIME = timedelta(minutes=5)


def origin(port: int) -> str:
    """Return the only origin whose signatures count."""
    return f"http://{NAME}:{port}"


def signing_options(proposal: Proposal, passkeys: Sequence[Passkey]) -> str:
    """Return what the browser is asked to sign, JSON: the proposal's hash is the challenge."""
    return json.dumps(
        {
            "challenge": packed(bytes.fromhex(proposal.hash)),
            "rpId": NAME,
            "allowCredentials": [{"type": "public-key", "id": packed(passkey.id)} for passkey in passkeys],
            "userVerification": "required",
            "timeout": TIMEOUT_MS,
        }
    )


async def verified(trust: TrustRecords, proposal: Proposal, assertion: str, *, port: int, now: datetime) -> str:
    """Return the name of the passkey that signed the proposal's hash, its use noted.

    Raises:
        CannotDecide: no enrolled passkey signed it, or not this, or a copy of one did.
    """
    from webauthn import base64url_to_bytes, verify_authentication_response
    from webauthn.helpers.exceptions import WebAuthnException

    try:
        credential = json.loads(assertion)
        wanted = base64url_to_bytes(str(credential["id"]))
        passkey = next(one for one in await trust.passkeys() if one.id == wanted)
        signed = verify_authentication_response(
            credential=credential,
            expected_challenge=bytes.fromhex(proposal.hash),
            expected_rp_id=NAME,
            expected_origin=origin(port),
            credential_public_key=passkey.public_key,
            # The records compare counts, in the same step in which the use is noted.
            credential_current_sign_count=0,
            require_user_verification=True,
        )
    except StopIteration:
        raise CannotDecide("the passkey that signed is not registered here") from None
    except (WebAuthnException, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CannotDecide("the signature does not match this proposal and a registered passkey; sign again") from error
    if not await trust.use_passkey(passkey.id, sign_count=signed.new_sign_count, at=now):
        raise CannotDecide("this passkey may be a copy: it was used elsewhere in the meantime. Nothing was approved")
    return passkey.name


async def enrolling(
    trust: TrustRecords, session: Session, passkeys: Sequence[Passkey], now: datetime
) -> tuple[str, str]:
    """Return a fresh challenge, good for one enrolment of this session in five minutes, and what the browser is to make, JSON."""
    from webauthn import generate_registration_options, options_to_json
    from webauthn.helpers.structs import (
        AuthenticatorSelectionCriteria,
        PublicKeyCredentialDescriptor,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    challenge = secrets.token_bytes(32)
    await trust.put_secret(
        _kept_as(packed(challenge), session), "challenge", session.user, expires_at=now + ENROLLING_LIFETIME
    )
    options = generate_registration_options(
        rp_id=NAME,
        rp_name="Knowledge Forge",
        user_name=session.user,
        challenge=challenge,
        timeout=TIMEOUT_MS,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.PREFERRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=one.id) for one in passkeys],
    )
    return packed(challenge), options_to_json(options)


def _kept_as(challenge: str, session: Session) -> bytes:
    """Return under which digest a challenge is kept: another session does not find it."""
    return digest(f"{session.csrf} {challenge}")


async def enrolled(
    trust: TrustRecords, session: Session, challenge: str, credential: str, *, port: int, now: datetime
) -> dict[str, Any]:
    """Return `id`, `public_key` and `sign_count` of the passkey that the browser made for this challenge.

    Raises:
        CannotDecide: the challenge is used up or too old, or the answer is not one to it.
    """
    from webauthn import base64url_to_bytes, verify_registration_response
    from webauthn.helpers.exceptions import WebAuthnException

    if await trust.take_secret(_kept_as(challenge, session), "challenge", now=now) is None:
        raise CannotDecide("this registration was already used or has expired; start again")
    try:
        made = verify_registration_response(
            credential=json.loads(credential),
            expected_challenge=base64url_to_bytes(challenge),
            expected_rp_id=NAME,
            expected_origin=origin(port),
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CannotDecide("the browser did not return a new passkey for this page; start again") from error
    return {"id": made.credential_id, "public_key": made.credential_public_key, "sign_count": made.sign_count}
