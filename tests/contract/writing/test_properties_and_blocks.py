"""Properties survive every merge byte for byte, and a block id stays at its block."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write

FRONT = """---
tags:
  - area/work
  - "#quoted"
aliases: [Servers, "Two: three"]
cssclasses:
- wide
date: 2026-11-27
created: 2026-11-27T09:30
time: 09:30:00
rating: 4.50
done: false
empty:
up: "[[Home]]"
related: [ "[[A]]","[[B|b]]" ]
# a comment
"quoted key": 'it''s'
---
"""
BODY = """# Servers

## Memory

The build server has 4 GB of memory. ^mem

- the first item ^one
- the second item

> a quote

^quoted

## Notes

Nothing yet. ^last
"""


async def merged(tmp_path: Path, ends: str, page: str) -> tuple[str, str]:
    """Return the page after edits of a host, of Obsidian at the same time, and of evidence; and its front matter before."""
    kb = write(tmp_path / "kb", {"Home.md": "# Home\n"})
    (kb / "Servers.md").write_bytes(page.replace("\n", ends).encode())
    async with writing(Settings(kb=kb, state_dir=tmp_path / "s")) as host:
        base = await host.revision("Servers.md")
        text = host.text("Servers.md").replace("\r\n", "\n")
        # Obsidian changes a property and adds a paragraph after the host has read the page.
        now = text.replace("rating: 4.50", "rating: 5.0").replace("## Notes\n", "## Notes\n\nBy hand. ^hand\n")
        (kb / "Servers.md").write_bytes(now.replace("\n", ends).encode())
        edit = text.replace("the first item", "the very first item").replace("Nothing yet.", "Something now.")
        answer = await host.merge("Servers.md", edit, section="*", base_revision=base, source="user")
        assert answer["status"] == "done"
        for content in ("The build server has eight disks.\n", "- the third item\n"):
            await host.merge("Servers.md", content, section="Memory", source="code:infra/servers.yaml")
        await host.merge("Servers.md", "Nothing else is known.\n", section="Notes", source="url:https://example.org/a")
        return host.text("Servers.md"), FRONT.replace("rating: 4.50", "rating: 5.0").replace("\n", ends)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
async def test_properties_stay_byte_for_byte_and_block_ids_at_their_blocks(tmp_path: Path, ends: str) -> None:
    after, front = await merged(tmp_path, ends, FRONT + BODY)
    assert after.startswith(front)
    lines = after.split(ends)
    for line in (
        "The build server has 4 GB of memory. ^mem",
        "- the very first item ^one",
        "By hand. ^hand",
        "Something now. ^last",
    ):
        assert lines.count(line) == 1, after
    at = lines.index("^quoted")
    assert lines[at - 2 : at + 1] == ["> a quote", "", "^quoted"]
    assert "\r" not in after.replace("\r\n", "") if ends == "\r\n" else "\r" not in after


SOURCE = "code:infra/servers.yaml"


async def test_what_obsidian_adds_to_a_fresh_line_of_a_host_is_no_conflict_with_it(tmp_path: Path) -> None:
    """The lines that a host has just written get ids and check marks: none of them comes back without."""
    kb = write(tmp_path / "kb", {"Servers.md": "# Servers\n\n## Memory\n\nIntro.\n"})
    async with writing(Settings(kb=kb, state_dir=tmp_path / "s")) as host:

        async def merge(content: str) -> None:
            base = await host.revision("Servers.md")
            answer = await host.merge("Servers.md", content, section="Memory", base_revision=base, source=SOURCE)
            assert answer["status"] == "done"

        await merge(
            "The build server has 4 GB of memory.\n\nThe gateway listens on port 80.\n\n"
            "- [ ] order the disk\n- the fan is quiet\n\nBackups run at night.\n"
        )
        saved = (
            host.text("Servers.md")
            .replace("4 GB of memory.", "4 GB of memory. ^mem")
            .replace("- [ ] order the disk", "- [x] order the disk today")
            .replace("fan is quiet", "fan is quiet ^fan")
            .replace("port 80.", "port 80. ^gate")
            .replace("at night.", "at night. ^back")
        )
        (kb / "Servers.md").write_text(saved)
        # The next call looks at the save, and the source corrects its own line.
        await merge("The build server has 8 GB of memory.\n")
        assert host.text("Servers.md") == saved.replace("4 GB of memory", "8 GB of memory")
