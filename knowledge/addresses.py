"""Addresses with a password in them, in whatever is said. Pure.

Source: RFC 3986, section 3.2.1 (user information); libpq, "Connection URIs" (parameters such as `password`).
"""

from __future__ import annotations

import re

HIDDEN = "***"
_USER = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*:/{1,2})[^\s/?#'\"<>]*@")
# Without a scheme: USER:PASSWORD@HOST, as people write proxies and paste the middle of an address.
_BARE = re.compile(r"(?<![\w@:.%+-])[\w.%+-]+:[^\s/@:'\"<>]+@(?=[\w\[])")
_PARAMETER = re.compile(
    r"(?i)((?:[?&;]|(?<![\w-]))[\w-]*(?:password|passwd|pwd|secret|token|api_?-?key|(?<=[?&;])key|signature|(?<=[?&;])sig)=)"
    r"[^\s&#'\"<>]+"
)


def without_secrets(text: str) -> str:
    """Return `text` with a mark in the place of whatever stands before an `@`, and of each parameter called like a password."""
    if "@" in text:
        text = _BARE.sub(f"{HIDDEN}@", _USER.sub(rf"\g<1>{HIDDEN}@", text))
    return _PARAMETER.sub(rf"\g<1>{HIDDEN}", text) if "=" in text else text
