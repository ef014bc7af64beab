"""Many hosts write one note at once, each with its own server process and client, while an editor saves the file too.

Each one's places are drawn from a seed: lines of paragraphs, items of lists, rows of a table, keys of the front matter,
sections. No two write in the same place, but neighbours belong to different hosts. Every edit has a unique word.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, NamedTuple

import anyio
import anyio.to_thread
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import Refused, let_in, writing

ROOT = Path(__file__).parents[3]
NOTE = "shared/note.md"
EDITORS = "## From the editor"
OVERLAPS = "Overlaps"
SOON_S = 120
ROUTINE = 4.0

Kind = Literal["line", "item", "row", "key", "section"]
SHARES: tuple[tuple[Kind, float], ...] = (
    ("line", 0.3),
    ("item", 0.25),
    ("row", 0.25),
    ("section", 0.15),
    ("key", 0.05),
)
PER_PARAGRAPH = 12


@dataclass(frozen=True)
class Load:
    """The load: this many hosts, this many edits each, beside this many saves of an editor."""

    hosts: int
    edits: int
    saves: int
    seed: int
    pause_s: float = 0.0
    """A host's average pause between two edits; 0 for none: the next one follows at once."""
    editor: str = "outside_editor"
    """The program that saves, in this folder."""


class Place(NamedTuple):
    """A line of the note that one host changes into `new`, or below which it `adds` one."""

    host: int
    kind: Kind
    section: str
    old: str
    new: str
    adds: bool


@dataclass
class Played:
    """The outcome. `refused` and `wrong_overlaps` hold the unexpected answers."""

    load: Load
    acknowledged: list[Place] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    lost: list[Place] = field(default_factory=list)
    doubled: list[Place] = field(default_factory=list)
    saves: list[str] = field(default_factory=list)
    unrecoverable: list[str] = field(default_factory=list)
    overlaps: int = 0
    wrong_overlaps: list[str] = field(default_factory=list)
    merges_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    servers_cpu_s: float = 0.0
    """Processor time of all servers while the hosts wrote; 0 where the kernel does not report it."""
    audit: str = ""

    def quantile(self, share: float) -> float:
        """Return the milliseconds within which this share of the merges finished."""
        ordered = sorted(self.merges_s)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @property
    def cpu_ms(self) -> float:
        """Return the processor time of all servers together for one merge, in milliseconds."""
        return 1000 * self.servers_cpu_s / len(self.merges_s)

    def in_words(self) -> str:
        """Return one line with every figure."""
        return (
            f"seed {self.load.seed}: {self.load.hosts} hosts, {len(self.acknowledged)} edits acknowledged, {len(self.lost)} lost, "
            f"{len(self.doubled)} doubled, {len(self.refused)} refused; {len(self.saves)} saves of an editor, "
            f"{len(self.unrecoverable)} unrecoverable; {self.overlaps} overlaps, {len(self.wrong_overlaps)} answered wrongly; "
            f"merge p50 {self.quantile(0.5):.0f} ms, p95 {self.quantile(0.95):.0f} ms; "
            f"{len(self.merges_s) / self.seconds:.1f} merges a second, {self.cpu_ms:.0f} ms of the servers' processor each"
        )


def _draw(seed: int | str) -> random.Random:
    return random.Random(seed)  # noqa: S311  what is drawn is to be drawn again, and no secret


def drawn(load: Load) -> tuple[str, list[Place]]:
    """Return the note, and every place in it for an edit."""
    draw = _draw(load.seed)
    count = load.hosts * load.edits
    owners = [host for host in range(load.hosts) for _ in range(load.edits)]
    draw.shuffle(owners)
    kinds: list[Kind] = [kind for kind, share in SHARES for _ in range(round(share * count))]
    kinds = (kinds + kinds)[:count]
    places = [_place(draw, owner, kind, number) for number, (owner, kind) in enumerate(zip(owners, kinds, strict=True))]
    return _note(load, places), places


