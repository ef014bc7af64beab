"""What a map has no good line of: pages without a sentence, and directories without a front page."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from anyio.lowlevel import checkpoint

from knowledge.pages.paths import INDEX_NAME
from knowledge.search.map_lines import Entries, known_of, page_key
from knowledge.state.ports import IndexStore

MOST_CHILDREN = 200
"""Of each kind in one directory, which is what a map shows."""


@dataclass(frozen=True, slots=True)
class WantedLine:
    """Something that wants a line. `told` is what is known of a directory; `revision` that of a page."""

    key: str
    kind: Literal["page", "directory"]
    path: str
    told: Mapping[str, Any]
    revision: str = ""


async def wanted(index: IndexStore, entries: Entries) -> AsyncIterator[WantedLine]:
    """Yield all of it, that of the upper levels first."""
    waiting = deque([""])
    while waiting:
        await checkpoint()  # there may be thousands, and others are served meanwhile
        directory = waiting.popleft()
        folders, documents = await index.children(directory, limit=MOST_CHILDREN)
        if key := await entries.key_of(directory):
            yield WantedLine(key, "directory", directory, known_of(directory, folders, documents))
        for record in documents:
            if not record.path.endswith(INDEX_NAME) and (key := page_key(record)):
                yield WantedLine(
                    key, "page", record.path, {"path": record.path, "title": record.title}, record.revision
                )
        waiting += [record.path for record in folders]
