"""Servers on two machines, with one folder and their state in one PostgreSQL database, write the same pages at once."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import PostgresServer

EDITS = 12
PAGES = {name: f"# {name}\n\n## ada\n\nNothing yet.\n\n## bob\n\nNothing yet.\n" for name in ("one.md", "two.md")}


@pytest.mark.external
async def test_nothing_is_lost_where_files_can_only_be_exchanged_by_links(
    tmp_path: Path, postgres: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS has neither RENAME_EXCHANGE nor RENAME_NOREPLACE: it refuses both with EINVAL."""

    def cannot(*_: object) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr("knowledge.writing.files.exchange._rename_flagged", cannot)
    shared = Settings(
        kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "a", database_url=postgres.url(), database_schema=schema
    )
    elsewhere = replace(shared, state_dir=tmp_path / "b")
    written: list[tuple[str, str]] = []

    async def edit(host: Writer, name: str) -> None:
        for number in range(EDITS):
            for page in PAGES:
                word, base = f"{name}{number}", await host.revision(page)
                text = (await host.app.base.state.ledger.content(page, base) or b"").decode()
                edited = text.replace(f"## {name}\n", f"## {name}\n\nWith {word}.\n")
                answer = await host.merge(page, edited, base_revision=base)
                assert answer["status"] == "done", answer
                written.append((page, f"\nWith {word}.\n"))

    async with writing(shared, host="ada") as ada, writing(elsewhere, host="bob") as bob:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(edit, ada, "ada")
            tasks.start_soon(edit, bob, "bob")
        assert len(written) == 4 * EDITS
        texts = {page: ada.text(page) for page in PAGES}
        assert [one for one in written if texts[one[0]].count(one[1]) != 1] == []
        assert not [file for file in ada.root.iterdir() if file.name.startswith(".forge-")]
