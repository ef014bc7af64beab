"""Readers of settings: each turns a text into a value, or raises a `ValueError` that says why the text can't be used.

If a person might have put a key there, even by mistake, the message does not repeat any of the text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final

from knowledge.index.embed.identity import KINDS
from knowledge.pages.claim_source import trusted_place
from mcp_server.app.settings.services import TOOLSETS, WebhookTarget
from mcp_server.connectors.zulip.mailbox import mailbox

LAST_PORT = 65_535
SHORTEST_TOKEN = 16
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """The address at which Streamable HTTP listens."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only programs on this machine can reach it."""
        return self.host in LOOPBACK

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


UNSET = 0
"""A limit that the settings leave to the program. No limit can be 0."""


def path(text: str) -> Path:
    """Return the absolute path of a folder or file."""
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
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def one_of(*words: str) -> Callable[[str], str]:
    """Return a reader that accepts one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not one of: {', '.join(words)}")
        return text

    return read


def integer(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers within these bounds."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return read


encoding = one_of("float", "base64")
quantization = one_of("none", "scalar", "binary")
dimensions = integer(8, 8192)
threads = integer(1, 64)
answer_tokens = integer(200, 20_000)
copies = integer(1, 1_000)
port = integer(1, 65_535)
run_tokens = integer(1_000, 100_000_000)
day_tokens = integer(1_000, 100_000_000_000)
window_tokens = integer(256, 1_000_000)
starts = integer(1, 100_000)


def limit(text: str) -> int | None:
    """Return a limit; None for `off`."""
    if text.strip() == "off":
        return None
    try:
        return integer(1, 1_000_000)(text)
    except ValueError as error:
        raise ValueError(f"{error}, nor off") from None


def _host_and_port(text: str, hint: str) -> HttpAddress:
    host, colon, port = text.strip().rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isdecimal() or not 0 <= int(port) <= LAST_PORT:
        raise ValueError(f"{text!r} is not HOST:PORT, for example {hint}")
    return HttpAddress(host, int(port))


def metrics_address(text: str) -> HttpAddress:
    """Return the address at which metrics are served."""
    return _host_and_port(text, "127.0.0.1:9464")


def metrics_token(text: str) -> str:
    """Return the token for metrics; an error does not repeat it."""
    found = key(text)
    if len(found) < SHORTEST_TOKEN:
        raise ValueError(f"it has fewer than {SHORTEST_TOKEN} characters, so it could be guessed")
    return found


def http_address(text: str) -> HttpAddress | None:
    """Return the address to listen at; None for `stdio`."""
    if text.strip() == "stdio":
        return None
    found = _host_and_port(text, "127.0.0.1:8321, nor stdio")
    if not re.fullmatch(r"[0-9A-Za-z.:_-]+", found.host):
        raise ValueError(
            f"{found.host[:60]!r} is no name or address of this machine; 0.0.0.0 is all its IPv4 addresses"
        )
    return found


def toolsets(text: str) -> tuple[str, ...]:
    """Return the named toolsets, each once."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in TOOLSETS:
            raise ValueError(f"{name!r} is not a toolset; choose from {', '.join(TOOLSETS)}")
    if not names:
        raise ValueError(f"it is empty; choose from {', '.join(TOOLSETS)}")
    return names


def trusted_places(text: str) -> tuple[str, ...]:
    """Return the places that a person trusts, each once, in canonical spelling. A name that contains a comma needs quotes."""
    parts = (part.strip() for part in next(csv.reader([text], skipinitialspace=True), []))
    return tuple(dict.fromkeys(trusted_place(part) for part in parts if part))


def embedder(text: str) -> str:
    """Return the embedder's name."""
    kind, colon, model = (part.strip() for part in text.strip().partition(":"))
    if (kind, colon) == ("static", "") or (kind in KINDS and model):
        if kind == "onnx" and not Path(model).expanduser().is_absolute():
            raise ValueError(f"{model!r} is a relative path, and a host may start the server in any folder")
        return f"{kind}{colon}{Path(model).expanduser() if kind == 'onnx' else model}"
    known = ", ".join(["static", "onnx:PATH", *(f"{kind}:MODEL" for kind in KINDS if kind != "onnx")])
    raise ValueError(f"{text!r} is not available; this version has: {known}")


