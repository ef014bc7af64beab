"""Twenty everyday tasks, as the guide tells them: each is done in Chromium and in a terminal with nothing but the guide's own words.

The guide's table is the script. A step is a visible name to press, `Field = text` to fill in a field, or `name at "words"` for the one
in the entry with these words. A click, a field and a key count one each.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import pytest
from playwright.async_api import Error, Locator, Page

from knowledge.trust.ports import Proposal
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from tests.browser.chromium import ShownSite, executable, somebody
from tests.support.hosts.persons import Person
from tests.support.hosts.terminals import Terminal
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import PostgresServer
from tests.support.web.review_pages import ME, shown
from tests.support.web.review_processes import review_process

pytestmark = pytest.mark.external

GUIDE = Path(__file__).parents[2] / "kb" / "guides" / "everyday-tasks.md"
MOST_STEPS = 5
"""No task on the page takes more clicks, fields and keys than this."""
TEA = "# Tea\n\nIt takes four minutes.\n\nThe pot is blue.\n"
PAGES = {
    "tea.md": TEA,
    "limits.md": "# Limits\n\nAn upload may be 64 MiB.\n",
    "gone.md": "# Gone\n\nA page that a host deletes.\n",
    "old.md": "# Old\n\nA page that a host wants to delete.\n",
}
NEXT = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "
ME_IN_THE_GUIDE = "ann@"
_NEAR = re.compile(r'(.+) at "(.+)"')


@dataclass(frozen=True)
class GuideRow:
    """A row of the guide's table: the command and its words, and the steps on the page with their count."""

    task: str
    command: str
    words: int
    steps: tuple[str, ...]
    clicks: int


def rows() -> Mapping[str, GuideRow]:
    """Return the rows of the guide's table by their task."""
    found = {}
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 5 and cells[2].isdecimal():
            task, command, words, way, clicks = cells
            steps = () if way == "Home" else tuple(way.split(NEXT))
            found[task] = GuideRow(
                task,
                command.partition("`")[2].partition("`")[0],
                int(words),
                steps,
                int(clicks),
            )
    return found


# --- what happened before -------------------------------------------------------------------------------------------------


async def edit(host: Writer, path: str, old: str, new: str, why: str) -> None:
    base = await host.revision(path)
    await host.merge(path, host.text(path).replace(old, new), base_revision=base, section="*", intent=why)


async def days_work(settings: Settings) -> None:
    """Have hosts and a person do what the tasks are about."""
    async with writing(settings, host="laptop") as host:
        await edit(host, "tea.md", "four", "five", "measured again")
        await host.call("kb_delete", path="gone.md", base_revision=await host.revision("gone.md"))
        await host.merge("zebra.md", "# Zebra\n\nZebras were counted a minute ago.\n")


async def contradicts(settings: Settings) -> None:
    async with writing(settings, host="laptop") as host:
        claim = "An upload may be 32 MiB.\n"
        await host.merge("limits.md", claim, source="wiki:limits", base_revision=await host.revision("limits.md"))


async def nights_work(settings: Settings) -> None:
    async with writing(settings, host="night") as host:
        await host.merge("night-1.md", "# Night\n\nWritten at night.\n")
        await edit(host, "tea.md", "blue", "black", "seen at night")


async def asks(settings: Settings, count: int) -> None:
    """Have a host that may only propose ask for this many new pages."""
    async with writing(settings, host="newcomer", level=2) as host:
        for number in range(count):
            await host.merge(f"new/{number}.md", f"# New {number}\n\nPage {number}.\n")


async def asks_to_delete(settings: Settings) -> None:
    async with writing(settings, host="newcomer", level=2) as host:
        await host.call("kb_delete", path="old.md", base_revision=await host.revision("old.md"))


async def approved(settings: Settings) -> None:
    """Have a person approve what a host asked for."""
    await asks(settings, 1)
    async with open_app(settings, indexing=False) as app:
        (proposal,) = await app.base.state.trust.proposals(states=("pending",))
        await app.approvals.approve(proposal.id, proposal.hash, Approver("bea", "page"))


async def undone(settings: Settings) -> None:
    async with writing(settings, host="laptop") as host:
        undo = host.app.services.undo
        found = await host.app.services.timeline.changes("tea.md", limit=50)
        wrong = next(change.id for change in found.changes if change.intent == "measured again")
        plan = await undo.plan(await undo.of_change(wrong), by="ann@page")
        await undo.execute(plan, decision="approved by ann (page, by word)")


async def nothing(_settings: Settings) -> None:
    """Nothing more than a day's work."""


# --- the tasks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """A knowledge base after a task; `seen` is what the person saw last."""

    settings: Settings
    seen: str

    def text(self, path: str) -> str:
        file = self.settings.kb / path
        return file.read_text(encoding="utf-8") if file.exists() else ""

    async def proposals(self, *states: str) -> list[Proposal]:
        async with open_state(self.settings) as state:
            return list(await state.trust.proposals(states=states))  # type: ignore[arg-type]


