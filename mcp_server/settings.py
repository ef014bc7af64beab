"""Settings: one frozen object, and the only reader of the environment.

Flags win over the environment, the environment over `forge.toml`; nothing set means everything embedded.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Literal

TOOLSETS = ("knowledge", "trust", "journeys", "runs", "plane", "zulip")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class BadSetting(Exception):
    """A setting that cannot be used: `name` as the person wrote it, where it was found, and what is wrong with it."""

    def __init__(self, name: str, where: str, problem: str) -> None:
        self.name, self.where, self.problem = name, where, problem
        super().__init__(f"{name} ({where}): {problem}")


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Where Streamable HTTP listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be chosen from outside. Paths are absolute; `state_dir` None means the platform's place."""

    kb: Path
    state_dir: Path | None = None
    http: HttpAddress | None = None
    toolsets: tuple[str, ...] | None = None
    read_only: bool = False
    enrolment: str | None = field(default=None, repr=False)
    database_url: str | None = field(default=None, repr=False)
    database_schema: str | None = None
    embedder: str = "static"
    embedder_url: str | None = None
    embedder_key: str | None = field(default=None, repr=False)
    embedder_key_file: Path | None = None
    embedder_dimensions: int | None = None
    embedder_question_prefix: str = ""
    embedder_passage_prefix: str = ""
    embedder_encoding: str = "float"
    answer_tokens: int = 1500
    meili_url: str | None = None
    meili_key: str | None = field(default=None, repr=False)
    meili_ca: Path | None = None
    qdrant_url: str | None = None
    qdrant_key: str | None = field(default=None, repr=False)
    qdrant_grpc_port: int | None = None
    qdrant_shards: int = 1
    qdrant_replicas: int = 1
    qdrant_write_consistency: int = 1
    qdrant_on_disk: bool = False
    qdrant_quantization: Literal["none", "scalar", "binary"] = "none"
    open_browser: bool = True
    plane_base_url: str | None = None
    plane_api_key: str | None = field(default=None, repr=False)
    plane_workspace: str | None = None
    plane_projects: tuple[str, ...] | None = None
    plane_read_only: bool = False
    plane_ca: Path | None = None
    zulip_config: Path | None = None
    zulip_site: str | None = None
    zulip_email: str | None = None
    zulip_api_key: str | None = field(default=None, repr=False)
    zulip_channels: tuple[str, ...] | None = None
    zulip_read_only: bool = False
    zulip_cert_bundle: Path | None = None
    zulip_reviews: tuple[str, str] | None = None
    zulip_reviewers: tuple[str, ...] = ()
    json: bool = False
    notes: tuple[str, ...] = ()
    """What a person should hear about their settings: variables that look like ours but are not."""

    @property
    def plane(self) -> PlaneAccess | None:
        """Return how Plane is reached; None where it is not configured, or only in part."""
        if not (self.plane_base_url and self.plane_api_key and self.plane_workspace):
            return None
        return PlaneAccess(
            self.plane_base_url,
            self.plane_api_key,
            self.plane_workspace,
            projects=self.plane_projects,
            read_only=self.plane_read_only or self.read_only,
            ca=self.plane_ca,
        )

    @property
    def zulip(self) -> ZulipAccess | None:
        """Return how Zulip is reached; None where it is not configured, or only in part."""
        if not (self.zulip_site and self.zulip_email and self.zulip_api_key):
            return None
        return ZulipAccess(
            self.zulip_site,
            self.zulip_email,
            self.zulip_api_key,
            channels=self.zulip_channels,
            read_only=self.zulip_read_only or self.read_only,
            ca=self.zulip_cert_bundle,
            reviews=self.zulip_reviews,
            reviewers=self.zulip_reviewers,
        )


