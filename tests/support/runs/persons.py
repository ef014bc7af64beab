"""A person at a command line whose settings name a language model: a double, on a real socket."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.loop.record.run import Run
from mcp_server.runs.locations import runs_in
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import Script
from tests.doubles.serving import Served, serving
from tests.support.hosts.persons import Person

MODEL = "openai:some-model"


@dataclass(frozen=True)
class RunPerson(Person):
    """A person at a terminal with a scripted model. `more` are variables besides those of the model."""

    model: Model
    served: Served
    more: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        told = {"FORGE_MODEL": MODEL, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{self.served.address}/v1"}
        kept = {name: value for name, value in super().env.items() if not name.startswith(("OPENAI_", "ANTHROPIC_"))}
        return {**kept, **told, **self.more}

    @property
    def modelless(self) -> Person:
        """The same person, with no model in the settings."""
        return Person(self.folder)

    def will(self, goal: str, *script: Script) -> None:
        """Set the model's answers, step by step, in runs whose goal contains these words."""
        self.model.will(goal, *script)

    def told(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Return the final answer of a verb with `--json`."""
        done = self.here(words[0], *words[1:], "--json")
        assert done.returncode == code, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def record(self, run_id: str) -> Run:
        """Return the run as recorded."""
        return self.asked(lambda state: runs_in(state).run(run_id))

    def newest(self) -> Run:
        """Return the run that was begun last."""

        async def newest(state: Any) -> Run:
            store = runs_in(state)
            (line,) = await store.runs(limit=1)
            return await store.run(line.id)

        return self.asked(newest)

    def background(self, *words: str) -> subprocess.Popen[str]:
        """Start a process without a terminal."""
        return self.start(words[0], *words[1:])


@contextmanager
def run_person(folder: Path, **more: str) -> Iterator[RunPerson]:
    """Yield a person whose model answers on a real socket; `more` are variables."""
    model = Model()
    with serving(model) as served:
        yield RunPerson(folder, model, served, more)
