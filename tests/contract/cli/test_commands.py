"""The command line as a person uses it: real processes, one clear sentence when something is wrong, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.index.indexing_service import LEASE
from mcp_server.__main__ import main
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from tests.support.knowledge_bases.folders import PAGES, write

ROOT = Path(__file__).parents[3]
PROGRAM = [sys.executable, "-m", "mcp_server"]
TIMEOUT_S = 60
COUNT = len(PAGES)


@dataclass(frozen=True, slots=True)
class Said:
    """The program's output."""

    returncode: int
    stdout: str
    stderr: str


class Person:
    """A person at a terminal, with a knowledge base and a place for its state.

    `run` starts a process. `here` runs the same program in this process: only the time differs.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.kb, self.state = folder, folder / "kb", folder / "state"
        self._monkeypatch, self._capsys = monkeypatch, capsys
        (folder / "home").mkdir()
        for name in list(os.environ):
            if name.startswith(("FORGE_", "XDG_")):
                monkeypatch.delenv(name)
        for name, value in (("HOME", str(folder / "home")), ("NO_COLOR", "1"), ("COLUMNS", "100")):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.chdir(folder)

    def words(self, verb: str, *words: str) -> list[str]:
        return [verb, "--kb", str(self.kb), "--state-dir", str(self.state), *words]

    def run(self, verb: str, *words: str) -> Said:
        done = subprocess.run(
            [*PROGRAM, *self.words(verb, *words)], capture_output=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

    def type(self, *words: str, **env: str) -> Said:
        """Run exactly these words in this process."""
        self._capsys.readouterr()
        with self._monkeypatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            try:
                code = main(words)
            except SystemExit as left:  # --help leaves by itself
                code = int(left.code or 0)
        return Said(code, *self._capsys.readouterr())

    def here(self, verb: str, *words: str, **env: str) -> Said:
        return self.type(*self.words(verb, *words), **env)

    def json(self, verb: str, *words: str, **env: str) -> Any:
        return json.loads(self.here(verb, *words, "--json", **env).stdout)


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    write(tmp_path / "kb")
    return Person(tmp_path, monkeypatch, capsys)


def refused(done: Said, code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


async def _until_it_indexes(ann: Person) -> None:
    async with open_state(Settings(kb=ann.kb, state_dir=ann.state)) as state:
        with anyio.fail_after(TIMEOUT_S):
            while await state.lease(LEASE) is None:  # noqa: ASYNC110 - the event happens in another process
                await anyio.sleep(0.02)


async def _keep_the_lease(ann: Person, holder: str) -> None:
    async with open_state(Settings(kb=ann.kb, state_dir=ann.state)) as state:
        assert await state.acquire_lease(LEASE, holder, now=utc_now(), ttl_s=TIMEOUT_S)


@contextmanager
def serving(ann: Person) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a server that has indexed everything and keeps the lease."""
    server = subprocess.Popen([*PROGRAM, *ann.words("serve", "--http", "127.0.0.1:0")], stderr=subprocess.PIPE)
    with server:
        try:
            assert server.stderr is not None
            assert b"serving http://" in server.stderr.readline()
            anyio.run(_until_it_indexes, ann)
            yield server
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=TIMEOUT_S)


def test_a_search_first_indexes_what_was_never_indexed(ann: Person) -> None:
    done = ann.run("search", "how", "do", "we", "roll", "back", "--limit", "2", "--wait", str(TIMEOUT_S))
    assert done.returncode == 0
    assert "guides/deploy.md > Deploying the payment service > Rolling back" in " ".join(done.stdout.split())
    assert ann.json("search", "gardening", "--path", "long.md")["indexed"] == {"done": COUNT, "total": COUNT}


def test_search_explains_its_hits(ann: Person) -> None:
    """Plain words and numbers for people, the same as data for programs; nothing of it without the option."""
    asked = ("search", "how", "do", "we", "rol", "back", "the", "router", "--limit", "2")
    told = " ".join(ann.here(*asked, "--explain").stdout.split())
    assert "rank score 0.990 = passage 0." in told
    assert "languages: en" in told
    assert "meaning: cosine" in told
    assert "explanation" not in ann.json(*asked)
    (first, *_) = ann.json(*asked, "--explain")["explanation"]["hits"]
    assert sum(first["parts"].values()) == pytest.approx(first["rank_score"], abs=1e-3)


