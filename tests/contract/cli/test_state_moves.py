"""`state move`, `state backup` and `state restore` as a person runs them, on a state that a real server has filled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.state.postgres.database import PostgresAddress
from knowledge.state.transfer.move import Contents, contents
from knowledge.state.transfer.postgres_state import PostgresWholeState
from knowledge.state.transfer.sqlite_state import SqliteWholeState
from mcp_server.__main__ import main
from mcp_server.app.settings.settings import Settings
from mcp_server.app.state_copies.saved_files import add_to
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import PASSWORD, PostgresServer

ROOT = Path(__file__).parents[3]
CLAIM = "# Limits\n\nThe upload service accepts files of up to 64 MiB.\n\nAsk Ada about quotas.\n"
OTHER_CLAIM = "The upload service accepts files of up to 32 MiB."


class Ann:
    """A person at a terminal, with settings in the environment. No output has the database's password."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.kb, self.state = home, write(home / "notes"), home / "state"
        self._patch, self._capsys = monkeypatch, capsys
        monkeypatch.setenv("FORGE_KB", str(self.kb))
        monkeypatch.setenv("FORGE_STATE_DIR", str(self.state))

    def set(self, url: str | None, schema: str = "") -> None:
        """Change the settings to this database, or to the file."""
        self._patch.setenv("FORGE_DATABASE_URL", url or "")
        self._patch.setenv("FORGE_DATABASE_SCHEMA", schema)

    def type(self, *words: str, code: int = 0) -> str:
        """Return everything that the program printed."""
        self._capsys.readouterr()
        assert main(words) == code, self._capsys.readouterr()
        printed, errors = self._capsys.readouterr()
        assert PASSWORD not in printed + errors
        return str(printed + errors)

    def json(self, *words: str) -> Any:
        self._capsys.readouterr()
        assert main([*words, "--json"]) == 0, self._capsys.readouterr()
        printed, errors = self._capsys.readouterr()
        assert PASSWORD not in printed + errors
        return json.loads(printed)

    @property
    def settings(self) -> Settings:
        return Settings(kb=self.kb, state_dir=self.state)

    def contents(self, url: str | None = None, schema: str = "") -> Contents:
        """Return what is in the state's file, or in the schema."""

        async def read() -> Contents:
            whole = PostgresWholeState(PostgresAddress(url, schema), schema) if url else SqliteWholeState(self.file)
            await whole.begin(alone=False)
            try:
                return await contents(whole)
            finally:
                await whole.close()

        return anyio.run(read)

    @property
    def file(self) -> Path:
        return self.state / "state.db"


def without_leases(found: Contents) -> Contents:
    return replace(found, sums={table: value for table, value in found.sums.items() if table != "lease"})


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ann:
    return Ann(tmp_path, monkeypatch, capsys)


def work(settings: Settings, turn: int) -> None:
    """Merge, contradict, propose, start a journey and read, as hosts that a person trusts."""

    async def act() -> None:
        async with writing(settings, host=f"writer-{turn}") as host:
            await host.merge(f"limits-{turn}.md", CLAIM)
            await contradict(host, f"limits-{turn}.md")
            await host.call("kb_search", query="how long does a rollback take")
            await host.call("journey_start", agent="research", brief=f"How long does rollback {turn} take?")
        async with writing(settings, host=f"newcomer-{turn}", level=2) as host:
            answer = await host.merge(f"runbooks/new-{turn}.md", "# New\n\nSomething new.\n")
            assert answer["status"] == "proposed"

    anyio.run(act)


async def contradict(host: Writer, path: str) -> None:
    base = await host.revision(path)
    answer = await host.merge(path, OTHER_CLAIM, section="Limits", source="wiki:limits", base_revision=base)
    assert answer["status"] == "conflict", answer


def seen(ann: Ann) -> dict[str, Any]:
    """Return what a person sees of the state."""
    return {
        "trust": ann.json("trust", "list"),
        "proposals": ann.json("review"),
        "contradictions": ann.json("contradictions"),
        "journeys": ann.json("journeys", "list"),
        "audit": ann.json("audit", "verify"),
    }


