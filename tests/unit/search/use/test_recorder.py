"""What the use recorder records, what it doesn't, and that recording never fails a call."""

from __future__ import annotations

import logging
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from anyio import from_thread

from knowledge.errors import DatabaseUnavailable
from knowledge.search.answers import Hit, IndexCoverage, PageLine, QuestionRoute, RouteMode, Scent, SearchAnswer
from knowledge.search.use.events import SearchedFor
from knowledge.search.use.recorder import LONGEST_QUESTION, UseRecorder, may_hold_secret
from knowledge.search.use.store import USE_FILE, UseStore, delete_old_events
from knowledge.state.ports import Filters

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVER = datetime(2000, 1, 1, tzinfo=UTC)
KEPT = timedelta(days=90)


def answer(*paths: str, route: RouteMode = "discovery", pages: tuple[str, ...] = ()) -> SearchAnswer:
    hits = [Hit(p, "A", "T", "...", 1.0, 1, 2, "r", "2026-03-01T00:00:00Z", "user", 0.8, tainted=False) for p in paths]
    lines = [PageLine(p, "document", p) for p in pages]
    return SearchAnswer(
        lines, hits, QuestionRoute(route, 1, ""), Scent("partial", "", ""), None, None, IndexCoverage(1, 1), None
    )


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{USE_FILE}*"))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[UseStore]:
    opened = UseStore.open(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
async def recorder(tmp_path: Path) -> AsyncIterator[UseRecorder]:
    made = UseRecorder(lambda: UseStore.open(tmp_path), KEPT)
    yield made
    await made.close()


async def test_a_question_and_the_pages_used_after_it_are_read_back_as_they_were(
    recorder: UseRecorder, store: UseStore
) -> None:
    filters = Filters(tags=("ops",), kind="guide", modified_after_ns=5)
    asked = SearchedFor("  how do we\nrotate keys ", "guides", filters, continued=True)
    assert recorder.asked("ada@desktop", "j1", asked, answer("a.md", "b.md", "a.md"), at=NOW)
    assert recorder.used("ada@desktop", "j1", "b.md", how="read", untrusted=True, at=NOW + timedelta(seconds=5))
    assert recorder.used("ada@desktop", "j1", "c.md", how="merge", at=NOW + timedelta(seconds=9))
    await recorder.flush()
    (question,), uses = await store.events(EVER)
    assert question.asked == SearchedFor("how do we rotate keys", "guides", filters, continued=True)
    assert (question.at, question.route, question.shown) == (NOW, "discovery", ("a.md", "b.md"))
    assert question.session[:2] == ("ada@desktop", "j1")
    assert [(use.path, use.how, use.untrusted) for use in uses] == [("b.md", "read", True), ("c.md", "merge", False)]
    assert {use.session for use in uses} == {question.session}
    counts = await store.counts(EVER)
    assert (counts.questions, counts.uses, counts.since) == (1, 2, NOW)


async def test_the_pages_of_a_map_answer_were_shown_before_its_hits(recorder: UseRecorder, store: UseStore) -> None:
    recorder.asked(
        "ada", "", SearchedFor("the guides"), answer("b.md", route="navigation", pages=("a.md", "b.md")), at=NOW
    )
    await recorder.flush()
    (question,), _ = await store.events(EVER)
    assert (question.route, question.shown) == ("navigation", ("a.md", "b.md"))


async def test_a_page_is_recorded_only_if_the_same_reader_asked_shortly_before(
    recorder: UseRecorder, store: UseStore
) -> None:
    assert not recorder.used("ada", "", "a.md", how="read", at=NOW)
    recorder.asked("ada", "", SearchedFor("rotate keys"), answer("a.md"), at=NOW)
    assert not recorder.used("bob", "", "a.md", how="read", at=NOW)
    assert not recorder.used("ada", "j1", "a.md", how="read", at=NOW)
    assert not recorder.used("ada", "", "a.md", how="read", at=NOW + timedelta(minutes=11))
    await recorder.flush()
    assert (await store.counts(EVER)).uses == 0


@pytest.mark.parametrize(
    "question",
    [
        "x" * (LONGEST_QUESTION + 1),
        "   ",
        "why does sk-proj-abcdefghijklmnop fail",
        "password: hunter2",
        "is the api key = abc valid",
        "log in with Bearer: xyz",
        "postgres://ada:hunter2@db/forge does not connect",
        "-----BEGIN RSA PRIVATE KEY-----",
        "what is f3A9c1D27bE84c0Fa6b2 for",
        "eyJhbGciOiJIUzI1NiJ9 expired",
    ],
)
async def test_a_long_question_or_one_that_may_hold_a_secret_is_not_recorded_and_nor_is_what_follows(
    recorder: UseRecorder, store: UseStore, question: str
) -> None:
    recorder.asked("ada", "", SearchedFor("an earlier question"), answer("a.md"), at=NOW)
    assert not recorder.asked("ada", "", SearchedFor(question), answer("a.md"), at=NOW)
    assert not recorder.used("ada", "", "a.md", how="read", at=NOW)
    await recorder.flush()
    questions, uses = await store.events(EVER)
    assert [one.asked.query for one in questions] == ["an earlier question"]
    assert uses == []


@pytest.mark.parametrize(
    "question",
    [
        "how do we rotate the signing keys and passwords",
        "reciprocal-rank-fusion-constant",
        "what is a token budget",
        "BAAI/bge-small-en-v1.5 as embedder",
        "docs_reference_configuration_options",
        "Wie lange gilt ein Zugangstoken?",
        "https://example.org/guides/deploy",
    ],
)
def test_ordinary_questions_are_not_taken_for_secrets(question: str) -> None:
    assert not may_hold_secret(question)


async def test_what_is_older_than_it_is_kept_is_deleted(tmp_path: Path, store: UseStore) -> None:
    recorder = UseRecorder(lambda: UseStore.open(tmp_path), timedelta(days=1))
    for days in (0, 2):
        at = NOW + timedelta(days=days)
        recorder.asked("ada", "", SearchedFor(f"question {days}"), answer("a.md"), at=at)
        recorder.used("ada", "", "a.md", how="read", at=at)
        await recorder.flush()
    await recorder.close()
    questions, uses = await store.events(EVER)
    assert [one.asked.query for one in questions] == ["question 2"]
    assert [use.at for use in uses] == [NOW + timedelta(days=2)]


async def test_the_number_of_events_is_bounded(recorder: UseRecorder, store: UseStore) -> None:
    for number in range(30):
        recorder.asked("ada", "", SearchedFor(f"question {number}"), answer("a.md"), at=NOW + timedelta(seconds=number))
    await recorder.flush()
    await store.prune(before=EVER, most=10)
    questions, _ = await store.events(EVER)
    assert [one.asked.query for one in questions] == [f"question {number}" for number in range(20, 30)]


async def test_forgetting_leaves_no_question_in_the_file_or_its_log(
    tmp_path: Path, recorder: UseRecorder, store: UseStore
) -> None:
    recorder.asked("ada", "", SearchedFor("a very private question"), answer("private/page.md"), at=NOW)
    recorder.used("ada", "", "private/page.md", how="read", at=NOW)
    await recorder.flush()
    await recorder.close()
    assert any(b"very private" in file.read_bytes() for file in files(tmp_path))
    await store.forget()
    assert await store.events(EVER) == ([], [])
    for file in files(tmp_path):
        assert b"private" not in file.read_bytes()


async def test_the_file_is_private(tmp_path: Path, store: UseStore) -> None:
    await store.add([], [])
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in files(tmp_path) if "lock" not in file.name}
    assert modes
    assert set(modes.values()) == {0o600}


