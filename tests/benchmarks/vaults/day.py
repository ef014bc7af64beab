"""A day of a vault: three hosts write into notes in which Obsidian types, while `git pull` brings changes of others."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import Refused, writing
from tests.support.writing.many_writers import Host, Load, hosts
from tests.support.writing.obsidian_window import Window

HOSTS, EDITS, NOTES, PULLS = 3, 40, 12, 6
LARGEST_NOTE = 6_000
SETTLES_S = 6
_AS = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")


@dataclass
class Day:
    """Who wrote which line into which note."""

    shared: list[str]
    acknowledged: list[tuple[str, str]] = field(default_factory=list)
    typed: list[tuple[str, str]] = field(default_factory=list)
    refused: int = 0
    is_over: bool = False


async def day_of(vault: Path, folder: Path, seed: int) -> str:
    """Let a copy of the vault have a day, and say in one line what became of it."""
    kb, other, draw = folder / "kb", folder / "other", _draw(seed)
    await anyio.to_thread.run_sync(_copied, vault, kb, other)
    notes = sorted(file.relative_to(kb).as_posix() for file in kb.rglob("*.md") if _is_fit(file.read_bytes()))
    chosen = draw.sample(notes, NOTES + PULLS)
    day, pulled = Day(chosen[:NOTES]), chosen[NOTES:]
    settings = Settings(kb=kb, state_dir=folder / "state")
    async with hosts(settings, Load(hosts=HOSTS, edits=0, saves=0, seed=seed)) as writers:
        await _indexed(writers[0])
        async with anyio.create_task_group() as all_day:
            all_day.start_soon(anyio.to_thread.run_sync, _type, kb, day, seed)
            all_day.start_soon(_pull, kb, other, pulled)
            async with anyio.create_task_group() as tasks:
                for number, host in enumerate(writers):
                    tasks.start_soon(_write, host, number, day, seed)
            day.is_over = True
        await anyio.sleep(SETTLES_S)
    return await _looked_back(settings, day, pulled)


def _copied(vault: Path, kb: Path, other: Path) -> None:
    shutil.copytree(vault, kb)
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "start")):
        _git(kb, *words)
    _git(kb, "clone", "-q", str(kb), str(other))


def _is_fit(raw: bytes) -> bool:
    return len(raw) < LARGEST_NOTE and b"\r" not in raw and b"\n## " in raw


async def _indexed(host: Host) -> None:
    while True:
        progress = (await host.call("kb_search", query="note"))["indexed"]
        if progress["done"] == progress["total"] > 0:
            return
        await anyio.sleep(0.5)


async def _write(host: Host, number: int, day: Day, seed: int) -> None:
    draw = _draw(seed * HOSTS + number)
    for edit in range(EDITS):
        note, line = draw.choice(day.shared), f"- host {number} says {edit:03} {draw.randrange(16**6):06x}"
        try:
            page = await host.call("kb_read", path=note)
            section = page["outline"][-1]["section"]
            part = await host.call("kb_read", path=note, section=section)
            text = f"{part['text'].rstrip()}\n\n{line}\n"
            answer = await host.call(
                "kb_merge", path=note, content=text, section=section, base_revision=part["revision"]
            )
        except Refused:
            answer = {"status": "refused"}
        if answer["status"] == "done":
            day.acknowledged.append((note, line))
        else:  # two hosts at the end of one section
            day.refused += 1
        await anyio.sleep(draw.uniform(0, 0.1))


def _type(kb: Path, day: Day, seed: int) -> None:
    draw, number = _draw(seed + 1), 0
    while not day.is_over:
        note = draw.choice(day.shared)
        window = Window(kb / note)
        for _ in range(draw.randrange(2, 6)):
            line = f"- typed in Obsidian {number:03} {draw.randrange(16**6):06x}"
            number += 1
            half = draw.randrange(1, len(line))
            for piece in (f"\n{line[:half]}", f"{line[half:]}\n"):
                window.type(piece)
                if draw.random() < 0.5:
                    window.hear()
                if piece.endswith("\n") or draw.random() < 0.5:
                    window.save()
            if line in window.text.split("\n"):
                day.typed.append((note, line))
            for _ in range(10):
                time.sleep(0.02)
                window.hear()


async def _pull(kb: Path, other: Path, pulled: list[str]) -> None:
    for note in pulled:
        file = other / note
        file.write_text(f"{file.read_text(encoding='utf-8')}\n- pulled\n", encoding="utf-8")
        _git(other, "commit", "-qam", "elsewhere")
        await anyio.to_thread.run_sync(_git, kb, "pull", "-q", "--no-rebase", "--no-edit", str(other), "main")
        await anyio.sleep(1)


async def _looked_back(settings: Settings, day: Day, pulled: list[str]) -> str:
    async with writing(settings) as host:
        lines = {note: host.text(note).split("\n") for note in [*day.shared, *pulled]}
        lost = sum(lines[note].count(line) == 0 for note, line in day.acknowledged)
        doubled = sum(lines[note].count(line) > 1 for note, line in [*day.acknowledged, *day.typed])
        gone = sum(line not in lines[note] for note, line in day.typed)
    arrived = sum("- pulled" in lines[note] for note in pulled)
    changed = len(_git(settings.kb, "status", "--short").splitlines())
    return (
        f"{len(day.acknowledged)} edits acknowledged, {lost} lost; {len(day.typed)} lines typed and saved, {gone} not on the page; "
        f"{doubled} doubled; {day.refused} refused; {arrived} of {len(pulled)} pulled notes arrived; "
        f"{changed} of {len(day.shared)} notes changed"
    )


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *_AS, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def _draw(seed: int) -> random.Random:
    return random.Random(seed)
