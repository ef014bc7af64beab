"""Reads a `zuliprc`, the file that Zulip offers for download with a key. Pure.

Source: https://zulip.com/api/configuring-python-bindings
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIELDS: Final[Mapping[str, str]] = {
    "site": "zulip_site",
    "email": "zulip_email",
    "key": "zulip_api_key",
    "cert_bundle": "zulip_cert_bundle",
}
"""The setting for each of its keys."""
_SHAPE = "it is not a zuliprc: it needs [api] with email, key and site"


def read_zuliprc(file: str) -> Mapping[str, str]:
    """Return the texts in the file by the keys of `FIELDS`, without empty ones.

    Raises:
        ValueError: it is not a zuliprc, or has an unsupported option for certificates. Nothing in it is repeated.
    """
    from configparser import ConfigParser, Error

    # By default `%` in a value is syntax, but a key or a path may contain one.
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(file)
        api = parser["api"]
    except (Error, KeyError):
        raise ValueError(_SHAPE) from None
    if api.get("insecure", "").strip().lower() in ("true", "1", "yes", "on"):
        raise ValueError("insecure=true is not supported: certificates are always checked; name yours with cert_bundle")
    if api.get("client_cert", "").strip():
        raise ValueError("client_cert is not supported; use an address that needs no client certificate")
    return {word: api[word].strip() for word in FIELDS if api.get(word, "").strip()}
