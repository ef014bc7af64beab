"""Random edits, moves, deletions and creations by hosts and people with undos between, compared with a model of what is left.

Undone changes are gone as if they had never been, later ones stay, or a conflict is shown; nothing is lost, and an undo of an undo
is the state before it, byte for byte.
"""

from __future__ import annotations

import asyncio
import copy
import posixpath
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.errors import AlreadyUndone
from knowledge.history.audit.chain import verify
from knowledge.history.ports import Actor
from knowledge.writing.requests import ChangeRequest, DeleteRequest, MergeRequest, MoveRequest
from knowledge.writing.undo.past_act import PastAct
from knowledge.writing.undo.undo import UndoPlan
from mcp_server.app.factories.writer import Writing
from mcp_server.app.knowledge_base import KnowledgeBase, open_base
from mcp_server.app.settings.settings import Settings
from mcp_server.connectors.evidence_sources import EvidenceSources

FEW, MANY = 12, 1_000
PARTS = 3
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
PRINCIPALS = ("ann@wild", "ann@tame", "ann@terminal")
FOLDERS = ("", "d/", "d/e/")


Outcome = Literal["done", "gone", "conflict"]
"""How taking a part back went; `gone`: its page is not there, and may come back with it."""


@dataclass
class Page:
    """A page as the model knows it: its parts, and the pages that it links to. A page that is gone keeps its last path."""

    path: str
    parts: list[str]
    links: tuple[int, ...] = ()
    there: bool = True


@dataclass(frozen=True)
class Effect:
    """What an act did to one page: its state before and after. `parts` names those that differ."""

    page: int
    before: Page
    after: Page

    @property
    def parts(self) -> list[int]:
        return [at for at in range(PARTS) if self.before.parts[at] != self.after.parts[at]]


@dataclass
class Act:
    """An act: the name and principal under which it is on record, and what it did."""

    name: str
    by: str
    effects: list[Effect]
    takes_back: tuple[Act, ...] = ()
    is_undo: bool = False


@dataclass
class Model:
    """Every page by number."""

    pages: dict[int, Page] = field(default_factory=dict)
    astray: bool = False
    """Whether a page was removed elsewhere than where it came: links to it then name a path at which it will not come back."""

    def copy(self) -> Model:
        return copy.deepcopy(self)

    def files(self) -> dict[str, str]:
        return {page.path: self.text(page) for page in self.pages.values() if page.there}

    def text(self, page: Page) -> str:
        home = posixpath.dirname(page.path) or "."
        links = [f"See [page {to}]({posixpath.relpath(self.pages[to].path, home)}).\n\n" for to in page.links]
        parts = [f"## Part {at}\n\nThis says {said}.\n" for at, said in enumerate(page.parts)]
        return "# A page\n\n" + "".join(links) + "\n".join(parts)

    def since(self, before: Model) -> list[Effect]:
        """Return what differs from the model `before`."""
        found = []
        for number, page in self.pages.items():
            was = before.pages.get(number) or Page(page.path, ["" for _ in page.parts], page.links, there=False)
            if was != page:
                found.append(Effect(number, copy.deepcopy(was), copy.deepcopy(page)))
        return found

    def occupied(self, path: str, but: int) -> bool:
        return any(page.there and page.path == path for number, page in self.pages.items() if number != but)

    def take_back(self, act: Act) -> set[Outcome]:
        """Take back an act part by part where its state is still there, and return how that went."""
        return {outcome for effect in act.effects for outcome in self._take_back(effect)}

    def _take_back(self, effect: Effect) -> Iterator[Outcome]:
        page, before, after = self.pages[effect.page], effect.before, effect.after
        if before.there != after.there:
            yield self._bring_or_remove(page, effect)
        elif not page.there:
            yield "gone"
        else:
            if before.path not in (after.path, page.path):
                free = page.path == after.path and not self.occupied(before.path, effect.page)
                page.path = before.path if free else page.path
                yield "done" if free else "conflict"
            for at in effect.parts:
                if page.parts[at] == after.parts[at]:
                    page.parts[at] = before.parts[at]
                yield "done" if page.parts[at] == before.parts[at] else "conflict"

    def _bring_or_remove(self, page: Page, effect: Effect) -> Outcome:
        before, after = effect.before, effect.after
        if after.there:  # it was made, or came back
            if not page.there:
                return "gone"
            if page.parts != after.parts:
                return "conflict"
            self.astray = self.astray or page.path != after.path
            page.there, page.path = False, before.path
            return "done"
        if page.there:
            return "done" if page.parts == before.parts else "conflict"
        if self.occupied(before.path, effect.page):
            return "conflict"
        page.there, page.path, page.parts = True, before.path, [*before.parts]
        return "done"


