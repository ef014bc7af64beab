"""Servers on two machines whose pages are in one database: real processes, real MCP clients, each machine with its own copy."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import CallToolResult

from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import DATABASE, Settings
from mcp_server.gate.host_registration import Principal, enrol, os_user
from mcp_server.gate.trust.scores import grant
from tests.support.state.postgres import PASSWORD, PostgresServer

pytestmark = pytest.mark.external

ROOT = Path(__file__).parents[3]
SOON_S = 60.0
PAGE = "guides/deploy.md"
TEXT = "# Deploy\n\nTo roll back the payment service, redeploy the last build.\n\n## Times\n\n- It takes 5 minutes.\n"


@dataclass(frozen=True, slots=True)
class Team:
    """One knowledge base in a database, and the machines that serve it."""

    folder: Path
    url: str
    schema: str

    def kb(self, machine: str) -> Path:
        copy = self.folder / machine / "kb"
        copy.mkdir(parents=True, exist_ok=True)
        return copy

    def settings(self, machine: str = "one") -> Settings:
        return Settings(
            kb=self.kb(machine),
            state_dir=self.folder / machine / "state",
            database_url=self.url,
            database_schema=self.schema,
            pages=DATABASE,
        )

    async def secret(self) -> str:
        """Return the secret of a host that may do everything with pages."""
        async with open_state(self.settings()) as state:
            secret = await enrol(state, "cursor", now=utc_now())
            await grant(state, Principal(os_user(), "cursor").id, 5, by="ann", now=utc_now())
        return secret

    def environment(self, machine: str, **more: str) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT),
            "FORGE_KB": str(self.kb(machine)),
            "FORGE_STATE_DIR": str(self.folder / machine / "state"),
            "FORGE_DATABASE_URL": self.url,
            "FORGE_DATABASE_SCHEMA": self.schema,
            "FORGE_PAGES": DATABASE,
            **more,
        }

    def run(self, machine: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Return what the program said on that machine."""
        return subprocess.run(
            [sys.executable, "-m", "mcp_server", *words],
            env=self.environment(machine, **more),
            cwd=ROOT,
            capture_output=True,
            encoding="utf-8",
            timeout=SOON_S,
            check=False,
        )

    def mirrored(self, machine: str) -> Any:
        """Exchange changes of the machine's folder with the database once; return what was done."""
        return json.loads(self.run(machine, "mirror", "--once", "--json").stdout)

    @asynccontextmanager
    async def client(self, machine: str, secret: str) -> AsyncIterator[Caller]:
        """Yield a client of its own server process on that machine."""
        environment = self.environment(machine, FORGE_ENROLMENT=secret)
        log = self.folder / f"{machine}.log"
        process = StdioServerParameters(
            command=sys.executable, args=["-m", "mcp_server", "serve"], env=environment, cwd=ROOT
        )
        with log.open("a", encoding="utf-8") as errors:
            async with Client(stdio_client(process, errlog=errors)) as client:
                yield Caller(client)
        assert PASSWORD not in log.read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Caller:
    """A client of one server."""

    client: Client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        assert not result.is_error, result.content
        return dict(result.structured_content or {})

    async def read(self, path: str) -> str:
        return str((await self.call("kb_read", path=path, view="full"))["text"])

    async def revision(self, path: str) -> str:
        return str((await self.call("kb_read", path=path))["revision"])

    async def refusal(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        assert result.is_error
        return str(getattr(result.content[0], "text", ""))

    async def finds(self, path: str) -> None:
        """Return once a search finds the page."""
        with anyio.fail_after(SOON_S):
            while True:
                hits = (await self.call("kb_search", query="roll back the payment service"))["hits"]
                if path in [hit["path"] for hit in hits]:
                    return
                await anyio.sleep(0.05)


@pytest.fixture
def team(tmp_path: Path, postgres: PostgresServer, schema: str) -> Team:
    return Team(tmp_path, postgres.url(), schema)


def files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text(encoding="utf-8")
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


async def test_what_one_server_acknowledged_the_other_reads_with_its_next_call(team: Team) -> None:
    secret = await team.secret()
    async with team.client("one", secret) as one, team.client("two", secret) as two:
        made = await one.call("kb_merge", path=PAGE, content=TEXT, source="user")
        assert await two.revision(PAGE) == made["revision"]
        await two.finds(PAGE)
        edited = await two.call(
            "kb_merge",
            path=PAGE,
            content=TEXT.replace("5 minutes", "5 minutes at night"),
            source="user",
            base_revision=made["revision"],
        )
        assert edited["status"] == "done"
        assert "5 minutes at night" in await one.read(PAGE)
        moved = await one.call("kb_move", path=PAGE, to="archive/deploy.md")
        assert moved["path"] == "archive/deploy.md"
        assert "roll back" in await two.read("archive/deploy.md")
        assert "nothing at" in await two.refusal("kb_read", path=PAGE)
        last = await two.call(
            "kb_merge",
            path="archive/deploy.md",
            content=TEXT.replace("5 minutes", "6 minutes"),
            source="user",
            base_revision=edited["revision"],
        )
        await two.call("kb_delete", path="archive/deploy.md", base_revision=last["revision"])
        assert "nothing at" in await one.refusal("kb_read", path="archive/deploy.md")
        history = await one.call("kb_history", path="archive/deploy.md")
        assert len(history["revisions"]) == 5
        await one.call("kb_revert", path="archive/deploy.md", revision=last["revision"])
        assert "6 minutes" in await two.read("archive/deploy.md")
    assert files(team.kb("one")) == files(team.kb("two"))
    async with team.client("two", secret) as again:
        assert "6 minutes" in await again.read("archive/deploy.md")
        await again.finds("archive/deploy.md")


async def test_both_servers_write_one_page_at_once_and_nothing_is_lost(team: Team) -> None:
    secret = await team.secret()
    sections = "".join(f"\n## Part {number}\n\nText {number}.\n" for number in range(12))
    async with team.client("one", secret) as one, team.client("two", secret) as two:
        base = (await one.call("kb_merge", path="log.md", content=f"# Log\n{sections}", source="user"))["revision"]

        async def write(caller: Caller, number: int) -> None:
            text = f"# Log\n{sections}".replace(f"Text {number}.", f"Text {number}, by one of two servers.")
            done = await caller.call("kb_merge", path="log.md", content=text, source="user", base_revision=base)
            assert done["status"] == "done", done

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(write, (one, two)[number % 2], number)
        text = await one.read("log.md")
        assert all(f"Text {number}, by one of two servers." in text for number in range(12))
        assert await two.read("log.md") == text
        assert len((await two.call("kb_history", path="log.md"))["revisions"]) == 13


async def test_an_edit_in_one_machines_folder_reaches_the_other_and_its_listeners(team: Team) -> None:
    secret = await team.secret()
    async with team.client("one", secret) as one, team.client("two", secret) as two:
        await one.call("kb_merge", path=PAGE, content=TEXT, source="user")
        await two.revision(PAGE)
        async with one.client.listen(resource_subscriptions=[f"kb://doc/{PAGE}"]) as heard:
            file = team.kb("two") / PAGE
            file.write_text(TEXT.replace("5 minutes", "7 minutes"), encoding="utf-8")
            with anyio.fail_after(SOON_S):
                async for event in heard:  # the first ones may be of the page as it was
                    assert isinstance(event, ResourceUpdated)
                    if "7 minutes" in await one.read(PAGE):
                        break
        picture = team.kb("two") / "img" / "a.svg"
        picture.parent.mkdir()
        picture.write_text("<svg/>", encoding="utf-8")
        with anyio.fail_after(SOON_S):
            while "img/a.svg" not in files(team.kb("one")):  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)


