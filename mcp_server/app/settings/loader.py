"""Fills `Settings` from flags, the environment and the configuration file.

Only this file and `environment` read the environment. Flags take precedence over the environment, and the environment
over `forge.toml`. Without any of them everything is embedded. The working directory has no effect, because hosts start
the server in the open project, which may be a stranger's.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs

from knowledge.errors import NoUserFolder
from knowledge.state.locations import user_folder
from knowledge.state.ownership import others_could_replace
from knowledge.wire.addresses import without_secrets
from mcp_server.app.settings.notes import model_notes, service_notes, unknown_variables, unlimited_services
from mcp_server.app.settings.services import SERVICE_VARIABLES
from mcp_server.app.settings.settings import BY_FIELD, DATABASE, VARIABLES, Settings, Variable, handbook
from mcp_server.app.settings.sign_in import SiteClient
from mcp_server.app.settings.values import LOOPBACK, HttpAddress, LanguageModelName, key, path

CONFIGURATION = "forge.toml"
VENDOR_PREFIXES = ("ANTHROPIC_", "OPENAI_")
"""Other programs use these variables too. They count only if FORGE_MODEL names the vendor."""
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
LIBPQ_VARIABLES = (
    "PGSSLROOTCERT",
    "PGSSLCERT",
    "PGSSLKEY",
    "PGSSLCRL",
    "PGSSLCRLDIR",
    "PGPASSFILE",
    "PGSERVICEFILE",
    "PGSYSCONFDIR",
)
"""Variables that name files to libpq, which looks for a relative path in the working directory."""


class BadSetting(Exception):
    """A setting that can't be used: its `name` as the person wrote it, where it was found, and the problem."""

    def __init__(self, name: str, where: str, problem: str) -> None:
        self.name, self.where, self.problem = name, where, problem
        super().__init__(without_secrets(f"{name} ({where}): {problem}"))


def load(flags: Mapping[str, object], environ: Mapping[str, str] | None = None, *, cwd: Path | None = None) -> Settings:
    """Return the settings from flags, environment and `forge.toml`.

    `flags` maps field names to texts as typed, or to values; None means not given. `forge.toml` is the file that `FORGE_CONFIG`
    names, or the one in the user's configuration folder. A `forge.toml` in `cwd` is not read, only mentioned.

    Raises:
        BadSetting: a value can't be used, or another account could have written a file that must be trusted.
    """
    environ = os.environ if environ is None else environ
    file = _configuration_file(environ)
    values: dict[str, object] = {} if file is None else _from_file(file)
    values.update(_from_environment(environ, [v for v in VARIABLES if not v.name.startswith(VENDOR_PREFIXES)]))
    given = {name: _from_flag(name, value) for name, value in flags.items() if value is not None}
    values.update(given)
    # Only now is it known which vendor's model is used. The variables of other vendors are not even parsed.
    values.update(_from_environment(environ, [v for v in VARIABLES if v.name.startswith(_vendor(values))]) | given)
    _check_pages(values)
    values.setdefault("kb", handbook())
    _complete_embedder(values)
    if "model" in values and (found := key_in(values.get("model_key_file"), "FORGE_MODEL_KEY_FILE")):
        values["model_key"] = found
    _complete_zulip(values)
    _check_certificates(environ, values)
    _check_metrics(values)
    _complete_site(values)
    counted = [v for v in VARIABLES if not v.name.startswith(VENDOR_PREFIXES) or v.name.startswith(_vendor(values))]
    values["file"] = file
    values["file_place"] = file or (None if environ.get("FORGE_CONFIG") else user_file())
    values["in_environment"] = tuple(v.name for v in counted if environ.get(v.name))
    values["notes"] = (
        *_ignored_file(file, cwd),
        *unknown_variables(environ),
        *unlimited_services(environ, values),
        *service_notes(values),
        *model_notes(values, installed=lambda package: importlib.util.find_spec(package) is not None),
    )
    return Settings(**values)  # type: ignore[arg-type]  # every value was made by its variable's reader


def load_file(file: Path) -> Settings:
    """Return the settings of one file alone. Of the environment, only variables that libraries read by themselves count.

    Raises:
        BadSetting: as `load`.
    """
    libraries = {name: os.environ[name] for name in (*CERTIFICATE_VARIABLES, *LIBPQ_VARIABLES) if name in os.environ}
    return load({}, {**libraries, "FORGE_CONFIG": str(file)})


def with_current_embedder(settings: Settings) -> Settings:
    """Return `settings` with the embedder and the reranker that the configuration file names now.

    The environment still takes precedence over the file.

    Raises:
        BadSetting: the file cannot be used in its present state.
    """
    variables = [v for v in VARIABLES if v.name.startswith(("FORGE_EMBEDDER", "FORGE_RERANKER"))]
    found: dict[str, object] = {}
    if (file := settings.file_place) is not None and file.is_file():
        _require_private(CONFIGURATION, file, "a configuration file")
        found = _from_file(file)
    values = {v.field: found[v.field] for v in variables if v.field in found}
    for variable in variables:
        value = getattr(settings, variable.field)
        if variable.name in settings.in_environment and value is not None:
            values[variable.field] = value
    _complete_embedder(values)
    unset = Settings(kb=settings.kb)
    return replace(settings, **{v.field: values.get(v.field, getattr(unset, v.field)) for v in variables})  # type: ignore[arg-type]  # every value was made by its variable's reader