@pytest.mark.external
def test_a_state_that_servers_filled_is_the_same_after_each_move_and_work_continues_there(
    ann: Ann, postgres: PostgresServer, schema: str
) -> None:
    url = postgres.url()
    work(ann.settings, 1)
    people_see, before = seen(ann), ann.contents()
    for table in (
        "content",
        "revision",
        "audit",
        "standing_change",
        "proposal",
        "contradiction",
        "journey",
        "journey_event",
    ):
        assert before.rows[table], table
    rehearsed = ann.json("state", "move", url, "--schema", schema, "--dry-run")
    assert rehearsed["source"]["rows"] == dict(before.rows)
    assert rehearsed["moved"] is False
    assert rehearsed["to"] == "a new database"
    told = ann.type("state", "move", url, "--schema", schema, "--yes")
    assert f"Audit chain: {before.rows['audit']:,} records, all intact" in told
    assert f"FORGE_DATABASE_SCHEMA to {schema}" in told
    assert "was moved to PostgreSQL at 127.0.0.1" in ann.type("trust", "list", code=1)
    ann.set(url, schema)
    assert "the state is there already" in ann.type("state", "move", f"{url}?connect_timeout=9", "--yes", code=2)
    assert ann.contents(url, schema) == before
    assert seen(ann) == people_see
    there = replace(ann.settings, database_url=url, database_schema=schema)
    work(there, 2)
    grown = ann.contents(url, schema)
    assert grown.rows["audit"] > before.rows["audit"]
    back = ann.json("state", "move", "sqlite", "--yes")
    assert back["target_before"]["rows"] == dict(before.rows)
    assert back["target_after"]["rows"] == back["source"]["rows"] == dict(grown.rows)
    assert "was moved to" in ann.type("trust", "list", code=1)
    ann.set(None)
    assert without_leases(ann.contents()) == without_leases(grown)  # a move gives up the machine's
    work(ann.settings, 3)
    assert ann.json("audit", "verify")["sound"]
    assert ann.type("state", "move", url, "--schema", schema, "--yes").count("all intact") == 1


