"""Attachments: files of the knowledge base that are no pages. Only kinds that can't run anything are shown; all others are downloads.

Source: RFC 6266 (Content-Disposition); W3C Content Security Policy level 3, `sandbox`; WHATWG MIME Sniffing (nosniff).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from starlette.responses import Response

from knowledge.errors import InvalidPath, NoSuchPath, UnreadableDocument
from mcp_server.web.page_context import NotFound, PageRequest

INLINE: Mapping[str, str] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "bmp": "image/bmp",
    "ico": "image/x-icon",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "wav": "audio/wav",
    "m4a": "audio/mp4",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "txt": "text/plain; charset=utf-8",
    "csv": "text/plain; charset=utf-8",
    "log": "text/plain; charset=utf-8",
    "json": "text/plain; charset=utf-8",
    "canvas": "text/plain; charset=utf-8",
}
"""Content types, by suffix, that a browser shows without running any of it."""
PICTURE_ONLY: Mapping[str, str] = {"svg": "image/svg+xml"}
"""Content types, by suffix, of files that run nothing as a picture in a page.

Opened by themselves they may run scripts, so then they are downloaded.
"""
DOWNLOAD = "application/octet-stream"
POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; media-src 'self'; frame-ancestors 'none'"
)
"""With this policy a file has no scripts, no forms and no origin, even if a browser takes it for a document.

Inline styles are allowed because browsers use one to show a picture that is opened alone.
"""


async def file(request: PageRequest) -> Response:
    """Return a file, to be shown if its kind is safe, else to be saved."""
    path = request.query.get("path", "")
    try:
        found = await request.services.tiers.file(path)
    except (InvalidPath, NoSuchPath, UnreadableDocument) as error:
        why = error.reason if isinstance(error, UnreadableDocument) else "nothing is there, or it may not be read"
        raise NotFound("No such file", f"There is no file {path!r} to show: {why}.", "/pages") from error
    name = path.rstrip("/").rpartition("/")[2]
    suffix = name.rpartition(".")[2].lower()
    kind = "inline" if suffix in INLINE else "attachment"
    return Response(
        found.raw,
        media_type=INLINE.get(suffix) or PICTURE_ONLY.get(suffix) or DOWNLOAD,
        headers={
            "content-disposition": f"{kind}; filename*=UTF-8''{quote(name.encode('utf-8', 'replace'), safe='')}",
            "content-security-policy": POLICY,
        },
    )
