"""A moved or renamed knowledge base keeps its state when a person says so, and never begins with an empty one silently."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from knowledge.state.locations import default_schema, default_state_dir
from knowledge.state.moved_folder.record import RECORD, FolderRecord, read_record, write_record
from mcp_server.__main__ import main
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import PostgresServer

ROOT = Path(__file__).parents[3]


class Ann:
    """A person at a terminal with knowledge bases in the platform's default state folder."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self._capsys = home, capsys
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
        monkeypatch.delenv("FORGE_STATE_DIR", raising=False)

    def type(self, kb: Path, *words: str, code: int = 0) -> str:
        """Return everything that the program printed."""
        self._capsys.readouterr()
        assert main([*words, "--kb", str(kb)]) == code, self._capsys.readouterr()
        return "".join(self._capsys.readouterr())

    def used(self, name: str) -> Path:
        """Return a knowledge base in which a host is registered and trusted, and that is indexed."""
        kb = write(self.home / name)
        self.type(kb, "enroll", "cursor")
        self.type(kb, "trust", "grant", "cursor", "3")
        self.type(kb, "index")
        return kb

    def moved(self, name: str, to: str) -> tuple[Path, Path]:
        """Return the old and the new path of a used knowledge base."""
        old, new = self.used(name), self.home / to
        new.parent.mkdir(parents=True, exist_ok=True)
        return old, old.rename(new)


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ann:
    return Ann(tmp_path, monkeypatch, capsys)


def test_a_moved_folder_keeps_its_state_after_a_person_says_so(ann: Ann) -> None:
    old, new = ann.moved("notes", "elsewhere/team notes")
    told = ann.type(new, "trust", "list", code=1)
    assert f"{new} has no state yet, and looks like a knowledge base that was moved from {old}" in told
    assert f"knowledge-forge state adopt --kb '{new}'" in told
    assert f"knowledge-forge state new --kb '{new}'" in told
    assert not default_state_dir(new).exists()
    findings = {finding["what"]: finding for finding in json.loads(ann.type(new, "doctor", "--json", code=1))}
    assert f"{new} has no state yet" in str(findings)
    assert "there is no terminal to ask at" in ann.type(new, "state", "adopt", code=2)
    assert f"install HOST --kb '{new}'" in ann.type(new, "state", "adopt", "--yes")
    assert "cursor" in ann.type(new, "trust", "list")
    assert not default_state_dir(old).exists()
    assert "nothing was changed" in ann.type(new, "state", "adopt", "--yes", code=1)


