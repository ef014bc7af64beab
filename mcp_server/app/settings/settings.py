"""Settings: one frozen object, and the only reader of the environment.

Flags win over the environment, the environment over `forge.toml`; nothing set means everything embedded. The working directory decides
nothing: hosts start the server in whatever project is open.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Literal

import platformdirs

from knowledge.errors import NoUserFolder
from knowledge.state.locations import user_folder
from knowledge.state.ownership import others_could_replace
from knowledge.state.quota.bounds import Quotas
from knowledge.wire.addresses import without_secrets
from mcp_server.app.settings.notes import about_model, about_services, lacking_model, no_limits, strangers
from mcp_server.app.settings.values import HttpAddress, LanguageModelName, ModelPrice, key, path
from mcp_server.app.settings.variables import BY_FIELD, VARIABLES, Variable


class BadSetting(Exception):
    """A setting that cannot be used: `name` as the person wrote it, where it was found, and what is wrong with it."""

    def __init__(self, name: str, where: str, problem: str) -> None:
        self.name, self.where, self.problem = name, where, problem
        super().__init__(without_secrets(f"{name} ({where}): {problem}"))


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
    embedder_url: str | None = field(default=None, repr=False)
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
    quota_pending: int = Quotas().pending_bytes
    quota_proposed: int = Quotas().proposed_bytes
    quota_starts: int = Quotas().starts
    quota_journeys: int = Quotas().journey_bytes
    quota_runs: int = Quotas().run_bytes
    retention: timedelta | None = timedelta(days=90)
    """None: for ever."""
    trusted_places: tuple[str, ...] = ()
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
    model: LanguageModelName | None = None
    anthropic_api_key: str | None = field(default=None, repr=False)
    anthropic_base_url: str | None = None
    openai_api_key: str | None = field(default=None, repr=False)
    openai_base_url: str | None = field(default=None, repr=False)
    model_key_file: Path | None = None
    model_key: str | None = field(default=None, repr=False)
    """What `model_key_file` holds."""
    model_prices: tuple[ModelPrice, ...] = ()
    run_tokens: int | None = 200_000
    run_answer_tokens: int = 8_192
    run_context_tokens: int = 24_000
    run_cost: Decimal | None = None
    run_day_tokens: int | None = None
    run_day_cost: Decimal | None = None
    model_helps: tuple[str, ...] = ()
    json: bool = False
    file: Path | None = None
    """The `forge.toml` that was read."""
    in_environment: tuple[str, ...] = ()
    """The variables that were set: another program that starts the server does not see them."""
    notes: tuple[str, ...] = ()
    """What a person should hear about their settings: variables that look like ours but are not."""

    @property
    def quotas(self) -> Quotas:
        """Return what one principal may have stored, and how fast."""
        return Quotas(self.quota_pending, self.quota_proposed, self.quota_starts, self.quota_journeys, self.quota_runs)

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
            reviews=None if self.zulip_read_only or self.read_only else self.zulip_reviews,
            reviewers=self.zulip_reviewers,
        )

    @property
    def provider(self) -> ModelAccess | None:
        """Return how the language model is reached; None where none is configured, or only in part."""
        if self.model is None or lacking_model({name: getattr(self, name) for name in _MODELS_OWN}):
            return None
        own = self.model.company.upper()
        key, address = {
            "ANTHROPIC": (self.anthropic_api_key, self.anthropic_base_url),
            "OPENAI": (self.openai_api_key, self.openai_base_url),
        }[own]
        return ModelAccess(
            self.model,
            self.model_key or key,
            address,
            key_setting="FORGE_MODEL_KEY_FILE" if self.model_key else f"{own}_API_KEY",
            address_setting=f"{own}_BASE_URL",
            prices=self.model_prices,
            run_tokens=self.run_tokens,
            run_answer_tokens=self.run_answer_tokens,
            run_context_tokens=self.run_context_tokens,
            run_cost=self.run_cost,
            run_day_tokens=self.run_day_tokens,
            run_day_cost=self.run_day_cost,
            helps=self.model_helps,
        )


_MODELS_OWN = ("model", "model_key", "anthropic_api_key", "openai_api_key", "openai_base_url")


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """How a language model is reached, and how far: `address` None is the vendor's own, `helps` is what it does beside runs.

    `key_setting` and `address_setting` are the variables that a person looks at when it is not reached. `run_tokens` and
    `run_cost`, in the currency of the prices, are bounds of each run, `run_day_tokens` and `run_day_cost` those of all together.
    """

    name: LanguageModelName
    key: str | None = field(repr=False)
    address: str | None = None
    helps: tuple[str, ...] = ()
    key_setting: str = "FORGE_MODEL_KEY_FILE"
    address_setting: str = ""
    prices: tuple[ModelPrice, ...] = ()
    run_tokens: int | None = None
    run_answer_tokens: int = 8_192
    run_context_tokens: int = 24_000
    run_cost: Decimal | None = None
    run_day_tokens: int | None = None
    run_day_cost: Decimal | None = None


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


def handbook() -> Path:
    """Return the knowledge base that comes with the program: in a checkout `kb/`, in an installed wheel its copy."""
    package = Path(__file__).resolve().parents[2]
    packaged = package / "handbook"
    return packaged if packaged.is_dir() else package.parent / "kb"


def load(flags: Mapping[str, object], environ: Mapping[str, str] | None = None, *, cwd: Path | None = None) -> Settings:
    """Return the settings that flags, environment and `forge.toml` give together.

    `flags` maps field names to texts as typed, or to ready values; None counts as not given. `forge.toml` is read from where
    `FORGE_CONFIG` says, or from the user's configuration folder; one in `cwd` is named in the notes as ignored.

    Raises:
        BadSetting: the first one that is unknown (in the file) or has a value that cannot be used, or a file that others may write.
    """
    environ = os.environ if environ is None else environ
    file = _file(environ)
    values: dict[str, object] = {} if file is None else _from_file(file)
    values.update(_from_environment(environ))
    given = {name: _parsed(name, value) for name, value in flags.items() if value is not None}
    values.update(given)
    values.update(_from_vendors(environ, values) | given)
    values.setdefault("kb", handbook())
    _complete_embedder(values)
    _complete_model(values)
    _complete_zulip(values)
    _check_certificates(environ, values)
    values["file"] = file
    values["in_environment"] = tuple(v.name for v in VARIABLES if environ.get(v.name) and _counts(v, values))
    values["notes"] = (
        *_ignored(file, cwd),
        *strangers(environ),
        *no_limits(environ, values),
        *about_services(values),
        *about_model(values, installed=lambda package: importlib.util.find_spec(package) is not None),
    )
    return Settings(**values)  # type: ignore[arg-type]  # every value went through its variable's parser


def _complete_embedder(values: dict[str, object]) -> None:
    """Read the key from its file, and see that what belongs together is there."""
    embedder = str(values.get("embedder", "static"))
    if embedder.startswith("endpoint:") and "embedder_url" not in values:
        raise BadSetting(
            "FORGE_EMBEDDER_URL", "not set", f"FORGE_EMBEDDER={embedder} needs the address of the endpoint"
        )
    if "embedder_key" not in values and (found := _key_in(values.get("embedder_key_file"), "FORGE_EMBEDDER_KEY_FILE")):
        values["embedder_key"] = found


def _complete_model(values: dict[str, object]) -> None:
    """Read the key of the language model from its file, where a model is named."""
    if "model" in values and (found := _key_in(values.get("model_key_file"), "FORGE_MODEL_KEY_FILE")):
        values["model_key"] = found


def _key_in(file: object, name: str) -> str | None:
    """Return the key that the file holds; None without a file."""
    if not isinstance(file, Path):
        return None
    try:
        if file.is_file():
            _only_ours(name, file, "a file that holds a key")
        return key(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        # Somebody may have put the key itself here: its text is not repeated.
        where = str(file.parent) if file.parent.is_dir() else "the file it names"
        why = "cannot be read as a key: no such file is there; it is the path of a file that holds the key, not the key"
        raise BadSetting(name, where, why) from None
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it holds no key"
        raise BadSetting(name, str(file), f"cannot be read as a key: {problem}") from None


def _complete_zulip(values: dict[str, object]) -> None:
    """Fill in what the `zuliprc` says and nothing else does. A path in it is relative to it."""
    file = values.get("zulip_config")
    if not isinstance(file, Path):
        return
    from mcp_server.app.settings.zuliprc import FIELDS, texts

    try:
        if file.is_file():
            _only_ours("ZULIP_CONFIG", file, "a zuliprc")
        found = texts(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadSetting("ZULIP_CONFIG", str(file), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadSetting("ZULIP_CONFIG", str(file), "it is no text in UTF-8") from None
    except ValueError as error:
        raise BadSetting("ZULIP_CONFIG", str(file), str(error)) from None
    for word, text in found.items():
        if FIELDS[word] not in values:
            try:
                values[FIELDS[word]] = _use(BY_FIELD[FIELDS[word]], text, str(file), base=file.parent)
            except BadSetting as error:
                raise BadSetting("ZULIP_CONFIG", str(file), f"{word}: {error.problem}") from None


def _parsed(name: str, value: object) -> object:
    variable = BY_FIELD.get(name)
    if variable is None or not isinstance(value, str):
        return value
    return _use(variable, value, f"--{name.replace('_', '-')}")


def _from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    ours = [v for v in VARIABLES if environ.get(v.name) and not v.name.startswith(VENDORS_OWN)]
    return {v.field: _use(v, environ[v.name], "environment") for v in ours}


VENDORS_OWN = ("ANTHROPIC_", "OPENAI_")
"""Variables that begin so are there for other programs, too: they count only where FORGE_MODEL names that vendor."""


def _from_vendors(environ: Mapping[str, str], values: Mapping[str, object]) -> dict[str, object]:
    """Return what the variables of the vendor say whose model is named; those of others are not even looked at."""
    theirs = [v for v in VARIABLES if environ.get(v.name) and v.name.startswith(VENDORS_OWN) and _counts(v, values)]
    return {v.field: _use(v, environ[v.name], "environment") for v in theirs}


def _counts(variable: Variable, values: Mapping[str, object]) -> bool:
    """Return whether the variable is anything to this program."""
    if not variable.name.startswith(VENDORS_OWN):
        return True
    model = values.get("model")
    return isinstance(model, LanguageModelName) and variable.name.startswith(f"{model.company.upper()}_")


CONFIGURATION = "forge.toml"


def user_file() -> Path | None:
    """Return where the configuration file is looked for when `FORGE_CONFIG` names none; None for an account without a home."""
    try:
        return user_folder(platformdirs.user_config_dir, "set FORGE_CONFIG") / CONFIGURATION
    except NoUserFolder:
        return None


def _file(environ: Mapping[str, str]) -> Path | None:
    """Return the configuration file to read, which nobody else can have written, if there is one."""
    if named := environ.get("FORGE_CONFIG"):
        file = Path(_absolute("FORGE_CONFIG", named))
        if not file.is_file():
            raise BadSetting("FORGE_CONFIG", "environment", f"there is no file {file}")
    else:
        found = user_file()
        if found is None or not os.path.lexists(found):
            return None
        file = found
        if not file.is_file():
            raise BadSetting(CONFIGURATION, str(file), "it is not a file, or a link to none; mend or delete it")
    _only_ours("FORGE_CONFIG" if named else CONFIGURATION, file, "a configuration file")
    return file


def _only_ours(name: str, file: Path, kind: str) -> None:
    """Raise if another account could have written what is about to be believed."""
    if exposed := others_could_replace(file):
        raise BadSetting(name, str(file), f"{kind} that other accounts can change is not read: {exposed}")


def _ignored(file: Path | None, cwd: Path | None) -> tuple[str, ...]:
    """Say that a `forge.toml` in the working directory is not read, and what its author can do about it."""
    with suppress(OSError):
        left = (cwd or Path.cwd()) / CONFIGURATION
        if left.is_file() and not (file is not None and left.samefile(file)):
            move = f"move it to {there}, or " if (there := user_file()) else ""
            why = f"{left} is ignored, because settings are not read from the working directory"
            return (f"{why}; if it is yours, {move}set FORGE_CONFIG={left}",)
    return ()


LIBRARIES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
LIBPQ = (
    "PGSSLROOTCERT",
    "PGSSLCERT",
    "PGSSLKEY",
    "PGSSLCRL",
    "PGSSLCRLDIR",
    "PGPASSFILE",
    "PGSERVICEFILE",
    "PGSYSCONFDIR",
)
"""Variables, not ours, that name files to the libraries that connect: what is relative they look for in the working directory."""


def _check_certificates(environ: Mapping[str, str], values: Mapping[str, object]) -> None:
    """Raise if the working directory or another account decides which certificates and passwords are used."""
    for name in (*LIBRARIES, *(LIBPQ if values.get("database_url") else ())):
        for part in environ.get(name, "").split(os.pathsep if name == "SSL_CERT_DIR" else "\0"):
            if part and not Path(part).is_absolute() and (name, part) != ("PGSSLROOTCERT", "system"):
                raise _relative(name, part)
    for field_name in ("meili_ca", "plane_ca", "zulip_cert_bundle"):
        file = values.get(field_name)
        if isinstance(file, Path) and file.is_file():
            _only_ours(BY_FIELD[field_name].name, file, "a file of certificates")


def _absolute(name: str, text: str) -> str:
    """Return the absolute path that one of our variables names."""
    try:
        found = Path(text).expanduser()
    except RuntimeError:
        raise BadSetting(
            name, "environment", "~ means nothing here, because this account has no home folder; use an absolute path"
        ) from None
    if not found.is_absolute():
        raise _relative(name, text)
    return str(found)


def _relative(name: str, text: str) -> BadSetting:
    why = "it is a relative path, and a host may start the server in any folder; use the absolute path"
    if name.endswith("_KEY_FILE"):  # somebody may have put the key itself here
        return BadSetting(
            name, "environment", f"cannot be read as a key: {why} of the file that holds the key, not the key"
        )
    return BadSetting(name, "environment", f"{why}: {name}={os.path.normpath(Path(text).expanduser().absolute())}")


def _from_file(file: Path) -> dict[str, object]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(file.name, str(file), f"cannot be read as TOML: {error}") from error
    by_key = {v.key: v for v in VARIABLES}
    found: dict[str, object] = {}
    for name, value in table.items():
        if name not in by_key:
            near = difflib.get_close_matches(name, by_key, n=1)
            raise BadSetting(name, str(file), f"no such setting{f'; did you mean {near[0]}?' if near else ''}")
        found[by_key[name].field] = _use(by_key[name], _text(value), str(file), base=file.parent)
    return found


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(str(part) for part in value)
    return str(value)


def _use(variable: Variable, text: str, where: str, base: Path | None = None) -> object:
    if variable.parse is path and text.strip():
        if where == "environment":
            text = _absolute(variable.name, text)
        elif base is not None and not Path(text).expanduser().is_absolute():
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


def worker_environment() -> dict[str, str]:
    """Return the environment of a process that only computes: what it needs to start, and no secret."""
    needed = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH")
    # Each thread of a numeric library would take address space, which is limited.
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return {**{name: os.environ[name] for name in needed if name in os.environ}, **alone}


def has_display(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> bool:
    """Return whether a window that this process opens is likely to be seen by a person."""
    environ = os.environ if environ is None else environ
    if environ.get("CI") or environ.get("SSH_CONNECTION"):
        return False
    return platform in ("win32", "darwin") or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


assert {v.field for v in VARIABLES} <= {f.name for f in fields(Settings)}  # noqa: S101 - a wrong table must stop the start
