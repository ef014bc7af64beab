"""Acts that displace someone's save: no save is lost, whenever it happens."""

from __future__ import annotations

import errno
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from knowledge.errors import DocumentBusy, KeepsChanging, UnwritableDocument
from knowledge.writing.files import save_watch as watch
from knowledge.writing.files.patience import LEAST_TRIES
from knowledge.writing.files.swap import Displaced
from tests.support.state.ledgers import open_shared
from tests.support.state.memory.ledger import MemoryLedger
from tests.support.writing.acts import World, appending, save_as_new, save_in_place, setting

PAGE = "guides/a.md"
TEXT = b"# A\n\n## By hand\n\n## Ours\n"
OURS = b"Ours."
LINE, SAVED = b"Saved.\n", TEXT.replace(b"hand\n", b"hand\nSaved.\n")


@pytest.fixture(params=["memory", "sqlite"])
async def world(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[World]:
    if request.param == "memory":
        made = World(tmp_path, MemoryLedger(lambda _topic, _paths: None))
        made.put(PAGE, TEXT)
        yield made
        return
    store = await open_shared(str(tmp_path), schema)
    made = World(tmp_path, store.ledger)
    made.put(PAGE, TEXT)
    yield made
    await store.close()


class Hasty:
    """An editor that saves, opens the page again at once, and saves that with another line."""

    def __init__(self, world: World, save: Callable[[Path, bytes], None]) -> None:
        self._file, self._save, self.read = world.root / PAGE, save, b""

    def first(self) -> None:
        self._save(self._file, SAVED)

    def open(self) -> None:
        self.read = self._file.read_bytes()

    def second(self) -> None:
        self._save(self._file, self.read.replace(b"hand\n", b"hand\nSaved again.\n"))


@pytest.mark.parametrize("save", [save_as_new, save_in_place])
@pytest.mark.parametrize(("moment", "nth"), [("exchanged", 2), ("unlink", 1)])
async def test_a_displaced_save_is_kept_although_its_editor_saves_over_it_from_an_intermediate_state(
    world: World, moment: str, nth: int, save: Callable[[Path, bytes], None]
) -> None:
    """Design, section 5: a displaced save is archived, never lost; here the page no longer leads to it."""
    editor = Hasty(world, save)
    world.steps.at("exchange", editor.first)
    world.steps.at("exchanged", editor.open)
    world.steps.at(moment, editor.second, nth=nth)
    await world.acts.run(appending(PAGE, OURS))
    assert OURS in editor.read
    assert LINE not in editor.read
    assert SAVED in await world.lineage(PAGE)
    final = world.pages().pop(PAGE)
    assert LINE in final
    assert b"Saved again.\n" in final


@pytest.mark.parametrize(("moment", "nth"), [("exchanged", 1), ("exchange", 2)])
async def test_so_is_one_that_was_only_begun_when_it_was_displaced(world: World, moment: str, nth: int) -> None:
    editor = Hasty(world, save_in_place)
    file = (world.root / PAGE).open("r+b")

    def finish() -> None:
        file.write(SAVED)
        file.close()
        editor.open()

    world.steps.at("exchange", file.truncate)
    world.steps.at(moment, finish, nth=nth)
    world.steps.at("unlink", editor.second)
    await world.acts.run(appending(PAGE, OURS))
    assert LINE not in editor.read
    final = world.read(PAGE) or b""
    assert LINE in final
    assert b"Saved again.\n" in final
    assert b"" not in await world.lineage(PAGE)


async def test_a_save_that_was_displaced_is_on_record_though_the_act_is_given_up(world: World) -> None:
    """The act's own attempts are over: the save that the last one met is checked all the same."""
    saves = [SAVED.replace(b"Saved.", b"Save %d." % number) for number in range(40)]
    for number, raw in enumerate(saves):
        world.steps.at("exchange", partial(save_as_new, world.root / PAGE, raw), nth=2 * number + 1)
    with pytest.raises(KeepsChanging):
        await world.impatient().acts.run(appending(PAGE, OURS))
    final = world.read(PAGE)
    assert final in saves
    assert final in await world.lineage(PAGE)


async def test_each_of_several_saves_that_the_last_try_displaced_is_kept_though_the_page_is_removed_then(
    world: World,
) -> None:
    """One save was displaced; its editor continued to write before it was put back; then someone removes the page."""
    again = SAVED.replace(b"Saved.", b"Again.")
    opened = []

    def first() -> None:
        save_as_new(world.root / PAGE, SAVED)
        opened.append((world.root / PAGE).open("r+b"))

    def go_on() -> None:
        opened[0].write(again)
        opened[0].close()

    for nth in range(1, LEAST_TRIES):
        raw = SAVED.replace(b"Saved.", b"Save %d." % nth)
        world.steps.at("exchange", partial(save_as_new, world.root / PAGE, raw), nth=2 * nth - 1)
    world.steps.at("exchange", first, nth=2 * LEAST_TRIES - 1)
    world.steps.at("exchange", go_on, nth=2 * LEAST_TRIES)
    world.steps.at("unlink", (world.root / PAGE).unlink, nth=LEAST_TRIES)
    with pytest.raises(KeepsChanging):
        await world.impatient().acts.run(appending(PAGE, OURS))
    assert world.pages() == {}
    lineage = await world.lineage(PAGE)
    assert SAVED in lineage
    assert again in lineage


async def test_saves_while_a_failed_act_is_taken_back_are_all_kept(world: World) -> None:
    """The second page can't be written; an editor saves the first one twice while its own write is undone."""
    world.put("b.md", TEXT)
    saves = [SAVED.replace(b"Saved.", b"Save %d." % number) for number in range(2)]
    world.steps.fail("exchange", errno.EIO, nth=2)
    for number, raw in enumerate(saves):
        world.steps.at("exchange", partial(save_as_new, world.root / PAGE, raw), nth=3 + number)
    with pytest.raises(UnwritableDocument):
        await world.acts.run(setting({PAGE: TEXT + OURS, "b.md": TEXT + OURS}))
    final = world.pages()
    assert final["b.md"] == TEXT
    assert all(line in final[PAGE] for line in (b"Save 0.\n", b"Save 1.\n"))
    assert set(saves) <= set(await world.lineage(PAGE))


@asynccontextmanager
async def watched(world: World) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(world.acts.watch)
        await anyio.lowlevel.checkpoint()
        yield
        group.cancel_scope.cancel()


async def _until(so: Callable[[], bool]) -> bool:
    with anyio.move_on_after(60):
        while not so():  # noqa: ASYNC110  what is waited for is a file
            await anyio.sleep(0.01)
    return so()


async def test_an_editor_that_opened_an_intermediate_state_loses_nothing(world: World) -> None:
    """It opens our write, which is undone because of another save, and writes into that file, no longer a page."""
    opened = []
    world.steps.at("exchange", lambda: save_as_new(world.root / PAGE, SAVED))
    world.steps.at("exchanged", lambda: opened.append((world.root / PAGE).open("r+b")))
    async with watched(world):
        await world.acts.run(appending(PAGE, OURS))
        with opened[0] as file:
            raw = file.read()
            assert LINE not in raw
            file.seek(0)
            file.truncate()
            file.write(raw.replace(b"hand\n", b"hand\nLate.\n"))
        assert await _until(lambda: b"Late.\n" in (world.read(PAGE) or b""))
    final = world.read(PAGE) or b""
    assert LINE in final
    assert OURS in final


async def test_a_late_save_that_cannot_be_joined_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def held(paths: Iterable[str]) -> AbstractAsyncContextManager[None]:
        raise DocumentBusy(min(paths), 0.0)

    async with watched(world):
        with (world.root / PAGE).open("r+b") as file:
            await world.acts.run(appending(PAGE, OURS))
            monkeypatch.setattr(world.locks, "held", held)
            file.truncate()
            file.write(SAVED)
        assert await _until(lambda: "could not be merged" in caplog.text)
    assert SAVED in await world.lineage(PAGE)


async def test_a_late_save_that_cannot_be_kept_is_reported_again_when_its_file_is_released(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    free, failing = world.locks.held, [OSError(errno.EIO, "injected")]

    def held(paths: Iterable[str]) -> AbstractAsyncContextManager[None]:
        if failing:
            raise failing.pop()
        return free(paths)

    monkeypatch.setattr(watch, "LET_GO_S", 0.3)
    async with watched(world):
        with (world.root / PAGE).open("r+b") as file:
            await world.acts.run(appending(PAGE, OURS))
            monkeypatch.setattr(world.locks, "held", held)
            file.truncate()
            file.write(SAVED)
        assert await _until(lambda: LINE in (world.read(PAGE) or b""))
    assert "cannot keep" in caplog.text
    assert world.read(PAGE) == SAVED + OURS + b"\n"


async def test_a_displaced_file_that_was_emptied_is_held_until_it_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is empty when its time is over: the editor has only begun."""
    looked_to_the_end, written = threading.Event(), Displaced.late_save

    def telling(self: Displaced, *, thoroughly: bool = False) -> bytes | None:
        found = written(self, thoroughly=thoroughly)
        if thoroughly:
            looked_to_the_end.set()
        return found

    monkeypatch.setattr(watch, "LET_GO_S", 0.2)
    monkeypatch.setattr(Displaced, "late_save", telling)
    async with watched(world):
        with (world.root / PAGE).open("r+b") as file:
            await world.acts.run(appending(PAGE, OURS))
            file.truncate()
            assert await _until(looked_to_the_end.is_set)
            file.write(SAVED)
        assert await _until(lambda: LINE in (world.read(PAGE) or b""))
    assert world.read(PAGE) == SAVED + OURS + b"\n"
    assert b"" not in await world.lineage(PAGE)


async def test_a_late_save_is_joined_although_the_server_is_stopped_while_waiting_for_the_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, free = anyio.Event(), world.locks.held

    @asynccontextmanager
    async def held(paths: Iterable[str]) -> AsyncIterator[None]:
        if not waiting.is_set():
            waiting.set()
            await anyio.sleep_forever()
        async with free(paths):
            yield

    async with watched(world):
        with (world.root / PAGE).open("r+b") as file:
            await world.acts.run(appending(PAGE, OURS))
            monkeypatch.setattr(world.locks, "held", held)
            file.truncate()
            file.write(SAVED)
        with anyio.fail_after(60):
            await waiting.wait()
    assert SAVED in await world.lineage(PAGE)
    assert world.read(PAGE) == SAVED + OURS + b"\n"
