"""Requests and replies of an `/embeddings` endpoint. Pure.

Source: the embeddings request and reply of OpenAI's API reference, as llama.cpp, ollama and vLLM serve them as well.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

Encoding = Literal["float", "base64"]
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,40}")


class MalformedReply(Exception):
    """A reply that cannot be used. The message says what is wrong without quoting the reply."""


class WrongLength(MalformedReply):
    """Vectors of another length than expected."""

    def __init__(self, found: int, expected: int) -> None:
        self.found, self.expected = found, expected
        super().__init__(f"its vectors have {found} dimensions, not {expected}")


def embeddings_url(base: str) -> str:
    """Return the address to post to: `base` (`http://localhost:11434/v1`) with `/embeddings` at its end."""
    parts = urlsplit(base)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith("/embeddings") else f"{path}/embeddings"))


def request_body(model: str, texts: Sequence[str], dimensions: int, encoding: Encoding) -> bytes:
    """Return the body of a request for the vectors of `texts`; `dimensions` 0 leaves their length to the model."""
    body: dict[str, object] = {"model": model, "input": list(texts), "encoding_format": encoding}
    if dimensions:
        body["dimensions"] = dimensions
    return json.dumps(body).encode()


def sendable(text: str) -> str:
    """Return `text` without lone surrogates and NULs, which servers reject."""
    return text.encode("utf-8", "replace").decode().replace("\x00", " ")


def vectors_of(reply: bytes, count: int, dimensions: int) -> NDArray[np.float32]:
    """Return the `count` vectors in the order of the texts, each of `dimensions` numbers (0: of any one length).

    Rows that contain NaN are accepted, unless all of several rows do.

    Raises:
        MalformedReply: the number of vectors is wrong, their indexes or lengths don't match, or it is not such a reply.
        WrongLength: they do not have `dimensions` numbers.
    """
    try:
        parsed: Any = json.loads(reply)
    except (ValueError, RecursionError) as error:
        raise MalformedReply("it is not JSON") from error
    data = parsed.get("data") if isinstance(parsed, Mapping) else None
    if not isinstance(data, list) or not all(isinstance(item, Mapping) for item in data):
        raise MalformedReply("it has no list `data` of objects")
    if len(data) != count:
        raise MalformedReply(f"it has {len(data)} vectors for {count} texts")
    rows = [_vector(item.get("embedding")) for item in _ordered(data)]
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise MalformedReply("its vectors have several lengths")
    if dimensions and lengths - {dimensions}:
        raise WrongLength(lengths.pop(), dimensions)
    found = np.stack(rows)
    if count > 1 and not np.isfinite(found).all(axis=1).any():
        raise MalformedReply("its vectors are not made of numbers")
    return found


def _ordered(data: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the items sorted by their `index`; in their given order if no item has one."""
    indexes: list[Any] = [item.get("index") for item in data]
    if all(index is None for index in indexes):
        return list(data)
    if any(type(index) is not int for index in indexes) or sorted(indexes) != list(range(len(data))):
        raise MalformedReply("the `index` of its vectors does not number them from 0")
    return sorted(data, key=lambda item: item["index"])


def _vector(embedding: Any) -> NDArray[np.float32]:
    if isinstance(embedding, str):
        try:
            raw = base64.b64decode(embedding, validate=True)
        except (binascii.Error, ValueError) as error:
            raise MalformedReply("a vector is not base64") from error
        if not raw or len(raw) % 4:
            raise MalformedReply("a vector in base64 does not hold 4-byte numbers")
        return np.frombuffer(raw, "<f4").astype(np.float32)
    if not isinstance(embedding, list) or not embedding:
        raise MalformedReply("a vector is missing or empty")
    try:
        found = np.array([np.nan if number is None else number for number in embedding])
    except ValueError as error:
        raise MalformedReply("a vector is not a list of numbers") from error
    if found.ndim != 1 or found.dtype.kind not in "fi":
        raise MalformedReply("a vector is not a list of numbers")
    with np.errstate(over="ignore"):
        return found.astype(np.float32)


def error_code(reply: bytes) -> str:
    """Return the short code of a refusal, or an empty string.

    The message of a refusal is never used: servers often quote the request in it.
    """
    try:
        parsed: Any = json.loads(reply)
    except (ValueError, RecursionError):
        return ""
    error: Any = parsed.get("error", parsed) if isinstance(parsed, Mapping) else None
    for key in ("code", "type") if isinstance(error, Mapping) else ():
        value = error.get(key)
        if isinstance(value, str) and _CODE.fullmatch(value):
            return value
    return ""


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Return the seconds of a `Retry-After` header; None if there is none or it cannot be parsed.

    Source: RFC 9110, section 10.2.3: seconds or a date.
    """
    if value is None:
        return None
    try:
        if re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
            return max(0.0, float(value))
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None
