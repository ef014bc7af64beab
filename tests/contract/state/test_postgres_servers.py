"""The program on PostgreSQL: real processes that share one database, a command line, and a database that goes away."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import CallToolResult

from knowledge.state.locations import default_schema, indexing_lease
from mcp_server.__main__ import main
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import REMEMBERED_S, Principal, UnknownSecret, enrol, os_user
from mcp_server.gate.trust.callers import Callers
from mcp_server.gate.trust.scores import grant
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import PASSWORD, PostgresServer

pytestmark = pytest.mark.external

ROOT = Path(__file__).parents[3]
PAGE = "kb://doc/guides/deploy.md"
SOON_S = 60.0


@dataclass(frozen=True, slots=True)
class Site:
    """One knowledge base on one machine, as its processes' settings name it."""

    folder: Path
    kb: Path
    url: str
    schema: str

    def settings(self, machine: str = "one") -> Settings:
        return Settings(kb=self.kb, state_dir=self.folder / machine, database_url=self.url, database_schema=self.schema)

    def environment(self, machine: str = "one", **more: str) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT),
            "FORGE_KB": str(self.kb),
            "FORGE_STATE_DIR": str(self.folder / machine),
            "FORGE_DATABASE_URL": self.url,
            "FORGE_DATABASE_SCHEMA": self.schema,
            **more,
        }

    @asynccontextmanager
    async def client(self, machine: str, **more: str) -> AsyncIterator[Client]:
        """Yield a client of its own server process on that machine."""
        log = self.folder / f"{machine}.log"
        process = StdioServerParameters(
            command=sys.executable, args=["-m", "mcp_server", "serve"], env=self.environment(machine, **more), cwd=ROOT
        )
        with log.open("w", encoding="utf-8") as errors:
            async with Client(stdio_client(process, errlog=errors)) as client:
                yield client
        assert PASSWORD not in log.read_text(encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, postgres: PostgresServer, schema: str) -> Site:
    return Site(tmp_path, write(tmp_path / "kb"), postgres.url(), schema)


async def found(client: Client) -> list[str]:
    result = await client.call_tool("kb_search", {"query": "roll back the payment service"})
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    content: Mapping[str, Any] = result.structured_content or {}
    return [hit["path"] for hit in content["hits"]]


async def said(client: Client, tool: str, arguments: dict[str, Any]) -> str | None:
    """Return the sentence of a refusal, None for an answer."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    return str(getattr(result.content[0], "text", "")) if result.is_error else None


async def until(client: Client, tool: str, arguments: dict[str, Any], says: str | None) -> None:
    """Return once the tool answers like this: None for success, else a refusal with these words."""
    with anyio.fail_after(SOON_S):
        while True:
            sentence = await said(client, tool, arguments)
            if sentence is None if says is None else says in (sentence or ""):
                return
            await anyio.sleep(0.05)


async def test_servers_on_two_machines_share_the_state_and_each_keeps_its_own_index(site: Site) -> None:
    """A change announced by one of them reaches the other's client, and both find the new text."""
    async with site.client("one") as one, site.client("two") as two:
        for client in (one, two):
            with anyio.fail_after(SOON_S):
                while "guides/deploy.md" not in await found(client):  # noqa: ASYNC110 - another process
                    await anyio.sleep(0.05)
        async with open_state(site.settings()) as state, two.listen(resource_subscriptions=[PAGE]) as heard:
            await state.publish("doc", ["guides/deploy.md"])
            with anyio.fail_after(SOON_S):
                async for event in heard:
                    assert isinstance(event, ResourceUpdated)
                    assert event.uri == PAGE
                    break
            leases = [await state.lease(indexing_lease(site.folder / machine)) for machine in ("one", "two")]
            assert all(leases), "each machine indexes for itself"
            assert len({lease.holder for lease in leases if lease}) == 2


async def test_of_two_servers_on_one_machine_one_indexes_and_the_others_client_is_notified(site: Site) -> None:
    async with site.client("one") as first:
        with anyio.fail_after(SOON_S):
            while "guides/deploy.md" not in await found(first):  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)
        async with site.client("one") as second, second.listen(resource_subscriptions=[PAGE]) as heard:
            (site.kb / "guides" / "deploy.md").write_text("# Changed\n", encoding="utf-8")
            with anyio.fail_after(SOON_S):
                async for event in heard:
                    assert isinstance(event, ResourceUpdated)
                    break