def _place(draw: random.Random, host: int, kind: Kind, number: int) -> Place:
    mark = f"w{host}n{number:03}x{draw.randrange(16**6):06x}"
    adds = kind != "line" and draw.random() < 0.3
    old, new, section = {
        "line": (f"Line {number:03} says what it always said.", f"Line {number:03} now says {mark}.", "Prose"),
        "item": (f"- item {number:03} of the list", f"- item {number:03} is now {mark}", "List"),
        "row": (f"| row {number:03} | {number} | open |", f"| row {number:03} | {number} | {mark} |", "Table"),
        "key": (f"key{number:03}: value {number}", f"key{number:03}: {mark}", ""),
        "section": (f"What topic {number:03} is about.", f"Topic {number:03} is about {mark}.", f"Topic {number:03}"),
    }[kind]
    if adds:
        new = {
            "item": f"- one more item {mark}",
            "row": f"| more {mark} | {number} | new |",
            "key": f"new{number:03}: {mark}",
            "section": f"\nOne more thing about it: {mark}.",
        }[kind]
    return Place(host, kind, section, old, new, adds)


def _note(load: Load, places: Sequence[Place]) -> str:
    by_kind = {kind: [place for place in places if place.kind == kind] for kind, _ in SHARES}
    lines = by_kind["line"]
    paragraphs = [lines[at : at + PER_PARAGRAPH] for at in range(0, len(lines), PER_PARAGRAPH)]
    parts = [
        "---\n"
        + "".join(f"{line}\n" for line in ["title: Shared", *(place.old for place in by_kind["key"])])
        + "---\n# Shared",
        "## Prose",
        *("\n".join(place.old for place in paragraph) for paragraph in paragraphs),
        "## List",
        "\n".join(place.old for place in by_kind["item"]),
        "## Table",
        "| name | number | state |\n|---|---|---|\n" + "\n".join(place.old for place in by_kind["row"]),
        *(f"## {place.section}\n\n{place.old}" for place in by_kind["section"]),
        f"## {OVERLAPS}",
        *(_contested(host) for host in range(load.hosts)),
        EDITORS,
        "- the first line is nobody's",
    ]
    return "\n\n".join(parts) + "\n"


def _contested(host: int) -> str:
    return f"Contested line {host} as it was."


def edited(text: str, place: Place) -> str:
    """Return `text` with the edit made in its place."""
    lines = text.split("\n")
    at = lines.index(place.old)
    lines[at : at + 1] = [place.old, place.new] if place.adds else [place.new]
    return "\n".join(lines)


def section_of(text: str, heading: str) -> str:
    """Return the section of the second level with that heading, heading included."""
    found = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[0]