@pytest.mark.external
def test_the_url_is_read_from_standard_input_and_consent_is_asked_for(
    ann: Ann, postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    ann.type("enroll", "cursor")

    def move(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mcp_server", "state", "move", "-", "--schema", schema, *words],
            input=postgres.url(),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
            cwd=tmp_path,
        )

    refused = move()
    assert refused.returncode == 2
    assert "there is no terminal to ask at; nothing was changed" in refused.stderr
    done = move("--yes")
    assert done.returncode == 0, done.stderr
    assert PASSWORD not in refused.stderr + done.stdout + done.stderr


def test_a_target_that_is_the_source_or_no_database_is_refused_in_one_sentence(ann: Ann) -> None:
    ann.type("enroll", "cursor")
    assert "the state is there already" in ann.type("state", "move", "sqlite", code=2)
    for wrong in (f"mysql://a:{PASSWORD}@b/c", "notes.db"):
        (line,) = ann.type("state", "move", wrong, code=2).splitlines()
        assert "TO is `sqlite` or the URL of a PostgreSQL database" in line


@pytest.mark.external
@pytest.mark.parametrize("back", [False, True], ids=["to PostgreSQL", "to the file"])
@pytest.mark.parametrize(
    "step",
    [
        "target emptied",
        "audit copied",
        "compared",
        "before the target's commit",
        "after the target's commit",
        "before the source's commit",
        "after the source's commit",
        "before the last commit",
        "after the last commit",
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")
def test_a_killed_move_says_which_side_is_in_use_and_the_same_command_finishes_it(
    ann: Ann, postgres: PostgresServer, schema: str, *, back: bool, step: str
) -> None:
    url = postgres.url()
    ann.type("enroll", "cursor")
    ann.type("trust", "grant", "cursor", "3")
    words = ["state", "move", url, "--schema", schema, "--yes"]
    if back:
        ann.type(*words)
        ann.set(url, schema)
        words = ["state", "move", "sqlite", "--yes"]
    before = ann.contents(url, schema) if back else ann.contents()
    killed = subprocess.run(
        [sys.executable, "-m", "tests.crash.mover", step, *words], env=os.environ, cwd=ROOT, check=False, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL
    gone = step in ("after the source's commit", "before the last commit", "after the last commit")
    arrived = step not in ("target emptied", "audit copied", "compared", "before the target's commit")
    if gone:
        assert "was moved to" in ann.type("trust", "list", code=1)
    else:
        assert "cursor" in ann.type("trust", "list")
    ann.set(None if back else url, "" if back else schema)
    if arrived and step != "after the last commit":  # the other side refuses to be used half
        assert "that has not finished" in ann.type("trust", "list", code=1)
    ann.set(url if back else None, schema if back else "")
    told = ann.type(*words)
    assert ("An earlier move was interrupted" in told) is (arrived and step != "after the last commit")
    assert ("nothing to do" in told) is (step == "after the last commit")
    ann.set(None if back else url, "" if back else schema)
    assert (ann.contents() if back else ann.contents(url, schema)) == before
    assert "cursor" in ann.type("trust", "list")


def test_a_backup_made_beside_a_busy_server_is_restored_at_another_place_with_everything_in_it(
    ann: Ann, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that writes without pause is open while the backup is made: what is saved is one moment of it."""
    file = tmp_path / "saved.db"

    async def act() -> None:
        async with writing(ann.settings) as host, anyio.create_task_group() as tasks:
            await host.merge("busy.md", "# Busy\n\nLine.\n")

            async def keep_writing() -> None:
                for n in range(10_000):
                    await host.merge(f"busy/{n}.md", f"# Page {n}\n\nLine {n}.\n")

            tasks.start_soon(keep_writing)
            words = [sys.executable, "-m", "mcp_server", "state", "backup", str(file)]
            done = await anyio.run_process(words, env={**os.environ, "PYTHONPATH": str(ROOT)})
            assert b"all intact" in done.stdout
            tasks.cancel_scope.cancel()

    anyio.run(act)
    assert file.stat().st_mode & 0o077 == 0 or os.name == "nt"
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []
    monkeypatch.setenv("FORGE_STATE_DIR", str(tmp_path / "other machine"))
    monkeypatch.setenv("FORGE_KB", str(write(tmp_path / "other notes")))
    rehearsed = ann.json("state", "restore", str(file), "--dry-run")
    assert rehearsed["restored"] is False
    restored = ann.json("state", "restore", str(file))
    assert restored["after"]["rows"] == restored["saved"]["rows"] == rehearsed["saved"]["rows"]
    assert restored["kept"] is None
    assert ann.json("audit", "verify")["records"] == restored["saved"]["rows"]["audit"]
    assert "writer" in ann.type("trust", "list")


def test_a_backup_holds_stored_weights_and_drafts_and_says_what_it_leaves_out(ann: Ann, tmp_path: Path) -> None:
    file, drafts, weights = tmp_path / "saved.db", ann.state / "drafts", ann.state / "ranking.json"
    ann.type("enroll", "cursor")
    drafts.mkdir()
    (drafts / "1-tea.md").write_text("my text\n", encoding="utf-8")
    (drafts / "2-pot.md").write_text("another\n", encoding="utf-8")
    weights.write_text('{"saved": 1}', encoding="utf-8")
    (ann.state / "use.db").write_bytes(b"questions")
    said = ann.type("state", "backup", str(file))
    assert "With it: ranking.json, drafts/1-tea.md, drafts/2-pot.md" in said
    for missing in ("use.db: the questions of hosts", "the search index: it is made again", "the Markdown files: back"):
        assert f"Not in it: {missing}" in said
    (drafts / "1-tea.md").unlink()
    (drafts / "2-pot.md").write_text("changed since\n", encoding="utf-8")
    weights.write_text('{"later": 2}', encoding="utf-8")
    assert ann.json("state", "restore", str(file), "--dry-run")["files_written"] == []
    assert not (drafts / "1-tea.md").exists()
    restored = ann.json("state", "restore", str(file), "--yes")
    assert restored["files_written"] == ["drafts/1-tea.md", "ranking.json"]
    assert restored["files_kept"] == ["drafts/2-pot.md"]
    assert (drafts / "1-tea.md").read_text(encoding="utf-8") == "my text\n"
    assert (drafts / "2-pot.md").read_text(encoding="utf-8") == "changed since\n"
    assert weights.read_text(encoding="utf-8") == '{"saved": 1}'
    assert os.name == "nt" or (drafts / "1-tea.md").stat().st_mode & 0o077 == 0
    ann.json("state", "restore", restored["kept"], "--yes")
    assert weights.read_text(encoding="utf-8") == '{"later": 2}', "what was there is saved before a restore"


def test_files_with_strange_names_in_a_backup_are_not_written(ann: Ann, tmp_path: Path) -> None:
    """A backup may come from somewhere else."""
    file = tmp_path / "saved.db"
    ann.type("enroll", "cursor")
    strange = ("../evil.md", "drafts/../../evil.md", "state.db", "drafts/", "/etc/evil", "drafts/a/b.md")
    ann.type("state", "backup", str(file))
    add_to(dict.fromkeys((*strange, "drafts/good.md"), b"x"), file)
    assert ann.json("state", "restore", str(file), "--yes")["files"] == ["drafts/good.md"]
    assert [path for path in tmp_path.rglob("*") if "evil" in path.name] == []


def test_a_restore_over_a_state_in_use_is_refused_and_over_another_state_saves_that_first(
    ann: Ann, tmp_path: Path
) -> None:
    file = tmp_path / "saved.db"
    ann.type("enroll", "cursor")
    ann.type("state", "backup", str(file))
    ann.type("enroll", "zed")

    async def act() -> None:
        async with writing(ann.settings):
            words = [sys.executable, "-m", "mcp_server", "state", "restore", str(file), "--yes"]
            done = await anyio.run_process(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
            assert done.returncode == 1
            assert b"state.db is in use" in done.stderr

    anyio.run(act)
    assert "there is no terminal to ask at" in ann.type("state", "restore", str(file), code=2)
    kept = ann.json("state", "restore", str(file), "--yes")["kept"]
    assert "zed" not in ann.type("trust", "list")
    ann.json("state", "restore", kept, "--yes")
    assert "zed" in ann.type("trust", "list")


@pytest.mark.external
def test_a_backup_of_postgresql_is_restored_into_a_file_and_one_of_a_file_into_postgresql(
    ann: Ann, postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    ann.type("enroll", "cursor")
    before = ann.contents()
    ann.type("state", "backup", str(tmp_path / "one.db"))
    ann.set(postgres.url(), schema)
    ann.type("state", "restore", str(tmp_path / "one.db"))
    assert ann.contents(postgres.url(), schema).sums["enrolment"] == before.sums["enrolment"]
    ann.type("state", "backup", str(tmp_path / "two.db"))
    ann.set(None)
    ann.type("state", "restore", str(tmp_path / "two.db"), "--yes")
    assert ann.contents().sums == before.sums
    ann.set(postgres.url(), schema)
    ann.type("enroll", "zed")
    kept = ann.json("state", "restore", str(tmp_path / "one.db"), "--yes")["kept"]
    assert "zed" not in ann.type("trust", "list")
    ann.type("state", "restore", kept, "--yes")
    assert "zed" in ann.type("trust", "list")


def test_a_backup_is_not_written_into_the_knowledge_base_or_over_a_file_and_no_other_file_is_restored(
    ann: Ann, tmp_path: Path
) -> None:
    ann.type("enroll", "cursor")
    before = ann.contents()
    assert "where a model may edit files" in ann.type("state", "backup", str(ann.kb / "saved.db"), code=1)
    taken = tmp_path / "taken.db"
    taken.write_text("mine", encoding="utf-8")
    assert "exists already" in ann.type("state", "backup", str(taken), code=1)
    assert taken.read_text(encoding="utf-8") == "mine"
    assert "is not a Knowledge Forge database" in ann.type("state", "restore", str(taken), "--yes", code=1)
    assert "there is no file" in ann.type("state", "restore", str(tmp_path / "none.db"), "--yes", code=1)
    assert ann.contents() == before
    assert [path.name for path in ann.state.iterdir() if path.name.startswith("restore-")] == []