async def test_a_file_that_cannot_be_written_costs_one_warning_and_no_call(caplog: pytest.LogCaptureFixture) -> None:
    def away() -> UseStore:
        raise DatabaseUnavailable("use.db", "the disk is full")

    recorder = UseRecorder(away, KEPT)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert recorder.asked("ada", "", SearchedFor("rotate keys"), answer("a.md"), at=NOW)
            await recorder.flush()
    assert len([record for record in caplog.records if "cannot be recorded" in record.message]) == 1
    assert "rotate keys" not in caplog.text


async def test_a_file_that_was_deleted_is_made_again(tmp_path: Path, recorder: UseRecorder) -> None:
    recorder.asked("ada", "", SearchedFor("first"), answer("a.md"), at=NOW)
    await recorder.flush()
    for file in files(tmp_path):
        file.unlink()
    for query in ("lost with the file", "second"):
        recorder.asked("ada", "", SearchedFor(query), answer("a.md"), at=NOW)
        await recorder.flush()
    again = UseStore.open(tmp_path)
    assert [one.asked.query for one in (await again.events(EVER))[0]] == ["second"]
    again.close()


async def test_what_is_pending_when_a_server_is_stopped_is_not_lost(recorder: UseRecorder, store: UseStore) -> None:
    recorder.asked("ada", "", SearchedFor("rotate keys"), answer("a.md"), at=NOW)
    with anyio.CancelScope() as stopped:
        stopped.cancel()
        await recorder.flush()
    assert stopped.cancelled_caught
    await recorder.flush()
    assert (await store.counts(EVER)).questions == 1


