"""The real server, killed while a client writes through it: acknowledged writes stay, and the next server continues."""

from __future__ import annotations

import os
import random
import secrets
import signal
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from knowledge.history.audit.inspection import inspect
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import let_in

KILLS = int(os.environ.get("FORGE_TEST_SERVER_KILLS", "40"))
ROOT = Path(__file__).parents[2]
PAGE = "note.md"
START = "# Note\n\n## Log\n\n- begin\n\n## End\n\nThe last words.\n"
LONGEST_S = 0.6
"""From the first answer to the kill; a merge takes a few hundredths of this."""


@pytest.mark.slow
async def test_a_server_that_is_killed_again_and_again_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    """At random points; test_writer_kills.py hits the named ones."""
    seed = secrets.randbelow(10**6)
    chance = random.Random(seed)  # noqa: S311  moments, not secrets
    kb, state = tmp_path / "kb", tmp_path / "state"
    kb.mkdir()
    (kb / PAGE).write_text(START, encoding="utf-8")
    settings = await let_in(Settings(kb=kb, state_dir=state))
    acknowledged: list[str] = []
    asked: list[str] = []
    for round_ in range(KILLS):
        await _until_killed(settings, f"r{round_}", chance.uniform(0.0, LONGEST_S), asked, acknowledged)
        lines = (kb / PAGE).read_text(encoding="utf-8").splitlines()
        # Never torn: every line was written by somebody, and the end is there.
        assert set(lines) <= {*START.splitlines(), *asked}, f"seed {seed}"
        assert lines[-1] == "The last words."
        assert [line for line in acknowledged if lines.count(line) != 1] == [], f"seed {seed}"
    async with open_state(settings) as opened:
        assert (await inspect(opened.ledger)).broken == ()
    print(f"seed {seed}: {KILLS} kills, {len(asked)} merges asked, {len(acknowledged)} acknowledged")  # noqa: T201  what was seen
    assert len(acknowledged) > KILLS


async def test_a_write_that_an_editor_saves_over_while_no_server_runs_is_back_once_one_does(tmp_path: Path) -> None:
    """The killed server would have noticed the save of an old buffer within seconds."""
    kb, state = tmp_path / "kb", tmp_path / "state"
    kb.mkdir()
    (kb / PAGE).write_text(START, encoding="utf-8")
    settings = await let_in(Settings(kb=kb, state_dir=state))
    acknowledged: list[str] = []
    await _until_killed(settings, "r0", 4.0, [], acknowledged)
    assert acknowledged
    (kb / PAGE).write_text(START.replace("# Note\n", "# Note\n\nBy hand.\n"), encoding="utf-8")
    code = "import sys; from mcp_server.__main__ import main; sys.exit(main())"
    arguments = ["-c", code, "serve", "--kb", str(kb), "--state-dir", str(state)]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT))) as client:
        await client.call_tool("trust_status", {})
        with anyio.fail_after(60):
            while not set(acknowledged) <= set((kb / PAGE).read_text(encoding="utf-8").splitlines()):  # noqa: ASYNC110  a file
                await anyio.sleep(0.05)
    assert "By hand." in (kb / PAGE).read_text(encoding="utf-8")


async def _until_killed(
    settings: Settings, name: str, after_s: float, asked: list[str], acknowledged: list[str]
) -> None:
    """Start a server, write through it, and kill it that long after its first answer."""
    code = "import os,sys; from mcp_server.__main__ import main; print(os.getpid(), file=sys.stderr, flush=True); sys.exit(main())"
    arguments = ["-c", code, "serve", "--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
    process = StdioServerParameters(
        command=sys.executable, args=arguments, cwd=ROOT, env={"FORGE_ENROLMENT": settings.enrolment or ""}
    )
    log = settings.kb.parent / "server.log"
    with log.open("w", encoding="utf-8") as errlog:
        try:
            async with Client(stdio_client(process, errlog=errlog)) as client, anyio.create_task_group() as tasks:
                await client.call_tool("kb_read", {"path": PAGE})
                pid = int(log.read_text(encoding="utf-8").split()[0])

                async def kill() -> None:
                    await anyio.sleep(after_s)
                    os.kill(pid, signal.SIGKILL)

                tasks.start_soon(kill)
                await _write(client, name, asked, acknowledged)
        except* (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError):
            pass  # that is what a killed server looks like


async def _write(client: Client, name: str, asked: list[str], acknowledged: list[str]) -> None:
    for number in range(1_000):
        line = f"- {name} edit {number}"
        asked.append(line)
        with anyio.fail_after(60):
            read = (await client.call_tool("kb_read", {"path": PAGE, "section": "Log"})).structured_content or {}
            content = "\n".join([*str(read["text"]).splitlines()[2:], line])
            arguments = {"path": PAGE, "section": "Log", "content": content, "base_revision": read["revision"]}
            answer = await client.call_tool("kb_merge", arguments)
        assert (answer.structured_content or {}).get("status") == "done", answer
        acknowledged.append(line)
