"""Texts made to be slow, through a real client: nobody else waits for them, and they end with their caller."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

from mcp_server.app import knowledge_base as base
from mcp_server.app.settings.settings import Settings
from mcp_server.workers.pool import INLINE_CHARACTERS, MOST_WAITING, Workers
from tests.support.hosts.writers import Refused, Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.knowledge_bases.hostile_markdown import FAMILIES, changed

LONGEST_S = 60.0
SLOW = FAMILIES["paragraphs nearly equal"](1_000_000)
PAGES = {"small.md": "# Small\n\nText.\n", "slow.md": SLOW}

pytestmark = [
    pytest.mark.security,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked which processes there are"),
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")


def workers() -> set[int]:
    """Return this process's living children."""
    found = set[int]()
    for listed in Path("/proc/self/task").glob("*/children"):
        for number in listed.read_text(encoding="ascii").split():
            command = Path(f"/proc/{number}/cmdline")
            if command.exists() and b"mcp_server.workers.child" in command.read_bytes():
                found.add(int(number))
    return found


async def until(happens: Callable[[], bool]) -> None:
    with anyio.fail_after(LONGEST_S):
        while not happens():  # noqa: ASYNC110  (processes tell nobody)
            await anyio.sleep(0.01)


async def slow_call(host: Writer) -> str:
    """Dry-run evidence that takes many seconds; return why it was refused."""
    try:
        await host.merge("slow.md", changed(SLOW), source="code:a.py", dry_run=True)
    except Refused as error:
        return str(error)
    return ""


async def test_another_call_is_answered_meanwhile_and_cancelling_stops_the_work(settings: Settings) -> None:
    """This asserts an order of calls, not a time: the small page is read while the large one is computed."""
    async with writing(settings, level=2) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slow_call, host)
            await until(lambda: bool(workers()))
            assert (await host.call("kb_read", path="small.md"))["title"] == "Small"
            assert workers()
            tasks.cancel_scope.cancel()
        await until(lambda: not workers())
        assert (await host.call("kb_read", path="small.md"))["title"] == "Small"


@pytest.mark.external
async def test_a_merge_beyond_its_budget_is_refused_and_says_what_to_do(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "Workers", partial(Workers, cpu_s=1))
    async with writing(settings, level=2) as host:
        told = await slow_call(host)
        assert told.startswith("kb_merge: merging ")
        assert "is too much work for one call: it takes more than 1 s of processor time. Nothing was changed." in told
        assert "Split the text or the page" in told
        assert host.text("slow.md") == SLOW


async def test_one_host_does_not_take_all_workers(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "Workers", partial(Workers, cpu_s=1))
    told: list[str] = []
    async with writing(settings, level=2) as host, anyio.create_task_group() as tasks:

        async def one() -> None:
            told.append(await slow_call(host))

        for _ in range(MOST_WAITING + 2):
            tasks.start_soon(one)
        await until(lambda: len(told) == 2)
        assert len(workers()) <= 1
        tasks.cancel_scope.cancel()
    assert all("4 of your large texts are still being processed" in one for one in told)


async def test_no_worker_is_left_when_the_server_ends(settings: Settings) -> None:
    async with writing(settings, level=2) as host:
        await host.merge("small.md", "# Small\n\n" + FAMILIES["key lines"](20_000), dry_run=True)
        assert workers()
    await until(lambda: not workers())


async def test_a_large_page_is_written_as_a_small_one(settings: Settings) -> None:
    """The result of another process is what is written."""
    large = FAMILIES["paragraphs nearly equal"](5 * INLINE_CHARACTERS)
    write(settings.kb, {"slow.md": large})
    async with writing(settings, level=3) as host:
        edited = large.replace("Paragraph 77 says", "Paragraph 77 now says")
        answer = await host.merge("slow.md", edited, base_revision=await host.revision("slow.md"))
        assert (answer["status"], answer["verified"]) == ("done", True)
        assert host.text("slow.md") == edited