async def test_a_machine_that_lost_its_copy_and_its_state_gets_all_pages_again(team: Team) -> None:
    secret = await team.secret()
    async with team.client("one", secret) as one:
        await one.call("kb_merge", path=PAGE, content=TEXT, source="user")
    before = files(team.kb("one"))
    shutil.rmtree(team.folder / "one")
    async with team.client("one", secret) as one:
        assert "roll back" in await one.read(PAGE)
        await one.finds(PAGE)
    assert files(team.kb("one")) == before


async def test_a_move_rewrites_links_on_all_machines_in_one_act(team: Team) -> None:
    secret = await team.secret()
    async with team.client("one", secret) as one, team.client("two", secret) as two:
        for number in range(3):
            text = f"# Page {number}\n\nSee [x](target.md).\n"
            await one.call("kb_merge", path=f"{number}.md", content=text, source="user")
        await one.call("kb_merge", path="target.md", content="# Target\n\nText.\n", source="user")
        moved = await two.call("kb_move", path="target.md", to="sub/target.md")
        assert moved["path"] == "sub/target.md"
        assert "sub/target.md" in await one.read("1.md")
        history = await one.call("kb_history", path="sub/target.md")
        assert history["revisions"][0]["moved_from"] == "target.md"
    assert "sub/target.md" in files(team.kb("one"))["2.md"]


