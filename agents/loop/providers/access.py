"""The address of a model, and how long and how often to ask it. The values come from settings; this package reads no environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from knowledge.wire.addresses import shown_address


@dataclass(frozen=True, slots=True)
class Access:
    """Address, key and model. `address` "" is the vendor's own; `key` "" means none, which only self-hosted servers accept.

    The settings are the variables to name in errors: an error about a key may only say where the key is set.
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
        """Whether the address is the vendor's own or an HTTP address."""
        try:
            parts = urlsplit(self.address)
            return not self.address or (parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0)
        except ValueError:
            return False

    @property
    def shown_address(self) -> str:
        """The address as a message may contain it."""
        return shown_address(self.address) or "its usual address"


@dataclass(frozen=True, slots=True)
class RequestPatience:
    """How long and how often to try. Each try is limited, and so are all tries of one request together.

    `whole_s`: for an answer in one piece, from the first byte sent. `silence_s`: between two pieces of a streamed answer.
    `longest_wait_s`: the longest wait that a server may ask for. `waits_s`: all waits of one request together.
    An answer that may exceed `stream_above` tokens is streamed, because proxies drop connections that are silent for minutes.
    Source: https://platform.claude.com/docs/en/api/errors#long-requests
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
