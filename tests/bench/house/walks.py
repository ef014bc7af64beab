"""Three calls of the real server on a small knowledge base, traced.

A merge, a proposal that is approved, and a search.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from mcp_server.app.settings.settings import Settings
from tests.bench.house.source import LAYERS
from tests.bench.house.trace import Trace, tracing, watching
from tests.support.hosts.reviewers import Reviewer, reviewing
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write

ROOT = Path(__file__).parents[3]
PAGE = """---
title: Deploying
summary: How we deploy.
---
# Deploying

The payment service is deployed with a canary first. See [limits](limits.md).

## Rolling back

To roll back, switch the router.

## Waiting

- Wait for the canary.
- Wait for the router.
"""
MERGE, PROPOSED, DECIDED, SEARCH = "kb_merge", "kb_merge, proposed", "the same, approved and run", "kb_search"
TRUST_TABLE = " FROM standing"
MERGED, WANTED, QUESTION = "small group", "every router", "how do we roll back a deployment"
WARM, MEASURED = "guides/first.md", "guides/second.md"


@dataclass(frozen=True)
class Walk:
    """A call and its counts."""

    name: str
    trace: Trace

    @property
    def figures(self) -> dict[str, int]:
        """Return the counts by name."""
        return {
            "files": self.trace.files,
            "changes": len(self.trace.route),
            "functions": len(set(self.trace.entered)),
            "text_files": len({file for file, _ in self.trace.handed}),
            "text_changes": len(self.trace.text_route),
            "page_opened": self.trace.opened,
            "sql_reads": len(self.trace.reads),
            "sql_writes": len(self.trace.writes),
            "trust_reads": sum(TRUST_TABLE in " ".join(sql.split()) for sql in self.trace.reads),
        }


async def walks() -> list[Walk]:
    """Return the walks. Each call ran once before on another page, so that loading modules is not counted."""
    found: list[Walk] = []
    with TemporaryDirectory(prefix="forge-house-") as folder, watching():
        settings = Settings(
            kb=write(Path(folder) / "kb", {WARM: PAGE, MEASURED: PAGE, "guides/limits.md": "# Limits\n\nNone.\n"}),
            state_dir=Path(folder) / "state",
        )
        async with (
            writing(settings, host="editor", level=5) as editor,
            writing(settings, host="asker", level=2) as asker,
            reviewing(settings) as person,
        ):
            for path in (WARM, MEASURED):
                found = [
                    await _walked(editor, MERGE, path, MERGED, partial(_merge, editor, path, "canary", MERGED)),
                    await _walked(asker, PROPOSED, path, WANTED, partial(_merge, asker, path, "the router", WANTED)),
                    await _walked(person, DECIDED, path, WANTED, partial(_approve, person)),
                    await _walked(editor, SEARCH, path, QUESTION, partial(_search, editor)),
                ]
    return found


async def _walked(
    who: Writer | Reviewer,
    name: str,
    path: str,
    text: str,
    prepare: Callable[[], Awaitable[Callable[[], Awaitable[object]]]],
) -> Walk:
    """Prepare the call untraced, then trace it."""
    call = await prepare()
    database = str(who.app.base.state.place).partition(" (")[0]
    with tracing(Trace(ROOT, Path(path).name, database, text)) as trace:
        await call()
    if not trace.entered:
        raise RuntimeError(f"no file of {', '.join(LAYERS)} below {ROOT} was entered in {name}")
    return Walk(name, trace)


async def _merge(host: Writer, path: str, old: str, new: str) -> Callable[[], Awaitable[object]]:
    read = await host.call("kb_read", path=path)
    text = host.text(path).replace(old, new)
    return partial(host.merge, path, text, base_revision=read["revision"], intent="say it better")


async def _approve(person: Reviewer) -> Callable[[], Awaitable[object]]:
    waiting = await person.only()
    return partial(person.approve, waiting.id)


async def _search(host: Writer) -> Callable[[], Awaitable[object]]:
    return partial(host.call, "kb_search", query=QUESTION)