Check = Callable[[World], Coroutine[Any, Any, bool]]
Typing = Callable[[Terminal], Coroutine[Any, Any, None]]


def sees(*texts: str) -> Check:
    async def check(world: World) -> bool:
        return all(text in world.seen for text in texts)

    return check


def has(path: str, text: str) -> Check:
    async def check(world: World) -> bool:
        return text in world.text(path)

    return check


async def host_is_undone(world: World) -> bool:
    return not world.text("night-1.md") and "blue" in world.text("tea.md") and "five" in world.text("tea.md")


async def ten_are_decided(world: World) -> bool:
    return len(list((world.settings.kb / "new").glob("*.md"))) == 10 and not await world.proposals("pending")


async def changes_are_requested(world: World) -> bool:
    (closed,) = [one for one in await world.proposals("rejected") if one.tool == "kb_delete"]
    return bool(closed.verdict and closed.verdict.changes and "until May" in closed.verdict.note)


async def is_frozen(world: World) -> bool:
    async with open_state(world.settings) as state:
        return any(one.frozen and one.principal.endswith("@night") for one in await state.trust_records())


async def contradiction_is_settled(world: World) -> bool:
    return "64 MiB" in world.text("limits.md") and "32 MiB" not in world.text("limits.md")


async def confirm(screen: Terminal) -> None:
    await anyio.to_thread.run_sync(screen.until, "[y/N]")
    screen.type("y\n")


async def number_of_the_contradiction(screen: Terminal) -> None:
    await anyio.to_thread.run_sync(screen.until, "type the number of the contradiction:")
    screen.type("1\n")


def keys(*typed: tuple[str, str], times: int = 1) -> Typing:
    """Return a person who waits for a text and types, in this order; `#` stands for the digits of the proposal that waits."""

    async def act(screen: Terminal) -> None:
        for _ in range(times):
            for wanted, key in typed:
                await anyio.to_thread.run_sync(screen.until, wanted)
                digits = re.search(r"type ([0-9a-f]{6}):", screen.shown)
                screen.type(key.replace("#", digits[1] if digits else ""))
        await anyio.to_thread.run_sync(screen.until, "0 waiting")
        screen.type("q")

    return act


@dataclass(frozen=True)
class Task:
    """A task of the guide: the check of its outcome, what happened before besides a day's work, and what is typed in the terminal."""

    done: Check
    before: Callable[[Settings], Coroutine[Any, Any, None]] = nothing
    types: Typing | None = None
    replaces_state: bool = False
    """Only `review --web` in its own process can do it on the page: nothing else may use the state."""


async def ten(settings: Settings) -> None:
    await asks(settings, 10)


APPROVE = (("enter open", "\r"), ("a approve", "a"), ("to approve type", "#\n"))
TASKS: Mapping[str, Task] = {
    "see what changed today": Task(sees("measured again", "zebra.md")),
    "see what one host did": Task(sees("seen at night"), nights_work),
    "see who wrote a line, and why": Task(sees("It takes five minutes.", "measured again")),
    "compare two states of a page": Task(sees("four", "five")),
    "undo one change and keep what came later": Task(has("tea.md", "four minutes"), types=confirm),
    "undo a host's day": Task(host_is_undone, nights_work, confirm),
    "bring back a page that was deleted": Task(has("gone.md", "A page that a host deletes."), types=confirm),
    "take back an undo": Task(has("tea.md", "five minutes"), undone, confirm),
    "settle a contradiction": Task(contradiction_is_settled, contradicts, number_of_the_contradiction),
    "see what needs your approval": Task(sees("old.md"), asks_to_delete),
    "decide ten proposals": Task(ten_are_decided, ten, keys(*APPROVE, times=10)),
    "request changes": Task(
        changes_are_requested,
        asks_to_delete,
        keys(("enter open", "\r"), ("c changes", "c"), ("which changes?", "Keep it until May.\n"), ("type", "#\n")),
    ),
    "find who approved a change": Task(sees("approved by bea"), approved),
    "find what was written a minute ago": Task(sees("Zebras were counted")),
    "read a page": Task(sees("It takes five minutes.")),
    "edit a page": Task(has("tea.md", "The lid is lost.")),
    "write a page": Task(has("drinks/milk.md", "No milk.")),
    "freeze a host": Task(is_frozen, nights_work),
    "restore a backup": Task(sees("Audit chain:", "all intact"), types=confirm, replaces_state=True),
    "move the state to PostgreSQL": Task(sees("Audit chain:", "all intact"), types=confirm, replaces_state=True),
}


# --- on the page ----------------------------------------------------------------------------------------------------------


