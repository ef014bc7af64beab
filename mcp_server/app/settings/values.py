"""What the text of a setting means. Each function returns the value, or says in a `ValueError` why it cannot be used.

Where a person might have put a key, by mistake or not, nothing of the text is repeated.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final

from knowledge.pages.claim_source import trusted_place
from mcp_server.connectors.zulip.mailbox import mailbox

TOOLSETS = ("knowledge", "trust", "journeys", "runs", "plane", "zulip")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Where Streamable HTTP listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def path(text: str) -> Path:
    """Return the folder or file that is named, absolute."""
    if not text.strip():
        raise ValueError("it is empty; name a folder")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError(
            "~ means nothing here, because this account has no home folder; use an absolute path"
        ) from None


def flag(text: str) -> bool:
    """Return whether it is switched on."""
    known = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
        "": False,
    }
    try:
        return known[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def http_address(text: str) -> HttpAddress | None:
    """Return the address to listen at, which is on this machine; None for `stdio`."""
    if text.strip() == "stdio":
        return None
    host, colon, port = text.strip().rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, for example 127.0.0.1:8321, nor stdio")
    if host not in LOOPBACK:
        raise ValueError(
            f"{host!r} is not this machine; without sign-in only loopback is served (127.0.0.1, localhost, ::1)"
        )
    return HttpAddress(host, int(port))


def toolsets(text: str) -> tuple[str, ...]:
    """Return the toolsets that are named, each once."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in TOOLSETS:
            raise ValueError(f"{name!r} is no toolset; known are {', '.join(TOOLSETS)}")
    if not names:
        raise ValueError(f"it is empty; known are {', '.join(TOOLSETS)}")
    return names


def trusted_places(text: str) -> tuple[str, ...]:
    """Return the places that a person vouches for, each once, in one spelling. A name with a comma in it is put between quotes."""
    parts = (part.strip() for part in next(csv.reader([text], skipinitialspace=True), []))
    return tuple(dict.fromkeys(trusted_place(part) for part in parts if part))


def embedder(text: str) -> str:
    """Return the embedder's name."""
    kind, colon, model = text.strip().partition(":")
    if text.strip() == "static" or (kind in ("endpoint", "fastembed") and model.strip()):
        return f"{kind}{colon}{model.strip()}"
    raise ValueError(f"{text!r} is not available; this version has: static, fastembed:MODEL, endpoint:MODEL")


def dimensions(text: str) -> int:
    """Return the length of a vector."""
    if not text.isdigit() or not 8 <= int(text) <= 8192:
        raise ValueError(f"{text!r} is not a whole number from 8 to 8192")
    return int(text)


def encoding(text: str) -> str:
    """Return how numbers are sent."""
    if text not in ("float", "base64"):
        raise ValueError(f"{text!r} is neither float nor base64")
    return text


def answer_tokens(text: str) -> int:
    """Return how long an answer may be."""
    if not text.isdigit() or not 200 <= int(text) <= 20_000:
        raise ValueError(f"{text!r} is not a whole number from 200 to 20000")
    return int(text)


def database_url(text: str) -> str:
    """Return `text` if it is a PostgreSQL URL whose password no message about it could repeat by mistake.

    libpq quotes what it cannot read, so everything that it could misread is refused here, in words without any of it.
    """
    from urllib.parse import parse_qsl, urlsplit

    shape = (
        "it is not like postgresql://USER:PASSWORD@HOST:5432/DATABASE; "
        "in a name or password write @ : / ? # [ ] % as %40 %3A %2F %3F %23 %5B %5D %25"
    )
    text = text.strip()
    try:
        url = urlsplit(text)
    except ValueError:
        raise ValueError(shape) from None
    who, _, hosts = url.netloc.rpartition("@")
    misread = "@" in who + url.path + url.query or who.count(":") > 1 or url.fragment or re.search(r"\s", text)
    ports = all(re.fullmatch(r"(\[[\da-fA-F:.]+\]|[^:\[\]]*)(:\d*)?", host) for host in hosts.split(","))
    if url.scheme not in ("postgresql", "postgres") or misread or not ports or re.search(r"%(?![\da-fA-F]{2})", text):
        raise ValueError(shape)
    for name, value in parse_qsl(url.query):
        if name in PATHS_IN_URL and value != "system" and not Path(value).is_absolute():
            raise ValueError(
                f"its {name} is a relative path, and a host may start the server in any folder; use an absolute path"
            )
    return text


PATHS_IN_URL = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir", "sslkeylogfile", "passfile", "servicefile")


