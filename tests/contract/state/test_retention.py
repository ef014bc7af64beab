"""Full texts that are no longer needed.

What is left of them, what stays, and what `knowledge-forge state` does and prints.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import apsw
import pytest

from agents.engine.decide import decision_steps, submit_steps
from agents.engine.fold import fold
from agents.loop.store.ports import RunStore
from agents.store.ports import JourneyStore
from knowledge.history.audit.chain import verify
from knowledge.state.ports import StateStore
from knowledge.state.postgres.store import PostgresStateStore
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.trust.codec import proposal_text
from mcp_server.__main__ import main
from mcp_server.app.retention import LEASE, Passed, Retention
from mcp_server.approvals.proposals import hash_of
from mcp_server.cli.server.state import LARGE
from mcp_server.gate.trust.reconcile import unaccounted
from tests.contract.state.test_quotas import kept_bytes, long
from tests.support.journeys.graphs import CONDITIONS, RESEARCH, begun, word, work
from tests.support.knowledge_bases.folders import write
from tests.support.runs.records import Walk, header, hold
from tests.support.state.decisions import ADA, approved, no, proposal, yes
from tests.support.state.engines import journeys_in, runs_in
from tests.support.state.ledgers import MINUTE, NOW, open_shared

DAY = timedelta(days=1)
LATER = NOW + 100 * DAY
TAIL = "the very end of it"
TEXT = "word " * 4_000 + TAIL


async def journey(journeys: JourneyStore, id_: str, *, ended: bool) -> None:
    """Record a journey with long texts."""
    await journeys.start(id_, begun(f"{id_}: {TEXT}", inputs={"places": [TEXT]}), by=ADA, at=NOW)
    state = await journeys.journey(id_)
    steps = submit_steps(RESEARCH, id_, state, work({"questions": [TEXT, "short"]}, reasoning=TEXT), CONDITIONS)
    await journeys.append(id_, steps, expected=1, key="one", by=ADA, at=NOW)
    state = await journeys.journey(id_)
    if ended:
        said = decision_steps(RESEARCH, id_, state, word("cancel", note=TEXT), ())
        await journeys.append(id_, said, expected=state.version, key="two", by="ann", at=NOW + MINUTE)


async def run(runs: RunStore, id_: str, *, ended: bool) -> None:
    """Record a run with long texts."""
    led = await runs.begin(header(id_, goal=TEXT), hold())
    walk = Walk(led)
    walk.call("kb_read", said=TEXT, path="a.md", content=TEXT)
    walk.result(TEXT, structured={"text": TEXT})
    if ended:
        walk.respond(TEXT)
    await runs.append(led, walk.run.frames, hold())


def retention(
    store: StateStore, journeys: JourneyStore, runs: RunStore, kept: timedelta | None = 90 * DAY
) -> Retention:
    return Retention(store, journeys, runs, kept, "me", now=lambda: LATER, pause_s=0)


async def test_texts_of_old_ended_records_are_shortened_with_a_note_and_the_rest_stays(store: StateStore) -> None:
    journeys, runs = journeys_in(store), runs_in(store)
    for id_, ended in (("over", True), ("open", False)):
        await journey(journeys, f"j-{id_}", ended=ended)
        await run(runs, f"run-{id_}", ended=ended)
    await approved(store, "p-over", preview=long("x", 30_000).preview)
    result = json.dumps({"status": "done", "diff": TEXT})
    await store.trust.finish("p-over", "executed", at=NOW, result=result)
    await store.trust.propose(long("p-open", expires_at=LATER + DAY), most_pending=9)
    before = {id_: await journeys.events(id_) for id_ in ("j-over", "j-open")}
    frames = {id_: await runs.frames(id_) for id_ in ("run-over", "run-open")}

    done = await retention(store, journeys, runs).once()

    assert done == Passed(ours=True, proposals=1, journeys=1, runs=1, freed_bytes=done.freed_bytes)
    assert done.freed_bytes > 150_000
    assert await journeys.events("j-open") == before["j-open"]
    assert await runs.frames("run-open") == frames["run-open"]
    assert "x" * 20_000 in ((await store.trust.proposal("p-open")) or proposal()).preview

    log = await journeys.events("j-over")
    assert [replace(e, event=before["j-over"][0].event) for e in log] == [
        replace(e, event=before["j-over"][0].event) for e in before["j-over"]
    ], "who did what when stays"
    state = await journeys_in(store).journey("j-over") if not _in_memory(store) else await journeys.journey("j-over")
    assert fold(log) == state
    assert state.status == "cancelled"
    said = str(log)
    assert "more characters removed by retention]" in said
    assert TAIL not in said
    assert len(said) < 8_000

    led = await runs.run("run-over")
    assert led.state == "done"
    assert [(f.id, f.number, f.at) for f in led.frames] == [(f.id, f.number, f.at) for f in frames["run-over"]]
    assert TAIL not in str(led)
    assert "more characters removed by retention]" in led.header.goal
    assert await runs.total() == await runs.total(principal=ADA)
    assert (await runs.total()).tokens > 0, "what it took is still known"

    found = await store.trust.proposal("p-over")
    assert found is not None
    assert found.result is not None
    assert len(found.preview) + len(found.arguments) + len(found.result) < 2_000
    assert json.loads(found.result)["status"] == "done"
    assert not verify(await store.ledger.records(limit=99), await store.ledger.chain_end())
    assert (await retention(store, journeys, runs).once()).freed_bytes == 0, "nothing is left to do"


def _in_memory(store: StateStore) -> bool:
    return type(store).__name__ == "MemoryStateStore"


async def test_for_ever_shortens_no_journey_and_no_run(store: StateStore) -> None:
    journeys, runs = journeys_in(store), runs_in(store)
    await journey(journeys, "j-1", ended=True)
    await run(runs, "run-1", ended=True)
    before = await journeys.events("j-1"), await runs.frames("run-1")
    assert (await retention(store, journeys, runs, kept=None).once()).freed_bytes == 0
    assert (await journeys.events("j-1"), await runs.frames("run-1")) == before


async def test_one_process_at_a_time_does_it(store: StateStore) -> None:
    await store.acquire_lease(LEASE, "another", now=LATER, ttl_s=60)
    assert not (await retention(store, journeys_in(store), runs_in(store)).once()).ours
    await store.release_lease(LEASE, "another")
    assert (await retention(store, journeys_in(store), runs_in(store)).once()).ours
    assert await store.lease(LEASE) is None


async def test_an_older_programs_records_are_listed_and_then_shortened(where: str, schema: str) -> None:
    """An older program stored no lines beside its proposals, and kept all texts of ended ones."""
    store = await open_shared(where, schema)
    await store.trust.propose(long("p-0", 50_000), most_pending=9)
    await store.trust.decide("p-0", no("p-0"))
    await store.trust.propose(long("p-1", 50_000), most_pending=9)
    await _as_an_older_program(store, long("p-0", 50_000).preview)
    assert [line.sentence for line in await store.trust.lines()] == ["write p-1", "write p-0"]
    assert await kept_bytes(store) > 100_000
    assert (await retention(store, journeys_in(store), runs_in(store), kept=None).once()).proposals == 2
    assert await kept_bytes(store) < 60_000
    assert [line.sentence for line in await store.trust.lines()] == ["write p-1", "write p-0"]
    await store.close()


async def _as_an_older_program(store: StateStore, preview: str) -> None:
    """Remove the lines, and give the ended proposal its full text back."""
    whole = proposal_text(proposal("p-0", preview=preview))
    if isinstance(store, SqliteStateStore):
        await store.database.write(
            lambda c: c.execute(
                "DELETE FROM proposal_line; UPDATE proposal SET told = ? WHERE id = 'p-0'", (whole,)
            ).fetchall()
        )
    else:
        assert isinstance(store, PostgresStateStore)
        await store.tables.write(
            ("DELETE FROM forge.proposal_line", ()),
            ("UPDATE forge.proposal SET told = %s WHERE id = 'p-0'", (whole,)),
        )


async def test_a_shortened_proposal_is_still_accounted_for_and_one_with_another_hash_is_not(
    tmp_path: Path, schema: str
) -> None:
    store = await open_shared(str(tmp_path), schema)
    made = long("p-1", 30_000)
    made = replace(made, hash=hash_of(made))
    await store.trust.propose(made, most_pending=9)
    assert await store.trust.decide("p-1", yes("p-1", hash=made.hash))
    await store.trust.finish("p-1", "executed", at=NOW, result="{}")
    assert not await unaccounted(store)
    connection = apsw.Connection(str(tmp_path / schema / "state.db"))
    connection.execute("UPDATE proposal SET told = replace(told, ?, ?)", (made.hash, "0" * 64)).fetchall()
    assert await unaccounted(store)
    connection.close()
    await store.close()


# --- the verb ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Sequence[str]:
    kb = write(tmp_path / "kb", {"a.md": "# A\n\nText.\n"})
    return ("--kb", str(kb), "--state-dir", str(tmp_path / "s"))


def test_state_reports_the_space_by_kind_and_principal(
    place: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _fill(tmp_path / "s", waiting=3)
    assert main(["state", *place]) == 0
    said = capsys.readouterr().out
    assert "proposals  ada@desktop" in said
    assert "FORGE_RETENTION" in said
    assert main(["state", "show", *place, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["size_bytes"] > 0
    (row,) = [one for one in told["held"] if one["kind"] == "proposals"]
    assert (row["principal"], row["records"]) == (ADA, 3)
    assert row["size_bytes"] > 60_000


def test_state_compact_gives_the_space_back_and_says_how_much(
    place: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s" / "state.db"
    _fill(tmp_path / "s", waiting=60, size=100_000, withdrawn=True)
    before = file.stat().st_size
    assert main(["state", "compact", *place, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["before"]["size_bytes"] >= before
    assert file.stat().st_size == told["after"]["size_bytes"] < before / 4
    assert not told["rewritten"], "a new database gives its pages back without being written anew"


def test_a_database_of_an_older_program_is_rewritten_once_and_a_large_one_only_when_asked(
    place: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s" / "state.db"
    _fill(tmp_path / "s", waiting=60, size=100_000, withdrawn=True)
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    connection.execute("PRAGMA auto_vacuum=NONE").fetchall()
    connection.execute("VACUUM").fetchall()
    connection.execute("CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(9000000)); DROP TABLE t").fetchall()
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.close()

    monkeypatch.setattr("mcp_server.cli.server.state.LARGE", 1_000_000)
    assert LARGE > 1_000_000
    assert main(["state", "compact", *place]) == 1
    assert "--rewrite" in capsys.readouterr().out
    assert file.stat().st_size > 9_000_000
    assert main(["state", "compact", *place, "--rewrite"]) == 0
    assert "(rewritten)" in capsys.readouterr().out
    assert file.stat().st_size < 2_000_000
    (mode,) = apsw.Connection(str(file)).execute("PRAGMA auto_vacuum").fetchall()
    assert mode == (2,), "from now on it gives pages back by itself"


def test_a_file_that_does_not_fit_on_the_disk_twice_is_left_alone(
    place: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(tmp_path / "s", waiting=1)

    class Full:
        free = 10

    monkeypatch.setattr("knowledge.state.sqlite.space.shutil.disk_usage", lambda _: Full)
    assert main(["state", "compact", *place, "--rewrite"]) == 1
    assert "10 bytes free" in capsys.readouterr().err


def test_doctor_says_how_large_the_state_is(
    place: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _fill(tmp_path / "s", waiting=3)
    main(["doctor", *place])
    assert "most of it: proposals" in " ".join(capsys.readouterr().out.split())


def _fill(folder: Path, *, waiting: int, size: int = 20_000, withdrawn: bool = False) -> None:
    async def fill() -> None:
        store = await open_shared(str(folder), "")
        for n in range(waiting):
            await store.trust.propose(long(f"p-{n}", size), most_pending=99)
        for n in range(waiting if withdrawn else 0):
            await store.trust.withdraw(f"p-{n}", ADA, at=NOW)
        await store.close()

    anyio.run(fill)
