"""The program that measures the code's layout, on a small made-up project with known figures."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from tests.bench.__main__ import main
from tests.bench.house.trace import Trace, tracing, watching
from tests.support.knowledge_bases.folders import write

FILES = {
    "knowledge/__init__.py": '"""Pages."""\n',
    "knowledge/page.py": (
        '"""A page."""\n\nfrom __future__ import annotations\n\n\n# The reason for the class.\nclass Page:\n'
        '    """One page."""\n\n    size = 1  # bytes\n    other = 2  # noqa: E501\n\n\n'
        'def read() -> Page:\n    """Return it."""\n    page = Page()\n\n    return page\n'
    ),
    "knowledge/merge/__init__.py": "",
    "knowledge/merge/joining.py": (
        "from typing import TYPE_CHECKING\n\nfrom knowledge.page import read\n\nif TYPE_CHECKING:\n"
        "    from agents.agent import Agent\n\n\nclass Page:\n    pass\n\n\ndef join(agent: Agent):\n    return read()\n"
    ),
    "knowledge/merge/embedding.py": "def embed():\n    from knowledge.merge.joining import join\n\n    return join(None)\n",
    "agents/__init__.py": "",
    "agents/agent.py": "from knowledge.merge import joining\n\n\nclass Agent:\n    joined = joining.join\n",
    "mcp_server/__init__.py": "",
    "mcp_server/app.py": "import os\n\nfrom agents import agent\n\nAPP = agent.Agent()\n" + "x = 1\n" * 60,
    "tests/__init__.py": "",
    "tests/unit/test_page.py": "def test_page():\n    assert True\n",
}


@pytest.fixture
def measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """Return what the program wrote as JSON, and what it printed."""
    write(tmp_path, FILES)
    written = tmp_path / "house.json"
    assert main(["house", "--root", str(tmp_path), "--json", str(written), "--no-walks"]) == 0
    return json.loads(written.read_text(encoding="utf-8")), capsys.readouterr().out


def test_rooms_functions_and_names_of_a_small_project_are_counted(measured: tuple[dict[str, Any], str]) -> None:
    found, printed = measured
    rooms = {room["name"]: room for room in found["rooms"]}
    assert list(rooms) == ["agents", "knowledge", "knowledge/merge", "mcp_server"]
    assert rooms["knowledge"] == {
        "name": "knowledge",
        "files": 2,
        "code": 7,
        "comments": 1,
        "beside": 1,  # `noqa` alone gives no reason
        "docstrings": 4,
        "small": 1,
        "comment_share": 16.7,
    }
    assert (found["product"]["files"], found["tests"]["files"], found["product"]["small"]) == (9, 2, 4)
    assert found["beside_folders"] == {"knowledge": 1}
    assert found["functions"]["whole"] == {"count": 3, "median": 4, "p90": 5}
    assert found["functions"]["body"] == {"count": 3, "median": 2, "p90": 2}
    # `read` alone: `Agent` and `join` have two uses, `embed` none, and `Page` two definitions.
    assert found["functions"]["used_once_top"] == 1
    assert found["classes"] == {"count": 3, "public": 3, "shared": {"Page": 2}}
    assert found["gerunds"] == ["knowledge/merge/joining.py"]
    assert "    knowledge/merge/joining.py" in printed


def test_imports_are_counted_by_place_and_circles_and_layers_show(measured: tuple[dict[str, Any], str]) -> None:
    found, printed = measured
    imports = found["imports"]
    assert imports["statements"] == {"module": 6, "local": 1, "types": 1}
    assert imports["circles"] == [["agents/agent.py", "knowledge/merge/joining.py"]]
    assert imports["circles_at_start"] == imports["circles_without_types"] == []
    assert imports["against_layers"] == ["knowledge/merge/joining.py:6 imports agents/agent.py (types)"]
    assert ["knowledge/merge/embedding.py", "knowledge/merge/joining.py", "local", 2] in imports["edges"]
    assert "circles, counting local and type-only imports: 1 (2 files)" in printed


WALKED = {
    "knowledge/disk.py": (
        "def load(path):\n    return path.read_text()\n\n\ndef keep(connection, text):\n"
        "    connection.execute('INSERT INTO kept VALUES (?)', (text,)).fetchall()\n"
        "    return connection.execute('SELECT * FROM kept').fetchall()\n"
    ),
    "agents/step.py": (
        "import anyio\nimport anyio.to_thread\n\n\nasync def step(load, keep, path, connection):\n"
        "    await anyio.sleep(0)\n    text = await anyio.to_thread.run_sync(load, path)\n"
        "    await anyio.sleep(0)\n    return keep(connection, {'text': text})\n"
    ),
}


def _loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"walked_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_a_trace_counts_entries_once_across_awaits_and_threads_and_nothing_outside(tmp_path: Path) -> None:
    write(tmp_path, WALKED | {"page.md": "a sentence to follow"})
    disk, step = _loaded(tmp_path / "knowledge/disk.py"), _loaded(tmp_path / "agents/step.py")
    page, database = tmp_path / "page.md", tmp_path / "state.db"

    def keep(connection: apsw.Connection, told: dict[str, str]) -> object:
        return disk.keep(connection, told["text"])

    async def go(run: Callable[..., Any], connection: apsw.Connection) -> None:
        await run(disk.load, keep, page, connection)

    with watching():
        connection = apsw.Connection(str(database))
        connection.execute("CREATE TABLE kept (text)").fetchall()
        await go(step.step, connection)  # not traced
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go, step.step, connection)  # nor is a task that the traced one didn't start
            with tracing(Trace(tmp_path, "page.md", str(database), "sentence to follow")) as trace:
                await go(step.step, connection)
        connection.close()
    assert trace.entered == [("agents/step.py", "step"), ("knowledge/disk.py", "load"), ("knowledge/disk.py", "keep")]
    assert trace.route == ["agents/step.py:step", "knowledge/disk.py:load"]
    assert trace.text_route == ["knowledge/disk.py:keep"]
    assert trace.opened == 1
    assert (len(trace.reads), len(trace.writes)) == (1, 1)