def schema(text: str) -> str:
    """Return the name of a schema that is nobody else's."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", text) or text.startswith("pg_") or text == "public":
        raise ValueError(
            f"{text!r} cannot be a schema of its own: use up to 63 lower-case letters, digits and _, not pg_..., not public"
        )
    return text


def server_url(text: str, *, example: str, key: str, query: bool = False) -> str:
    """Return `text` if it is an address without a secret in it; none of it is repeated if there is."""
    from urllib.parse import urlsplit

    shape = f"it is not like {example}"
    try:
        url = urlsplit(text.strip())
        usable = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        raise ValueError(shape) from None
    if "@" in url.netloc:
        raise ValueError(f"it holds a user or password; put the key into {key} instead")
    if not usable or (url.query and not query) or url.fragment or re.search(r"\s", text.strip()):
        raise ValueError(shape)
    return text.strip().rstrip("/")


embedder_url = partial(
    server_url, example="https://HOST/v1 or http://localhost:11434/v1", key="FORGE_EMBEDDER_KEY", query=True
)
meili_url = partial(server_url, example="http://localhost:7700 or https://HOST", key="FORGE_MEILI_KEY")
anthropic_url = partial(server_url, example="https://api.anthropic.com", key="ANTHROPIC_API_KEY")
openai_url = partial(server_url, example="http://localhost:11434/v1", key="OPENAI_API_KEY", query=True)
qdrant_url = partial(server_url, example="http://localhost:6333 or https://HOST:6333", key="FORGE_QDRANT_KEY")


def key(text: str) -> str:
    """Return a key; what is wrong with one is said without any of it."""
    if not re.fullmatch(r"[!-~]+", text.strip()):
        raise ValueError("it is empty, or has characters that no key has")
    return text.strip()


def copies(text: str) -> int:
    """Return how many of something there are to be."""
    if not text.isdigit() or not 1 <= int(text) <= 1_000:
        raise ValueError(f"{text!r} is not a whole number from 1 to 1000")
    return int(text)


def port(text: str) -> int:
    """Return a port."""
    if not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise ValueError(f"{text!r} is not a port, 1 to 65535")
    return int(text)


def quantization(text: str) -> str:
    """Return how vectors are kept small."""
    if text not in ("none", "scalar", "binary"):
        raise ValueError(f"{text!r} is not one of: none, scalar, binary")
    return text


def plane_url(text: str) -> str:
    """Return where Plane is: also for somebody who names the API there, as the vendor's examples do."""
    found = server_url(text, example="https://api.plane.so or https://plane.example.com", key="PLANE_API_KEY")
    return re.sub(r"/api(/v1)?$", "", found)


def zulip_site(text: str) -> str:
    """Return where Zulip is: as the vendor's own programs take it, also a name alone, and with `/api` behind it.

    Source: https://zulip.com/api/configuring-python-bindings
    """
    named = text.strip()
    if "://" not in named:
        named = f"{'http' if named.partition(':')[0] in LOOPBACK else 'https'}://{named}"
    found = server_url(named, example="https://chat.example.com", key="ZULIP_API_KEY")
    return re.sub(r"/api(/v1)?$", "", found)


def workspace(text: str) -> str:
    """Return the word by which Plane calls a workspace."""
    if not re.fullmatch(r"[\w-]+", text.strip()):
        raise ValueError("it is no workspace; it is the word behind the host in Plane's addresses, for example acme")
    return text.strip()


def names(text: str) -> tuple[str, ...]:
    """Return the names in a list, each once; the `#` that people write before a channel is left out."""
    found = tuple(dict.fromkeys(part.strip().lstrip("#") for part in text.split(",") if part.strip().lstrip("#")))
    if not found:
        raise ValueError("it is empty; name some, separated by commas, or leave the setting out")
    return found


def email(text: str) -> str:
    """Return an e-mail address."""
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", text.strip()):
        raise ValueError("it is no e-mail address")
    return text.strip()


def emails(text: str) -> tuple[str, ...]:
    """Return the e-mail addresses in a list, each once, as `mailbox` writes them."""
    return tuple(dict.fromkeys(mailbox(email(name)) for name in names(text)))


def channel_and_topic(text: str) -> tuple[str, str]:
    """Return a channel and a topic in it. The topic may have slashes."""
    channel, slash, topic = (part.strip() for part in text.strip().lstrip("#").partition("/"))
    if not (channel and slash and topic):
        raise ValueError("it is not CHANNEL/TOPIC, for example team/reviews")
    return channel, topic


@dataclass(frozen=True, slots=True)
class LanguageModelName:
    """A language model: whose interface it is asked by, and what it is called there."""

    vendor: str
    model: str

    @property
    def company(self) -> str:
        """Return whose variables and whose package it is asked with, which is also the name of the extra."""
        return self.vendor.partition("-")[0]

    def __str__(self) -> str:
        return f"{self.vendor}:{self.model}"


