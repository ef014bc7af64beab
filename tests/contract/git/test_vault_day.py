"""A vault through a day of three hosts, Obsidian and git pull: 0 lost, a clean git status, and a log that tells who did what.

The hosts are MCP clients, each with a server of its own over stdio. One person types in Obsidian (played by a program that saves
as it does) and synchronises with Git in between; a colleague pushes from another clone. FORGE_TEST_DAY multiplies the work.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent

from knowledge.git.checkout import REST_S
from knowledge.git.commit_message import act_of
from knowledge.git.commit_records import CommitRecords
from knowledge.history.audit.chain import fields_of
from knowledge.history.audit.inspection import inspect
from mcp_server.app.factories.act_commits import commits_of
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.git import git_examined
from tests.support.git.repositories import Repository, alone
from tests.support.hosts.writers import let_in
from tests.support.writing.obsidian import small_pages

ROOT = Path(__file__).parents[3]
HOSTS = ("claude", "cursor", "codex")
TIMES = int(os.environ.get("FORGE_TEST_DAY", "1"))
EDITS, SYNCS, TYPED_BETWEEN, PUSHES = 40 * TIMES, 12 * TIMES, 8, 12 * TIMES
PAUSE_S = 0.6
"""Between two saves or edits of one writer. Between two synchronisations is time for the commits of the hosts."""
TRIES = 200
COLLEAGUE = {"user.name": "Bob Example", "user.email": "bob@example.org"}
PERSON = {"user.name": "Ann Example", "user.email": "ann@example.org"}


@dataclass
class Day:
    """The vault, and every sentence that somebody wrote, with its writer."""

    vault: Repository
    clone: Repository
    told: dict[str, str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)


async def in_git(repository: Repository, *arguments: str) -> bool:
    """Run git as a person does: if another git holds the index, again. Return whether it succeeded."""
    for _ in range(TRIES):
        done = await anyio.to_thread.run_sync(_run, repository.folder, arguments)
        if b"index.lock" not in done.stderr:
            return done.returncode == 0
        await anyio.sleep(0.02)
    raise AssertionError(f"git {arguments} never got the index")


def _run(folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "GIT_EDITOR": "true"}
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment)


def begun(tmp_path: Path) -> Day:
    """Return a vault of real notes, with a bare repository and a colleague's clone."""
    bare, vault, clone = (Repository(tmp_path / name) for name in ("bare", "vault", "clone"))
    shutil.copytree(ROOT / "kb", vault.folder)
    (vault.folder / ".obsidian").mkdir()
    vault.write(".obsidian/app.json", '{"alwaysUpdateLinks": true}\n')
    vault.write(".gitignore", ".obsidian/workspace.json\n.trash/\n.forge-*.tmp\n")
    # Both sides of a conflict stay, as people set it up for notes.
    vault.write(".gitattributes", "*.md merge=union\n")
    vault.git("init", "-q")
    for key, value in PERSON.items():
        vault.git("config", key, value)
    vault.commit("The notes")
    bare.folder.mkdir()
    bare.git("init", "-q", "--bare")
    vault.git("remote", "add", "origin", str(bare.folder))
    vault.git("push", "-q", "-u", "origin", "main")
    clone.folder.mkdir()
    clone.git("clone", "-q", str(bare.folder), ".")
    for key, value in COLLEAGUE.items():
        clone.git("config", key, value)
    return Day(vault, clone)


@asynccontextmanager
async def host_of(settings: Settings, name: str, errors: Path) -> AsyncIterator[Client]:
    """Yield a client with a server process of its own, which commits."""
    allowed = await let_in(settings, name)
    assert allowed.enrolment is not None
    environment = {
        **{key: os.environ[key] for key in ("PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "XDG_CONFIG_HOME")},
        "HOME": str(errors.parent),
        "FORGE_KB": str(settings.kb),
        "FORGE_STATE_DIR": str(settings.state_dir),
        "FORGE_ENROLMENT": allowed.enrolment,
        "FORGE_GIT": "commit",
        "FORGE_OPEN_BROWSER": "false",
    }
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "mcp_server", "serve"], env=environment, cwd=ROOT
    )
    with errors.open("a", encoding="utf-8") as log:
        async with Client(stdio_client(server, errlog=log)) as client:
            yield client


async def called(client: Client, tool: str, **arguments: object) -> dict[str, object]:
    """Return the answer of a tool; an error as `error`."""
    result = await client.call_tool(tool, dict(arguments))
    first = result.content[0]
    assert isinstance(first, TextContent)
    return {"error": first.text} if result.is_error else dict(json.loads(first.text))


async def works(day: Day, name: str, client: Client) -> None:
    """Edit pages, make some, and move one now and then, as a host."""
    draw = random.Random(name)  # noqa: S311 - repeatable
    for number in range(EDITS):
        sentence = f"{name} {number:04} {draw.randrange(16**8):08x}"
        if draw.random() < 0.1:
            path = f"notes/{name}-{number}.md"
            answer = await called(client, "kb_merge", path=path, content=f"# {name} {number}\n\n{sentence}\n")
        else:
            page = draw.choice(small_pages(day.vault.folder)).relative_to(day.vault.folder).as_posix()
            read = await called(client, "kb_read", path=page, view="full")
            if "error" in read:
                day.refused["read"] += 1
                continue
            content = f"{str(read['text']).rstrip()}\n\n{sentence}\n"
            answer = await called(
                client, "kb_merge", path=page, content=content, base_revision=read["revision"], section="*"
            )
        if answer.get("status") == "done":
            day.told[sentence] = name
            await anyio.sleep(PAUSE_S)
        else:
            day.refused[str(answer.get("status") or answer)[:200]] += 1


