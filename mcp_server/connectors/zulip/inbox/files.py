"""The text of an uploaded file, which is read only as part of a message that has it.

Zulip returns a file to everybody who can see one message with it, so without the message nobody could say whether the
settings allow reading it, or who may have written it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from mcp_server.connectors.errors import NoAnswer, WrongAddress
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.errors import Unclear
from mcp_server.connectors.zulip.model import ChatPlace, Message
from mcp_server.connectors.zulip.wire import MOST_MESSAGES

LARGEST_BYTES = 2_000_000
_UPLOADED = re.compile(r"/user_uploads/(?:download/)?(?P<path>\d+/[^\s?#()<>\"]+)")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class FileText:
    """A text file, and the newest message that has it in the searched place."""

    name: str
    text: str
    message: Message


def uploaded_path(site: str, address: str) -> str | None:
    """Return the path of the file that an address of this server names, as it follows `/user_uploads/`; None if it names none."""
    path = address.strip().removeprefix(site.rstrip("/"))
    match = _UPLOADED.fullmatch(path)
    parts = unquote(match["path"]).split("/") if match else []
    return "/".join(parts) if parts and not {"", ".", ".."} & {*parts} else None


async def file_text(chat: Chat, path: str, where: ChatPlace) -> FileText:
    """Return the text of a file that a message in that place has.

    Raises:
        Unclear: no message there has it, it is too large, or it is not text.
        Missing: it was deleted.
    """
    name = path.rpartition("/")[2]
    message = next((one for one in await _with_files(chat, where) if path in _paths(one)), None)
    if message is None:
        raise Unclear(f"none of the newest {MOST_MESSAGES:,} messages with files there has {name[:60]!r}")
    try:
        content = await chat.client.file(quote(path))
    except WrongAddress as error:
        raise Unclear(f"Zulip keeps files at {error.where}, where this server does not follow") from None
    except NoAnswer as error:
        if "larger than" not in error.why:
            raise
        content = None
    if content is None or len(content) > LARGEST_BYTES:
        raise Unclear(f"{name[:60]!r} is larger than {LARGEST_BYTES:,} bytes, the most that can be read")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = None
    if text is None or _CONTROL.search(text):
        raise Unclear(
            f"{name[:60]!r} ({len(content):,} bytes) is not UTF-8 text, the only kind of file that can be read here"
        )
    return FileText(name, text, message)


async def _with_files(chat: Chat, where: ChatPlace) -> Sequence[Message]:
    """Return the newest messages with files there, newest first."""
    asked = ChatPlace(where.channel, where.topic, where.people, with_files=True)
    window = await chat.client.messages(asked, before=MOST_MESSAGES)
    return [message for message in reversed(window.messages) if chat.allows(message)]


def _paths(message: Message) -> frozenset[str]:
    return frozenset(unquote(match["path"]) for match in _UPLOADED.finditer(message.text))