def reranker(text: str) -> str | None:
    """Return the reranker's name, None for `off`."""
    if text.strip().casefold() == "off":
        return None
    kind, colon, model = (part.strip() for part in text.strip().partition(":"))
    if kind in KINDS and model:
        if kind == "onnx" and not Path(model).expanduser().is_absolute():
            raise ValueError(f"{model!r} is a relative path, and a host may start the server in any folder")
        return f"{kind}{colon}{Path(model).expanduser() if kind == 'onnx' else model}"
    raise ValueError(f"{text!r} is not available; this version has: off, onnx:PATH, fastembed:MODEL, endpoint:MODEL")


def milliseconds(text: str) -> int:
    """Return a time limit in milliseconds, from 50 to 60,000."""
    if not text.strip().isdecimal() or not 50 <= int(text) <= 60_000:
        raise ValueError(f"{text!r} is not a whole number from 50 to 60000")
    return int(text)


def database_url(text: str) -> str:
    """Return `text` if it is a PostgreSQL URL that libpq can read.

    libpq's messages quote unreadable text, password included. So anything that libpq could misread is refused here
    without being quoted.
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
    """Return the name of a schema that this server can have to itself."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", text) or text.startswith("pg_") or text == "public":
        raise ValueError(
            f"{text!r} cannot be the name of this knowledge base's schema: use up to 63 lower-case letters, digits and _, "
            "but not pg_... or public"
        )
    return text


def server_url(text: str, *, example: str, key: str, query: bool = False) -> str:
    """Return `text` if it is an address without a secret; an error does not repeat the address."""
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
reranker_url = partial(
    server_url, example="https://HOST/v1 or http://localhost:8080", key="FORGE_RERANKER_KEY", query=True
)
meili_url = partial(server_url, example="http://localhost:7700 or https://HOST", key="FORGE_MEILI_KEY")
anthropic_url = partial(server_url, example="https://api.anthropic.com", key="ANTHROPIC_API_KEY")
openai_url = partial(server_url, example="http://localhost:11434/v1", key="OPENAI_API_KEY", query=True)
traces_url = partial(server_url, example="http://localhost:4318", key="OTEL_EXPORTER_OTLP_HEADERS")
qdrant_url = partial(server_url, example="http://localhost:6333 or https://HOST:6333", key="FORGE_QDRANT_KEY")


def key(text: str) -> str:
    """Return a key; an error does not repeat it."""
    # Keys are sent in HTTP headers, which hold visible ASCII.
    if not re.fullmatch(r"[!-~]+", text.strip()):
        raise ValueError("it is empty, or contains characters that a key can't have")
    return text.strip()


def plane_url(text: str) -> str:
    """Return the address of Plane. The vendor's examples name the API at that address, which is accepted, too."""
    found = server_url(text, example="https://api.plane.so or https://plane.example.com", key="PLANE_API_KEY")
    return re.sub(r"/api(/v1)?$", "", found)


def public_url(text: str) -> str:
    """Return the address under which a proxy serves the site."""
    found = server_url(text, example="https://forge.example.com", key="the proxy's settings").rstrip("/")
    # The page's own links begin at the root.
    if found.count("/") > len("//"):
        raise ValueError("it has a path; the site needs its own host name, for example https://forge.example.com")
    return found


def http_url(text: str) -> str:
    """Return the address at which clients reach the MCP endpoint, without a slash at its end, its host in lower case."""
    found = server_url(
        text, example="https://forge.example.com/mcp", key="no setting; clients send their token in a header"
    )
    scheme, _, rest = found.partition("://")
    host, slash, endpoint = rest.partition("/")
    if scheme != "https" and re.sub(r":\d+$", "", host) not in ("127.0.0.1", "localhost", "[::1]"):
        raise ValueError("clients send tokens there, so it must begin with https://")
    return f"{scheme}://{host.lower()}{slash}{endpoint}"


def host_names(text: str) -> tuple[str, ...]:
    """Return the hosts that requests may name, each with its port if it has one."""
    found = names(text)
    for name in found:
        if not re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[0-9A-Za-z._-]+)(:(\d{1,5}|\*))?", name):
            raise ValueError(
                f"{name[:60]!r} is no host, such as forge.internal or forge.internal:8321 (`:*` for any port)"
            )
    return found


def origins(text: str) -> tuple[str, ...]:
    """Return the origins of web pages that may call the server."""
    found = names(text)
    for name in found:
        if not re.fullmatch(r"https?://(\[[0-9A-Fa-f:]+\]|[0-9A-Za-z._-]+)(:\d{1,5})?", name):
            raise ValueError(
                f"{name[:60]!r} is no origin, such as https://app.example.com: no path, no slash at the end"
            )
    return found


