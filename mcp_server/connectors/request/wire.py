"""Requests to other services and their replies, as values. Pure: wire modules make the first and read the second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Method = Literal["GET", "POST", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """One request to the service that is configured. `path` begins with `/` and is put behind the configured address.

    A body is JSON (`json`) or a form (`form`), never both. `repeatable`: sending it twice does what sending it once does,
    because it only reads, or because the service knows it by a key of ours; only such a request is ever sent again.
    `patience_s`: how long the service may keep it open before it answers, where it is meant to; None for as long as usual.
    """

    method: Method
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, Any] | None = None
    form: Mapping[str, str] | None = None
    repeatable: bool = False
    patience_s: float | None = None

    @property
    def writes(self) -> bool:
        """Return whether the service may change something for it."""
        return self.method != "GET"


@dataclass(frozen=True, slots=True)
class ServiceReply:
    """What came back: the status, the headers by lower-case name, and the body, parsed from JSON; None where it is empty.

    An error (400 to 499) may come without JSON, also from what stands before the service: then the body is None, and
    `page` says whether it was a page of HTML.
    """

    status: int
    headers: Mapping[str, str]
    body: Any
    page: bool = False
