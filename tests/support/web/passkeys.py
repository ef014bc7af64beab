"""A passkey without a device: a key pair that signs as an authenticator does.

Source: W3C Web Authentication, level 2, sections 5.8.1, 6.1, 6.5.4 and 7.2.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from knowledge.trust.ports import Passkey

PRESENT_AND_VERIFIED = 0b101
WITH_KEY = 0b100_0000


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def _said(what: str, challenge: bytes, origin: str) -> bytes:
    return json.dumps({"type": what, "challenge": b64(challenge), "origin": origin, "crossOrigin": False}).encode()


@dataclass
class SoftPasskey:
    """A device together with its owner's finger. Passkeys kept in a cloud don't count their uses."""

    name: str = "Ann's key"
    id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    count: int = 0
    counts: bool = True
    _private: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def enrolled(self) -> Passkey:
        """Return it in the form of the trust records."""
        return Passkey(self.id, self._cose(), 0, self.name, "ann", datetime(2026, 3, 1, tzinfo=UTC))

    def registration(self, challenge: bytes, origin: str, *, rp_id: str = "localhost") -> dict[str, object]:
        """Return what a browser would send after the device made this key, without an attestation."""
        client = _said("webauthn.create", challenge, origin)
        key = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + self._cose()
        data = hashlib.sha256(rp_id.encode()).digest() + bytes([PRESENT_AND_VERIFIED | WITH_KEY]) + bytes(4) + key
        # In CBOR, a map of fmt: none, attStmt: nothing, authData: data.
        head = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59" + len(data).to_bytes(2, "big")
        return self._sent({"clientDataJSON": b64(client), "attestationObject": b64(head + data)})

    def assertion(self, challenge: bytes, origin: str, *, rp_id: str = "localhost") -> dict[str, object]:
        """Return what a browser would send after the device signed the challenge."""
        self.count += self.counts
        client = _said("webauthn.get", challenge, origin)
        data = hashlib.sha256(rp_id.encode()).digest() + bytes([PRESENT_AND_VERIFIED]) + self.count.to_bytes(4, "big")
        signature = self._private.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return self._sent(
            {
                "clientDataJSON": b64(client),
                "authenticatorData": b64(data),
                "signature": b64(signature),
                "userHandle": None,
            }
        )

    def _sent(self, response: dict[str, object]) -> dict[str, object]:
        key = {"id": b64(self.id), "rawId": b64(self.id), "type": "public-key"}
        return {**key, "clientExtensionResults": {}, "response": response}

    def _cose(self) -> bytes:
        """Return the public key in CBOR: {1: 2 (EC2), 3: -7 (ES256), -1: 1 (P-256), -2: x, -3: y}."""
        numbers = self._private.public_key().public_numbers()
        x, y = (number.to_bytes(32, "big") for number in (numbers.x, numbers.y))
        return bytes.fromhex("a5010203262001215820") + x + bytes.fromhex("225820") + y