class Bench:
    """A knowledge base, the model of it, and every act so far."""

    def __init__(self, base: KnowledgeBase, writing: Writing) -> None:
        self.base, self.writing, self.root = base, writing, base.vault.root
        self.model, self.acts, self.clean = Model(), list[Act](), True
        self._counter = 0
        for path in ("a.md", "b.md", "d/c.md"):
            number = len(self.model.pages)
            links = tuple(range(number))
            self.model.pages[number] = Page(path, [self.fresh() for _ in range(PARTS)], links)
        for path, text in self.model.files().items():
            (self.root / path).parent.mkdir(exist_ok=True)
            (self.root / path).write_text(text)

    def fresh(self) -> str:
        self._counter += 1
        return f"w{self._counter}"

    def files(self) -> dict[str, str]:
        return {str(file.relative_to(self.root)): file.read_text() for file in self.root.rglob("*.md")}

    async def step(self, kind: str, first: int, second: int) -> None:
        """Do one step, if it is possible now, and compare."""
        before = self.model.copy()
        there = [number for number, page in self.model.pages.items() if page.there]
        by = PRINCIPALS[second % len(PRINCIPALS)]
        if kind == "undo" and self.acts:
            await self._undo(self.acts[first % len(self.acts)])
            return
        if kind == "host":
            await self._undo_host("wild")
            return
        if kind == "create":
            await self._create(by, there, first)
        elif kind != "undo" and there:
            await {"edit": self._edit, "save": self._save, "move": self._move, "delete": self._delete}[kind](
                by, there[first % len(there)], second
            )
        if effects := self.model.since(before):
            self.acts.append(Act(await self._newest(effects[0].after), by if kind != "save" else "", effects))
        assert self.files() == self.model.files()

    async def _newest(self, page: Page) -> str:
        return (await self.writing.undo.of_page(page.path))[0].name

    async def _create(self, by: str, there: Sequence[int], first: int) -> None:
        number = len(self.model.pages)
        links = (there[first % len(there)],) if there else ()
        page = Page(f"{FOLDERS[first % 3]}n{number}.md", [self.fresh() for _ in range(PARTS)], links)
        self.model.pages[number] = page
        await self._merge(by, page.path, self.model.text(page))

    async def _edit(self, by: str, number: int, second: int) -> None:
        page = self.model.pages[number]
        for at in {second % PARTS, second // PARTS % PARTS}:
            page.parts[at] = self.fresh()
        await self._merge(by, page.path, self.model.text(page))

    async def _save(self, _by: str, number: int, second: int) -> None:
        """Save as an editor does."""
        page = self.model.pages[number]
        if not await self.base.state.ledger.history(page.path, limit=1):
            return  # of a page's first state it is not known what was before it
        page.parts[second % PARTS] = self.fresh()
        (self.root / page.path).write_text(self.model.text(page))

    async def _move(self, by: str, number: int, second: int) -> None:
        page = self.model.pages[number]
        left = [one.path for one in self.model.pages.values() if one.there]
        gone = {one.path for one in self.model.pages.values() if not one.there}
        known = {effect.before.path for act in self.acts for effect in act.effects}
        free = sorted(known - set(left) - gone)
        to = free[second % len(free)] if free and second % 2 else f"{FOLDERS[second % 3]}m{self.fresh()}.md"
        await self._change(MoveRequest(Actor(by, "kb_move", "00"), page.path, to))
        page.path = to

    async def _delete(self, by: str, number: int, _second: int) -> None:
        page = self.model.pages[number]
        revision = self.base.vault.read(page.path).revision
        await self._change(DeleteRequest(Actor(by, "kb_delete", "00"), page.path, revision))
        page.there = False

    async def _merge(self, by: str, path: str, text: str) -> None:
        writer = self.writing.writer
        found = self.base.vault.find(path)
        revision = await writer.shown(path) if found else None
        request = MergeRequest(
            Actor(by, "kb_merge", "00"), path, text, section="*" if found else None, base_revision=revision
        )
        answer = await writer.merge(await writer.plan_merge(request))
        assert answer.status == "done", answer

    async def _change(self, request: ChangeRequest) -> None:
        answer = await self.writing.writer.change(await self.writing.writer.plan_change(request))
        assert answer.status == "done", answer

    # --- undo ---------------------------------------------------------------------------------------------------------

    async def _undo(self, act: Act) -> None:
        if act.name in self._gone() and act.name.startswith("e"):
            return  # a save in an editor has no record that an undo could name
        if act.name in self._gone():
            with pytest.raises(AlreadyUndone):
                await self.writing.undo.of_change(act.name)
            return
        await self._undone([act], await self.writing.undo.of_change(act.name))

    def _gone(self) -> set[str]:
        """Return the names of the acts that are taken back."""
        gone: set[str] = set()
        for act in reversed(self.acts):
            if act.name not in gone:
                gone |= {one.name for one in act.takes_back}
        return gone

    async def _undo_host(self, host: str) -> None:
        gone = self._gone()
        acts = [act for act in reversed(self.acts) if act.by.endswith(f"@{host}") and act.name not in gone]
        found = await self.writing.undo.of_host(host, LONG_AGO)
        assert [act.name for act in found] == [act.name for act in acts]
        if acts:
            await self._undone(acts, found)

    async def _undone(self, acts: Sequence[Act], found: Sequence[PastAct]) -> None:
        """Undo acts, newest first, and compare; then undo the undo, and that again."""
        before, model = self.files(), self.model.copy()
        wanted = self.model.copy()
        outcomes = [wanted.take_back(act) for act in acts]
        if wanted.astray:
            return
        left = [act for act, outcome in zip(acts, outcomes, strict=True) if outcome - {"done"}]
        conflicts = any("conflict" in outcome for outcome in outcomes)
        plan = await self.writing.undo.plan(found, by="ann@terminal")
        assert self.files() == before  # a rehearsal changes nothing
        assert bool(plan.answer.conflicts) == conflicts, plan.answer
        done = await self.writing.undo.execute(plan, decision="approved by ann (terminal, by word)")
        if left and len(acts) > 1:
            self._nothing_lost(before, plan)
            # Consecutive changes are taken back as one, which the model does not know: it goes on with what is there.
            await self._take_back(done.change)
            assert self.files() == before
            return
        self.clean = self.clean and not conflicts and (not left or not done.change)
        assert self.files() == wanted.files()
        self.model = wanted
        if done.change:
            undone = tuple(act for act in acts if act not in left)
            self.acts.append(Act(done.change, "ann@terminal", wanted.since(model), undone, is_undo=True))
            after = self.files()
            name = await self._take_back(done.change)
            assert self.files() == before
            await self._take_back(name)
            assert self.files() == after
            # To the model these two are nothing: they are not selected again.

    async def _take_back(self, name: str) -> str:
        """Undo an undo right away, which leaves no conflict, and return the name of that."""
        if not name:
            return ""
        plan = await self.writing.undo.plan(await self.writing.undo.of_change(name), by="ann@terminal")
        assert not plan.answer.conflicts
        return (await self.writing.undo.execute(plan, decision="approved by ann (terminal, by word)")).change

    def _nothing_lost(self, before: dict[str, str], plan: UndoPlan) -> None:
        """Check that every part is as it is now or as it was once, and that nobody else's words are gone."""
        others = [act for act in self.acts if not act.is_undo and not act.by.endswith("@wild")]
        kept = {said for act in others for said in _written(act)}
        now = " ".join(before.values())
        after = " ".join(self.files().values()) + " ".join(str(one.now) for one in plan.answer.conflicts)
        gone = {said for said in kept if f"says {said}." in now and f"says {said}." not in after}
        assert not gone, gone

    async def end(self) -> None:
        """Compare with a world in which what is undone never happened, and check the record."""
        if self.clean:
            assert self.files() == self._without(self._gone()).files()
        ledger = self.base.state.ledger
        assert not verify(await ledger.records(limit=100_000), await ledger.chain_end())
        assert not await ledger.intents()

    def _without(self, gone: set[str]) -> Model:
        world = self.model.copy()
        first = {effect.page: effect.before for act in reversed(self.acts) for effect in reversed(act.effects)}
        for number, page in first.items():
            world.pages[number] = copy.deepcopy(page)
        for act in self.acts:
            for effect in act.effects if act.name not in gone and not act.is_undo else ():
                page = world.pages[effect.page]
                if effect.before.there != effect.after.there:
                    world.pages[effect.page] = copy.deepcopy(effect.after)
                    if effect.before.there:
                        page.there = False
                        world.pages[effect.page] = page
                    continue
                if effect.before.path != effect.after.path:
                    page.path = effect.after.path
                for at in effect.parts:
                    page.parts[at] = effect.after.parts[at]
        return world


def _written(act: Act) -> Iterator[str]:
    for effect in act.effects:
        yield from (effect.after.parts[at] for at in effect.parts)


async def walk(steps: Sequence[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kb").mkdir()
        options = Settings(kb=Path(folder) / "kb", state_dir=Path(folder) / "state")
        async with open_base(options) as base:
            bench = Bench(base, base.load_writing(EvidenceSources({}, time.monotonic), None))
            for step in steps:
                await bench.step(*step)
            await bench.end()


kinds = st.sampled_from(["edit", "edit", "edit", "save", "move", "delete", "create", "undo", "undo", "undo", "host"])
steps = st.lists(st.tuples(kinds, st.integers(0, 30), st.integers(0, 30)), min_size=3, max_size=14)


@given(steps)
@settings(max_examples=FEW, derandomize=True)
def test_what_is_undone_is_as_if_it_had_never_been(some: list[tuple[str, int, int]]) -> None:
    asyncio.run(walk(some))


@pytest.mark.slow
@given(steps)
@settings(max_examples=MANY)
def test_a_thousand_sequences_of_changes_and_undos(some: list[tuple[str, int, int]]) -> None:
    asyncio.run(walk(some))