class Person:
    """A person at a terminal, whose environment names the database. No output contains the password."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._site, self._monkeypatch, self._capsys = site, monkeypatch, capsys

    def type(self, *words: str, code: int = 0, **more: str) -> str:
        """Return the output of the program, run in this process; its stderr if it failed."""
        self._capsys.readouterr()
        with self._monkeypatch.context() as patch:
            for name, value in self._site.environment(**more).items():
                patch.setenv(name, value)
            assert main(words) == code
        printed, errors = self._capsys.readouterr()
        assert PASSWORD not in printed + errors
        return str(errors if code else printed)

    def json(self, *words: str) -> Any:
        return json.loads(self.type(*words, "--json"))


@pytest.fixture
def ann(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    return Person(site, monkeypatch, capsys)


def test_enrolling_granting_and_the_doctor_work_on_the_database(site: Site, ann: Person) -> None:
    assert ann.type("enroll", "cursor").startswith("FORGE_ENROLMENT=")
    ann.type("trust", "grant", "cursor", "3")
    listed = {row["principal"].rpartition("@")[2]: row["level"] for row in ann.json("trust", "list")}
    assert listed == {"cursor": 3, "unenrolled": 2}
    assert [change["to"] for change in ann.json("trust", "history", "cursor")] == [3.0]
    assert not (site.folder / "one" / "state.db").exists()
    ann.type("index")
    findings = {finding["what"]: finding for finding in ann.json("doctor")}
    assert findings["state"]["health"] == "ok"
    assert findings["state"]["found"].startswith("PostgreSQL at 127.0.0.1")
    assert findings["hosts"]["found"] == "registered: cursor"


def test_without_a_name_the_schema_is_the_folders(site: Site, ann: Person) -> None:
    ann.type("enroll", "cursor", FORGE_DATABASE_SCHEMA="")
    assert "cursor" in ann.type("trust", "list", FORGE_DATABASE_SCHEMA=default_schema(site.kb))
    assert "cursor" not in ann.type("trust", "list")


def test_an_unreachable_database_gets_one_sentence(ann: Person) -> None:
    nobody = f"postgresql://forge:{PASSWORD}@127.0.0.1:1/x"
    for words in (["trust", "list"], ["enroll", "cursor"], ["index"], ["serve"]):
        (line,) = ann.type(*words, code=1, FORGE_DATABASE_URL=nobody).splitlines()
        assert "cannot use PostgreSQL at 127.0.0.1:1/x" in line
        assert "refused" in line
    (line,) = ann.type("serve", code=2, FORGE_DATABASE_URL=f"mysql://a:{PASSWORD}@b/c").splitlines()
    assert "FORGE_DATABASE_URL (environment): it is not like postgresql://" in line


def test_a_server_with_an_unreachable_database_ends_with_one_sentence_and_nothing_on_the_wire(site: Site) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mcp_server", "serve"],
        env=site.environment(FORGE_DATABASE_URL=f"postgresql://forge:{PASSWORD}@127.0.0.1:1/x"),
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "cannot use PostgreSQL at 127.0.0.1:1/x" in line
    assert PASSWORD not in line


async def test_during_a_database_outage_reading_continues_and_afterwards_all_is_well(
    site: Site, fragile_postgres: PostgresServer
) -> None:
    """Design, section 6: level 2 and up gets a retryable error, reads continue with a grant known for a minute."""
    async with open_state(site.settings()) as state:
        secret = await enrol(state, "cursor", now=utc_now())
        await grant(state, Principal(os_user(), "cursor").id, 3, by="ann", now=utc_now())
    async with site.client("one", FORGE_ENROLMENT=secret) as client, site.client("two") as stranger:
        for reader in (client, stranger):
            with anyio.fail_after(SOON_S):
                while "guides/deploy.md" not in await found(reader):  # noqa: ASYNC110 - another process
                    await anyio.sleep(0.05)
        async with client.listen(resource_subscriptions=[PAGE]) as heard:
            await anyio.to_thread.run_sync(fragile_postgres.stop)
            for reader in (client, stranger):
                assert await said(reader, "kb_read", {"path": "guides/deploy.md"}) is None
                assert "guides/deploy.md" in await found(reader)
            # Tools that need the caller's trust record cannot answer.
            assert "PostgreSQL at 127.0.0.1" in str(await said(client, "trust_status", {}))
            await anyio.to_thread.run_sync(fragile_postgres.start)
            await until(client, "trust_status", {}, None)
            (site.kb / "guides" / "deploy.md").write_text("# Changed\n", encoding="utf-8")
            with anyio.fail_after(SOON_S):
                async for event in heard:
                    assert isinstance(event, ResourceUpdated)
                    break


async def test_a_caller_of_more_than_a_minute_ago_is_a_stranger_during_an_outage(
    site: Site, fragile_postgres: PostgresServer
) -> None:
    now = 1000.0
    async with open_state(site.settings()) as state:
        callers = Callers(state, "ann", utc_now, lambda: now)
        secret = await enrol(state, "cursor", now=utc_now())
        assert (await callers.named(secret)).host == "cursor"
        with pytest.raises(UnknownSecret):
            await callers.named("wrong")
        await anyio.to_thread.run_sync(fragile_postgres.stop)
        assert (await callers.named(secret)).host == "cursor"
        assert not (await callers.named(None)).enrolled
        for unknown, later in (("wrong", 0.0), (secret, REMEMBERED_S + 1)):
            now += later
            with pytest.raises(Exception, match="cannot use PostgreSQL"):
                await callers.named(unknown)


async def test_an_unknown_caller_is_refused_in_one_sentence_during_an_outage(
    site: Site, fragile_postgres: PostgresServer
) -> None:
    """The gate fails closed: a failed look-up of a secret must not count as an unregistered caller with more rights."""
    settings = replace(site.settings(), enrolment="a secret that nobody looked up yet")
    async with open_app(settings, indexing=False) as app, Client(app.server) as client:
        await anyio.to_thread.run_sync(fragile_postgres.stop)
        assert "the state database cannot be read" in str(await said(client, "kb_read", {"path": "guides/deploy.md"}))
        with pytest.raises(MCPError, match="the state database cannot be read"):
            await client.read_resource(PAGE)
