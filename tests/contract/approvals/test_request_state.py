"""A question's state is valid for its client and call only, and useless to anyone who can write the key's file.

Replays, mutations and expiry of an answered form: `test_replays.py`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import InputResponses

from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.sealing_key import KEY_BYTES, KEY_FILE, BadKeyFile, shared_key
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import enrol
from tests.contract.approvals.test_replays import PAGE, TEXT, YES, answered, asked, beside, host
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import PostgresServer


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", {PAGE: TEXT}), state_dir=tmp_path / "state")


async def refused(client: Client, tool: str, arguments: dict[str, Any], state: str) -> None:
    with pytest.raises(MCPError):
        await client.session.call_tool(
            tool, arguments, input_responses=YES, request_state=state, allow_input_required=True
        )


async def test_a_state_is_of_no_use_with_another_tool_in_another_form_or_in_part(settings: Settings) -> None:
    async with beside(settings, await host(settings, "host")) as client:
        arguments, state = await asked(client, "Agreed.")
        others: list[tuple[str, dict[str, Any]]] = [
            ("kb_delete", {"path": PAGE, "base_revision": arguments["base_revision"]}),
            ("kb_move", {"path": PAGE, "to": "elsewhere.md"}),
            ("journey_submit", {"journey_id": "j1", "version": 1, "work": {}}),
            ("agent_run", {"goal": "x"}),
            ("kb_map", {}),
            ("trust_status", {}),
            ("no_such_tool", arguments),
        ]
        for tool, given in others:
            await refused(client, tool, given, state)
        cut = [state[: len(state) * part // 8] for part in range(1, 8)]
        odd = [state * 2, state + "\n", state.swapcase(), "A" * 1_000_000, "proposal:", "checkpoint:1:j", "é\x00\u202e"]
        for changed in (*cut, *odd):
            await refused(client, "kb_merge", arguments, changed)
        assert (settings.kb / PAGE).read_text(encoding="utf-8") == TEXT
        done = await answered(client, arguments, state)
        assert dict(done.structured_content or {})["status"] == "done"


async def test_two_states_of_one_client_cannot_be_exchanged(settings: Settings) -> None:
    async with beside(settings, await host(settings, "host")) as client:
        first, one = await asked(client, "One.")
        (settings.kb / "other.md").write_text("# Other\n", encoding="utf-8")
        second = {"path": "new.md", "content": "# New\n"}
        other = await client.session.call_tool("kb_merge", second, allow_input_required=True)
        assert other.request_state  # type: ignore[union-attr]  # it is a question
        await refused(client, "kb_merge", first, str(other.request_state))  # type: ignore[union-attr]  # likewise
        await refused(client, "kb_merge", second, one)
        assert not (settings.kb / "new.md").exists()


async def test_a_state_from_before_a_host_s_secret_was_replaced_is_nothing(settings: Settings) -> None:
    """With the stolen old secret nothing continues, and the host itself must ask again."""
    old = await host(settings, "host")
    async with beside(settings, old) as client:
        arguments, state = await asked(client, "Agreed.")
        async with open_state(settings) as kept:
            new = await enrol(kept, "host", now=utc_now())
        async with beside(settings, new) as again:
            await refused(again, "kb_merge", arguments, state)
        # The server that holds the old secret refuses every call, whatever comes with it.
        told = await answered(client, arguments, state)
        assert told.is_error
        assert "secret" in str(told.content)
    assert (settings.kb / PAGE).read_text(encoding="utf-8") == TEXT


async def test_answers_of_another_shape_decide_nothing(settings: Settings) -> None:
    """Only an accepted form with the one word for approval approves."""
    async with beside(settings, await host(settings, "host")) as client:
        odd: list[dict[str, Any]] = [
            {"action": "accept"},
            {"action": "accept", "content": {}},
            {"action": "accept", "content": {"decision": "Approve"}},
            {"action": "accept", "content": {"decision": ["approve"]}},
            {"action": "accept", "content": {"decision": "approve\u200b"}},
            {"action": "accept", "content": {"DECISION": "approve"}},
        ]
        for number, answer in enumerate(odd):
            arguments, state = await asked(client, f"Line {number}.")
            from mcp_types import ElicitResult

            try:
                given: InputResponses = {"decision": ElicitResult.model_validate(answer)}
            except ValueError:
                continue  # the protocol itself has no such answer
            with contextlib.suppress(MCPError):
                await answered(client, arguments, state, given)
            assert (settings.kb / PAGE).read_text(encoding="utf-8") == TEXT, answer


# --- the key ------------------------------------------------------------------------------------------------------------


def readable(key: Path) -> None:
    key.chmod(0o644)


def writable(key: Path) -> None:
    key.chmod(0o622)


def empty(key: Path) -> None:
    key.write_bytes(b"")


def short(key: Path) -> None:
    key.write_bytes(b"k")


def long(key: Path) -> None:
    key.write_bytes(bytes(10_000_000))


def linked(key: Path) -> None:
    known = key.parent.parent / "known"
    known.write_bytes(bytes(32))
    known.chmod(0o600)
    key.unlink()
    key.symlink_to(known)


def folder(key: Path) -> None:
    key.unlink()
    key.mkdir()


def pipe(key: Path) -> None:
    key.unlink()
    os.mkfifo(key, 0o600)


def key_files(folder: Path) -> list[Path]:
    return list(folder.rglob(KEY_FILE))


def key_of(settings: Settings) -> Path:
    assert settings.state_dir is not None
    (found,) = key_files(settings.state_dir)
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
@pytest.mark.parametrize("harm", [readable, writable, empty, short, long, linked, folder, pipe])
async def test_a_key_that_others_may_know_seals_nothing(settings: Settings, harm: Callable[[Path], None]) -> None:
    """With the key anyone can make a state that says a question was asked, about any of their own proposals."""
    async with open_app(settings, indexing=False):
        pass
    key = key_of(settings)
    assert key.stat().st_mode & 0o777 == 0o600
    harm(key)
    with pytest.raises(BaseExceptionGroup) as raised:
        async with open_app(settings, indexing=False):
            pass
    assert raised.group_contains(BadKeyFile, match=r"questions\.key is not used: .*; remove it and start again")


def test_a_server_whose_key_others_may_know_says_so_and_what_to_do(settings: Settings) -> None:
    environment = {**os.environ, "FORGE_KB": str(settings.kb), "FORGE_STATE_DIR": str(settings.state_dir)}
    command = [sys.executable, "-m", "mcp_server", "serve"]
    subprocess.run(command, env=environment, input=b"", capture_output=True, timeout=60, check=True)
    key = key_of(settings)
    key.chmod(0o666)
    ended = subprocess.run(command, env=environment, input=b"", capture_output=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert b"remove it and start again" in ended.stderr
    assert b"Traceback" not in ended.stderr


def on_machines(tmp_path: Path, url: str, schema: str, *names: str) -> list[Settings]:
    kb = write(tmp_path / "kb", {PAGE: TEXT})
    return [Settings(kb=kb, state_dir=tmp_path / name, database_url=url, database_schema=schema) for name in names]


@pytest.mark.external
async def test_with_postgresql_a_question_of_one_machine_is_answered_on_another(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    first, second = on_machines(tmp_path, postgres.url(), schema, "first", "second")
    secret = await host(first, "host")
    async with beside(first, secret) as asking, beside(second, secret) as answering:
        arguments, state = await asked(asking, "Agreed.")
        done = await answered(answering, arguments, state)
        assert dict(done.structured_content or {})["status"] == "done"
    assert not any(key_files(tmp_path))


@pytest.mark.external
async def test_machines_that_start_at_once_get_one_key(postgres: PostgresServer, schema: str, tmp_path: Path) -> None:
    keys: list[bytes] = []

    async def start(settings: Settings) -> None:
        async with open_state(settings) as state:
            keys.append(await shared_key(state.tables))

    async with anyio.create_task_group() as tasks:
        for settings in on_machines(tmp_path, postgres.url(), schema, *map(str, range(8))):
            tasks.start_soon(start, settings)
    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert len(keys[0]) == KEY_BYTES
