"""Requests to other services and their replies, as values. Pure: wire modules make the first and read the second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Method = Literal["GET", "POST", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that goes with a request."""

    name: str
    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """One request to the configured service. `path` begins with `/` and follows the configured address.

    A body is JSON (`json`), a form (`form`), a file (`file`) or bytes (`content`). `headers` go with this request
    besides those of the service. Without `reads_reply` only the status of the reply counts, and its body is not
    returned. Only a `repeatable` request is retried: doing it twice has the same result as doing it once, because it
    only reads, sets a value, or carries our key, which the service honours. The reply to a `raw` request is a file: its
    body is bytes. `patience_s` is how long the service may delay the reply on purpose (long polling); None for the
    usual limit.
    """

    method: Method
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, Any] | None = None
    form: Mapping[str, str] | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    reads_reply: bool = True
    file: UploadedFile | None = None
    repeatable: bool = False
    raw: bool = False
    patience_s: float | None = None

    @property
    def writes(self) -> bool:
        """Whether the service may change something."""
        return self.method != "GET"


@dataclass(frozen=True, slots=True)
class ServiceReply:
    """The status, the headers by lower-case name, and the body parsed from JSON (or bytes, of a file); None if it is empty.

    An error (400 to 499) may come without JSON, for example from a proxy in front of the service: then the body is
    None, and `page` says whether it was an HTML page.
    """

    status: int
    headers: Mapping[str, str]
    body: Any
    page: bool = False
