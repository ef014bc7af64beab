"""The settings of a service with several knowledge bases: which setting belongs to the service, and which to each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from mcp_server.app.settings.loader import BadSetting, load_file
from mcp_server.app.settings.settings import VARIABLES, Settings, Variable, handbook
from mcp_server.app.settings.values import HttpAddress

OF_SERVICE: Final = frozenset(
    {
        *("knowledge_bases", "http", "http_url", "http_hosts", "http_origins", "tls_certificate", "tls_key"),
        *("http_workers", "traces", "metrics", "metrics_token", "log_format"),
    }
)
"""Fields that apply to the process and its address. All others belong to one knowledge base."""
VARIABLE: Final = "FORGE_KNOWLEDGE_BASES"
PREFIX: Final = "/kb/"


def endpoint_path(name: str) -> str:
    """Return the path of the MCP endpoint of a knowledge base."""
    return f"{PREFIX}{name}/mcp"


def served_bases(service: Settings) -> tuple[HttpAddress, Mapping[str, Settings]]:
    """Return where the service listens, and the settings of each knowledge base by name, with the URL at which clients reach it.

    For a knowledge base only its own file counts: the environment belongs to the service.

    Raises:
        BadSetting: a setting is in the wrong place, a file can't be used, or two knowledge bases would share a folder or a state.
    """
    if service.http is None:
        raise BadSetting(
            VARIABLE, _names(service), "several knowledge bases are served over HTTP only; add --http HOST:PORT"
        )
    if stray := _given(service, but=OF_SERVICE):
        why = "with several knowledge bases, this setting belongs in the file of the one that it is for"
        raise BadSetting(stray[0].name, "set for the service", why)
    found = {name: _one(name, file, service) for name, file in service.knowledge_bases}
    _require_apart(found)
    return service.http, found


def require_one(settings: Settings, verb: str) -> None:
    """Check that a command which works on one knowledge base knows which.

    Raises:
        BadSetting: the settings are those of a service with several knowledge bases.
    """
    if settings.knowledge_bases:
        _, file = settings.knowledge_bases[0]
        why = f"`{verb}` works on one knowledge base; name its file, for example FORGE_CONFIG={file}"
        raise BadSetting(VARIABLE, _names(settings), why)


def _one(name: str, file: Path, service: Settings) -> Settings:
    where = f"{VARIABLE}, {name}"
    if not file.is_file():
        raise BadSetting(where, str(file), "there is no such file")
    one = load_file(file)
    if wrong := [variable for variable in _given(one) if variable.field in OF_SERVICE]:
        raise BadSetting(where, str(file), f"`{wrong[0].key}` belongs in the settings of the service, not in this file")
    if one.kb == handbook():
        raise BadSetting(where, str(file), 'it names no folder of pages; add kb = "/path/to/the/folder"')
    url = None if service.http_url is None else f"{service.http_url.removesuffix('/mcp')}{endpoint_path(name)}"
    return replace(
        one, http=service.http, http_url=url, http_hosts=service.http_hosts, http_origins=service.http_origins
    )


def _require_apart(bases: Mapping[str, Settings]) -> None:
    """Check that no two knowledge bases have the same folder, state directory or schema: they would share trust by accident."""
    shared: list[tuple[str, list[object]]] = [
        ("folder of pages (`kb`)", [one.kb.resolve() for one in bases.values()]),
        ("`state_dir`", [one.state_dir.resolve() if one.state_dir else None for one in bases.values()]),
        (
            "`database_schema`",
            [(one.database_url, one.database_schema) if one.database_schema else None for one in bases.values()],
        ),
    ]
    for what, given in shared:
        for value, times in Counter(value for value in given if value is not None).items():
            if times > 1:
                both = [name for name, other in zip(bases, given, strict=True) if other == value]
                raise BadSetting(VARIABLE, ", ".join(both), f"they have the same {what}; give each its own")


def _given(settings: Settings, but: Collection[str] = ()) -> list[Variable]:
    """Return the settings that differ from their defaults, except the fields in `but`."""
    unset = Settings(kb=handbook())
    others = [variable for variable in VARIABLES if variable.field not in but]
    return [one for one in others if getattr(settings, one.field) != getattr(unset, one.field)]


def _names(settings: Settings) -> str:
    return ", ".join(name for name, _ in settings.knowledge_bases)