def test_a_server_over_stdio_ends_with_the_sentence_and_writes_nothing(ann: Ann) -> None:
    """A host cannot answer a question of the start; its log has the two commands between which a person chooses."""
    _, new = ann.moved("notes", "renamed")
    done = subprocess.run(
        [sys.executable, "-m", "mcp_server", "serve", "--kb", str(new)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert f"knowledge-forge state adopt --kb {new}" in line
    assert not default_state_dir(new).exists()


def test_a_person_may_begin_with_an_empty_state_and_change_their_mind(ann: Ann) -> None:
    old, new = ann.moved("notes", "renamed")
    assert "begins with an empty state" in ann.type(new, "state", "new")
    assert "cursor" not in ann.type(new, "trust", "list")
    assert "has a state already" in ann.type(new, "state", "new", code=1)
    told = json.loads(ann.type(new, "state", "adopt", str(default_state_dir(old)), "--yes", "--json"))
    assert Path(told["set_aside"]).is_dir()
    assert "cursor" in ann.type(new, "trust", "list")


def test_a_copy_begins_with_its_own_state_and_the_original_keeps_its_state(ann: Ann) -> None:
    old = ann.used("notes")
    copy = Path(shutil.copytree(old, ann.home / "copy"))
    assert "cursor" not in ann.type(copy, "trust", "list")
    assert "cursor" in ann.type(old, "trust", "list")
    refused = ann.type(copy, "state", "adopt", str(default_state_dir(old)), "--yes", code=1)
    assert f"is the state of {old}, which still exists" in refused


def test_a_folder_that_was_copied_and_whose_original_was_deleted_is_known_by_its_pages(ann: Ann) -> None:
    """As when a folder is moved to another disk. Some pages were edited since."""
    old = ann.used("notes")
    new = Path(shutil.copytree(old, ann.home / "other disk"))
    shutil.rmtree(old)
    (new / "long.md").write_text("# Changed\n", encoding="utf-8")
    assert "pages compared are the same" in ann.type(new, "trust", "list", code=1)
    ann.type(new, "state", "adopt", "--yes")
    assert "cursor" in ann.type(new, "trust", "list")


def test_another_knowledge_base_begins_without_a_question_although_a_folder_is_gone(ann: Ann) -> None:
    shutil.rmtree(ann.used("notes"))
    other = write(ann.home / "other", {"recipes.md": "# Recipes\n\nBread.\n"})
    assert "cursor" not in ann.type(other, "trust", "list")


def test_a_new_folder_at_the_old_path_keeps_the_state_until_a_person_gives_it_to_the_moved_one(ann: Ann) -> None:
    """`mv notes archive && git clone ... notes`: the path decides, as always; the moved folder is asked about."""
    old, new = ann.moved("notes", "archive")
    write(old, {"fresh.md": "# Fresh\n"})
    assert "it is the same folder on the disk" in ann.type(new, "trust", "list", code=1)
    assert "cursor" in ann.type(old, "trust", "list")
    assert "cursor" not in ann.type(new, "trust", "list")


def test_of_several_states_that_may_be_meant_the_person_names_one(ann: Ann) -> None:
    one, two = ann.used("one"), ann.used("two")
    shutil.copytree(one, ann.home / "new")
    for old in (one, two):
        shutil.rmtree(old)
    refused = ann.type(ann.home / "new", "state", "adopt", "--yes", code=1)
    assert "several states may be meant" in refused
    ann.type(ann.home / "new", "state", "adopt", str(default_state_dir(ann.home / "two")), "--yes")
    assert "cursor" in ann.type(ann.home / "new", "trust", "list")


def test_a_knowledge_base_that_may_only_be_read_is_found_again_and_never_written_to(ann: Ann) -> None:
    _, new = ann.moved("notes", "renamed")
    before = {path: path.read_bytes() for path in new.rglob("*") if path.is_file()}
    for folder in (new, *(path for path in new.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    try:
        ann.type(new, "state", "adopt", "--yes")
        assert "cursor" in ann.type(new, "trust", "list")
    finally:
        for folder in (new, *(path for path in new.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
    assert {path: path.read_bytes() for path in new.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"root": 1, "device": "x", "inode": null}', '{"root": "/x", "more": 1}']
)
def test_a_record_that_cannot_be_read_is_nobodys_and_is_written_again(ann: Ann, text: str) -> None:
    kb = ann.used("notes")
    record = default_state_dir(kb) / RECORD
    record.write_text(text, encoding="utf-8")
    assert read_record(default_state_dir(kb)) is None
    assert "cursor" in ann.type(kb, "trust", "list")
    found = read_record(default_state_dir(kb))
    assert found is not None
    assert found.path == kb


def test_a_path_that_is_not_utf_8_is_recorded_and_read(tmp_path: Path) -> None:
    record = FolderRecord("/notes/\udce4", 1, 2, "forge_x")
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record


def test_a_state_folder_that_two_knowledge_bases_name_gets_a_warning(
    ann: Ann, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = write(ann.home / "one"), write(ann.home / "two")
    for kb in (one, two):
        ann.type(kb, "trust", "list", "--state-dir", str(ann.home / "shared"))
    assert f"already holds the state of {one}; use another --state-dir" in caplog.text


def test_a_state_that_hosts_name_for_the_new_path_is_asked_about_where_nobody_names_it(ann: Ann) -> None:
    """Hosts may name the old state folder with --state-dir; a terminal that does not would begin with an empty state."""
    old, new = ann.moved("notes", "renamed")
    assert "cursor" in ann.type(new, "trust", "list", "--state-dir", str(default_state_dir(old)))
    assert str(default_state_dir(old)) in ann.type(new, "trust", "list", code=1)
    ann.type(new, "state", "adopt", "--yes")
    assert "cursor" in ann.type(new, "trust", "list")


@pytest.mark.external
def test_a_moved_folder_keeps_its_schema_in_postgresql(
    ann: Ann, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_DATABASE_URL", postgres.url())
    old, new = ann.moved("notes", "renamed")
    assert "has no state yet" in ann.type(new, "trust", "list", code=1)
    ann.type(new, "state", "adopt", "--yes")
    for _ in range(2):
        assert "cursor" in ann.type(new, "trust", "list")
    record: Any = read_record(default_state_dir(new))
    assert record.schema == default_schema(old)
    again = new.rename(ann.home / "third")
    ann.type(again, "state", "adopt", "--yes")
    assert "cursor" in ann.type(again, "trust", "list")