async def test_a_mirror_exchanges_edits_with_a_server_and_may_be_a_vault(team: Team) -> None:
    secret = await team.secret()
    async with team.client("one", secret) as one:
        await one.call("kb_merge", path=PAGE, content=TEXT, source="user")
        (team.kb("laptop") / ".obsidian").mkdir()
        assert team.mirrored("laptop") == {"taken": [], "failed": {}, "lacking": {}}
        assert files(team.kb("laptop")) == {PAGE: TEXT}
        (team.kb("laptop") / PAGE).write_text(TEXT.replace("5 minutes", "7 minutes"), encoding="utf-8")
        (team.kb("laptop") / "new.md").write_text("# New\n", encoding="utf-8")
        revision = await one.revision(PAGE)
        changed = TEXT.replace("the last build", "the build before")
        await one.call("kb_merge", path=PAGE, content=changed, source="user", base_revision=revision)
        assert team.mirrored("laptop") == {"taken": [PAGE, "new.md"], "failed": {}, "lacking": {}}
        both = changed.replace("5 minutes", "7 minutes")
        assert files(team.kb("laptop")) == {PAGE: both, "new.md": "# New\n"}
        assert (await one.read(PAGE)).strip() == both.strip()
    refused = team.run("laptop", "map")
    assert refused.returncode == 1
    assert ".obsidian" in refused.stderr
    assert team.run("laptop", "mirror", FORGE_PAGES="folder").returncode == 2


def test_the_doctor_says_where_the_pages_are_and_what_waits_in_the_copy(team: Team) -> None:
    assert team.mirrored("one")["taken"] == []
    (team.kb("one") / "new.md").write_text("---\nsummary: New.\n---\n# New\n", encoding="utf-8")
    findings = [f for f in json.loads(team.run("one", "doctor", "--json").stdout) if f["what"] in ("place", "copy")]
    assert [(f["what"], f["health"]) for f in findings] == [("place", "ok"), ("copy", "note")]
    assert str(team.kb("one")) in findings[0]["found"]
    assert "1 edit in the copy is not in the database yet: new.md" in findings[1]["found"]
    (team.kb("two") / "mine.md").write_text("# Mine\n", encoding="utf-8")
    refused = team.run("two", "map")
    assert "it has other files: mine.md" in refused.stderr


async def test_while_the_database_is_away_pages_are_read_and_nothing_is_written(
    team: Team, fragile_postgres: PostgresServer
) -> None:
    secret = await team.secret()
    async with team.client("one", secret) as one:
        made = await one.call("kb_merge", path=PAGE, content=TEXT, source="user")
        await one.finds(PAGE)
        await anyio.to_thread.run_sync(fragile_postgres.stop)
        assert "roll back" in await one.read(PAGE)
        await one.finds(PAGE)
        changed = TEXT.replace("5 minutes", "7 minutes")
        wanted = {"path": PAGE, "content": changed, "source": "user", "base_revision": made["revision"]}
        refusal = await one.refusal("kb_merge", **wanted)
        assert "cannot use PostgreSQL" in refusal or "state database cannot be read" in refusal
        assert files(team.kb("one")) == {PAGE: TEXT}
        await anyio.to_thread.run_sync(fragile_postgres.start)
        with anyio.fail_after(SOON_S):
            while (await one.client.call_tool("kb_merge", wanted)).is_error:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)
        assert "7 minutes" in await one.read(PAGE)


def test_a_backup_holds_the_pages_and_a_restore_takes_the_copies_back(team: Team) -> None:
    team.mirrored("one")
    (team.kb("one") / "a.md").write_text("# A\n", encoding="utf-8")
    (team.kb("one") / "a.bin").write_bytes(b"\x00\x01")
    assert team.mirrored("one")["taken"] == ["a.bin", "a.md"]
    saved = team.run("one", "state", "backup", str(team.folder / "saved.db"))
    assert saved.returncode == 0, saved.stderr
    assert "the Markdown files" not in saved.stderr
    (team.kb("one") / "a.md").write_text("# A, later\n", encoding="utf-8")
    (team.kb("one") / "b.md").write_text("# B\n", encoding="utf-8")
    assert team.mirrored("one")["taken"] == ["a.md", "b.md"]
    restored = team.run("one", "state", "restore", str(team.folder / "saved.db"), "--yes")
    assert restored.returncode == 0, restored.stderr
    assert team.mirrored("one") == team.mirrored("two") == {"taken": [], "failed": {}, "lacking": {}}
    assert sorted(file.name for file in team.kb("one").iterdir()) == ["a.bin", "a.md"]
    assert (team.kb("one") / "a.md").read_text(encoding="utf-8") == "# A\n"
    assert (team.kb("two") / "a.bin").read_bytes() == b"\x00\x01"
