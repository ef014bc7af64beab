"""Two machines edit the same pages at random and synchronise, sometimes killed in the middle: they end alike, and no text is lost.

FORGE_TEST_SEEDS sets how many sequences run.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from knowledge.git.act_commits import LEASE
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from tests.support.git.repositories import alone
from tests.support.git.two_machines import Machine, bare_of, cloned, two_machines
from tests.support.writing.outside_editor import save

SEEDS = int(os.environ.get("FORGE_TEST_SEEDS", "3"))
STEPS = 36
PAGES = {f"notes/page-{n}.md": f"# Page {n}\n\n" + "".join(f"Line {m}.\n\n" for m in range(3)) for n in range(3)}
MANY = {f"notes/page-{n:02}.md": f"# Page {n}\n\nFirst.\n\nLast.\n" for n in range(30)}
KILLED_AT = (0, 1, 10, 29)
"""After how many pages of a synchronisation its process is killed."""

pytestmark = pytest.mark.external


class Killed(BaseException):
    """Ends a synchronisation as a killed process does: nothing after it runs, except what Python must clean up."""


@dataclass
class Sides:
    """One sequence."""

    draw: random.Random
    machines: tuple[Machine, Machine]
    told: list[str] = field(default_factory=list)
    thrown_away: set[str] = field(default_factory=set)
    done: list[str] = field(default_factory=list)

    def token(self, machine: Machine) -> str:
        """Return a sentence that nobody has written yet."""
        number = self.machines.index(machine)
        self.told.append(f"Side {number} wrote {len(self.told)} {self.draw.randrange(16**6):06x}.")
        return self.told[-1]

    def here(self, machine: Machine) -> set[str]:
        """Return the sentences that the pages of this machine have."""
        text = "\n".join(machine.files().values())
        return {token for token in self.told if token in text}

    async def host_edits(self, machine: Machine) -> None:
        path = self.draw.choice(sorted(machine.files()))
        base, text = await machine.host.revision(path), machine.host.text(path)
        line = f"Line {self.draw.randrange(3)}."
        token = self.token(machine)
        new = text.replace(line, f"{line}\n\n{token}", 1) if line in text else f"{text.rstrip()}\n\n{token}\n"
        answer = await machine.host.merge(path, new, base_revision=base)
        assert answer["status"] == "done", answer

    async def host_replaces(self, machine: Machine) -> None:
        """Replace a line; the other side may change the same one."""
        path = self.draw.choice(sorted(machine.files()))
        base, text = await machine.host.revision(path), machine.host.text(path)
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        if lines:
            line = self.draw.choice(lines)
            self.thrown_away |= {token for token in self.told if token in line}
            await machine.host.merge(path, text.replace(line, self.token(machine), 1), base_revision=base)

    async def host_makes_a_page(self, machine: Machine) -> None:
        name = f"notes/new-{self.draw.randrange(6)}.md"
        if name not in machine.files():
            await machine.host.merge(name, f"# New\n\n{self.token(machine)}\n")

    async def host_moves_a_page(self, machine: Machine) -> None:
        path = self.draw.choice(sorted(machine.files()))
        await machine.host.call("kb_move", path=path, to=f"moved/{len(self.told)}-{len(self.done)}-{Path(path).name}")

    async def editor_saves(self, machine: Machine) -> None:
        path = self.draw.choice(sorted(machine.files()))
        file = machine.kb.folder / path
        text = file.read_text(encoding="utf-8").rstrip("\n")
        save(file, f"{text}\n\n{self.token(machine)}\n".encode(), in_place=self.draw.random() < 0.5)

    async def editor_removes(self, machine: Machine) -> None:
        path = self.draw.choice(sorted(machine.files()))
        self.thrown_away |= {token for token in self.told if token in machine.files()[path]}
        (machine.kb.folder / path).unlink()

    async def person_commits(self, machine: Machine) -> None:
        machine.kb.git("commit", "-qam", "By the person", code=None)

    async def synchronises(self, machine: Machine) -> None:
        before = self.here(machine)
        await machine.synchronise()
        assert before - self.here(machine) <= self.thrown_away | self.reported(*self.machines)

    async def is_killed(self, machine: Machine) -> None:
        before = self.here(machine)
        with killed_at(machine, self.draw.randrange(4)):
            try:
                await machine.synchronise()
            except Killed:
                self.done.append("(killed)")
        assert before - self.here(machine) <= self.thrown_away | self.reported(*self.machines)

    def reported(self, *machines: Machine) -> set[str]:
        """Return the sentences that the other side's half of a conflict had, which people were told of."""
        theirs = b"\n".join(one.theirs for machine in machines for one in machine.conflicts).decode()
        return {token for token in self.told if token in theirs}

    async def step(self) -> None:
        steps: list[tuple[Callable[[Machine], Awaitable[None]], int]] = [
            (self.host_edits, 6),
            (self.host_replaces, 5),
            (self.host_makes_a_page, 2),
            (self.host_moves_a_page, 1),
            (self.editor_saves, 3),
            (self.editor_removes, 1),
            (self.person_commits, 1),
            (self.synchronises, 3),
            (self.is_killed, 5),
        ]
        chosen = self.draw.choices([one for one, _ in steps], [weight for _, weight in steps])[0]
        number = self.draw.randrange(2)
        self.done.append(f"{chosen.__name__}@{number}")
        await chosen(self.machines[number])

    async def end(self) -> None:
        ann, bob = self.machines
        for machine in (ann, bob, ann):
            await self.synchronises(machine)
        assert ann.files() == bob.files()
        assert ann.kb.git("rev-parse", "HEAD") == bob.kb.git("rev-parse", "HEAD")
        lost = set(self.told) - self.here(ann) - self.thrown_away - self.reported(ann, bob)
        assert lost == set()
        in_git = ann.kb.git("log", "-p", "-m", "--format=", "--all")
        assert {token for token in self.told if token not in in_git} <= self.thrown_away
        for text in ann.files().values():
            assert "<<<<<<<" not in text
            assert {token: text.count(token) for token in self.told if text.count(token) > 1} == {}


