"""`search`, `read` and `map` see what was written a moment ago, or say what is missing; with and without a server."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from contextlib import suppress

import anyio
import pytest

from knowledge.index.indexing_service import LEASE
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.search.freshness import remarks
from mcp_server.presenters.index_state import IndexState
from tests.contract.cli import test_commands as commands
from tests.contract.cli.test_commands import COUNT, PROGRAM, TIMEOUT_S, Person
from tests.doubles.meilisearch import serving as search_server
from tests.support.knowledge_bases.folders import write

ann = commands.ann
OKAPI = {"okapi.md": "---\naliases: [forest giraffe]\n---\n# Okapi\n\nThe okapi nibbles leaves.\n"}
LONG = ("--wait", str(TIMEOUT_S))
"""Enough on any machine."""
COMPLETE = {"complete": True, "waiting": 0, "why": "", "finish": "", "left_out": 0}
pytestmark = pytest.mark.usefixtures("ann")


async def _hold_the_lease(ann: Person) -> None:
    """Another process keeps the lease for a minute and indexes nothing."""
    async with open_state(Settings(kb=ann.kb, state_dir=ann.state)) as state:
        assert await state.acquire_lease(LEASE, "4711-0.0.1-x", now=utc_now(), ttl_s=TIMEOUT_S)


async def _until_it_indexes_or_ends(ann: Person, process: subprocess.Popen[bytes]) -> None:
    async with open_state(Settings(kb=ann.kb, state_dir=ann.state)) as state:
        with anyio.fail_after(TIMEOUT_S):
            while process.poll() is None and await state.lease(LEASE) is None:  # noqa: ASYNC110 - the event happens in another process
                await anyio.sleep(0.02)


def test_a_page_written_a_moment_ago_is_found_read_and_mapped(ann: Person) -> None:
    ann.here("index")
    write(ann.kb, OKAPI)
    assert "nibbles" in ann.here("read", "forest giraffe", *LONG).stdout
    write(ann.kb, {"okapi.md": OKAPI["okapi.md"] + "\nIt sleeps in thickets.\n"})
    found = ann.json("search", "okapi", "thickets", *LONG)
    assert found["hits"][0]["path"] == "okapi.md"
    assert found["index"] == COMPLETE | {"pages": COUNT + 1}
    (ann.kb / "okapi.md").unlink()
    assert "okapi.md" not in ann.here("map", *LONG).stdout
    assert ann.json("map", *LONG)["index"] == COMPLETE | {"pages": COUNT}


def test_a_page_written_while_a_server_runs_is_waited_for(ann: Person) -> None:
    with commands.serving(ann):
        for number in range(3):
            write(ann.kb, {"okapi.md": f"# Okapi\n\nThe okapi number{number} nibbles.\n"})
            found = ann.json("search", f"okapi number{number}", *LONG)
            assert f"number{number}" in found["hits"][0]["snippet"]
            assert found["index"]["complete"]


def test_while_pages_are_missing_there_is_no_verdict_and_the_answer_says_what_completes_it(ann: Person) -> None:
    ann.here("index")
    write(ann.kb, OKAPI)
    anyio.run(_hold_the_lease, ann)
    done = ann.here("search", "rhinoceros", "--wait", "0.1")
    finish = f"knowledge-forge index --kb {ann.kb} --state-dir {ann.state}"
    assert f"Next: {finish}" in " ".join(done.stdout.split())
    assert "unknown:" in done.stdout
    assert "lost" not in done.stdout
    assert done.stderr == (
        "knowledge-forge: 1 page changed and is not in the index yet (process 4711 is indexing); "
        f"`{finish}` completes it\n"
    )
    found = ann.json("search", "rhinoceros", "--no-index")
    assert found["scent"]["level"] == "unknown"
    assert found["index"] == {
        "complete": False,
        "pages": COUNT,
        "left_out": 0,
        "waiting": 1,
        "why": "nothing was indexed for this answer",
        "finish": finish,
    }


def test_a_map_lists_files_that_are_not_indexed_yet(ann: Person) -> None:
    ann.here("index")
    write(ann.kb, {"zoo/okapi.md": "# Okapi\n"})
    done = ann.here("map", "--no-index")
    assert "zoo/" in done.stdout
    assert "1 page changed" in done.stderr


def test_an_unknown_title_is_refused_with_the_pages_that_are_missing(ann: Person) -> None:
    ann.here("index")
    write(ann.kb, OKAPI)
    done = ann.here("read", "forest giraffe", "--no-index")
    assert done.returncode == 1
    assert "1 page changed and is not in the index yet" in done.stderr.splitlines()[0]
    by_path = ann.here("read", "okapi.md", "--no-index")
    assert (by_path.returncode, by_path.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_page_that_cannot_be_read_is_named_and_not_waited_for(ann: Person) -> None:
    ann.here("index")
    write(ann.kb, OKAPI)
    (ann.kb / "okapi.md").chmod(0)
    anyio.run(_hold_the_lease, ann)
    done = ann.here("search", "router", "--wait", "1")
    assert done.stderr.startswith("knowledge-forge: 1 page can't be indexed; `knowledge-forge doctor --kb ")


def test_a_wait_that_is_too_short_keeps_what_was_indexed(ann: Person) -> None:
    write(ann.kb, {f"notes/{i}.md": f"# Note {i}\n\nThought number {i} about gardening.\n" for i in range(1_500)})
    short = ann.json("search", "gardening", "--wait", "0.01")["index"]
    assert (short["complete"], short["pages"] + short["waiting"]) == (False, 1_500 + COUNT)
    assert "--wait SECONDS allows more" in short["why"]
    assert ann.json("search", "gardening", *LONG)["index"]["complete"]


def test_after_a_killed_index_command_the_next_search_completes_the_index(ann: Person) -> None:
    write(ann.kb, {f"notes/{i}.md": f"# Note {i}\n\nThought number {i} about gardening.\n" for i in range(1_500)})
    killed = subprocess.Popen([*PROGRAM, *ann.words("index", "--json")], stdout=subprocess.DEVNULL)
    anyio.run(_until_it_indexes_or_ends, ann, killed)
    killed.kill()
    killed.wait(TIMEOUT_S)
    assert ann.json("search", "gardening", *LONG)["index"] == COMPLETE | {"pages": 1_500 + COUNT}


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_progress_is_drawn_at_a_terminal_only(ann: Person) -> None:
    def errors(*words: str) -> bytes:
        mine, theirs = pty.openpty()
        command = [*PROGRAM, *ann.words("search", "router", *LONG, *words)]
        environment = {**os.environ, "TERM": "xterm"}
        drawn = b""
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as search:
            os.close(theirs)
            with suppress(OSError):  # Linux reports the closed other end as an error
                while block := os.read(mine, 65_536):
                    drawn += block
            os.close(mine)
            assert search.wait(TIMEOUT_S) == 0
        return drawn

    assert b"indexing" in errors()
    write(ann.kb, OKAPI)
    assert errors("--json") == b""
    write(ann.kb, {"okapi.md": "# Okapi\n\nAnother okapi.\n"})
    piped = ann.run("search", "router", *LONG)
    assert piped.stderr == ""


def test_an_empty_folder_is_named_as_the_reason(ann: Person) -> None:
    for page in ann.kb.rglob("*.md"):
        page.unlink()
    assert "the folder holds no Markdown page" in " ".join(ann.here("search", "router", *LONG).stdout.split())


def test_an_interrupted_search_leaves_no_lease_behind(ann: Person) -> None:
    write(ann.kb, {f"notes/{i}.md": f"# Note {i}\n\nThought number {i} about gardening.\n" for i in range(1_500)})
    search = subprocess.Popen([*PROGRAM, *ann.words("search", "gardening", "--json", *LONG)], stdout=subprocess.PIPE)
    anyio.run(_until_it_indexes_or_ends, ann, search)
    search.send_signal(signal.SIGINT)
    printed, _ = search.communicate(timeout=TIMEOUT_S)
    assert search.returncode == 130 or json.loads(printed)["index"]["complete"]

    async def lease() -> object:
        async with open_state(Settings(kb=ann.kb, state_dir=ann.state)) as state:
            return await state.lease(LEASE)

    assert anyio.run(lease) is None


def test_a_missing_word_index_is_a_reason_too() -> None:
    state = IndexState(complete=False, pages=3, why="process 7 is indexing", finish="knowledge-forge index")
    assert remarks(state) == [
        "the index of words is behind the pages (process 7 is indexing); `knowledge-forge index` completes it"
    ]


def test_check_is_no_verdict_while_pages_are_missing(ann: Person) -> None:
    ann.here("index")
    write(ann.kb, OKAPI)
    anyio.run(_hold_the_lease, ann)
    done = ann.here("check", "--wait", "0.1")
    assert done.returncode == 1
    assert "this is no verdict on all pages" in done.stdout
    assert "1 page changed and is not in the index yet (process 4711 is indexing)" in done.stderr
    assert ann.json("check", "--no-index")["index"]["waiting"] == 1


def test_a_search_server_that_is_behind_or_down_leaves_no_search_without_a_verdict(ann: Person) -> None:
    with search_server("key") as double:
        env = {"FORGE_MEILI_URL": double.url, "FORGE_MEILI_KEY": "key"}
        for word in ("okapi", "zebra"):
            write(ann.kb, {f"{word}.md": f"# {word}\n\nThe {word} nibbles.\n"})
            found = ann.json("search", word, "nibbles", *LONG, **env)
            assert (found["hits"][0]["path"], found["index"]["complete"]) == (f"{word}.md", True)
        double.stop()
        write(ann.kb, {"kudu.md": "# Kudu\n\nThe kudu nibbles.\n"})
        found = ann.json("search", "kudu", "nibbles", *LONG, **env)
        assert (found["hits"][0]["path"], found["index"]["complete"]) == ("kudu.md", True)
        double.start()
