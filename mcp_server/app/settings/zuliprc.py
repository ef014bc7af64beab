"""What a `zuliprc` says, the file that Zulip gives out with a key, in the words of our settings. Pure.

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
"""Which of its words is which of our settings."""
_SHAPE = "it is no zuliprc: it needs [api] with email, key and site"


def texts(file: str) -> Mapping[str, str]:
    """Return what the text of the file says, by the words of `FIELDS`; what is empty is left out.

    Raises:
        ValueError: it is no such file, or wants of certificates what is not done here. Nothing of it is repeated.
    """
    from configparser import ConfigParser, Error

    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(file)
        api = parser["api"]
    except (Error, KeyError):
        raise ValueError(_SHAPE) from None
    if api.get("insecure", "").strip().lower() in ("true", "1", "yes", "on"):
        raise ValueError("insecure=true is not followed: certificates are checked; name yours with cert_bundle")
    if api.get("client_cert", "").strip():
        raise ValueError(
            "client_cert is not followed: no certificate is shown to Zulip; use an address that wants none"
        )
    return {word: api[word].strip() for word in FIELDS if api.get(word, "").strip()}