async def test_opening_the_file_while_a_server_is_stopped_loses_nothing(tmp_path: Path, store: UseStore) -> None:
    with anyio.CancelScope() as stopped:

        def slow() -> UseStore:
            from_thread.run_sync(stopped.cancel)
            return UseStore.open(tmp_path)

        recorder = UseRecorder(slow, KEPT)
        recorder.asked("ada", "", SearchedFor("rotate keys"), answer("a.md"), at=NOW)
        await recorder.flush()
    assert stopped.cancelled_caught
    await recorder.flush()
    await recorder.close()
    assert (await store.counts(EVER)).questions == 1


async def test_deleting_old_events_while_a_server_is_stopped_stores_nothing_twice(tmp_path: Path) -> None:
    class Stopped(UseStore):
        async def prune(self, *, before: datetime, most: int = 10) -> None:
            stopped.cancel()
            await super().prune(before=before, most=most)

    recorder = UseRecorder(lambda: Stopped.open(tmp_path), KEPT)
    recorder.asked("ada", "", SearchedFor("rotate keys"), answer("a.md"), at=NOW)
    with anyio.CancelScope() as stopped:
        await recorder.flush()
    assert stopped.cancelled_caught
    await recorder.flush()
    await recorder.close()
    again = UseStore.open(tmp_path)
    assert (await again.counts(EVER)).questions == 1
    again.close()


@pytest.mark.parametrize(
    ("kept", "left"),
    [(timedelta(days=10), ["question 9"]), (timedelta(days=40), ["question 0", "question 9"]), (None, [])],
)
async def test_old_events_are_deleted_without_a_new_question_and_all_of_them_if_none_are_wanted(
    tmp_path: Path, recorder: UseRecorder, store: UseStore, kept: timedelta | None, left: list[str]
) -> None:
    for days in (0, 9):
        recorder.asked("ada", "", SearchedFor(f"question {days}"), answer("a.md"), at=NOW + timedelta(days=days))
    await recorder.flush()
    await delete_old_events(tmp_path, kept=kept, now=NOW + timedelta(days=12))
    assert [one.asked.query for one in (await store.events(EVER))[0]] == left


async def test_without_a_file_there_is_nothing_to_delete_and_none_is_made(tmp_path: Path) -> None:
    await delete_old_events(tmp_path, kept=None, now=NOW)
    assert not files(tmp_path)