def test_search_without_indexing_says_that_nothing_is_indexed(ann: Person) -> None:
    done = ann.here("search", "router", "--no-index")
    assert done.returncode == 1
    assert "knowledge-forge index" in done.stdout


def test_every_verbs_options_work_in_any_position(ann: Person) -> None:
    kb, state = ["--kb", str(ann.kb)], [f"--state-dir={ann.state}"]
    orders = [
        ["trust", *kb, *state, "--json", "list"],
        ["trust", "list", "--json", *state, *kb],
        ["trust", *state, "list", *kb, "--json"],
        ["--json", *kb, "trust", *state, "list"],
    ]
    answers = [ann.type(*words) for words in orders]
    assert {answer.returncode for answer in answers} == {0}
    assert len({answer.stdout for answer in answers}) == 1
    assert json.loads(answers[0].stdout)[0]["level"] == 2


def test_a_registered_and_granted_hosts_history_names_its_earlier_levels(ann: Person) -> None:
    assert ann.here("enroll", "cursor").stdout.startswith("FORGE_ENROLMENT=")
    assert ann.here("trust", "grant", "cursor", "3").returncode == 0
    assert [(c["from"], c["to"]) for c in ann.json("trust", "history", "cursor")] == [(2.0, 3.0)]
    listed = ann.json("trust", "list")
    assert [(row["principal"].rpartition("@")[2], row["level"]) for row in listed] == [("cursor", 3), ("unenrolled", 2)]


def test_a_page_is_read_and_a_directory_mapped(ann: Person) -> None:
    """Neither needs an index: the files are the truth."""
    assert "forty seconds" in ann.here("read", "guides/deploy.md", "--section", "Rolling back").stdout
    assert "deploy.md" in ann.here("map", "guides").stdout
    assert "knowledge-forge read guides/deploy.md" in ann.here("map", "guides/deploy.md").stdout, (
        "a command, not a call"
    )
    assert "deploy.md" in ann.here("map", "Guides").stdout, "a folder of that name in another case is meant"
    assert ann.here("map", "guides/deploy").stdout == ann.here("map", "guides/deploy.md").stdout
    both = [entry["path"] for entry in ann.json("map", "--depth", "2")["children"]]
    assert {"guides", "long.md"} <= {*both}
    assert both.index("guides") + 1 == both.index("guides/deploy.md"), "its pages follow a folder"
    assert ann.json("map", "#deploy", "--depth", "2")["children"] == ann.json("map", "#deploy")["children"] != []


def test_a_question_without_words_can_be_explained(ann: Person) -> None:
    assert "searched words: none" in ann.here("search", "?", "--explain").stdout


def test_a_long_page_with_many_links_says_that_it_continues_and_how_many_more_there_are(ann: Person) -> None:
    """A map is printed with all of its parts; a page's remainder is named."""
    kb = ann.folder / "kb"
    write(kb, {f"many/p{n:03}.md": f"# P {n}\n\nOne of many pages.\n" for n in range(90)})
    links = "\n".join(f"- [page {n}](many/p{n:03}.md)" for n in range(90))
    write(kb, {"hub.md": f"# Hub\n\n{links}\n\n{'Some more words to read. ' * 800}\n"})
    ann.here("index")
    assert (
        ann.here("read", "hub.md")
        .stdout.rstrip()
        .endswith("[it links to 78 more pages; the page continues; use --section to read more]")
    )
    shown = ann.json("map", "many")
    assert (len(shown["children"]), shown["next_cursor"], shown["truncated"]) == (90, None, False)


def test_reference_and_overview_and_version_are_printed(ann: Person) -> None:
    assert ann.type("reference", "table").stdout.startswith("| tool |")
    assert "knowledge-forge VERB" in ann.type().stdout
    assert ann.type("--version").stdout.startswith("knowledge-forge ")
    assert ann.type("trust", "list", "--help").returncode == 0


