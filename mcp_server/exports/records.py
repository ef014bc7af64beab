"""One page as an export records it: what it is called, what it links to, where each claim comes from, and what happened to it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

import anyio.to_thread

from knowledge.history.acts import act_name
from knowledge.history.ports import Ledger, Revision
from knowledge.history.timestamps import utc_text
from knowledge.merge.document.unit_origins import trace_origins
from knowledge.merge.document.units import cut, units
from knowledge.pages.document import parse
from knowledge.pages.vault import Vault, revision_of
from mcp_server.exports.claims import claims_of
from mcp_server.exports.selection import PageCatalogue, links_of

BATCH = 500


async def claims_at(ledger: Ledger, path: str, raw: bytes) -> list[dict[str, object]]:
    """Return the recorded origins of the page's claims, as `claims_of`; those whose origin is unknown are left out."""
    tracked = await ledger.tracked(path)
    if tracked is None:
        return []
    kept = None if tracked.revision == revision_of(raw) else await ledger.content(path, tracked.revision)

    def traced() -> list[dict[str, object]]:
        here = units(cut(raw.decode("utf-8", "replace")))
        before = None if kept is None else units(cut(kept.decode("utf-8", "replace")))
        return claims_of([one for one in trace_origins(here, tracked.origins, before) if one is not None])

    return await anyio.to_thread.run_sync(traced)


async def page_record(
    vault: Vault, ledger: Ledger, path: str, catalogue: PageCatalogue, *, history: bool
) -> dict[str, object]:
    """Return the page as one object of JSON; with `history`, also its states, newest first."""
    raw = (await anyio.to_thread.run_sync(vault.read, path)).raw
    document = await anyio.to_thread.run_sync(parse, path, raw)
    record: dict[str, object] = {
        "path": path,
        "title": document.title,
        "front_matter": dict(document.metadata),
        "tags": list(document.tags),
        "aliases": list(document.aliases),
        "links": links_of(document, catalogue),
        "revision": revision_of(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }
    try:
        record["text"] = raw.decode("utf-8")
    except UnicodeDecodeError:
        record["base64"] = base64.b64encode(raw).decode("ascii")
    record["claims"] = await claims_at(ledger, path, raw)
    if history:
        record["history"] = [_state(line) for line in await _lines(ledger, path)]
    return record


async def _lines(ledger: Ledger, path: str) -> Sequence[Revision]:
    found: list[Revision] = []
    while lines := await ledger.history(path, limit=BATCH, before=found[-1].id if found else None):
        found += lines
    return found


def _state(line: Revision) -> dict[str, object]:
    return {
        "change": act_name(line),
        "path": line.path,
        "revision": line.revision,
        "at": utc_text(line.at),
        "by": line.principal,
        "tool": line.tool,
        "source": line.source,
        "reason": line.intent,
        "added": line.lines_added,
        "removed": line.lines_removed,
        "moved_from": line.moved_from,
    }
