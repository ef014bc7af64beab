"""The same question has the same answer.

Nothing in it depends on the order in which a process happens to keep its sets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.knowledge_bases.folders import PAGES, write

QUESTIONS = (
    "how are secrets of the payment service rotated",
    "backpresure betwen checkout and billing",
    "sentence about gardening",
    "roll",
    "where is caf\udce9 backpressure",
)
"""All words, misspelt ones, equally good pages, a completed word, a lone surrogate."""
_ASK = """
import dataclasses, json, sys
from pathlib import Path
import anyio
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.settings.settings import Settings

async def answers(kb, state, questions, lean):
    async with open_base(Settings(kb=Path(kb), state_dir=Path(state)), lean=lean) as base:
        async with held_lease(base) as lease:
            await bring_up_to_date(base, lease)
        finder = base.load_finder()
        return [dataclasses.asdict(await finder.search(question, explain=True)) for question in questions]

print(json.dumps(anyio.run(answers, sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), "lean" in sys.argv), default=str))
"""


def _asked(kb: Path, state: Path, seed: int, *words: str) -> list[dict[str, object]]:
    command = [sys.executable, "-c", _ASK, str(kb), str(state), json.dumps(QUESTIONS), *words]
    environment = os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    made = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8", env=environment)
    answers: list[dict[str, object]] = json.loads(made.stdout)
    return answers


def test_two_processes_answer_alike(tmp_path: Path) -> None:
    """Our promise: the same result for the same question on the same files, each process with its own index.

    SQLite, tantivy, static vectors, which a lean process reads from the index instead of keeping them in memory.
    """
    same = {f"same/{name}.md": f"# Note {name}\n\nGardening is a sentence about patience.\n" for name in "abcdef"}
    kb = write(tmp_path / "kb", PAGES | same)
    first, second = (_asked(kb, tmp_path / f"state-{seed}", seed) for seed in (1, 2))
    assert first == second
    assert first == _asked(kb, tmp_path / "state-lean", 3, "lean")
    assert all(answer["hits"] for answer in first)
