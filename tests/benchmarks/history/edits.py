"""Real edits by people, sent as a host sends them: read the page, send all of it with its revision. Is it written byte for byte?

If the answer asks whether it is the whole page, the call is sent again with `section="*"`, as that answer says.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from knowledge.merge.model import WHOLE_PAGE
from knowledge.writing.acts.merge_work import WHOLE_OR_PART
from mcp_server.app.settings.settings import Settings
from tests.benchmarks.history.repository import RealEdit
from tests.support.hosts.writers import Refused, writing
from tests.support.knowledge_bases.folders import write


@dataclass
class EditScore:
    """Counts of edits.

    `asked` are those written as sent after the question whether they are the whole page, `line_ends` those written with the line
    ends of the page instead of theirs, and `others` those written differently from what was sent, or not at all, and why.
    """

    edits: int = 0
    same: int = 0
    asked: int = 0
    line_ends: int = 0
    others: list[tuple[RealEdit, str]] = field(default_factory=list)

    def row(self, name: str) -> str:
        """Return the counts as a row of a Markdown table."""
        return f"| {name} | {self.edits} | {self.same} | {self.asked} | {self.line_ends} | {len(self.others)} |"


HEAD = (
    "| repository | edits | byte for byte as sent | after one question | with the page's line ends | otherwise |\n"
    "|---|---:|---:|---:|---:|---:|"
)


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
                merge = partial(host.merge, name, edit.after, base_revision=await host.revision(name))
                try:
                    answer = await merge()
                    if asked := answer["note"] == WHOLE_OR_PART:
                        answer = await merge(section=WHOLE_PAGE)
                except Refused as refusal:
                    total.others.append((edit, str(refusal)))
                    continue
                if host.text(name) == edit.after:
                    total.same += not asked
                    total.asked += asked
                elif host.text(name).splitlines() == edit.after.splitlines():
                    total.line_ends += 1
                else:
                    total.others.append((edit, f"{answer['status']}: {answer['note']}"))
    return total
