"""When two e-mail addresses are one mailbox."""

from __future__ import annotations


def mailbox(address: str) -> str:
    """Return an e-mail address so that two of the same mailbox are equal.

    Only ASCII letters lose their case: lower-casing others would take one person's address for another's, because the Kelvin sign
    becomes a k.
    """
    return address.lower() if address.isascii() else address