def test_install_prints_an_entry_without_writing(ann: Person) -> None:
    assert "mcpServers" in json.loads(ann.here("install", "cursor", "--print").stdout)
    assert not (ann.folder / "home" / ".cursor").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serv"], "did you mean serve?"),
        (["-x", "serve"], "the command comes first"),
        (["search"], "QUESTION"),
        (["search", " "], "the question is empty"),
        (["search", "x", "--limit", "-1"], "whole number from 1 to 50"),
        (["search", "x", "--limi", "1"], "--limi"),
        (["map", "--depth", "9"], "whole number from 1 to 4"),
        (["read", ""], "it is empty"),
        (["index", "--wait", "nan"], "number of seconds"),
        (["index", "--wait"], "expected one argument"),
        (["trust"], "list|grant|forms|freeze|thaw|history"),
        (["trust", "grant", "cursor", "high"], "LEVEL"),
        (["reference", "poems"], "poems"),
        (["install", "emacs"], "choose one of claude-desktop"),
        (["enroll"], "NAME"),
        (["serve", "--http", "0.0.0.0:80"], "set FORGE_HTTP_URL"),
        (["serve", "--http", "over there:80"], "no name or address"),
        (["serve", "--toolsets", "magic"], "is not a toolset"),
        (["demo", ""], "it is empty"),
    ],
    ids=" ".join,
)
def test_wrong_usage_gets_one_sentence(ann: Person, words: list[str], says: str) -> None:
    refused(ann.type(*words), 2, says)


def test_a_process_that_is_wrongly_asked_ends_with_its_code_and_one_sentence(ann: Person) -> None:
    refused(ann.run("search", "x", "--limit", "-1"), 2, "whole number from 1 to 50")


@pytest.mark.parametrize("verb", [["map"], ["index"], ["demo"], ["serve"], ["trust", "list"]], ids=" ".join)
def test_a_missing_folder_gets_one_sentence(ann: Person, verb: list[str]) -> None:
    refused(ann.type(*verb, "--kb", "nowhere"), 1, "there is no such folder")


def test_a_failed_act_gets_one_sentence(ann: Person) -> None:
    refused(ann.here("read", "nothing/here.md"), 1, "nothing at")
    refused(ann.here("map", "nothing/here"), 1, "nothing at")
    refused(ann.here("enroll", "Big Host"), 1, "cannot be a host's name")
    refused(ann.here("trust", "grant", "nobody", "3"), 1, "no host 'nobody' is registered")
    refused(ann.here("trust", "history", "nobody"), 1, "no host 'nobody' is registered")
    refused(ann.here("trust", "grant", "unenrolled", "nan"), 1, "levels go from 0 to 5")
    refused(ann.type("search", "x", "--kb", "kb", "--state-dir", "kb/state"), 1, "inside the knowledge base")
    (ann.folder / "file").write_text("x", encoding="utf-8")
    refused(ann.type("trust", "list", "--kb", "kb", "--state-dir", "file/below"), 1, "file")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_gets_one_sentence(ann: Person) -> None:
    ann.kb.chmod(0)
    try:
        refused(ann.here("map"), 1, "may not be read")
    finally:
        ann.kb.chmod(0o700)


def test_a_damaged_state_gets_one_sentence_also_from_the_doctor(ann: Person) -> None:
    ann.state.mkdir(mode=0o700)
    (ann.state / "state.db").write_bytes(b"SQLite format 3\0" + b"rubbish" * 2000)
    refused(ann.here("search", "x"), 1, "state.db")
    refused(ann.here("trust", "list"), 1, "state.db")
    done = ann.here("doctor", "--json")
    assert done.returncode == 1
    assert [f["what"] for f in json.loads(done.stdout) if f["health"] == "bad"] == ["state"]


@pytest.mark.parametrize("what", ["index", "state"])
def test_the_doctor_looks_at_every_page_of_both_databases(ann: Person, what: str) -> None:
    """A database may open normally and be damaged further in."""
    write(ann.kb, {f"notes/{i}.md": f"# Note {i}\n\nThought number {i} about gardening.\n" for i in range(60)})
    ann.here("index")
    file = ann.state / f"{what}.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sound = file.stat().st_size * 3 // 4  # with the schema
    file.write_bytes(file.read_bytes()[:sound] + b"\xff" * (file.stat().st_size - sound))
    done = ann.here("doctor", "--json")
    assert done.returncode == 1
    findings = {f["what"]: f for f in json.loads(done.stdout) if f["health"] == "bad"}
    assert what in findings
    assert {"index": "rebuild", "state": "backup"}[what] in findings[what]["found"] + findings[what]["mend"]
    assert "Traceback" not in done.stderr