def _vendor(values: Mapping[str, object]) -> tuple[str, ...]:
    """Return the prefix of the variables that belong to the configured model's vendor, if there is a model."""
    model = values.get("model")
    return (f"{model.company.upper()}_",) if isinstance(model, LanguageModelName) else ()


def _from_flag(name: str, value: object) -> object:
    variable = BY_FIELD.get(name)
    if variable is None or not isinstance(value, str):
        return value
    return _read(variable, value, f"--{name.replace('_', '-')}")


def _from_environment(environ: Mapping[str, str], variables: list[Variable]) -> dict[str, object]:
    return {v.field: _read(v, environ[v.name], "environment") for v in variables if environ.get(v.name)}


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
        if isinstance(value, bool):
            text = "true" if value else "false"
        else:
            text = ",".join(str(part) for part in value) if isinstance(value, list) else str(value)
        found[by_key[name].field] = _read(by_key[name], text, str(file), base=file.parent)
    return found


def _read(variable: Variable, text: str, where: str, base: Path | None = None) -> object:
    """Return the value of the setting's `text`. A path in a file is relative to `base`, the file's folder."""
    if variable.read is path and text.strip():
        if where == "environment":
            text = _absolute(variable.name, text)
        elif base is not None and not Path(text).expanduser().is_absolute():
            text = str(base / text)
    try:
        return variable.read(text)
    except ValueError as error:
        shown = variable.key if where.endswith(".toml") else variable.name if where == "environment" else where
        raise BadSetting(shown, where, str(error)) from error


def _complete_embedder(values: dict[str, object]) -> None:
    """Read the endpoints' keys from their files, and check that an endpoint has an address."""
    for field in ("embedder", "reranker"):
        variable, chosen = f"FORGE_{field.upper()}", str(values.get(field, ""))
        if chosen.startswith("endpoint:") and f"{field}_url" not in values:
            problem = (
                f"{variable}={chosen} needs the address of the endpoint; in a file of settings that is {field}_url"
            )
            raise BadSetting(f"{variable}_URL", "not set", problem)
        if f"{field}_key" not in values and (found := key_in(values.get(f"{field}_key_file"), f"{variable}_KEY_FILE")):
            values[f"{field}_key"] = found


