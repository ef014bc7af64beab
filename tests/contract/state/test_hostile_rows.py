"""Rows of another program or an older version: an invalid one makes no list, verb or server unusable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import apsw
import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

from knowledge.state.ports import StateStore
from knowledge.trust.ports import TrustRecord
from mcp_server.__main__ import main
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import BadHostName, enrol
from mcp_server.runs.locations import runs_in
from tests.support.hosts.writers import let_in
from tests.support.journeys.graphs import begun
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened
from tests.support.runs.records import header, hold
from tests.support.state.decisions import proposal
from tests.support.state.ledgers import NOW, open_shared
from tests.support.state.postgres import PostgresServer
from tests.support.state.trust_levels import stand
from tests.support.web.review_pages import shown

DEEP = '{"a":' + "[" * 5_000
Spoil = Callable[[str, str, Any], None]
"""Sets this column to a value: in the first proposal, and in all rows of other tables."""


@pytest.fixture(params=["sqlite", "postgres"])
async def spoiled(
    request: pytest.FixtureRequest, tmp_path: Path, schema: str, postgres: PostgresServer
) -> AsyncIterator[tuple[StateStore, Spoil]]:
    """Yield a store with two of each, and a function that spoils one of them."""
    where = str(tmp_path) if request.param == "sqlite" else postgres.url()
    store = await open_shared(where, schema)
    for name in ("one", "two"):
        await enrol(store, name, now=NOW)
        await stand(
            store, TrustRecord(f"ada@{name}", 2.0, 0.0, 5.0, frozen=False, updated_at=NOW), reason="x", by="ann"
        )
        await store.trust.propose(proposal(f"p-{name}"), most_pending=9)
        await store.acquire_lease(name, "somebody", now=NOW, ttl_s=60)

    def spoil(table: str, column: str, value: Any) -> None:
        if request.param == "sqlite":
            file = apsw.Connection(str(tmp_path / schema / "state.db"))
            first = f" WHERE rowid = (SELECT min(rowid) FROM {table})" if table.startswith("proposal") else ""  # noqa: S608 - ours
            file.execute(f"UPDATE {table} SET {column.replace('_at', '_us')} = ?{first}", (value,))  # noqa: S608 - ours
            file.close()
            return
        first = " WHERE ctid = (SELECT min(ctid) FROM {0})" if table.startswith("proposal") else ""
        with psycopg.connect(postgres.url(), autocommit=True) as other:
            made = SQL("UPDATE {0} SET {1} = {2} {3}").format(
                Identifier(schema, table),
                Identifier(column),
                Literal(value),
                SQL(first).format(Identifier(schema, table)),
            )
            other.execute(made)

    yield store, spoil
    await store.close()


TIMES: dict[str, list[int] | list[str]] = {
    "sqlite": [2**62, -(2**62), 2**63 - 1, -(2**63)],
    "postgres": ["infinity", "-infinity", "294276-01-01", "4000-01-01 BC"],
}


@pytest.mark.parametrize("which", range(4))
async def test_a_time_that_cannot_be_is_read_as_one_that_can_be_reckoned_with(
    which: int, spoiled: tuple[StateStore, Spoil], request: pytest.FixtureRequest
) -> None:
    """Before, on PostgreSQL: "this text cannot be stored" for every list with this row; on SQLite: an OverflowError."""
    store, spoil = spoiled
    value = TIMES["sqlite" if "sqlite" in request.node.name else "postgres"][which]
    for table, column in (
        *(("standing", "updated_at"), ("enrolment", "created_at"), ("proposal", "ended_at"), ("lease", "expires_at")),
    ):
        spoil(table, column, value)
    times = [one.updated_at for one in await store.trust_records()]
    times += [one.created_at for one in await store.enrolments()]
    assert len(times) == 4
    assert len(await store.trust.proposals()) == len(await store.trust.lines()) == 2
    for at in times:
        assert at - timedelta(days=90_000) < at < at + timedelta(days=90_000)
    for name in ("one", "two"):
        later = NOW + timedelta(hours=1)
        assert await store.lease(name) is not None
        assert await store.acquire_lease(name, "another", now=later, ttl_s=60) is not None, "no lease lasts for ever"


@pytest.mark.parametrize("text", ["unknown", DEEP, '{"id": 7}'])
@pytest.mark.parametrize(
    ("table", "column"), [("proposal", "told"), ("proposal_line", "line"), ("proposal", "verdict")]
)
async def test_a_proposal_that_cannot_be_read_is_left_out_of_lists_and_said_in_the_log(
    table: str, column: str, text: str, spoiled: tuple[StateStore, Spoil], caplog: pytest.LogCaptureFixture
) -> None:
    store, spoil = spoiled
    spoil(table, column, text)
    found = [one.id for one in await store.trust.proposals()] + [one.id for one in await store.trust.lines()]
    assert found.count("p-two") == 2
    assert found.count("p-one") <= 1
    assert "a proposal in the state database cannot be read" in caplog.text
    await store.trust.propose(proposal("p-three"), most_pending=9)
    assert await store.trust.pending() == 3


@pytest.mark.parametrize("body", ["unknown", DEEP, "[]", "\x1b[2J\u202e"])
async def test_an_audit_record_that_cannot_be_read_breaks_the_chain_and_no_reader(
    body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")
    async with opened(await let_in(settings), indexing=False) as app, connect(app) as host:
        await host.call_tool("kb_merge", {"path": "b.md", "content": "# B\n"})
        file = apsw.Connection(str(tmp_path / "state" / "state.db"))
        file.execute("UPDATE audit SET body = ? WHERE rowid = (SELECT min(rowid) FROM audit)", (body,))
        file.close()
        recent = await host.read_resource("audit://recent")
        assert "b.md" in recent.contents[0].text  # type: ignore[union-attr]  # text, of ours

    def verbs() -> list[int]:
        places = ["--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
        return [main([*words, *places]) for words in (["audit", "verify"], ["audit", "search"], ["audit", "export"])]

    codes = await anyio.to_thread.run_sync(verbs)
    assert codes == [1, 0, 0]
    assert "the audit chain is broken" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 10_000,
        "unenrolled",
        "unenrolled:http",
        "desktop\n",
        "desk\x1b[2Jtop",
        "d\u0435sktop",
        "Desktop",
        "a@b",
        "..",
        "\u202e",
    ],
    ids=range(11),
)
async def test_no_host_is_registered_under_a_name_that_poses_or_acts(name: str, store: StateStore) -> None:
    with pytest.raises(BadHostName) as refused:
        await enrol(store, name, now=utc_now())
    assert len(str(refused.value)) < 400
    assert not await store.enrolments()


async def test_a_journey_and_a_run_in_a_state_that_nobody_knows_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shown(tmp_path) as place:
        now, settings, base = utc_now(), place.settings, place.app.base
        assert settings.state_dir is not None
        await journeys_in(base.state).start("j-1", begun(), by="ada@desktop", at=now)
        await runs_in(base.state).begin(header(), hold())
        await base.state.trust.propose(proposal("p-one"), most_pending=9)
        file = apsw.Connection(str(settings.state_dir / "state.db"))
        for table, column in (("journey", "status"), ("run", "state"), ("proposal", "state")):
            file.execute(f"UPDATE {table} SET {column} = 'unheard-of'")  # noqa: S608 - ours
        file.close()
        visitor = await place.visitor()
        for path in ("/", "/decided", "/journeys", "/runs"):
            await visitor.look(path)
            assert visitor.status == 200, path

    def verbs() -> list[int]:
        places = ["--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
        return [main([*words, *places]) for words in (["journeys", "list"], ["runs"])]

    assert await anyio.to_thread.run_sync(verbs) == [0, 0]
    assert capsys.readouterr().out.count("unheard-of") == 2