def test_a_port_in_use_gets_one_sentence(ann: Person) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused(ann.run("serve", "--http", f"127.0.0.1:{taken.getsockname()[1]}"), 2, "cannot listen there")


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGPIPE")
@pytest.mark.parametrize(
    "words",
    [
        # A coloured console, plain lines, and work that is done before anything is printed.
        "search gardening",
        "reference tools",
        "index",
        *(
            pytest.param(words, marks=pytest.mark.external)
            for words in (
                *("search gardening --json", "map", "read long.md", "trust list", "enroll zed", "doctor"),
                *("install cursor --print", "demo"),
            )
        ),
    ],
)
def test_a_closed_pipe_ends_the_program_quietly(ann: Person, words: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*PROGRAM, *ann.words(*words.split())]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    os.close(writing)
    assert done.returncode == 141, done.stderr
    assert b"Error" not in done.stderr
    assert b"Traceback" not in done.stderr


def test_index_and_search_name_the_process_that_keeps_the_index(ann: Person) -> None:
    with serving(ann) as server:
        done = ann.here("index")
        assert done.returncode == 0
        assert f"process {server.pid}" in done.stdout
        assert f"all {COUNT} pages in it are up to date" in done.stdout
        rebuild = ann.here("index", "--rebuild", "--wait", "0.1")
        assert rebuild.returncode == 1
        assert "so it was not rebuilt" in rebuild.stdout
        findings = {f["what"]: f for f in ann.json("doctor")}
        assert findings["indexing"]["found"] == f"done by process {server.pid}"


def test_while_another_process_indexes_search_says_so_and_answers_with_what_is_indexed(ann: Person) -> None:
    anyio.run(_keep_the_lease, ann, "4711-0.0.1-x")
    searched = ann.here("search", "router", "--wait", "0.1")
    assert searched.returncode == 1
    assert f"{COUNT} pages changed and are not in the index yet (process 4711 is indexing)" in searched.stderr
    indexed = ann.here("index", "--wait", "0")
    assert indexed.returncode == 1
    assert f"(process 4711): 0 pages are in it, {COUNT} are stale or missing" in indexed.stdout
    findings = {f["what"]: f for f in ann.json("doctor")}
    assert "has another version (0.0.1)" in findings["indexing"]["found"]


