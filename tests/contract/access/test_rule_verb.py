"""`rule` in a terminal, and the hosts that it binds."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from knowledge.access.directory import Directory, DirectoryEntry
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.cli.people.directory import rule_rows
from mcp_server.gate.host_registration import enrol
from tests.support.access.worlds import indexed
from tests.support.hosts.persons import ME, Person
from tests.support.hosts.writers import Writer
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened

pytestmark = pytest.mark.security


def read_as(person: Person, host: str, path: str) -> str:
    """Return what that host reads at the path: its title, or why it is refused."""

    async def read() -> str:
        async with open_state(person.settings) as state:
            secret = await enrol(state, host, now=utc_now())
        settings = replace(person.settings, enrolment=secret)
        async with opened(settings, indexing=False, announcing=False) as app, connect(app) as client:
            await indexed(app)
            caller = Writer(client, app, person.kb)
            found = await client.call_tool("kb_read", {"path": path})
            return (
                await caller.refused("kb_read", path=path)
                if found.is_error
                else str((found.structured_content or {})["title"])
            )

    return asyncio.run(read())


def test_a_rule_that_is_set_in_a_terminal_binds_hosts_at_once_until_it_is_removed(tmp_path: Path) -> None:
    write(tmp_path / "kb")
    ann = Person(tmp_path)
    assert ann.here("people", "add", "bob", f"{ME}@cursor").returncode == 0
    assert read_as(ann, "zed", "guides/deploy.md") == "Deploying the payment service"
    listed = ann.here("rule", "set", "./guides/", "bob", "write").stdout
    assert all(word in listed for word in ("guides/", "bob", "write"))
    assert read_as(ann, "zed", "guides/deploy.md").startswith("kb_read: nothing at 'guides/deploy.md'")
    assert read_as(ann, "cursor", "guides/deploy.md") == "Deploying the payment service"
    assert "no folder has rules" in ann.here("rule", "remove", "guides", "bob").stdout
    assert read_as(ann, "zed", "guides/deploy.md") == "Deploying the payment service"
    assert ann.here("rule", "set", "guides", "eve", "read").returncode == 1


def test_a_rule_without_a_right_which_somebody_wrote_into_the_database_is_listed() -> None:
    odd = DirectoryEntry("rule", "*", "odd", (), "eve", utc_now())
    assert rule_rows(Directory((odd,))) == [{"folder": "odd/", "who": "*", "right": ""}]