def key_in(file: object, name: str) -> str | None:
    """Return the key in the file; None without a file."""
    if not isinstance(file, Path):
        return None
    try:
        if file.is_file():
            _require_private(name, file, "a file that holds a key")
        # -sig: editors on Windows put a byte order mark first, which no key has.
        return key(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        # Somebody may have put the key itself here, so the message does not repeat it.
        where = str(file.parent) if file.parent.is_dir() else "the file it names"
        why = "cannot be read as a key: no such file; give the path of a file that holds the key, not the key itself"
        raise BadSetting(name, where, why) from None
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it holds no key"
        raise BadSetting(name, str(file), f"cannot be read as a key: {problem}") from None


def _check_pages(values: Mapping[str, object]) -> None:
    """Require the settings that pages in the database need, and refuse those that fit only pages in a folder."""
    if values.get("pages") != DATABASE:
        return
    chosen = f"FORGE_PAGES={DATABASE}"
    for field, why in (
        ("database_url", "the database that has the pages"),
        ("database_schema", "the name under which all machines find these pages in the database"),
        ("kb", "a folder for this machine's copy of the pages, empty at first"),
    ):
        if field not in values:
            name = BY_FIELD[field].name
            raise BadSetting("FORGE_PAGES", chosen, f"it needs {name}: {why}")
    if values.get("git", "off") != "off":
        raise BadSetting("FORGE_GIT", str(values["git"]), f"it commits pages in a folder; with {chosen} leave it off")
    if values.get("editor_link"):
        problem = f"it opens the file of a page, and with {chosen} pages are rows of a database; leave it off"
        raise BadSetting("FORGE_EDITOR_LINK", "set", problem)


def _check_metrics(values: Mapping[str, object]) -> None:
    """Require a token where other machines can ask for metrics."""
    address = values.get("metrics")
    if isinstance(address, HttpAddress) and address.host not in LOOPBACK and "metrics_token" not in values:
        problem = "other machines can reach this address; set FORGE_METRICS_TOKEN too, or use 127.0.0.1"
        raise BadSetting("FORGE_METRICS", str(address), problem)


def _complete_site(values: dict[str, object]) -> None:
    """Read the secret of the site's client, and check that people can log in with it."""
    client = values.get("site_client")
    if not isinstance(client, SiteClient):
        return
    if found := key_in(values.get("site_secret_file"), "FORGE_SITE_SECRET_FILE"):
        values["site_secret"] = found
    url, issuers = str(values.get("public_url") or ""), values.get("oauth_issuers")
    named = [one.name for one in issuers] if isinstance(issuers, tuple) else []
    problem = ""
    if client.issuer not in named:
        problem = f"FORGE_OAUTH_ISSUERS names no sign-in server {client.issuer}; it names {', '.join(named) or 'none'}"
    elif not url:
        problem = "people log in at the site's public address: set FORGE_PUBLIC_URL, too"
    elif not url.startswith("https://") and (urlsplit(url).hostname or "") not in LOOPBACK:
        problem = "nobody may read logins in transit: FORGE_PUBLIC_URL must begin with https://"
    if problem:
        raise BadSetting("FORGE_SITE_CLIENT", f"{client.issuer}={client.client_id}", problem)


def _complete_zulip(values: dict[str, object]) -> None:
    """Add values of the `zuliprc` that no other setting gives. A path in it is relative to its folder."""
    file = values.get("zulip_config")
    if not isinstance(file, Path):
        return
    from mcp_server.app.settings.zuliprc import FIELDS, read_zuliprc

    try:
        if file.is_file():
            _require_private("ZULIP_CONFIG", file, "a zuliprc")
        found = read_zuliprc(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadSetting("ZULIP_CONFIG", str(file), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadSetting("ZULIP_CONFIG", str(file), "it is not text in UTF-8") from None
    except ValueError as error:
        raise BadSetting("ZULIP_CONFIG", str(file), str(error)) from None
    for word, text in found.items():
        if FIELDS[word] not in values:
            try:
                values[FIELDS[word]] = _read(BY_FIELD[FIELDS[word]], text, str(file), base=file.parent)
            except BadSetting as error:
                raise BadSetting("ZULIP_CONFIG", str(file), f"{word}: {error.problem}") from None


def user_file() -> Path | None:
    """Return the configuration file that is read if `FORGE_CONFIG` is not set; None for an account without a home folder."""
    try:
        return user_folder(platformdirs.user_config_dir, "set FORGE_CONFIG") / CONFIGURATION
    except NoUserFolder:
        return None


def _configuration_file(environ: Mapping[str, str]) -> Path | None:
    """Return the configuration file to read, if there is one."""
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
            raise BadSetting(CONFIGURATION, str(file), "it is not a file, or a broken link; repair or delete it")
    _require_private("FORGE_CONFIG" if named else CONFIGURATION, file, "a configuration file")
    return file


def _require_private(name: str, file: Path, kind: str) -> None:
    """Raise if another account could have written the file."""
    if exposed := others_could_replace(file):
        raise BadSetting(name, str(file), f"{kind} is not read, because other accounts can change it: {exposed}")


def _ignored_file(file: Path | None, cwd: Path | None) -> tuple[str, ...]:
    """Return a note about an unread `forge.toml` in the working directory, and how to use it."""
    with suppress(OSError):
        left = (cwd or Path.cwd()) / CONFIGURATION
        if left.is_file() and not (file is not None and left.samefile(file)):
            move = f"move it to {there}, or " if (there := user_file()) else ""
            why = f"{left} is ignored, because settings are not read from the working directory"
            return (f"{why}; if it is yours, {move}set FORGE_CONFIG={left}",)
    return ()


def _check_certificates(environ: Mapping[str, str], values: Mapping[str, object]) -> None:
    """Raise if the working directory or another account could decide which certificates and passwords are used."""
    for name in (*CERTIFICATE_VARIABLES, *(LIBPQ_VARIABLES if values.get("database_url") else ())):
        # OpenSSL takes a list of directories, but only one file. No path has a NUL in it, so that keeps a file whole.
        for part in environ.get(name, "").split(os.pathsep if name == "SSL_CERT_DIR" else "\0"):
            # libpq: PGSSLROOTCERT=system names no file but the certificates of the system.
            if part and not Path(part).is_absolute() and (name, part) != ("PGSSLROOTCERT", "system"):
                raise _relative(name, part)
    certificates = {
        "FORGE_MEILI_CA",
        "FORGE_TLS_CERTIFICATE",
        "FORGE_TLS_KEY",
        *(service.certificates for service in SERVICE_VARIABLES.values()),
    }
    for variable in VARIABLES:
        file = values.get(variable.field)
        if variable.name in certificates and isinstance(file, Path) and file.is_file():
            _require_private(variable.name, file, "a file of certificates")


def _absolute(name: str, text: str) -> str:
    """Return the absolute path in the variable `name`, or raise."""
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
    # Somebody may have put the key itself here, so its text is not repeated.
    if name.endswith(("_KEY_FILE", "_SECRET_FILE")):
        return BadSetting(
            name, "environment", f"cannot be read as a key: {why} of the file that holds the key, not the key"
        )
    return BadSetting(name, "environment", f"{why}: {name}={os.path.normpath(Path(text).expanduser().absolute())}")
