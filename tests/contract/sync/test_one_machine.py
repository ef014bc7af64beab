"""One server and a person elsewhere, who uses only git."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.git.repositories import alone
from tests.support.git.two_machines import bare_of, cloned, machine_at


async def test_edits_of_a_host_and_of_somebody_with_only_git_meet_in_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, tmp_path)
    bare = bare_of(tmp_path, {"plan.md": "# Plan\n\nWe ship on Friday.\n\n## Risks\n\nThe vendor is slow.\n"})
    here, elsewhere = cloned(bare, tmp_path / "kb", "Ann Example"), cloned(bare, tmp_path / "elsewhere", "Cid Other")
    elsewhere.write("plan.md", elsewhere.text("plan.md").replace("slow", "late"))
    elsewhere.commit("The vendor is late")
    elsewhere.git("push", "-q")
    async with machine_at(here, "ada") as ann:
        await ann.edit("plan.md", "Friday", "Monday")
        outcome = await ann.synchronise()
        assert [(one.kind, one.page, one.author.name) for one in outcome.arrived] == [
            ("merged", "plan.md", "Cid Other")
        ]
        assert ann.files() == {"plan.md": "# Plan\n\nWe ship on Monday.\n\n## Risks\n\nThe vendor is late.\n"}
        changes = (await ann.host.app.services.timeline.changes("plan.md", limit=2)).changes
        assert changes[0].by == "Cid Other@git:origin/main"
        assert changes[1].by.endswith("@ada")
    elsewhere.git("pull", "-q", "--ff-only")
    assert elsewhere.subjects()[0] == "Merge origin/main"
    assert elsewhere.text("plan.md") == "# Plan\n\nWe ship on Monday.\n\n## Risks\n\nThe vendor is late.\n"