@dataclass(frozen=True, slots=True)
class PlaneAccess:
    """How Plane is reached, and how far: `projects` are the only ones that may be used, None for all that the key sees."""

    base_url: str
    api_key: str = field(repr=False)
    workspace: str
    projects: tuple[str, ...] | None = None
    read_only: bool = False
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class ZulipAccess:
    """How Zulip is reached, and how far: `channels` are the only ones that may be used, None for all that the bot sees.

    Direct messages count as a channel called `direct`. `reviews` is the channel and topic that hears of proposals, `reviewers`
    are the addresses of those whose reaction there counts as their word.
    """

    site: str
    email: str
    api_key: str = field(repr=False)
    channels: tuple[str, ...] | None = None
    read_only: bool = False
    ca: Path | None = None
    reviews: tuple[str, str] | None = None
    reviewers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting as a person sees it: the row of the reference table."""

    name: str
    field: str
    parse: Callable[[str], object]
    says: str
    default: str

    @property
    def key(self) -> str:
        """Return its name in `forge.toml`: `FORGE_STATE_DIR` is `state_dir`."""
        return self.name.removeprefix("FORGE_").lower()


def _path(text: str) -> Path:
    if not text.strip():
        raise ValueError("it is empty; name a folder")
    return Path(text).expanduser().absolute()


def _flag(text: str) -> bool:
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


def _http(text: str) -> HttpAddress:
    host, colon, port = text.strip().rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, for example 127.0.0.1:8321")
    if host not in LOOPBACK:
        raise ValueError(
            f"{host!r} is not this machine; without sign-in only loopback is served (127.0.0.1, localhost, ::1)"
        )
    return HttpAddress(host, int(port))


def _toolsets(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in TOOLSETS:
            raise ValueError(f"{name!r} is no toolset; known are {', '.join(TOOLSETS)}")
    if not names:
        raise ValueError(f"it is empty; known are {', '.join(TOOLSETS)}")
    return names


def _embedder(text: str) -> str:
    kind, colon, model = text.strip().partition(":")
    if text.strip() == "static" or (kind in ("endpoint", "fastembed") and model.strip()):
        return f"{kind}{colon}{model.strip()}"
    raise ValueError(f"{text!r} is not available; this version has: static, fastembed:MODEL, endpoint:MODEL")


def _dimensions(text: str) -> int:
    if not text.isdigit() or not 8 <= int(text) <= 8192:
        raise ValueError(f"{text!r} is not a whole number from 8 to 8192")
    return int(text)


def _encoding(text: str) -> str:
    if text not in ("float", "base64"):
        raise ValueError(f"{text!r} is neither float nor base64")
    return text


def _answer_tokens(text: str) -> int:
    if not text.isdigit() or not 200 <= int(text) <= 20_000:
        raise ValueError(f"{text!r} is not a whole number from 200 to 20000")
    return int(text)


def _database_url(text: str) -> str:
    """Return `text` if it is a PostgreSQL URL whose password no message about it could repeat by mistake.

    libpq quotes what it cannot read, so everything that it could misread is refused here, in words without any of it.
    """
    from urllib.parse import urlsplit

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
    return text


def _schema(text: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", text) or text.startswith("pg_") or text == "public":
        raise ValueError(
            f"{text!r} cannot be a schema of its own: use up to 63 lower-case letters, digits and _, not pg_..., not public"
        )
    return text


def _server_url(text: str, *, example: str, key: str, query: bool = False) -> str:
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


_embedder_url = partial(
    _server_url, example="https://HOST/v1 or http://localhost:11434/v1", key="FORGE_EMBEDDER_KEY", query=True
)
_meili_url = partial(_server_url, example="http://localhost:7700 or https://HOST", key="FORGE_MEILI_KEY")
_qdrant_url = partial(_server_url, example="http://localhost:6333 or https://HOST:6333", key="FORGE_QDRANT_KEY")


def _server_key(text: str) -> str:
    if not re.fullmatch(r"[!-~]+", text.strip()):
        raise ValueError("it is empty, or has characters that no key has")
    return text.strip()


def _copies(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1_000:
        raise ValueError(f"{text!r} is not a whole number from 1 to 1000")
    return int(text)


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise ValueError(f"{text!r} is not a port, 1 to 65535")
    return int(text)


def _quantization(text: str) -> str:
    if text not in ("none", "scalar", "binary"):
        raise ValueError(f"{text!r} is not one of: none, scalar, binary")
    return text


_plane_url = partial(_server_url, example="https://api.plane.so or https://plane.example.com", key="PLANE_API_KEY")
_zulip_site = partial(_server_url, example="https://chat.example.com", key="ZULIP_API_KEY")


def _workspace(text: str) -> str:
    if not re.fullmatch(r"[\w-]+", text.strip()):
        raise ValueError(
            f"{text!r} is no workspace; it is the word behind the host in Plane's addresses, for example acme"
        )
    return text.strip()


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip().lstrip("#") for part in text.split(",") if part.strip()))
    if not names:
        raise ValueError("it is empty; name some, separated by commas, or leave the setting out")
    return names


def _address(text: str) -> str:
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", text.strip()):
        raise ValueError(f"{text!r} is no e-mail address")
    return text.strip()


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(_address(name).casefold() for name in _names(text))


def _place(text: str) -> tuple[str, str]:
    channel, slash, topic = (part.strip() for part in text.strip().lstrip("#").partition("/"))
    if not (channel and slash and topic):
        raise ValueError(f"{text!r} is not CHANNEL/TOPIC, for example team/reviews")
    return channel, topic


def _secret(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty; `knowledge-forge enroll NAME` prints one")
    return text.strip()


VARIABLES = (
    Variable("FORGE_KB", "kb", _path, "The folder of Markdown to serve.", "the handbook that comes with the program"),
    Variable(
        "FORGE_STATE_DIR",
        "state_dir",
        _path,
        "Where state and indexes of this knowledge base live; outside of it.",
        "the platform's state directory",
    ),
    Variable("FORGE_HTTP", "http", _http, "Serve Streamable HTTP on HOST:PORT (loopback) instead of stdio.", "stdio"),
    Variable(
        "FORGE_TOOLSETS",
        "toolsets",
        _toolsets,
        f"Comma-separated toolsets to list: {', '.join(TOOLSETS)}. `trust` is always listed.",
        "all that are configured",
    ),
    Variable("FORGE_READ_ONLY", "read_only", _flag, "List only tools that read.", "false"),
    Variable(
        "FORGE_ENROLMENT",
        "enrolment",
        _secret,
        "The secret that tells the server which host this is; `knowledge-forge enroll NAME` prints it.",
        "none: the shared, unenrolled host",
    ),
    Variable(
        "FORGE_DATABASE_URL",
        "database_url",
        _database_url,
        "PostgreSQL that keeps the state instead of a file: `postgresql://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full`.",
        "none: `state.db` in the state directory",
    ),
    Variable(
        "FORGE_DATABASE_SCHEMA",
        "database_schema",
        _schema,
        "Which schema of that database is this knowledge base's; name it where several machines serve the same one.",
        "`forge_`, the folder's name, a hash of its path",
    ),
    Variable(
        "FORGE_EMBEDDER",
        "embedder",
        _embedder,
        "What turns text into vectors: `static`, `fastembed:MODEL` on this machine, or `endpoint:MODEL` at FORGE_EMBEDDER_URL.",
        "static",
    ),
    Variable(
        "FORGE_EMBEDDER_URL",
        "embedder_url",
        _embedder_url,
        "Where an OpenAI-compatible endpoint is, for example `http://localhost:11434/v1`; `/embeddings` is added.",
        "none",
    ),
    Variable("FORGE_EMBEDDER_KEY", "embedder_key", _server_key, "The key for that endpoint.", "none"),
    Variable(
        "FORGE_EMBEDDER_KEY_FILE",
        "embedder_key_file",
        _path,
        "A file that holds the key, instead of the key itself.",
        "none",
    ),
    Variable(
        "FORGE_EMBEDDER_DIMENSIONS",
        "embedder_dimensions",
        _dimensions,
        "Ask the endpoint for vectors of this length, and accept no other.",
        "the model's own length",
    ),
    Variable(
        "FORGE_EMBEDDER_QUESTION_PREFIX",
        "embedder_question_prefix",
        str,
        "What the model wants before a question, blanks included: `query: ` for e5.",
        "nothing",
    ),
    Variable(
        "FORGE_EMBEDDER_PASSAGE_PREFIX",
        "embedder_passage_prefix",
        str,
        "What the model wants before a passage: `passage: ` for e5.",
        "nothing",
    ),
    Variable(
        "FORGE_EMBEDDER_ENCODING",
        "embedder_encoding",
        _encoding,
        "How the endpoint is asked to send numbers: `float` or, a third of the bytes where it is supported, `base64`.",
        "float",
    ),
    Variable(
        "FORGE_MEILI_URL",
        "meili_url",
        _meili_url,
        "A Meilisearch server (tested: 1.50) that searches words, for example `http://localhost:7700`; "
        "needs the extra `meilisearch`.",
        "none: words are searched in this process",
    ),
    Variable(
        "FORGE_MEILI_KEY",
        "meili_key",
        _server_key,
        "A key for that server, which may search, and manage indexes, documents, settings and tasks.",
        "none",
    ),
    Variable(
        "FORGE_MEILI_CA",
        "meili_ca",
        _path,
        "A file of certificates (PEM) to trust for that server, instead of the usual ones.",
        "the usual ones",
    ),
    Variable(
        "FORGE_QDRANT_URL",
        "qdrant_url",
        _qdrant_url,
        "Where a Qdrant server is that is to search by vectors, and by words where there is no Meilisearch; "
        "needs the extra `qdrant`.",
        "none: embedded engines",
    ),
    Variable("FORGE_QDRANT_KEY", "qdrant_key", _server_key, "The key for that server.", "none"),
    Variable(
        "FORGE_QDRANT_GRPC_PORT", "qdrant_grpc_port", _port, "Speak gRPC with it, at this port, usually 6334.", "REST"
    ),
    Variable("FORGE_QDRANT_SHARDS", "qdrant_shards", _copies, "Into how many shards a collection is cut.", "1"),
    Variable("FORGE_QDRANT_REPLICAS", "qdrant_replicas", _copies, "How many copies of each shard are kept.", "1"),
    Variable(
        "FORGE_QDRANT_WRITE_CONSISTENCY",
        "qdrant_write_consistency",
        _copies,
        "How many of those copies must have a write before it counts.",
        "1",
    ),
    Variable("FORGE_QDRANT_ON_DISK", "qdrant_on_disk", _flag, "Leave vectors on disk; less memory, slower.", "false"),
    Variable(
        "FORGE_QDRANT_QUANTIZATION",
        "qdrant_quantization",
        _quantization,
        "Keep small copies of vectors in memory for the first look: `none`, `scalar` (a byte), `binary` (a bit).",
        "none",
    ),
    Variable(
        "PLANE_BASE_URL",
        "plane_base_url",
        _plane_url,
        "Where Plane is, for example `https://api.plane.so`; with key and workspace it lists the toolset `plane`.",
        "none: no Plane",
    ),
    Variable("PLANE_API_KEY", "plane_api_key", _server_key, "A personal access token of Plane.", "none"),
    Variable("PLANE_WORKSPACE", "plane_workspace", _workspace, "The workspace: the word behind the host.", "none"),
    Variable(
        "PLANE_PROJECTS",
        "plane_projects",
        _names,
        "The only projects that may be used, comma-separated, by identifier or name.",
        "all that the key sees",
    ),
    Variable("PLANE_READ_ONLY", "plane_read_only", _flag, "List only the tools that read Plane.", "false"),
    Variable(
        "PLANE_CA",
        "plane_ca",
        _path,
        "A file of certificates (PEM) to trust for Plane, instead of the usual ones.",
        "the usual ones",
    ),
    Variable(
        "ZULIP_CONFIG",
        "zulip_config",
        _path,
        "A `zuliprc` that holds site, address and key, instead of the three below.",
        "none",
    ),
    Variable(
        "ZULIP_SITE",
        "zulip_site",
        _zulip_site,
        "Where Zulip is, for example `https://chat.example.com`; with address and key it lists the toolset `zulip`.",
        "none: no Zulip",
    ),
    Variable("ZULIP_EMAIL", "zulip_email", _address, "The address of the bot (or person) whose key it is.", "none"),
    Variable("ZULIP_API_KEY", "zulip_api_key", _server_key, "Its API key.", "none"),
    Variable(
        "ZULIP_CHANNELS",
        "zulip_channels",
        _names,
        "The only channels that may be used, comma-separated; `direct` stands for direct messages.",
        "all that the bot sees, and direct messages",
    ),
    Variable("ZULIP_READ_ONLY", "zulip_read_only", _flag, "List only the tools that read Zulip.", "false"),
    Variable(
        "ZULIP_CERT_BUNDLE",
        "zulip_cert_bundle",
        _path,
        "A file of certificates (PEM) to trust for Zulip, instead of the usual ones.",
        "the usual ones",
    ),
    Variable(
        "ZULIP_REVIEWS",
        "zulip_reviews",
        _place,
        "CHANNEL/TOPIC that hears of each proposal that waits, with a link to it.",
        "none: nobody is told there",
    ),
    Variable(
        "ZULIP_REVIEWERS",
        "zulip_reviewers",
        _addresses,
        "Addresses, comma-separated, of people whose reaction to such a message approves or rejects, up to level 3.",
        "none: a reaction decides nothing",
    ),
    Variable(
        "FORGE_ANSWER_TOKENS",
        "answer_tokens",
        _answer_tokens,
        "At most so many tokens (characters / 4) of snippets in a search answer.",
        "1500",
    ),
    Variable(
        "FORGE_OPEN_BROWSER",
        "open_browser",
        _flag,
        "Open the review page in a browser when something waits for a person and there is a display.",
        "true",
    ),
)


def handbook() -> Path:
    """Return the knowledge base that comes with the program: in a checkout `kb/`, in an installed wheel its copy."""
    beside = Path(__file__).resolve().parent
    packaged = beside / "handbook"
    return packaged if packaged.is_dir() else beside.parent / "kb"


def load(flags: Mapping[str, object], environ: Mapping[str, str] | None = None, *, cwd: Path | None = None) -> Settings:
    """Return the settings that flags, environment and `forge.toml` give together.

    `flags` maps field names to texts as typed, or to ready values; None counts as not given. `forge.toml` is read from
    `cwd`, or from where `FORGE_CONFIG` says.

    Raises:
        BadSetting: the first one that is unknown (in the file) or has a value that cannot be used.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, object] = {}
    values.update(_from_file(environ, cwd or Path.cwd()))
    values.update(_from_environment(environ))
    for name, value in flags.items():
        if value is not None:
            values[name] = _parsed(name, value)
    values.setdefault("kb", handbook())
    _complete_embedder(values)
    _complete_zulip(values)
    values["notes"] = (*_strangers(environ), *_incomplete(values))
    return Settings(**values)  # type: ignore[arg-type]  # every value went through its variable's parser