class Host:
    """A host that writes: its client, and the note as it knows it, which is `base` with its own edits."""

    def __init__(self, number: int, client: Client, load: Load) -> None:
        self._client = client
        self._draw = _draw(f"{load.seed} {number}")
        self._pause_s = load.pause_s
        self.text = self.base = ""

    async def think(self) -> None:
        """Wait, if this host takes its time."""
        if self._pause_s:
            await anyio.sleep(self._draw.uniform(0, 2 * self._pause_s))

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        with anyio.fail_after(SOON_S):
            result = await self._client.call_tool(tool, arguments)
        if result.is_error:
            raise Refused(str(getattr(result.content[0], "text", "")))
        return dict(result.structured_content or {})

    async def read(self) -> None:
        """Read the whole note, page by page; start over if it changed in between."""
        while True:
            pages = [await self.call("kb_read", path=NOTE, view="full")]
            while pages[-1]["next_offset"] is not None and pages[-1]["revision"] == pages[0]["revision"]:
                pages.append(await self.call("kb_read", path=NOTE, view="full", offset=pages[-1]["next_offset"]))
            if pages[-1]["revision"] == pages[0]["revision"]:
                break
        head = "".join(f"{key}: {value}\n" for key, value in pages[0]["metadata"].items())
        self.text = f"---\n{head}---\n" + "".join(page["text"] for page in pages)
        self.base = pages[0]["revision"]

    async def settle_in(self) -> None:
        """Read the note and dry-run a merge, so that the server has loaded everything, like a long-running one."""
        await self.read()
        await self.call("kb_merge", path=NOTE, content=self.text, base_revision=self.base, dry_run=True)

    async def merge(self, text: str, section: str | None) -> tuple[dict[str, Any], float]:
        """Send the new note, or a section of it; return the answer and its duration."""
        content = text if section is None else section_of(text, section)
        begun = perf_counter()
        answer = await self.call("kb_merge", path=NOTE, content=content, section=section, base_revision=self.base)
        return answer, perf_counter() - begun

    async def write(self, place: Place) -> tuple[dict[str, Any], float]:
        """Make the edit, and continue with its result."""
        if self._draw.random() < 0.35:
            await self.read()
        with anyio.fail_after(SOON_S):
            # A save in place leaves half a note for a moment.
            while place.old not in self.text.split("\n"):
                await self.read()
        text = edited(self.text, place)
        in_section = place.section and self._draw.random() < 0.4
        answer, took_s = await self.merge(text, place.section if in_section else None)
        if answer["status"] == "done":
            self.text, self.base = text, answer["revision"]
        return answer, took_s