@contextmanager
def killed_at(machine: Machine, point: int) -> Iterator[None]:
    """Kill a synchronisation before its page with that number is written, or (3) before the commit that joins the branches."""
    run, publish, left = machine.sync._acts.run, machine.sync._published, [point]

    async def run_or_die(act: object) -> object:
        left[0] -= 1
        if point < 3 and left[0] < 0:
            raise Killed
        return await run(act)  # type: ignore[arg-type]

    def publish_or_die(*given: object) -> None:
        if point == 3 and given[-1].joins:  # type: ignore[attr-defined]
            raise Killed
        publish(*given)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.sync._acts, "run", run_or_die)
        patch.setattr(machine.sync, "_published", publish_or_die)
        yield


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_random_edits_on_both_sides_meet_and_none_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    alone(monkeypatch, tmp_path)
    async with two_machines(tmp_path, PAGES) as machines:
        going = Sides(random.Random(seed), machines)  # noqa: S311 - repeatable
        try:
            for _ in range(STEPS):
                await going.step()
            await going.end()
        except BaseException as error:
            error.add_note(f"seed {seed}: {' '.join(going.done)}")
            raise


def test_a_synchronisation_whose_process_is_killed_is_finished_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill comes as soon as so many pages have the other side's text; it may be too late, which must not matter either."""
    alone(monkeypatch, tmp_path)
    bare = bare_of(tmp_path, {**MANY, ".gitignore": ".forge-*.tmp\n"})
    here, there = cloned(bare, tmp_path / "here", "Ann Example"), cloned(bare, tmp_path / "there", "Bob Sample")
    for path, text in MANY.items():
        there.write(path, text.replace("Last.", f"Last, by Bob in {path}."))
        here.write(path, text.replace("First.", f"First, by Ann in {path}."))
    there.commit("By Bob")
    there.git("push", "-q")
    command = [sys.executable, "-m", "mcp_server", "sync", "--kb", str(here.folder)]
    settings = Settings(kb=here.folder, state_dir=tmp_path / "state")
    environment = {**os.environ, "FORGE_GIT": "commit", "FORGE_STATE_DIR": str(tmp_path / "state")}

    async def release() -> None:
        """Do what a minute does: until then, the right to commit is that of the killed process."""
        async with open_state(settings) as state:
            if held := await state.lease(LEASE):
                await state.release_lease(LEASE, held.holder)

    def arrived() -> int:
        return sum("by Bob" in (here.folder / path).read_text(encoding="utf-8") for path in MANY)

    for pages in KILLED_AT:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and arrived() <= pages:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        anyio.run(release)
    for lock in (here.folder / ".git").rglob("*.lock"):
        lock.unlink()  # as git itself asks for, after a git that was killed
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    for path, text in MANY.items():
        merged = text.replace("Last.", f"Last, by Bob in {path}.").replace("First.", f"First, by Ann in {path}.")
        assert (here.folder / path).read_text(encoding="utf-8") == merged
    assert here.status == []
    there.git("pull", "-q", "--ff-only")
    assert there.git("rev-parse", "HEAD") == here.git("rev-parse", "HEAD")
