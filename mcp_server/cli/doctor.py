"""`doctor`: says what is configured, reachable and stale, and how to mend it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from knowledge.errors import KnowledgeError
from mcp_server.cli.terminal import print_json
from mcp_server.settings import Settings

if TYPE_CHECKING:
    from mcp_server.app import KnowledgeBase

WATCH_LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")
FEW_WATCHES = 16_384


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `mend` says what to do where it is not well."""

    what: str
    health: Literal["ok", "note", "bad"]
    found: str
    mend: str = ""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: it takes what all verbs take."""
    del parser


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Print what was found; exit code 1 when something must be mended."""
    findings = anyio.run(examine, settings)
    if settings.json:
        print_json([{"what": f.what, "health": f.health, "found": f.found, "mend": f.mend} for f in findings])
    else:
        _show(findings)
    return 1 if any(f.health == "bad" for f in findings) else 0


async def examine(settings: Settings) -> list[Finding]:
    """Return what there is to say, in the order in which a person would ask."""
    findings = [_program(), *(Finding("setting", "note", note) for note in settings.notes)]
    try:
        findings.append(_folder(settings))
        findings.extend(await _opened(settings))
    except KnowledgeError as error:
        findings.append(Finding("knowledge base", "bad", str(error)))
    return findings


def _program() -> Finding:
    from mcp_server.app import version

    python = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("program", "ok", f"knowledge-forge {version()} on Python {python}")


def _folder(settings: Settings) -> Finding:
    from knowledge.vault import Vault

    vault = Vault.open(settings.kb)
    pages = sum(1 for _ in vault.scan())
    problems = list(vault.problems)
    if not pages:
        return Finding("pages", "bad", f"{vault.root} holds no Markdown", "name another folder with --kb")
    if problems:
        shown = "; ".join(str(problem) for problem in problems[:3])
        return Finding(
            "pages", "note", f"{pages} in {vault.root}; left out: {shown}", "rename or remove what is left out"
        )
    return Finding("pages", "ok", f"{pages} in {vault.root}")


async def _opened(settings: Settings) -> list[Finding]:
    from mcp_server.app import open_base

    async with open_base(settings) as base:
        looks: list[Callable[[KnowledgeBase], Awaitable[Finding]]] = [
            _state,
            _hosts,
            _index,
            _indexing,
            _engines,
            _search,
        ]
        found = [await _safely(look, base) for look in looks]
    return [*found, *_watching()]


async def _safely(look: Callable[[KnowledgeBase], Awaitable[Finding]], base: KnowledgeBase) -> Finding:
    try:
        return await look(base)
    except Exception as error:  # noqa: BLE001 - whatever is ill is what the doctor is here to say
        return Finding(look.__name__.strip("_"), "bad", f"{type(error).__name__}: {error}", "see the message")


async def _state(base: KnowledgeBase) -> Finding:
    import apsw

    await base.state.last_event()
    return Finding("state", "ok", f"{base.state_dir} (SQLite {apsw.sqlite_lib_version()})")


async def _hosts(base: KnowledgeBase) -> Finding:
    from mcp_server.gate.enrolment import enrolled_hosts

    hosts = [enrolment.host for enrolment in await enrolled_hosts(base.state)]
    if not hosts:
        return Finding(
            "hosts",
            "note",
            "none is enrolled: every host shares one name and may only read",
            "knowledge-forge install HOST",
        )
    return Finding("hosts", "ok", f"enrolled: {', '.join(hosts)}")


async def _index(base: KnowledgeBase) -> Finding:
    progress = await base.index.progress()
    known = {path: stamp for path, (stamp, _, _) in (await base.index.stamps()).items()}
    there = {found.path: found.stamp for found in base.vault.scan()}
    stale = sum(known.get(path) != stamp for path, stamp in there.items()) + len(known.keys() - there.keys())
    if stale:
        return Finding(
            "index",
            "note",
            f"{progress.done} pages are in it, {stale} are stale or missing",
            "a running server catches up by itself; or: knowledge-forge index",
        )
    return Finding("index", "ok", f"{progress.done} pages, all as they are on disk")


async def _indexing(base: KnowledgeBase) -> Finding:
    from mcp_server.app import utc_now

    lease = await base.state.lease("indexer")
    if lease is None or lease.expires_at < utc_now():
        return Finding(
            "indexing", "note", "no process is watching the files now", "any running server takes this over by itself"
        )
    return Finding("indexing", "ok", f"done by process {lease.holder.partition('-')[0]}")


async def _engines(base: KnowledgeBase) -> Finding:
    engines = await base.engines()
    vector = (await engines.embedder.embed(["knowledge"]))[0]
    names = f"{type(engines.keyword).__name__}, {type(engines.vectors).__name__}, {engines.embedder.name}"
    if not vector.any():
        return Finding("engines", "bad", f"{names}: the embedder knows no word", "reinstall wordllama")
    return Finding("engines", "ok", names)


async def _search(base: KnowledgeBase) -> Finding:
    answer = await base.finder.search("knowledge", limit=1)
    if not answer.hits:
        return Finding("search", "note", "a first search finds nothing", "knowledge-forge index")
    return Finding("search", "ok", "answers")


def _watching() -> list[Finding]:
    if not WATCH_LIMIT.is_file():
        return []
    limit = int(WATCH_LIMIT.read_text(encoding="ascii"))
    if limit >= FEW_WATCHES:
        return []
    found = f"the system allows {limit} watched folders"
    return [Finding("watching", "note", found, "raise fs.inotify.max_user_watches for large knowledge bases")]


def _show(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    colours = {"ok": "green", "note": "yellow", "bad": "red"}
    table = Table(box=None, show_header=False, pad_edge=False)
    for f in findings:
        text = escape(f.found) + (f"\n[dim]-> {escape(f.mend)}[/]" if f.mend else "")
        table.add_row(f"[{colours[f.health]}]{f.health}[/]", f"[bold]{f.what}[/]", text)
    Console().print(table)