def zulip_site(text: str) -> str:
    """Return the address of Zulip. As in the vendor's own programs, a bare host name and a trailing `/api` are accepted.

    Source: https://zulip.com/api/configuring-python-bindings
    """
    named = text.strip()
    if "://" not in named:
        named = f"{'http' if named.partition(':')[0] in LOOPBACK else 'https'}://{named}"
    found = server_url(named, example="https://chat.example.com", key="ZULIP_API_KEY")
    return re.sub(r"/api(/v1)?$", "", found)


def workspace(text: str) -> str:
    """Return the word for a workspace in Plane's addresses."""
    if not re.fullmatch(r"[\w-]+", text.strip()):
        raise ValueError("it is not a workspace; use the word after the host in Plane's addresses, for example acme")
    return text.strip()


def names(text: str) -> tuple[str, ...]:
    """Return the names in a list, each once, without the `#` that people write before a channel."""
    found = tuple(dict.fromkeys(part.strip().lstrip("#") for part in text.split(",") if part.strip().lstrip("#")))
    if not found:
        raise ValueError("it is empty; name some, separated by commas, or remove the setting")
    return found


def named_files(text: str) -> tuple[tuple[str, Path], ...]:
    """Return the files in a list of `NAME=FILE`, each with its name."""
    found: dict[str, Path] = {}
    for part in names(text):
        name, equals, file = (word.strip() for word in part.partition("="))
        if not equals or not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,31}", name):
            raise ValueError(
                f"{part[:60]!r} is not NAME=FILE, for example team=/etc/forge/team.toml; a name has lower-case letters, digits and -"
            )
        if name in found:
            raise ValueError(f"{name} is named twice")
        if not file.startswith(("/", "~")) and not Path(file).is_absolute():
            raise ValueError(f"{file[:200]!r} is a relative path; use the absolute path of the file")
        found[name] = path(file)
    return tuple(found.items())


def email(text: str) -> str:
    """Return an e-mail address."""
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", text.strip()):
        raise ValueError("it is not an e-mail address")
    return text.strip()


def reviewers(text: str) -> tuple[str, ...]:
    """Return the people in a list, each once: e-mail addresses as `mailbox` normalizes them, user ids, names, and `name|id`."""
    return tuple(dict.fromkeys(map(_reviewer, names(text))))


def _reviewer(text: str) -> str:
    # `@**name|id**` is how Zulip writes a mention, and what its interface copies.
    name = text.strip().removeprefix("@_").strip("@*").strip() if text.startswith("@") else text.strip()
    if "@" in name:
        return mailbox(email(name))
    # A key has this form, and `doctor` shows these names.
    if not name or (re.fullmatch(r"[0-9a-zA-Z]{24,}", name) and re.search(r"\d", name)):
        raise ValueError("it is not an e-mail address, a user's id or a name")
    return name


def channel_and_topic(text: str) -> tuple[str, str]:
    """Return a channel and a topic. The topic may contain slashes."""
    channel, slash, topic = (part.strip() for part in text.strip().lstrip("#").partition("/"))
    if not (channel and slash and topic):
        raise ValueError("it is not CHANNEL/TOPIC, for example team/reviews")
    return channel, topic


WEBHOOK_SECRET: Final = re.compile(r"whsec_[A-Za-z0-9+/]+={0,2}")
WEBHOOK_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
SHORTEST_SECRET, LONGEST_SECRET = 24, 64
"""Bytes of a secret that signs webhooks. Source: Standard Webhooks, "Signature scheme"."""
_WEBHOOK = "NAME=URL SECRET, for example releases=https://hooks.example.com/forge whsec_..."


def webhooks(text: str) -> tuple[WebhookTarget, ...]:
    """Return the receivers in a list of `NAME=URL SECRET`. A message names only a receiver: its address may be secret, too."""
    targets = tuple(_webhook(entry.strip()) for entry in text.split(",") if entry.strip())
    if not targets:
        raise ValueError(f"it is empty; write {_WEBHOOK}, or remove the setting")
    if doubles := {one.name for one in targets if sum(one.name == other.name for other in targets) > 1}:
        raise ValueError(f"two receivers are called {min(doubles)}; give each its own name")
    return targets


def _webhook(entry: str) -> WebhookTarget:
    name, _, rest = (part.strip() for part in entry.partition("="))
    url, *secrets = rest.split() or [""]
    if not WEBHOOK_NAME.fullmatch(name):
        raise ValueError(
            f"it is not a list of {_WEBHOOK}; a name has small letters, digits, - and _, and a comma in an address is written %2C"
        )
    server_url(url, example="https://hooks.example.com/forge", key="its secret", query=True)
    # A signature does not encrypt the text, and only a certificate proves who receives it.
    if url.startswith("http:") and not re.match(r"http://(127\.0\.0\.1|localhost|\[::1\])[:/]", f"{url}/"):
        raise ValueError(f"the address of {name} begins with http; use https")
    if not secrets or not all(map(_is_signing_secret, secrets)):
        raise ValueError(
            f"{name} lacks a secret: whsec_ and the base64 of {SHORTEST_SECRET} to {LONGEST_SECRET} random bytes, after the address"
        )
    return WebhookTarget(name, url, tuple(secrets))


