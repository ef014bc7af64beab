"""Where a model is, and how long and how often it is asked. Values come from settings; this package reads no environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from knowledge.wire.addresses import shown_address


@dataclass(frozen=True, slots=True)
class Access:
    """Where to ask for what. `address` "" is the vendor's own; `key` "" is none, which only servers of one's own take.

    The settings are the variables that an error names: which one to look at is all that it can say about a key.
    """

    model: str
    key: str = field(default="", repr=False)
    address: str = ""
    key_setting: str = "the key"
    address_setting: str = "the address"
    model_setting: str = "the model"
    bound_setting: str = "the bound on an answer"

    @property
    def reachable(self) -> bool:
        """Return whether the address is one of HTTP, or the vendor's own."""
        try:
            parts = urlsplit(self.address)
            return not self.address or (parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0)
        except ValueError:
            return False

    @property
    def shown_address(self) -> str:
        """Return the address as a message may hold it."""
        return shown_address(self.address) or "its usual address"


@dataclass(frozen=True, slots=True)
class RequestPatience:
    """How long and how often. Every try is bounded, and so are all of one question together.

    `whole_s`: for an answer in one piece, from the first byte sent. `silence_s`: between two pieces of a streamed one.
    `longest_wait_s`: the longest that is waited because a server asks for it. `waits_s`: all waits of one question.
    An answer that may be longer than `stream_above` tokens is streamed: what stands between drops connections that are
    silent for minutes. Source: https://platform.claude.com/docs/en/api/errors#long-requests
    """

    tries: int = 5
    connect_s: float = 10.0
    whole_s: float = 600.0
    silence_s: float = 120.0
    streamed_s: float = 3_600.0
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0
    waits_s: float = 180.0
    stream_above: int = 8_192
