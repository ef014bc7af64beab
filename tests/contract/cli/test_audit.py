"""`knowledge-forge audit` as a person uses it: real processes on a real state database."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import subprocess
import sys
from contextlib import closing, redirect_stderr, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from agents.loop.record.run import begun
from knowledge.history.ports import Actor
from knowledge.outbox.ports import OutboxEntry
from mcp_server.__main__ import main
from mcp_server.app.knowledge_base import STATE_FILE
from mcp_server.app.settings.settings import Settings
from mcp_server.runs.locations import runs_in
from tests.support.knowledge_bases.folders import write
from tests.support.runs.records import Walk, header, hold
from tests.support.state.ledgers import DAY, NOW, change, entry, origin

ROOT = Path(__file__).parents[3]
BOB = Actor("bob@cursor", "kb_delete", "cd" * 32)
ODD = "guides/Pläne [draft]/日本 🗺.md"


class Person:
    """A person at a terminal, whose knowledge base has had four acts."""

    def __init__(self, folder: Path) -> None:
        self.kb, self.state = write(folder / "kb"), folder / "state"
        asyncio.run(self._act())

    async def _act(self) -> None:
        from mcp_server.app.knowledge_base import open_state

        async with open_state(Settings(kb=self.kb, state_dir=self.state)) as state:
            for done in (
                entry(change("guides/a.md", None, b"one"), origins={"guides/a.md": [origin()]}, intent="begin"),
                entry(change(ODD, b"x", b"y"), at=NOW + DAY, confidence=0.74, proposal="p-1"),
                entry(change("notes/b.md", None, b"one", moved_from="guides/b.md"), at=NOW + 2 * DAY),
                entry(change("guides/a.md", b"one", None), at=NOW + 3 * DAY, actor=BOB),
            ):
                await state.ledger.commit(done)

    async def send(self, outbox_entry: OutboxEntry, *, at: datetime) -> None:
        """Record an act in another service."""
        from mcp_server.app.knowledge_base import open_state

        async with open_state(Settings(kb=self.kb, state_dir=self.state)) as state:
            await state.outbox.begin(outbox_entry, within=DAY)
            await state.outbox.end(outbox_entry.id, "done", at=at, result="{}")

    async def carry_through(self, walk: Walk) -> None:
        """Record a run as far as the walk goes."""
        from mcp_server.app.knowledge_base import open_state

        async with open_state(Settings(kb=self.kb, state_dir=self.state)) as state:
            runs = runs_in(state)
            begun = await runs.begin(walk.run.header, hold())
            await runs.append(begun, walk.run.frames, hold())

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Start a process."""
        command = [sys.executable, "-m", "mcp_server", *self._words(words)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=ROOT, timeout=60, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def here(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the same program in this process: only the time differs."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(self._words(words))
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def _words(self, words: tuple[str, ...]) -> list[str]:
        return ["audit", *words, "--kb", str(self.kb), "--state-dir", str(self.state)]

    def json(self, *words: str) -> Any:
        return json.loads(self.here(*words, "--json").stdout)

    def by_hand(self, *statements: str) -> None:
        with closing(apsw.Connection(str(self.state / STATE_FILE))) as connection:
            for statement in statements:
                connection.execute(statement)


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    return Person(tmp_path)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Return a person who only reads."""
    return Person(tmp_path_factory.mktemp("audit"))


def test_a_sound_chain_is_reported_with_its_end_for_the_record(ann: Person) -> None:
    done = ann.run("verify")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("4 records, all intact; the chain ends with 4:")
    noted = done.stdout.split()[-1]
    assert ann.here("verify", "--noted", noted).returncode == 0
    said = ann.json("verify")
    assert (said["sound"], said["records"], said["broken"]) == (True, 4, [])
    assert f"{said['end']['seq']}:{said['end']['digest']}" == noted


def test_a_broken_chain_names_the_record_and_ends_with_1(ann: Person) -> None:
    noted = ann.here("verify").stdout.split()[-1]
    ann.by_hand(
        "UPDATE audit SET body = replace(body, 'bob@', 'eve@') WHERE seq = 4", "DELETE FROM audit WHERE seq = 2"
    )
    done = ann.run("verify")
    assert (done.returncode, done.stderr) == (1, "")
    first, second, third = done.stdout.splitlines()
    assert "the audit chain is broken" in first
    assert second == "record 2: is missing"
    assert third.startswith("record 4 (kb_delete by eve@cursor on guides/a.md at 2026-03-04T12:00:00.123456+00:00): ")
    said = ann.json("verify")
    assert (said["sound"], [broken["seq"] for broken in said["broken"]]) == (False, [2, 4])
    assert said["broken"][1]["paths"] == ["guides/a.md"]
    ann.by_hand("DELETE FROM audit", "UPDATE chain_end SET seq = 0, digest = x''")
    assert ann.here("verify").stdout == "no records yet\n"
    assert ann.here("verify", "--noted", noted).returncode == 1


def test_anyone_can_verify_an_export(reader: Person) -> None:
    """kb/reference/file-formats.md says how."""
    lines = reader.run("export", "--jsonl").stdout.splitlines()
    previous = b""
    for seq, line in enumerate(lines, 1):
        fields = json.loads(line)
        digest = bytes.fromhex(fields.pop("digest"))
        body = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(previous + body.encode()).digest() == digest
        assert fields["seq"] == seq
        previous = digest
    assert len(lines) == 4
    assert json.loads(lines[1])["changes"][0]["path"] == ODD
    assert json.loads(lines[1])["confidence"] == 0.74


def test_an_act_in_another_service_is_listed_with_its_place_and_found_by_it(ann: Person) -> None:
    outbox_entry = OutboxEntry(
        "kf-1", "bob@cursor", "zulip_send_message", "zulip:design/merge", "dd" * 32, NOW, proposal="p-7"
    )
    asyncio.run(ann.send(outbox_entry, at=NOW + 4 * DAY))
    assert ann.here("verify").stdout.startswith("5 records, all intact")
    (found,) = ann.json("search", "DESIGN/merge")
    assert (found["tool"], found["outcome"], found["proposal"]) == ("zulip_send_message", "sent", "p-7")
    assert found["delivery"] == {"errand": "kf-1", "target": "zulip:design/merge"}
    told = "".join(ann.here("search", "kf-1").stdout.split())
    assert "zulip:design" in told, "whatever the width of the terminal"
    assert "p-7" in told


def test_a_run_is_found_by_its_id_and_by_its_model(ann: Person) -> None:
    walk = Walk(begun(header("r-1", goal="Nobody is told.")))
    walk.respond("Nobody is told that either.")
    asyncio.run(ann.carry_through(walk))
    assert ann.here("verify").stdout.startswith("6 records, all intact")
    last, first = ann.json("search", "r-1")
    assert [(one["tool"], one["outcome"]) for one in (first, last)] == [("agent_run", "begun"), ("agent_run", "done")]
    assert last["run"]["tokens_in"] == walk.run.spent.tokens_in
    assert ann.json("search", "test:small") == [last, first]
    told = "".join(ann.here("search", "r-1").stdout.split())
    assert "r-1;test:small" in told, "whatever the width of the terminal"
    assert "Nobody" not in told + ann.here("export").stdout


@pytest.mark.parametrize(
    ("since", "seqs"),
    [
        ("2026-03-03", [3, 4]),
        ("2026-03-02T12:00:01Z", [3, 4]),
        ("2026-03-02T14:00:00+02:00", [2, 3, 4]),
        ("2027-01-01", []),
    ],
)
def test_only_acts_since_a_time_are_exported(reader: Person, since: str, seqs: list[int]) -> None:
    done = reader.here("export", "--since", since)
    assert done.returncode == 0
    assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == seqs


def test_records_are_searched_by_page_principal_tool_and_time_newest_first(reader: Person) -> None:
    def found(*words: str) -> list[int]:
        return [row["seq"] for row in reader.json("search", *words)]

    assert found() == [4, 3, 2, 1]
    assert found("--path", "guides") == [4, 3, 2, 1]
    assert found("--path", "guides/a.md") == [4, 1]
    assert found("--path", "notes/") == [3]
    assert found("--principal", "desktop") == found("--principal", "ada@desktop") == [3, 2, 1]
    assert found("--tool", "kb_delete") == found("--since", "2026-03-04") == [4]
    assert found("--path", "guides", "--limit", "2") == [4, 3]


def test_records_are_searched_by_words_anywhere_in_them(reader: Person) -> None:
    def found(*words: str) -> list[int]:
        return [row["seq"] for row in reader.json("search", *words)]

    assert found("begin") == [1], "what it was for"
    assert found("PLÄNE [draft]") == found("pläne", "kb_merge") == [2], "a path, and a path with a tool"
    assert found("p-1") == [2], "a proposal"
    assert found("guides/b.md") == [3], "where a page was before"
    assert found("kb_delete", "desktop") == [], "all words must be there"
    assert found("principal") == [], "the name of a field is nothing that a record says"
    assert found("guides", "--tool", "kb_delete") == [4]


def test_a_search_is_shown_as_a_table(reader: Person) -> None:
    done = reader.here("search", "--path", "guides")
    assert done.returncode == 0
    assert "bob@cursor" in done.stdout
    assert "[draft]" in done.stdout, "what stands in brackets is no markup"
    nothing = reader.here("search", "--path", "elsewhere")
    assert (nothing.returncode, nothing.stdout) == (1, "nothing recorded\n")


def test_records_are_searched_by_person_kind_outcome_and_up_to_a_time(reader: Person) -> None:
    def found(*words: str) -> list[int]:
        return [row["seq"] for row in reader.json("search", *words)]

    assert found("--principal", "bob") == [4]
    assert found("--kind", "pages", "--outcome", "done", "--until", "2026-03-02") == [2, 1], "all of that day"
    assert found("--until", "2026-03-02T12:00") == [1]
    assert found("--kind", "trust") == found("--outcome", "approved") == []


def test_in_80_columns_no_time_is_broken_and_nothing_is_cut(reader: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = reader.here("search").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for day in (1, 2, 3, 4):
        assert sum(f"2026-03-0{day} 12:00" in line for line in lines) == 1
    assert "…" not in "".join(lines)
    assert ODD.replace(" ", "") in "".join("".join(line[44:] for line in lines).split())


def test_one_act_is_shown_with_everything_about_it(ann: Person) -> None:
    outbox_entry = OutboxEntry("kf-1", "bob@cursor", "zulip_send_message", "zulip:design/merge", "dd" * 32, NOW)
    asyncio.run(ann.send(outbox_entry, at=NOW + 4 * DAY))
    shown = ann.here("show", "2").stdout
    assert shown.startswith("record 2 of 5\n")
    for fact in (
        "by: ada@desktop",
        "tool: kb_merge",
        "confidence: 0.74",
        "proposal: p-1",
        f"SHA-256): {'ab' * 32}".lower(),
    ):
        assert fact in shown.lower()
    assert "Its hash fits the record before it." in shown
    said = ann.json("show", "2")
    assert f"hash: {said['digest']}\n  hash before: {said['chain']['previous']}" in shown
    assert said["chain"] == {"previous": ann.json("show", "1")["digest"], "fits": True, "end": 5}
    assert [(one["path"], one["effect"]) for one in said["files"]] == [(ODD, "changed")]
    assert "moved notes/b.md from guides/b.md" in ann.here("show", "3").stdout
    assert "sent to: zulip:design/merge\n  delivery: kf-1" in ann.here("show", "5").stdout
    nothing = ann.here("show", "6")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr == "there is no record 6; the newest is 5\n"


def test_an_act_says_if_the_chain_was_edited_at_it(ann: Person) -> None:
    ann.by_hand(
        "UPDATE audit SET body = replace(body, 'ada@', 'eve@') WHERE seq = 2", "DELETE FROM audit WHERE seq = 3"
    )
    assert "does not fit: the chain was edited here" in ann.here("show", "2").stdout
    assert "Record 3 is missing" in ann.here("show", "4").stdout
    ann.by_hand("UPDATE audit SET body = 'gone' WHERE seq = 1")
    assert "body: gone" in ann.here("show", "1").stdout


def test_records_after_an_end_that_was_set_back_are_found_too(ann: Person) -> None:
    ann.by_hand("UPDATE chain_end SET seq = 2")
    assert [row["seq"] for row in ann.json("search")] == [4, 3, 2, 1]
    assert ann.here("show", "4").returncode == 0


def test_an_unreadable_record_is_exported_unchanged(ann: Person) -> None:
    ann.by_hand("UPDATE audit SET body = 'gone' WHERE seq = 2")
    second = ann.here("export", "--since", "2026-03-03").stdout.splitlines()[0]
    assert json.loads(second)["body"] == "gone"
    assert ann.here("search").returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["verify", "--noted", "4"], "SEQ:DIGEST"),
        (["export", "--since", "sometime"], "'sometime' is not a time"),
        (["search", "--limit", "0"], "whole number"),
        (["search", "--until", "soon"], "'soon' is not a time"),
        (["search", "--kind", "jokes"], "invalid choice"),
        (["show", "first"], "whole number"),
        (["forget"], "invalid choice"),
    ],
)
def test_wrong_usage_gets_one_sentence(reader: Person, words: list[str], says: str) -> None:
    done = reader.here(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
