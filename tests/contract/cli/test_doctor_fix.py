"""`doctor` speaks of a person's own pages, groups what is alike, and `doctor --fix` mends what has one reading, after asking."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.index.indexing_service import LEASE
from knowledge.pages.vault import revision_of
from knowledge.writing.files.file_set import LOST
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from tests.contract.cli import test_commands as commands
from tests.contract.cli.test_commands import COUNT, TIMEOUT_S, Person
from tests.support.hosts.persons import ME
from tests.support.hosts.persons import Person as AtTerminal
from tests.support.knowledge_bases.folders import write

ann = commands.ann
LEFT = b"Text that nobody else has.\n"
PLAN = "---\ntitle: Plan: the second\n---\n# Plan\n\nSee [how](old/deploy.md) and [nothing](nix.md).\n"
MENDED = '---\ntitle: "Plan: the second"\n---\n# Plan\n\nSee [how](guides/deploy.md) and [nothing](nix.md).\n'


def findings(ann: Person, *words: str) -> dict[str, Any]:
    return {one["what"]: one for one in ann.json("doctor", *words)}


def test_templates_and_excluded_folders_have_no_findings(ann: Person) -> None:
    broken = "---\ntitle: {{title}}: x\n---\n[x](gone.md)\n"
    write(
        ann.kb, {"_templates/day.md": broken, "archive/old.md": broken, "team/minutes/may.md": broken, "own.md": broken}
    )
    write(ann.kb, {"team/_index.md": "---\nexclude: [minutes]\nsummary: The team.\n---\n# Team\n"})
    found = findings(ann)
    assert {page["path"] for page in found["pages"]["pages"]} == {"own.md", "archive/old.md"}
    assert "2 of them are excluded" in found["pages"]["found"]
    named = {one["what"]: one for one in ann.json("doctor", FORGE_EXCLUDE="archive")}
    assert [page["path"] for page in named["links"]["pages"]] == ["own.md"]
    assert "archive/old.md" not in {page["path"] for page in named["summaries"]["pages"]}


def test_services_that_nobody_set_up_are_one_line_and_all_with_verbose(ann: Person) -> None:
    told = ann.here("doctor").stdout
    assert "not configured: Plane, Zulip, Webhook, model" in told
    assert "PLANE_API_KEY" not in told
    assert "PLANE_API_KEY" in ann.here("doctor", "--verbose").stdout


def test_without_a_terminal_fix_only_shows_what_it_would_do(ann: Person) -> None:
    write(ann.kb, {"plan.md": PLAN})
    done = ann.here("doctor", "--fix")
    assert done.returncode == 1
    assert "+See [how](guides/deploy.md)" in done.stdout
    assert done.stderr == "nothing was changed; --yes fixes this without asking\n"
    assert (ann.kb / "plan.md").read_text(encoding="utf-8") == PLAN
    told = ann.json("doctor", "--fix")
    assert [(one["what"], one["path"], one["done"]) for one in told["repairs"]] == [
        ("index", "", False),
        ("page", "plan.md", False),
    ]
    assert ann.here("doctor", "--yes").returncode == 2


def test_in_a_script_caches_are_mended_and_pages_wait_for_approval(ann: Person) -> None:
    write(ann.kb, {"plan.md": PLAN})
    done = ann.here("doctor", "--fix", "--yes")
    assert done.returncode == 3
    assert f"fixed: index {COUNT + 1} new or changed pages" in done.stdout
    assert "needs approval: plan.md: link old/deploy.md to guides/deploy.md" in done.stdout
    assert (ann.kb / "plan.md").read_text(encoding="utf-8") == PLAN
    assert findings(ann)["index"]["found"] == f"{COUNT + 1} pages, up to date"


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(("answer", "becomes"), [("y", MENDED), ("n", PLAN)])
def test_at_a_terminal_a_person_sees_the_repair_and_it_is_made_in_their_name(
    tmp_path: Path, answer: str, becomes: str
) -> None:
    bob = AtTerminal(tmp_path)
    write(bob.kb)
    write(bob.kb, {"plan.md": PLAN})
    bob.here("index")
    with bob.at("doctor", "--fix", size=(100, 160)) as screen:
        screen.until("+See [how](guides/deploy.md)", "fix it? [y/N]")
        assert (bob.kb / "plan.md").read_text(encoding="utf-8") == PLAN
        screen.type(f"{answer}\n")
        screen.until("fixed: plan.md" if answer == "y" else "nothing was changed")
        assert screen.left() == (0 if answer == "y" else 1)
    assert (bob.kb / "plan.md").read_text(encoding="utf-8") == becomes
    acts = [json.loads(line) for line in bob.here("audit", "export", "--jsonl").stdout.splitlines()]
    assert [(act["principal"], act["tool"]) for act in acts] == [(f"{ME}@terminal", "kb_merge")] * (answer == "y")


def test_a_damaged_index_is_rebuilt(ann: Person) -> None:
    write(ann.kb, {f"notes/{i}.md": f"# Note {i}\n\nThought number {i} about gardening.\n" for i in range(60)})
    ann.here("index")
    file = ann.state / "index.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sound = file.stat().st_size * 3 // 4  # with the schema
    file.write_bytes(file.read_bytes()[:sound] + b"\xff" * (file.stat().st_size - sound))
    done = ann.here("doctor", "--fix", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fixed: " in done.stdout
    assert ann.json("search", "gardening", "--no-index")["index"]["complete"]


def test_while_a_server_keeps_the_index_doctor_leaves_it_alone(ann: Person) -> None:
    async def held() -> None:
        async with open_state(Settings(kb=ann.kb, state_dir=ann.state)) as state:
            assert await state.acquire_lease(LEASE, "4711-0.0.1-x", now=utc_now(), ttl_s=TIMEOUT_S)

    anyio.run(held)
    done = ann.here("doctor", "--fix", "--yes")
    assert done.returncode == 0
    assert "there is nothing that doctor can fix" in done.stdout


@pytest.fixture
def leftover(ann: Person) -> Path:
    """A staged file of a write that a power cut ended, with text that is nowhere else."""
    file = ann.kb / ".forge-0123456789abcdef0123456789ab.tmp"
    file.write_bytes(LEFT)
    return file


def test_a_leftover_file_of_an_interrupted_write_is_removed_and_its_text_kept(
    ann: Person, leftover: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_server.cli.doctor.repairs.ORPHANED_S", -60.0)
    ann.here("index")
    done = ann.here("doctor", "--fix", "--yes")
    assert done.returncode == 0
    assert (
        f"fixed: remove 1 temporary file of interrupted writes; their text is kept in the history: {leftover.name}"
        in done.stdout
    )
    assert not leftover.exists()

    async def kept() -> bytes | None:
        async with open_state(Settings(kb=ann.kb, state_dir=ann.state)) as state:
            return await state.ledger.content(f"{LOST}{leftover.name.strip('.')}.md", revision_of(LEFT))

    assert anyio.run(kept) == LEFT


def test_fix_has_nothing_to_do_in_a_sound_knowledge_base(ann: Person) -> None:
    ann.here("index")
    done = ann.here("doctor", "--fix")
    assert done.returncode == 0
    assert "there is nothing that doctor can fix" in done.stdout


def test_commands_that_the_doctor_names_come_with_the_folder_that_was_asked_about(ann: Person) -> None:
    assert f"need the same folder: --kb {ann.kb} --state-dir {ann.state}" in ann.here("doctor").stdout
    told = ann.type("doctor", FORGE_KB=str(ann.kb), FORGE_STATE_DIR=str(ann.state)).stdout
    assert "need the same folder" not in told


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_a_page_that_an_editor_renamed_is_recognised_by_its_text(tmp_path: Path) -> None:
    bob = AtTerminal(tmp_path)
    write(bob.kb)
    write(bob.kb, {"plan.md": PLAN})
    with bob.at("doctor", "--fix", "--yes", size=(100, 160)) as screen:
        screen.until("fixed: plan.md")
        assert screen.left() == 0
    (bob.kb / "plan.md").rename(bob.kb / "roadmap.md")
    write(bob.kb, {"start.md": "# Start\n\nSee the [plan](plan.md).\n"})
    shown = bob.here("doctor", "--fix")
    assert "start.md: link plan.md to roadmap.md" in shown.stdout
    assert "+See the [plan](roadmap.md)." in shown.stdout


def test_a_renamed_page_that_no_host_has_written_is_recognised_by_the_text_that_the_index_knows(tmp_path: Path) -> None:
    bob = AtTerminal(tmp_path)
    write(
        bob.kb,
        {"tea.md": "# Brewing\n\nIt takes four minutes.\n", "start.md": "# Start\n\n[[tea]] and [it](tea.md).\n"},
    )
    assert bob.here("index").returncode == 0
    (bob.kb / "tea.md").rename(bob.kb / "green.md")
    shown = bob.here("doctor", "--fix")
    assert "start.md: link tea to green.md; link tea.md to green.md" in shown.stdout
    assert "+[[green]] and [it](green.md)." in shown.stdout
