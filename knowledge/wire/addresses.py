"""Removes passwords and keys from addresses in messages, logs and pages. Pure.

`shown_address` is for a text that is known to be an address; it keeps only what is needed to find the server. `without_secrets` is for
any other text, such as a library's error, and finds the addresses in it.

Source: RFC 3986, section 3.2.1 (user information); libpq, "Connection Strings" (URIs and `keyword=value`).
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus, urlsplit

HIDDEN = "***"
# Each search for an `@` ends after LONGEST characters, so that a hostile text takes time in proportion to its length.
LONGEST = 2_000
# A quotation mark inside a password is followed by a letter or digit, one that encloses the address is not.
_QUOTE = r"['\"<>](?=[\w@])"
_CREDENTIALS = (
    # Also with / ? # unescaped in the password, if the text after the colon is not a port, or the scheme is not http(s).
    rf"(?:(?:[^\s'\"<>:/?#@\[]*:(?!\d{{1,5}}(?:[/?#'\"]|$))|(?<!https://)(?<!http://)[^\s'\"<>:/?#@\[]+:)(?:[^\s'\"<>]|{_QUOTE}){{0,{LONGEST}}}@"
    rf"|(?:[^\s/?#'\"<>]|{_QUOTE}){{0,{LONGEST}}}@)"
)
_USER = re.compile(rf"(?<![\w+.-])([A-Za-z][\w+.-]*:/{{1,2}}){_CREDENTIALS}")
_ENCODED = re.compile(rf"(?i)(?<![\w+.-])([A-Za-z][\w+.-]*%3A%2F%2F)[^\s&?#'\"<>]{{0,{LONGEST}}}%40")
# Without a scheme: USER:PASSWORD@HOST, as people write proxies and paste the middle of an address.
_BARE = re.compile(rf"(?<![\w@:.%+-])[\w.%+-]+:(?:[^\s/'\"<>]|{_QUOTE}){{1,{LONGEST}}}@(?=[\w\[])")
_QUERY = re.compile(rf"([?&;])([\w%.+\[\]-]+)=((?:[^\s&'\"<>]|{_QUOTE})+)")
_SECRET = r"(?:password|passwd|passphrase|pwd|secret|token|credential|signature|api_?-?key)"  # noqa: S105 - names, not a secret
_SECRET_NAME = re.compile(rf"(?i)(?:{_SECRET}s?|^pass|^pw|^auth|^authorization|^code|^jwt|^sig|[\w-]*key)\]?$")
# `host=HOST password=PASSWORD`, where a value in quotes may hold spaces and escaped quotes.
_KEYWORD = re.compile(
    rf"(?i)(?<![\w?&;-])([\w-]*{_SECRET}=|[\w-]*password[ \t]+=[ \t]*)"
    rf"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?:[^\s'\"<>]|{_QUOTE})+|'[^\s]*)"
)


def without_secrets(text: str) -> str:
    """Return `text` with `***` in place of secrets.

    These are the user and password in an address, and the value of each parameter whose name suggests a password or a
    key.
    """
    if "@" in text:
        text = _BARE.sub(f"{HIDDEN}@", _USER.sub(rf"\g<1>{HIDDEN}@", text))
    if "%40" in text:
        text = _ENCODED.sub(rf"\g<1>{HIDDEN}%40", text)
    if "=" not in text:
        return text

    def hide(found: re.Match[str]) -> str:
        before, name, _ = found.groups()
        return f"{before}{name}={HIDDEN}" if _SECRET_NAME.search(unquote_plus(name)) else found[0]

    return _KEYWORD.sub(rf"\g<1>{HIDDEN}", _QUERY.sub(hide, text))


def shown_address(address: str) -> str:
    """Return scheme, host, port and path of `address`, without user, query and fragment."""
    return re.split(r"[?#]", without_secrets(address))[0].replace(f"{HIDDEN}@", "")


def same_server(one: str, other: str) -> bool:
    """Return whether two addresses have the same scheme, host and port, so that a key for one is for the other."""
    found = [urlsplit(address) for address in (one, other)]
    return len({(parts.scheme.lower(), (parts.hostname or "").lower(), parts.port) for parts in found}) == 1
