"""Unpacks the body of a reply in small pieces, up to a limit.

HTTP clients unpack every layer that a reply names, each in one piece: two kilobytes of gzip in gzip become 200 MB.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any

import anyio.lowlevel

MOST_UNPACKED = 64 * 1024 * 1024
"""Limit for a reply that is read as a whole. Batches of vectors and the longest answers of models stay below half of it."""
PIECE = 64 * 1024
ACCEPTED = "gzip, deflate"
"""The value of `Accept-Encoding`."""

_GZIP, _RAW = zlib.MAX_WBITS | 16, -zlib.MAX_WBITS
_PLAIN = ("", "identity")


class BadPacking(ValueError):
    """The body can't be unpacked, or is larger than it may be. The message never quotes the body."""


class Unpacking:
    """One body, compressed as its `Content-Encoding` says.

    Raises:
        BadPacking: it is compressed more than once, or in a way that was not requested.
    """

    def __init__(self, coding: str, most_bytes: int = MOST_UNPACKED) -> None:
        self._coding, self._left, self._most = coding.strip().lower(), most_bytes, most_bytes
        if self._coding not in (*_PLAIN, "gzip", "x-gzip", "deflate"):
            raise BadPacking("its compression was not requested")
        self._zlib = zlib.decompressobj(_GZIP if "gzip" in self._coding else zlib.MAX_WBITS)
        self._start: bytes | None = b"" if self._coding == "deflate" else None

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Yield the next bytes unpacked, in pieces of at most `PIECE` bytes.

        Raises:
            BadPacking: they are broken, or all pieces together exceed the limit.
        """
        if self._coding in _PLAIN:
            yield self._counted(packed)
            return
        if self._start is not None:
            packed = self._start + packed
            self._start = packed if len(packed) < 2 else None
            if self._start is not None:
                return
            # Some servers that say `deflate` leave out the zlib header. Source: RFC 1950, 2.2 (CMF and FLG).
            if packed[0] & 0x0F != zlib.DEFLATED or int.from_bytes(packed[:2], "big") % 31:
                self._zlib = zlib.decompressobj(_RAW)
        piece = b""
        # A full piece may have left output behind inside of zlib although all input is consumed.
        while (packed or len(piece) == PIECE) and not self._zlib.eof:
            try:
                piece = self._zlib.decompress(packed, PIECE)
            except zlib.error:
                raise BadPacking("its compression is broken") from None
            packed = self._zlib.unconsumed_tail
            if piece:
                yield self._counted(piece)

    def _counted(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            raise BadPacking(f"it is larger than {self._most:,} bytes")
        return piece


def bounding(http: ModuleType, most_bytes: int = MOST_UNPACKED) -> Callable[[Any], Awaitable[None]]:
    """Return a response hook for a client of `http` (httpx or httpx2) that unpacks every body here, up to a limit.

    A larger body raises `http.DecodingError`, from the request or, if it is streamed, while it is read.
    """

    class Bounded(http.AsyncByteStream):  # type: ignore[name-defined,misc]  # either library's own class
        def __init__(self, packed: Any, unpacking: Unpacking) -> None:
            self._packed, self._unpacking = packed, unpacking

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for packed in self._packed:
                try:
                    for piece in self._unpacking.feed(packed):
                        yield piece
                        # One network packet can unpack to a thousand pieces, and other tasks should run in between.
                        await anyio.lowlevel.checkpoint()
                except BadPacking as bad:
                    raise http.DecodingError(str(bad)) from None

        async def aclose(self) -> None:
            await self._packed.aclose()

    async def hook(response: Any) -> None:
        try:
            unpacking = Unpacking(response.headers.pop("content-encoding", ""), most_bytes)
        except BadPacking as bad:
            raise http.DecodingError(str(bad)) from None
        response.stream = Bounded(response.stream, unpacking)

    return hook