async def lives(day: Day, seed: int) -> None:
    """Type in Obsidian, and synchronise in between."""
    command = [sys.executable, "-m", "tests.support.writing.obsidian", str(day.vault.folder), str(seed)]
    async with await anyio.open_process(command, cwd=ROOT) as obsidian:
        assert obsidian.stdin is not None
        assert obsidian.stdout is not None
        for _ in range(SYNCS):
            for _ in range(TYPED_BETWEEN):
                await obsidian.stdin.send(b"\n")
                day.told[(await obsidian.stdout.receive()).decode().strip()] = "obsidian"
                await anyio.sleep(PAUSE_S)
            await synchronises(day.vault, "Notes from Obsidian")
        await obsidian.stdin.aclose()


async def synchronises(repository: Repository, message: str) -> None:
    """Commit everything, pull, and push, as people's scripts and plugins do."""
    for _ in range(TRIES):
        await in_git(repository, "add", "-A")
        await in_git(repository, "commit", "-q", "-m", message)
        pulled = await in_git(repository, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
        if pulled and await in_git(repository, "push", "-q", "origin", "main"):
            return
        await in_git(repository, "merge", "--abort")
    raise AssertionError("the person never got through")


async def pushes(day: Day) -> None:
    """Write in the other clone and push, as the colleague."""
    draw = random.Random(7)  # noqa: S311 - repeatable
    for number in range(PUSHES):
        for _ in range(3):
            sentence = f"colleague {number:04} {draw.randrange(16**8):08x}"
            page = draw.choice(small_pages(day.clone.folder))
            page.write_text(f"{page.read_text(encoding='utf-8').rstrip()}\n\n{sentence}\n", encoding="utf-8")
            day.told[sentence] = "colleague"
        await synchronises(day.clone, "From the colleague")
        await anyio.sleep(10 * PAUSE_S)


def first_commits(vault: Repository, told: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return for each sentence the author and the id of the first commit that adds it."""
    found: dict[str, tuple[str, str]] = {}
    commit = ("", "")
    form = "--format=\x01%an\x02%H"
    log = vault.git("log", "-p", "-U0", "--reverse", "--topo-order", "--no-merges", "--no-ext-diff", form)
    for line in log.split("\n"):
        if line.startswith("\x01"):
            author, _, id_ = line[1:].partition("\x02")
            commit = (author, id_)
        elif line.startswith("+") and line[1:] in told:
            found.setdefault(line[1:], commit)
    return found


@pytest.mark.slow
async def test_a_day_of_three_hosts_obsidian_and_git_pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, tmp_path)
    day = begun(tmp_path)
    settings = Settings(kb=day.vault.folder, state_dir=tmp_path / "state", open_browser=False, git="commit")

    async def host(name: str) -> None:
        async with host_of(settings, name, tmp_path / f"{name}.log") as client:
            await works(day, name, client)

    async with anyio.create_task_group() as tasks:
        for name in HOSTS:
            tasks.start_soon(host, name)
        tasks.start_soon(lives, day, 3)
        tasks.start_soon(pushes, day)
    await synchronises(day.vault, "Notes from Obsidian")

    pages = "\n".join(path.read_text(encoding="utf-8") for path in day.vault.folder.rglob("*.md"))
    lost = {sentence: who for sentence, who in day.told.items() if sentence not in pages}
    assert not lost
    async with open_base(settings) as base:
        # The last server may have ended while the person had something staged; the next one makes these commits.
        await anyio.sleep(REST_S)
        await commits_of(base).commit_pending()
        assert day.vault.status == []
        assert not (await inspect(base.state.ledger)).broken
        records = await base.state.ledger.records(limit=100_000)
        acts = [act for record in records if (act := act_of(record.seq, fields_of(record))) is not None]
        outcomes = await CommitRecords(base.state.tables).of([act.record for act in acts])
        finding = await git_examined(base, settings)
    assert finding is not None
    assert finding.health == "ok", finding
    made = Counter(int(one) for one in day.vault.log("%(trailers:key=Forge-Act,valueonly)") if one.strip())
    assert set(made.values()) <= {1}
    fates = Counter(one.outcome for one in outcomes.values())
    assert sorted(made) == sorted(record for record, one in outcomes.items() if one.outcome == "made")
    who = told_by(day)
    wrong = {
        sentence: (day.told[sentence], author) for sentence, author in who.items() if not said_by(sentence, author)
    }
    by_sync = [sentence for sentence in wrong if wrong[sentence][1] == PERSON["user.name"]]
    numbers = (
        f"{Counter(day.told.values())}, acts {fates}, refused {day.refused}, by the person's commits {len(by_sync)}"
    )
    print(f"\n{numbers}")  # noqa: T201 - with -s
    # A person who commits everything in the moment between an act and its commit commits that act.
    assert len(by_sync) == len(wrong)
    assert len(by_sync) <= fates["contained"] + fates["skipped"]


def told_by(day: Day) -> Mapping[str, str]:
    """Return the author of each sentence, as the log tells it."""
    found = first_commits(day.vault, day.told)
    assert set(found) == set(day.told)
    return {sentence: author for sentence, (author, _) in found.items()}


def said_by(sentence: str, author: str) -> bool:
    """Return whether the author of a commit is the writer of the sentence, or the server that put it back."""
    writer = sentence.split(maxsplit=1)[0]
    expected = {"obsidian": PERSON["user.name"], "colleague": COLLEAGUE["user.name"]}.get(writer)
    return author in ("Knowledge Forge", expected) or author.startswith(f"{writer} on behalf of ")