def test_two_concurrent_index_commands_do_the_work_once(ann: Person) -> None:
    many = {f"notes/{i}.md": f"# Note {i}\n\nThought number {i} about gardening.\n" for i in range(300)}
    write(ann.kb, many)
    command = [*PROGRAM, *ann.words("index", "--json")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    reports = [json.loads(process.communicate(timeout=TIMEOUT_S)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(report["changed"] for report in reports) == [0, 300 + COUNT]
    assert {report["documents"] for report in reports} == {300 + COUNT}


def test_index_again_costs_nothing_and_a_rebuild_costs_everything(ann: Person) -> None:
    assert [ann.json("index", *words)["changed"] for words in ([], [], ["--rebuild"])] == [COUNT, 0, COUNT]


def test_the_doctor_is_content_with_a_sound_setup(ann: Person) -> None:
    ann.here("index")
    done = ann.here("doctor")
    assert done.returncode == 0
    assert f"{COUNT} pages, up to date" in done.stdout
    assert "bad" not in done.stdout


def test_one_page_is_reported_in_the_singular(ann: Person) -> None:
    for page in ann.kb.rglob("*.md"):
        if page.name != "deploy.md":
            page.unlink()
    assert ann.here("index").stdout.startswith("1 page, 1 changed")
    found = {f["what"]: f["found"] for f in ann.json("doctor")}
    assert found["index"] == "1 page, up to date"
    assert found["hosts"].endswith("and can read and propose")


def test_the_doctor_names_broken_team_agents_and_waiting_proposals(ann: Person) -> None:
    assert "journeys" in {f["what"] for f in ann.json("doctor")}
    (ann.kb / "_agents").mkdir()
    (ann.kb / "_agents" / "review.yaml").write_text("title: Review\nphases: 7\n", encoding="utf-8")
    done = ann.here("doctor", "--json")
    assert done.returncode == 1
    found = {f["what"]: f for f in json.loads(done.stdout)}
    assert found["agents"]["health"] == "bad"
    assert "_agents/review.yaml:1: the agent lacks" in found["agents"]["found"]
    assert found["agents"]["mend"] == "knowledge-forge agents check"


def test_the_doctor_lists_parsing_problems_and_their_repair(ann: Person) -> None:
    broken = {f"p{i:02}.md": "---\ntitle: x\nnever closed\n" for i in range(25)}
    write(ann.kb, broken)
    (ann.kb / "latin.md").write_bytes(b"caf\xe9\n")
    done = ann.here("doctor")
    assert done.returncode == 0
    assert "latin.md: not valid UTF-8" in done.stdout
    assert "save the file as UTF-8" in done.stdout
    told = " ".join(done.stdout.split())
    assert "25 pages: the front matter that line 1 opens is never closed" in told
    assert "p00.md, p01.md, p02.md, … (all with --verbose)" in told
    assert "p24.md" not in told
    assert "p24.md" in ann.here("doctor", "--verbose").stdout
    found = next(f for f in ann.json("doctor") if f["what"] == "pages")
    assert [page["path"] for page in found["pages"]] == sorted(["latin.md", *broken])
    assert all(page["reason"] and page["mend"] for page in found["pages"])


def test_the_doctor_reports_a_secret_unknown_to_this_knowledge_base(ann: Person) -> None:
    secret = ann.json("enroll", "cursor")["FORGE_ENROLMENT"]
    known = {f["what"]: f for f in ann.json("doctor", FORGE_ENROLMENT=secret)}
    assert known["enrolment"]["found"].endswith("the secret of cursor")
    done = ann.here("doctor", FORGE_ENROLMENT="a-lost-secret")
    assert done.returncode == 1
    assert "does not know that secret" in done.stdout
    assert "a-lost-secret" not in done.stdout


@pytest.mark.external  # README's first command
def test_the_demo_shows_facts_of_a_real_server(ann: Person) -> None:
    facts = json.loads(ann.run("demo", "how do we roll back?", "--json").stdout)
    assert facts["indexed"]["done"] == COUNT
    assert facts["search"]["hits"][0]["path"] == "guides/deploy.md"
    assert facts["live"]["found"].endswith("Noor brings the camera.")
    assert (facts["journey"]["waited"], facts["journey"]["ended"]) == ("waiting", "complete")
    assert "is not in" in facts["journey"]["missing"]
    assert facts["trust"]["proposed"]["state"] == "executed"
    assert "level 0" in facts["trust"]["refused"]["why"]
    assert not (ann.kb / "field-notes.md").exists()


@pytest.mark.external
def test_the_demo_reads_well_where_nobody_paints(ann: Person) -> None:
    done = ann.here("demo", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert "Circle 1" in done.stdout
    assert "refused" in done.stdout
    assert max(len(line.rstrip()) for line in done.stdout.splitlines()) <= 80


def test_the_demo_of_an_empty_folder_says_so(ann: Person) -> None:
    (ann.folder / "empty").mkdir()
    refused(ann.type("demo", "--kb", "empty"), 1, "holds no Markdown")


def test_doctor_names_the_file_of_settings_in_force_and_the_one_that_is_ignored(ann: Person) -> None:
    """People with a file in the working directory learn from either command where it belongs."""
    place = ann.folder / "home" / ".config" / "knowledge-forge" / "forge.toml"
    findings = ann.json("doctor")
    assert [f["found"] for f in findings if f["what"] == "settings"] == [
        f"from the environment and flags; there is no configuration file ({place})"
    ]
    place.parent.mkdir(parents=True)
    place.write_text("answer_tokens = 900\n", encoding="utf-8")
    (ann.folder / "forge.toml").write_text("answer_tokens = 800\n", encoding="utf-8")
    findings = ann.json("doctor")
    assert [f["found"] for f in findings if f["what"] == "settings"] == [f"from {place}, the environment and flags"]
    (ignored,) = [f["found"] for f in findings if f["what"] == "setting"]
    assert ignored.startswith(f"{ann.folder / 'forge.toml'} is ignored")
    assert f"move it to {place}" in ignored
    assert ignored in ann.here("map").stderr
