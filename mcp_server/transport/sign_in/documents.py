"""Documents of a sign-in server, over HTTP: bounded in time and size, and without following redirects."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import cache
from typing import Final

import anyio
import httpx

PATIENCE_S: Final = 10.0
"""The longest time to read one document of a sign-in server."""
LARGEST_BYTES: Final = 512 * 1024


def new_client() -> httpx.AsyncClient:
    """Return a client for sign-in servers."""
    return httpx.AsyncClient(follow_redirects=False, timeout=PATIENCE_S, verify=_trusted())


@cache
def _trusted() -> ssl.SSLContext:
    """Return the certificates that count. Reading them takes longer than most requests."""
    return httpx.create_ssl_context()


async def document(
    client: httpx.AsyncClient,
    address: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return the document at an address of a sign-in server, or its answer to a form.

    Raises:
        OSError: it can't be read within `PATIENCE_S`, is no answer with status 200, or is too large.
    """
    found = bytearray()
    # Not compressed: a client unpacks each piece whole, and two kilobytes may become 200 MB (`knowledge/wire/compression.py`).
    usual = {"accept": "application/json", "accept-encoding": "identity"}
    method = "GET" if form is None else "POST"
    try:
        with anyio.fail_after(PATIENCE_S):
            async with client.stream(method, address, data=form, headers={**usual, **(headers or {})}) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise OSError(f"HTTP status {answer.status_code}")
                async for block in answer.aiter_bytes():
                    found += block
                    if len(found) > LARGEST_BYTES:
                        raise OSError(f"it is larger than {LARGEST_BYTES} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    return bytes(found)