@dataclass
class Hand:
    """Does what the guide says, by what is visible, and counts."""

    page: Page
    count: int = 0

    async def do(self, step: str) -> None:
        self.count += 1
        near = _NEAR.fullmatch(step)
        scope: Locator = self.page.locator("body")
        if near:
            step = near[1]
            scope = self.page.locator("main :is(li, tr, article)").filter(has_text=near[2]).first
        name, fills, text = step.partition(" = ")
        if fills:
            fields = scope.locator("input, textarea, select")
            field = fields.and_(scope.get_by_label(name)).filter(visible=True).first
            await field.fill(text)
            if await field.get_attribute("type") == "search":
                await field.press("Enter")
        else:
            words = re.compile(rf"^\s*{re.escape(name)}(\s*\d+( waiting)?)?\s*$")
            named = "a, button, summary, label"
            found = scope.locator(named).filter(has_text=words).filter(visible=True)
            # After a form that takes long, the page before is still there.
            await found.first.wait_for()
            # The content comes before the menu: a link there with the same name is another one.
            inside = scope.locator("main").locator(named).filter(has_text=words).filter(visible=True)
            await (inside if await inside.count() else found).first.click()
        await self.page.wait_for_load_state("networkidle")


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


def test_the_guide_has_each_task_with_its_count() -> None:
    found = rows()
    assert list(found) == list(TASKS)
    assert len(found) == 20
    for row in found.values():
        assert len(shlex.split(row.command)) == row.words, row
        assert len(row.steps) == row.clicks <= MOST_STEPS, row


async def test_each_task_is_done_on_the_page_in_the_clicks_that_the_guide_says(tmp_path: Path) -> None:
    missed: list[str] = []
    for number, (name, task) in enumerate(TASKS.items()):
        if task.replaces_state:
            continue
        async with shown(tmp_path / str(number), PAGES) as place:
            await days_work(place.settings)
            await task.before(place.settings)
            await place.indexed()
            missed += await _on_page(place, place.settings, rows()[name], task)
    assert not missed, "\n".join(missed)


@pytest.mark.skipif(sys.platform == "win32", reason="ends a process with a signal that Windows has not")
@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.replaces_state])
async def test_each_task_that_replaces_the_state_is_done_on_the_page_in_the_clicks_that_the_guide_says(
    name: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    write(tmp_path / "kb", PAGES)
    ann = Person(tmp_path)
    await days_work(ann.settings)
    saved = tmp_path / "FILE"
    await anyio.to_thread.run_sync(ann.here, "state", "backup", str(saved))
    words = {"FILE": str(saved), "postgresql://ann@db/notes": postgres.url()}
    async with review_process(ann) as page:
        assert await _on_page(page, ann.settings, rows()[name], TASKS[name], words) == []


def _with(step: str, words: Mapping[str, str]) -> str:
    for old, new in words.items():
        step = step.replace(old, new)
    return step


async def _on_page(
    place: ShownSite, settings: Settings, row: GuideRow, task: Task, words: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Do the task, with these words in place of those in the guide, and return what is wrong."""
    async with somebody(place) as person:
        await person.go("/")
        hand = Hand(person.page)
        try:
            for step in row.steps:
                await hand.do(_with(step, {**words, ME_IN_THE_GUIDE: f"{ME}@"}))
            # The site is away while the state is replaced; the page that waits for it has no menu.
            await person.page.get_by_role("navigation", name="Main").wait_for(state="attached")
        except (AssertionError, Error) as error:  # every task is tried, so that one run says all that is wrong
            return [f"{row.task}: {error}"]
        seen = await person.page.locator("main").inner_text()
        done = await task.done(World(settings, seen))
        found = [] if done else [f"{row.task}: not done; the page says {seen[:600]!r}"]
        return found + [f"{row.task}: {one}" for one in person.trouble]


# --- in the terminal ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("name", list(TASKS))
def test_each_task_is_done_in_a_terminal_with_the_words_that_the_guide_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    task, command = TASKS[name], rows()[name].command
    write(tmp_path / "kb", PAGES)
    ann = Person(tmp_path)
    asyncio.run(days_work(ann.settings))
    asyncio.run(task.before(ann.settings))
    saved = tmp_path / "FILE"
    assert ann.here("state", "backup", str(saved)).returncode == 0
    _writes_in_an_editor(tmp_path, monkeypatch)
    command = command.replace("FILE", str(saved)).replace("postgresql://ann@db/notes", postgres.url())
    with ann.at(*shlex.split(command)) as screen:
        if task.types is not None:
            asyncio.run(task.types(screen))
        assert screen.left() == 0, screen.shown
        seen = screen.shown
    assert asyncio.run(task.done(World(ann.settings, seen))), seen


def _writes_in_an_editor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the editor be a program that adds what the guide's person types."""
    program = folder / "editor.py"
    program.write_text(
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[-1])\n"
        "text = 'No milk.' if 'milk' in file.name else 'The lid is lost.'\n"
        "file.write_text(file.read_text() + f'\\n{text}\\n')\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} {program}")
