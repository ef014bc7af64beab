"""Runs in a real Chromium: a person's answer, how runs end, news from another process, and malicious text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from agents.loop.record.frames import Header
from agents.loop.record.run import Run
from agents.loop.store.ports import RunStore
from agents.loop.tools import CallOutcome
from mcp_server.runs.locations import runs_in
from tests.browser.chromium import Person, executable, somebody
from tests.browser.payloads import LONG, MARKUP, PAYLOADS
from tests.browser.test_review_page import LOOKS, contrast
from tests.support.runs.records import header
from tests.support.runs.scripts import ActsOnRecord, Answer, Led, Scripted, ask, give_up, said, use
from tests.support.web.review_pages import Place, shown

pytestmark = pytest.mark.external


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


@asynccontextmanager
async def looking(folder: Path, **options: Any) -> AsyncIterator[tuple[Place, Person]]:
    async with shown(folder) as place, somebody(place, **options) as person:
        yield place, person
        assert person.trouble == []


def store_of(place: Place) -> RunStore:
    return runs_in(place.app.base.state)


async def led(place: Place, head: Header, *answers: Answer, **tools: CallOutcome) -> Run:
    """Return a run that another process led until it needed a person."""
    return await Led(Scripted(*answers), ActsOnRecord(None, **tools), store_of(place)).start(head)


def head(run_id: str, goal: str, **more: Any) -> Header:
    return replace(header(), id=run_id, goal=goal, **more)


async def asking(place: Place, run_id: str = "r-asks", goal: str = "Count the bees.") -> Run:
    return await led(place, head(run_id, goal), said("I look.", use("kb_search")), said("", ask("Which hive?")))


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_person_finds_a_run_that_asks_and_answers(tmp_path: Path, *, scripts: bool) -> None:
    async with looking(tmp_path, java_script_enabled=scripts) as (place, person):
        run = await asking(place)
        await person.page.get_by_role("link", name="Refresh").click()
        await expect(person.page.get_by_text("1 run needs")).to_be_visible()
        await person.page.get_by_role("link", name="Count the bees.").click()
        await person.picture("run-asks")
        await person.page.get_by_role("link", name="Answer", exact=True).click()
        await person.page.get_by_label("Which hive?").fill("The third.\n<b>On the roof.</b>")
        await person.page.get_by_role("button", name="Answer").click()
        await expect(person.page.get_by_text("<b>On the roof.</b>")).to_be_visible()
        await expect(person.page.get_by_role("link", name="Answer", exact=True)).to_have_count(0)
        assert (await store_of(place).run(run.id)).state == "running"


async def test_a_late_answer_in_a_second_tab_gets_a_message(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        run = await asking(place)
        other = await person.tab()
        for one, text in ((person, "The third."), (other, "The fourth.")):
            await one.go(f"/runs/{run.id}/answer")
            await one.page.get_by_label("Which hive?").fill(text)
        await person.page.get_by_role("button", name="Answer").click()
        await expect(person.page.get_by_text("The third.")).to_be_visible()
        await other.page.get_by_role("button", name="Answer").click()
        await expect(other.page.get_by_text("so it cannot be answered")).to_be_visible()
        await other.picture("run-answered-late")
        await other.go(f"/runs/{run.id}")
        await expect(other.page.get_by_text("The fourth.")).to_have_count(0)


async def test_a_cancelled_run_shows_in_the_other_tab_automatically(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        run = await asking(place)
        other = await person.tab()
        for one in (person, other):
            await one.go(f"/runs/{run.id}")
        await person.page.get_by_role("button", name="Cancel the run").click()
        for one in (person, other):
            await expect(one.page.get_by_text("cancelled by").first).to_be_visible()
        assert (await store_of(place).run(run.id)).state == "cancelled"


async def test_steps_of_another_process_appear_by_themselves(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        await person.go("/runs")
        await expect(person.page.get_by_text("Updates automatically")).to_be_visible()
        run = await asking(place)
        await expect(person.page.get_by_role("link", name="Count the bees.")).to_be_visible()
        await person.go(f"/runs/{run.id}")
        await expect(person.page.get_by_text("I look.")).to_be_visible()
        again = Led(Scripted(said("Forty thousand.")), ActsOnRecord(), store_of(place), _looked=100_000, _ids="b")
        await again.executor.answer(run.id, "The third.", by="ada")
        await expect(person.page.get_by_role("heading", name="Answer")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_runs_fit_360_pixels_and_can_be_read_in_both_schemes(tmp_path: Path, scheme: str) -> None:
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": scheme}
    async with looking(tmp_path, **options) as (place, person):
        word = "averylongword" * 30
        wide = {"context": word, "principal": f"{word}@host", "model": f"openai:{word}", "toolsets": ("runs",) * 40}
        failed = CallOutcome(success=False, text=word)
        asks = await led(
            place, head("r-asks", word, **wide), said(word, use("kb_search", text=word)), said(word, ask(word)),
            kb_search=failed,
        )  # fmt: skip
        gave_up = await led(place, head("r-gave-up", "Count."), said("", give_up(word)))
        proposal = await place.propose()
        waits = CallOutcome(success=True, text="it waits", proposal=proposal.id)
        proposed = await led(place, head("r-waits", "Count."), said("", use("kb_merge")), kb_merge=waits)
        paths = {
            "/waiting": "waiting-runs",
            "/runs": "list",
            "/runs?state=failed": "none",
            f"/runs/{asks.id}/answer": "answer",
        }
        for run in (asks, gave_up, proposed):
            paths[f"/runs/{run.id}"] = run.id
        for path, name in paths.items():
            await person.go(path)
            assert (await person.page.evaluate(LOOKS))["width"] <= 0, path
            assert await contrast(person) >= 4.5, path
            await person.picture(f"360-{scheme}-run-{name}")


async def test_hostile_goals_steps_and_questions_are_shown_and_do_nothing(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        for number, payload in enumerate(PAYLOADS[::3]):
            evil = payload[:200_000]
            found = CallOutcome(success=True, text=evil, structured={"text": evil, payload[:400]: 1})
            run = await led(
                place,
                head(f"r-{number:04}", f"{number} {payload}"[:8_000], context=evil, principal=f"{payload[:200]}@x"),
                said(evil, use("kb_search", text=evil)),
                said(evil, ask(f"Say: {evil[:7_000]}")),
                kb_search=found,
            )
            one = f"/runs/{run.id}"
            for path in ("/waiting", "/runs", one, f"{one}?whole=1", f"{one}/answer"):
                await person.go(path)
                looks = await person.page.evaluate(LOOKS)
                assert looks["pwned"] is None, (number, path)
                assert not looks["foreign"] + looks["scripts"] + looks["links"], (number, path, looks)
                assert not looks["hidden"], (number, path)
                assert looks["width"] <= 0, (number, path)
            if payload in MARKUP:
                await expect(person.page.locator("main label")).to_contain_text(payload)
            if number in (0, 20):
                await person.go(one)
                await person.picture(f"run-hostile-{number}", whole=payload not in LONG)
            await person.go(one)
            await person.page.get_by_role("button", name="Cancel the run").click()
            await expect(person.page.get_by_role("button", name="Cancel the run")).to_have_count(0)
