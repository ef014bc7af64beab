"""Real edits by people, sent as a host sends them: read the page, send all of it with its revision. Is it written byte for byte?"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mcp_server.app.settings.settings import Settings
from tests.benchmarks.history.repository import RealEdit
from tests.support.hosts.writers import Refused, writing
from tests.support.knowledge_bases.folders import write


@dataclass
class EditScore:
    """Counts of edits; `others` are those written differently from what was sent, or not at all, and why."""

    edits: int = 0
    same: int = 0
    others: list[tuple[RealEdit, str]] = field(default_factory=list)

    def row(self, name: str) -> str:
        """Return the counts as a row of a Markdown table."""
        return f"| {name} | {self.edits} | {self.same} | {len(self.others)} |"


HEAD = "| repository | edits | byte for byte as sent | otherwise |\n|---|---:|---:|---:|"


async def score(edits: Iterable[RealEdit], most: int) -> EditScore:
    """Send up to `most` edits, each to the page as it was before it, in one knowledge base."""
    total = EditScore()
    with tempfile.TemporaryDirectory() as folder:
        root = write(Path(folder, "kb"), {"index.md": "# Pages\n"})
        settings = Settings(kb=root, state_dir=Path(folder, "state"), open_browser=False)
        async with writing(settings) as host:
            for number, edit in enumerate(itertools.islice(edits, most)):
                total.edits += 1
                name = f"page-{number}.md"
                write(root, {name: edit.before})
                try:
                    answer = await host.call(
                        "kb_merge", path=name, content=edit.after, base_revision=await host.revision(name)
                    )
                except Refused as refusal:
                    total.others.append((edit, str(refusal)))
                    continue
                if host.text(name) == edit.after:
                    total.same += 1
                else:
                    total.others.append((edit, f"{answer['status']}: {answer['note']}"))
    return total