def _is_signing_secret(text: str) -> bool:
    encoded = text.removeprefix("whsec_").rstrip("=")
    size = len(encoded) * 3 // 4
    # One letter left over encodes less than a byte.
    return bool(WEBHOOK_SECRET.fullmatch(text)) and len(encoded) % 4 != 1 and SHORTEST_SECRET <= size <= LONGEST_SECRET


@dataclass(frozen=True, slots=True)
class LanguageModelName:
    """A language model: the interface that it is reached through, and its name there."""

    vendor: str
    model: str

    @property
    def company(self) -> str:
        """The vendor whose variables and package are used, which is also the name of the extra."""
        return self.vendor.partition("-")[0]

    def __str__(self) -> str:
        return f"{self.vendor}:{self.model}"


VENDORS = ("anthropic", "openai", "openai-responses")
"""Interfaces of language models. `openai` is Chat Completions, which nearly every local server offers."""
HELPS = ("routes", "contradictions", "summaries", "substance")
"""Uses of a language model besides runs."""


def model_name(text: str) -> LanguageModelName:
    """Return the model named by `VENDOR:MODEL`."""
    vendor, _, model = text.strip().partition(":")
    if vendor not in VENDORS or not model.strip():
        raise ValueError(f"it is not VENDOR:MODEL with a vendor of {', '.join(VENDORS)}")
    return LanguageModelName(vendor, model.strip())


def helps(text: str) -> tuple[str, ...]:
    """Return the uses of a model besides runs, each once."""
    found = names(text)
    for name in found:
        if name not in HELPS:
            raise ValueError(f"it names something that a model can't help with; choose from {', '.join(HELPS)}")
    return found


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The price of a million tokens for models whose name fits `pattern`. A price of None is the price of `input`."""

    pattern: str
    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    written: Decimal | None = None


AMOUNT = re.compile(r"\d{1,6}(\.\d{1,6})?")


def prices(text: str) -> tuple[ModelPrice, ...]:
    """Return the prices in a list of `PATTERN=IN/OUT[/CACHED[/WRITTEN]]`, in order. A price without a pattern fits every model."""
    return tuple(_price(entry) for entry in names(text))


def _price(entry: str) -> ModelPrice:
    pattern, equals, listed = entry.rpartition("=")
    amounts = [amount.strip() for amount in listed.split("/")]
    if (equals and not pattern.strip()) or len(amounts) not in (2, 3, 4) or not all(map(AMOUNT.fullmatch, amounts)):
        raise ValueError(
            "it is not PATTERN=IN/OUT, PATTERN=IN/OUT/CACHED or PATTERN=IN/OUT/CACHED/WRITTEN per million tokens"
        )
    return ModelPrice(pattern.strip() or "*", *map(Decimal, amounts))


def money(text: str) -> Decimal:
    """Return an amount of money above 0."""
    if not AMOUNT.fullmatch(text.strip()) or not Decimal(text.strip()):
        raise ValueError("it is not an amount above 0, for example 0.50")
    return Decimal(text.strip())


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


def retention(text: str) -> timedelta | None:
    """Return how long texts are kept; None forever. It is never less than a week, because a proposal may wait that long."""
    word = text.strip().lower()
    if word == "forever":
        return None
    if not re.fullmatch(r"\d{1,5}d", word) or not int(word[:-1]) >= LEAST_DAYS:
        raise ValueError(f"{text!r} is neither a number of days from 7d, for example 90d, nor forever")
    return timedelta(days=int(word[:-1]))


def questions_kept(text: str) -> timedelta | None:
    """Return how long questions are kept; None to record none."""
    word = text.strip().lower()
    if word == "off":
        return None
    if not re.fullmatch(r"\d{1,4}d", word) or not int(word[:-1]):
        raise ValueError(f"{text!r} is neither a number of days from 1d to 9999d, for example 90d, nor off")
    return timedelta(days=int(word[:-1]))


def secret(text: str) -> str:
    """Return the secret of a host."""
    if not text.strip():
        raise ValueError("it is empty; `knowledge-forge enroll NAME` prints one")
    return text.strip()