VENDORS = ("anthropic", "openai", "openai-responses")
"""Interfaces by which a language model is asked; `openai` is Chat Completions, which nearly every local server speaks."""
HELPS = ("routes", "contradictions", "summaries")
"""What a language model may help with beside runs."""


def model_name(text: str) -> LanguageModelName:
    """Return the model that is named as `VENDOR:MODEL`."""
    vendor, _, model = text.strip().partition(":")
    if vendor not in VENDORS or not model.strip():
        raise ValueError(f"it is not VENDOR:MODEL with a vendor of {', '.join(VENDORS)}")
    return LanguageModelName(vendor, model.strip())


def helps(text: str) -> tuple[str, ...]:
    """Return what a model is to help with, each once."""
    found = names(text)
    for name in found:
        if name not in HELPS:
            raise ValueError(f"it names something that no model helps with; there are {', '.join(HELPS)}")
    return found


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What a million tokens cost with models whose name fits `pattern`. What is None costs as `input`."""

    pattern: str
    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    written: Decimal | None = None


AMOUNT = re.compile(r"\d{1,6}(\.\d{1,6})?")


def prices(text: str) -> tuple[ModelPrice, ...]:
    """Return the prices in a list of `PATTERN=IN/OUT[/CACHED[/WRITTEN]]`, in its order; without a pattern one fits every model."""
    return tuple(_price(entry) for entry in names(text))


def _price(entry: str) -> ModelPrice:
    pattern, equals, told = entry.rpartition("=")
    amounts = [amount.strip() for amount in told.split("/")]
    if (equals and not pattern.strip()) or len(amounts) not in (2, 3, 4) or not all(map(AMOUNT.fullmatch, amounts)):
        raise ValueError(
            "it is not PATTERN=IN/OUT, PATTERN=IN/OUT/CACHED or PATTERN=IN/OUT/CACHED/WRITTEN per million tokens"
        )
    return ModelPrice(pattern.strip() or "*", *map(Decimal, amounts))


def money(text: str) -> Decimal:
    """Return an amount of money above nothing."""
    if not AMOUNT.fullmatch(text.strip()) or not Decimal(text.strip()):
        raise ValueError("it is not an amount above 0, for example 0.50")
    return Decimal(text.strip())


def run_tokens(text: str) -> int:
    """Return how many tokens a run may use."""
    if not text.isdigit() or not 1_000 <= int(text) <= 100_000_000:
        raise ValueError(f"{text!r} is not a whole number from 1000 to 100000000")
    return int(text)


def day_tokens(text: str) -> int:
    """Return how many tokens all runs together may use in a day."""
    if not text.isdigit() or not 1_000 <= int(text) <= 100_000_000_000:
        raise ValueError(f"{text!r} is not a whole number from 1000 to 100000000000")
    return int(text)


def window_tokens(text: str) -> int:
    """Return how much of a model's room is used."""
    if not text.isdigit() or not 256 <= int(text) <= 1_000_000:
        raise ValueError(f"{text!r} is not a whole number from 256 to 1000000")
    return int(text)


SIZE: Final = re.compile(r"(\d{1,6})\s*(kB|MB|GB)", re.IGNORECASE)
LEAST_SIZE, MOST_SIZE = 1_000_000, 1_000_000_000_000
LEAST_DAYS = 7


def size(text: str) -> int:
    """Return a number of bytes."""
    found = SIZE.fullmatch(text.strip())
    size_bytes = int(found[1]) * {"k": 10**3, "m": 10**6, "g": 10**9}[found[2][0].lower()] if found else 0
    if not LEAST_SIZE <= size_bytes <= MOST_SIZE:
        raise ValueError(f"{text!r} is not a size from 1 MB to 1000 GB, for example 200 MB")
    return size_bytes


def starts(text: str) -> int:
    """Return how many journeys and runs may be started in a minute."""
    if not text.isdigit() or not 1 <= int(text) <= 100_000:
        raise ValueError(f"{text!r} is not a whole number from 1 to 100000")
    return int(text)


def retention(text: str) -> timedelta | None:
    """Return how long texts are kept; None for ever. A proposal may wait for a week, so nothing is kept for less."""
    told = text.strip().lower()
    if told == "forever":
        return None
    if not re.fullmatch(r"\d{1,5}d", told) or not int(told[:-1]) >= LEAST_DAYS:
        raise ValueError(f"{text!r} is neither a number of days from 7d, for example 90d, nor forever")
    return timedelta(days=int(told[:-1]))


def secret(text: str) -> str:
    """Return the secret of a host."""
    if not text.strip():
        raise ValueError("it is empty; `knowledge-forge enroll NAME` prints one")
    return text.strip()