def _complete_embedder(values: dict[str, object]) -> None:
    """Read the key from its file, and see that what belongs together is there."""
    embedder = str(values.get("embedder", "static"))
    if embedder.startswith("endpoint:") and "embedder_url" not in values:
        raise BadSetting(
            "FORGE_EMBEDDER_URL", "not set", f"FORGE_EMBEDDER={embedder} needs the address of the endpoint"
        )
    file = values.get("embedder_key_file")
    if isinstance(file, Path) and "embedder_key" not in values:
        try:
            values["embedder_key"] = _server_key(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else "it holds no key"
            raise BadSetting("FORGE_EMBEDDER_KEY_FILE", str(file), f"cannot be read as a key: {problem}") from None


def _complete_zulip(values: dict[str, object]) -> None:
    """Fill in what the `zuliprc` says and nothing else does.

    Source: https://zulip.com/api/configuring-python-bindings
    """
    file = values.get("zulip_config")
    if not isinstance(file, Path):
        return
    from configparser import ConfigParser, Error

    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
        api = dict(parser["api"])
    except OSError as error:
        raise BadSetting("ZULIP_CONFIG", str(file), f"cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, Error, KeyError):
        raise BadSetting(
            "ZULIP_CONFIG", str(file), "it is no zuliprc: it needs [api] with email, key and site"
        ) from None
    if api.get("insecure", "false").strip().lower() in ("true", "1", "yes"):
        problem = "insecure=true is not followed: certificates are checked; name yours with cert_bundle"
        raise BadSetting("ZULIP_CONFIG", str(file), problem)
    for key, name in (
        ("site", "ZULIP_SITE"),
        ("email", "ZULIP_EMAIL"),
        ("key", "ZULIP_API_KEY"),
        ("cert_bundle", "ZULIP_CERT_BUNDLE"),
    ):
        variable = next(v for v in VARIABLES if v.name == name)
        if api.get(key) and variable.field not in values:
            try:
                values[variable.field] = variable.parse(api[key])
            except ValueError as error:
                raise BadSetting("ZULIP_CONFIG", str(file), f"{key}: {error}") from None


_TOGETHER = {
    "Plane": ("PLANE_BASE_URL", "PLANE_API_KEY", "PLANE_WORKSPACE"),
    "Zulip": ("ZULIP_SITE", "ZULIP_EMAIL", "ZULIP_API_KEY"),
}


def _incomplete(values: Mapping[str, object]) -> tuple[str, ...]:
    """Say which service is configured in part, and so not at all: other programs use these variables too, so none is refused."""
    fields_of = {v.name: v.field for v in VARIABLES}
    notes = []
    for service, names in _TOGETHER.items():
        missing = [name for name in names if fields_of[name] not in values]
        if missing and len(missing) < len(names):
            notes.append(f"{service} is not configured: {' and '.join(missing)} is not set")
    return tuple(notes)


def _parsed(name: str, value: object) -> object:
    variable = next((v for v in VARIABLES if v.field == name), None)
    if variable is None or not isinstance(value, str):
        return value
    return _use(variable, value, f"--{name.replace('_', '-')}")


def _from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    return {v.field: _use(v, environ[v.name], "environment") for v in VARIABLES if environ.get(v.name)}


def _from_file(environ: Mapping[str, str], cwd: Path) -> dict[str, object]:
    named = environ.get("FORGE_CONFIG")
    path = Path(named).expanduser() if named else cwd / "forge.toml"
    if not path.is_file():
        if named:
            raise BadSetting("FORGE_CONFIG", "environment", f"there is no file {path}")
        return {}
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(path.name, str(path), f"cannot be read as TOML: {error}") from error
    by_key = {v.key: v for v in VARIABLES}
    found: dict[str, object] = {}
    for key, value in table.items():
        if key not in by_key:
            near = difflib.get_close_matches(key, by_key, n=1)
            raise BadSetting(key, str(path), f"no such setting{f'; did you mean {near[0]}?' if near else ''}")
        found[by_key[key].field] = _use(by_key[key], _text(value), str(path), base=path.parent)
    return found


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(str(part) for part in value)
    return str(value)


def _use(variable: Variable, text: str, where: str, base: Path | None = None) -> object:
    if base is not None and variable.parse is _path and not Path(text).expanduser().is_absolute():
        text = str(base / text)  # a path in a file is relative to that file
    try:
        return variable.parse(text)
    except ValueError as error:
        shown = variable.key if where.endswith(".toml") else variable.name if where == "environment" else where
        raise BadSetting(shown, where, str(error)) from error


HOST_VARIABLES = ("APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR")


def host_environment() -> Mapping[str, str]:
    """Return the variables, not ours, that say where hosts keep their configuration."""
    return {name: os.environ[name] for name in HOST_VARIABLES if os.environ.get(name)}


def has_display(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> bool:
    """Return whether a window that this process opens is likely to be seen by a person."""
    environ = os.environ if environ is None else environ
    if environ.get("CI") or environ.get("SSH_CONNECTION"):
        return False
    return platform in ("win32", "darwin") or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def _strangers(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Name variables that begin like ours and are not: most likely a typing error, so it is said, not refused."""
    known = {v.name for v in VARIABLES} | {"FORGE_CONFIG"}
    notes = []
    for name in sorted(environ):
        if name.startswith("FORGE_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            notes.append(f"{name} is not a setting of knowledge-forge{f'; did you mean {near[0]}?' if near else ''}")
    return tuple(notes)


assert {v.field for v in VARIABLES} <= {f.name for f in fields(Settings)}  # noqa: S101 - a wrong table must stop the start