class Editor:
    """The editor's process. It saves for each line that it reads, in its own time."""

    def __init__(self, file: Path, load: Load) -> None:
        command = [sys.executable, "-m", f"tests.support.writing.{load.editor}", str(file), str(load.seed)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._left = load.saves

    def save(self, times: int = 1) -> None:
        assert self._process.stdin is not None
        for _ in range(min(times, self._left)):
            self._left -= 1
            self._process.stdin.write("save\n")
            self._process.stdin.flush()

    def rest(self) -> list[str]:
        """Let it make the remaining saves, and return the line that each of its saves added."""
        self.save(self._left)
        said, _ = self._process.communicate(timeout=SOON_S)
        assert self._process.returncode == 0
        return said.splitlines()


@asynccontextmanager
async def hosts(settings: Settings, load: Load) -> AsyncIterator[list[Host]]:
    """Start a server for every host, which a person lets do routine acts, and yield the hosts."""
    async with AsyncExitStack() as stack:
        clients: list[Host | None] = [None] * load.hosts

        async def start(number: int) -> None:
            allowed = await let_in(settings, f"host-{number}", ROUTINE)
            process = StdioServerParameters(
                command=sys.executable,
                args=["-m", "mcp_server", "serve", "--kb", str(settings.kb), "--state-dir", str(settings.state_dir)],
                env={"FORGE_ENROLMENT": allowed.enrolment or ""},
                cwd=ROOT,
            )
            errors = stack.enter_context((settings.kb.parent / f"host-{number}.log").open("w", encoding="utf-8"))
            client = await stack.enter_async_context(Client(stdio_client(process, errlog=errors)))
            clients[number] = Host(number, client, load)

        for number in range(load.hosts):
            await start(number)
        yield [host for host in clients if host is not None]


async def play(folder: Path, load: Load) -> Played:
    """Let them all write, then check which edits are there."""
    note, places = drawn(load)
    settings = Settings(kb=folder / "kb", state_dir=folder / "state")
    file = settings.kb / NOTE
    file.parent.mkdir(parents=True)
    file.write_text(note, encoding="utf-8")
    played = Played(load)
    async with hosts(settings, load) as writers:
        for host in writers:
            await host.settle_in()
        editor = Editor(file, load)
        begun, used_s = perf_counter(), _servers_cpu_s()
        async with anyio.create_task_group() as tasks:
            for number, host in enumerate(writers):
                mine = [place for place in places if place.host == number]
                _draw(load.seed + number).shuffle(mine)
                tasks.start_soon(_edits, host, mine, editor, played)
        played.seconds, played.servers_cpu_s = perf_counter() - begun, _servers_cpu_s() - used_s
        played.saves = await anyio.to_thread.run_sync(editor.rest)
        await _overlaps(writers, played)
    await _look_back(settings, played)
    return played


def _servers_cpu_s() -> float:
    """Return the processor time used so far by servers that this process started."""
    used = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = stat.parent.joinpath("cmdline").read_bytes(), stat.read_text(encoding="utf-8")
        except OSError:
            continue  # it has ended
        numbers = fields.rpartition(")")[2].split()
        if int(numbers[1]) == os.getpid() and b"mcp_server" in name:
            used += (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
    return used


async def _edits(host: Host, places: Sequence[Place], editor: Editor, played: Played) -> None:
    each = -(-played.load.saves // (played.load.hosts * played.load.edits))
    for place in places:
        await host.think()
        editor.save(each)
        try:
            answer, took_s = await host.write(place)
        except Refused as refused:
            played.refused.append(f"{place}: {refused}")
            continue
        played.merges_s.append(took_s)
        if answer["status"] == "done":
            played.acknowledged.append(place)
        else:
            played.refused.append(f"{place}: {answer['status']} {answer['conflicts']} {answer['note']}")


async def _overlaps(writers: Sequence[Host], played: Played) -> None:
    """Let two hosts each change one line that both have read."""
    for number, second in enumerate(writers):
        first = writers[number - 1]
        old = _contested(number)
        await first.read()
        second.text, second.base = first.text, first.base
        ours, theirs = (
            f"Contested line {number} as the first wants it.",
            f"Contested line {number} as the second wants it.",
        )
        done, _ = await first.merge(first.text.replace(old, ours), OVERLAPS)
        answer, _ = await second.merge(second.text.replace(old, theirs), OVERLAPS)
        played.overlaps += 1
        sides = [(one["base"].strip(), one["ours"].strip(), one["theirs"].strip()) for one in answer["conflicts"]]
        if (done["status"], answer["status"], sides) != ("done", "conflict", [(old, ours, theirs)]):
            played.wrong_overlaps.append(f"{done['status']}, then {answer['status']} {sides}")


async def _look_back(settings: Settings, played: Played) -> None:
    """Find every edit and every save again, through the tools, after all servers have ended."""
    async with writing(settings) as host:
        # The next act records the editor's text.
        base = await host.revision(NOTE)
        await host.merge(NOTE, "Everybody is done.", section=OVERLAPS, base_revision=base, source="user")
        text = host.text(NOTE)
        lines = text.split("\n")
        for place in played.acknowledged:
            there = lines.count(place.new.strip("\n"))
            if not there:
                played.lost.append(place)
            elif there > 1:
                played.doubled.append(place)
        played.unrecoverable = [line for line in played.saves if line not in lines]
        cursor = None
        while played.unrecoverable:
            history = await host.call("kb_history", path=NOTE, limit=100, cursor=cursor)
            for state in history["revisions"]:
                if played.unrecoverable and not state["by"]:
                    kept = await _whole(host.call, state["revision"])
                    played.unrecoverable = [line for line in played.unrecoverable if line not in kept]
            cursor = history["next_cursor"]
            if cursor is None:
                break
    command = [sys.executable, "-m", "mcp_server", "audit", "verify", "--kb", str(settings.kb), "--state-dir"]
    verified = await anyio.run_process([*command, str(settings.state_dir)], cwd=ROOT, check=False)
    played.audit = "" if verified.returncode == 0 else (verified.stdout + verified.stderr).decode()


async def _whole(call: Any, revision: str) -> str:
    offset: int | None = 0
    text = ""
    while offset is not None:
        page = await call("kb_read", path=NOTE, view="full", revision=revision, offset=offset)
        text, offset = text + page["text"], page["next_offset"]
    return text
