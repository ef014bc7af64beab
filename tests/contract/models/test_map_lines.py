"""Lines that a model writes for maps: of which pages, of which never, how many, and what a map shows of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_server.app.background import write_map_lines
from mcp_server.app.composition import App
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.doctor import map_lines
from mcp_server.models.locations import summaries_in
from mcp_server.models.map_lines import LEASE, MapLines, Round, line_of
from tests.doubles.provider import Model
from tests.doubles.provider_turns import Raw, Script, Trouble, said
from tests.doubles.serving import served
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened, over_http
from tests.support.runs.hosts import asking, at_once

TABLE = "| hive | queen |\n|---|---|\n" + "\n".join(f"| h{n} | of the year {2000 + n} |" for n in range(30)) + "\n"
PAGES = {
    "_index.md": "---\nsummary: All of it.\n---\n# All\n",
    "hives/queens.md": f"# Queens\n\n{TABLE}",
    "hives/said.md": f"---\nsummary: Who is who.\n---\n# Said\n\n{TABLE}",
    "hives/told.md": "# Told\n\nA sentence that says what the page is about.\n",
    "fetched/board.md": f"---\nsource: url:https://example.org/board\n---\n# Board\n\n{TABLE}",
    "fetched/other.md": f"---\nsource: plane:KB-12\n---\n# Other\n\n{TABLE}",
    "closed/_index.md": "---\nsummary: Nobody vouches for it.\nuntrusted: true\n---\n# Closed\n",
    "closed/told.md": f"# Told\n\n{TABLE}",
}
LINES = {
    "hives/queens.md": "Which queen lives in which hive.",
    "hives": "Hives and their queens.",
    "fetched": "never",
}


@dataclass
class Place:
    """A server whose model writes lines, and its requests."""

    app: App
    writer: Writer
    model: Model
    maker: MapLines
    settings: Settings
    now: datetime

    async def map(self, path: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Return a map, and the summaries in it by path."""
        answer = await self.writer.call("kb_map", path=path)
        return answer, {child["path"]: child["summary"] for child in answer["children"]}

    @property
    def told(self) -> list[dict[str, Any]]:
        """Return the model's questions, one item each."""
        return [json.loads(told_in(body)) for body in self.model.asked]

    def another(self, holder: str = "other", **more: Any) -> MapLines:
        base = self.app.base
        kept = summaries_in(base.state)
        provider = self.app.services.model.provider
        return MapLines(
            base.state,
            base.index,
            base.load_tiers,
            kept,
            provider,
            name="openai:some-model",
            holder=holder,
            now=lambda: self.now,
            **more,
        )

    async def index(self) -> None:
        async with held_lease(self.app.base, wait_s=5) as lease:
            assert lease is not None
            await bring_up_to_date(self.app.base, lease)


def told_in(body: Mapping[str, Any]) -> str:
    return str(next(message["content"] for message in body["messages"] if message["role"] == "user"))


def line(text: str) -> Any:
    return said(json.dumps({"line": text}))


def by_path(body: Mapping[str, Any]) -> Any:
    """Answer with the line for the page in question."""
    (told,) = json.loads(told_in(body)).values()
    return line(LINES[told["path"]])


@asynccontextmanager
async def making(
    folder: Path, *script: Script, helps: bool = True, pages: Mapping[str, str] = PAGES
) -> AsyncIterator[Place]:
    settings = Settings(kb=write(folder / "kb", dict(pages)), state_dir=folder / "state", open_browser=False)
    settings = await let_in(settings, level=2) if over_http() else settings
    model = Model()
    model.will("", *(script or (by_path,) * 9))
    async with served(model) as place:
        settings = replace(asking(settings, place), model_helps=("summaries",) if helps else ())
        async with (
            opened(settings, indexing=False, announcing=False, sleep=at_once) as app,
            connect(app) as client,
        ):
            made = Place(app, Writer(client, app, settings.kb), model, None, settings, utc_now())  # type: ignore[arg-type]
            made.maker = made.another("this")
            await made.index()
            yield made


async def test_only_pages_without_a_written_line_get_one_from_the_model(tmp_path: Path) -> None:
    async with making(tmp_path) as place:
        _, before = await place.map("hives")
        assert before["hives/queens.md"] == ""
        assert await place.maker.round() == Round(2)
        assert sorted(next(iter(one.values()))["path"] for one in place.told) == ["hives", "hives/queens.md"]
        _, root = await place.map("")
        assert root["hives"] == "Hives and their queens."
        hives, inside = await place.map("hives")
        assert (hives["summary"], hives["derived"]) == ("Hives and their queens.", True)
        assert inside == {
            "hives/queens.md": "Which queen lives in which hive.",
            "hives/said.md": "Who is who.",
            "hives/told.md": "A sentence that says what the page is about.",
        }
        assert await place.maker.round() == Round()
        assert len(place.told) == 2


@pytest.mark.security
async def test_no_untrusted_text_reaches_the_model_or_is_shown_through_it(tmp_path: Path) -> None:
    async with making(tmp_path) as place:
        await place.maker.round()
        assert not any("fetched" in json.dumps(one) or "closed" in json.dumps(one) for one in place.told)
        _, inside = await place.map("fetched")
        assert inside["fetched/board.md"] == ""


@pytest.mark.security
async def test_a_generated_line_is_hidden_once_its_page_is_untrusted(tmp_path: Path) -> None:
    async with making(tmp_path) as place:
        await place.maker.round()
        mark = "---\nsummary: Hives.\nuntrusted: true\n---\n# Hives\n"
        (place.settings.kb / "hives/_index.md").write_text(mark, encoding="utf-8")
        await place.index()
        hives, inside = await place.map("hives")
        assert (hives["summary"], inside["hives/queens.md"]) == ("Hives.", "")


async def test_a_persons_line_replaces_the_models(tmp_path: Path) -> None:
    async with making(tmp_path) as place:
        await place.maker.round()
        queens = place.settings.kb / "hives/queens.md"
        queens.write_text(f"---\nsummary: Queens.\n---\n{PAGES['hives/queens.md']}", encoding="utf-8")
        await place.index()
        assert (await place.map("hives"))[1]["hives/queens.md"] == "Queens."
        place.model.will("", line("never"), line("Queens, by hive."))
        assert (await place.maker.round()).made == 1
        assert [next(iter(one)) for one in place.told[2:]] == ["directory"]


async def test_without_the_setting_nothing_is_made_and_nothing_that_was_made_is_shown(tmp_path: Path) -> None:
    async with making(tmp_path) as place:
        await place.maker.round()
    async with making(tmp_path, helps=False) as place:
        _, root = await place.map("")
        assert root["hives"].startswith("Queens, Said, Told. ")
        assert not place.model.asked


async def test_an_unreachable_model_leaves_maps_unchanged_and_is_asked_again_later(tmp_path: Path) -> None:
    away = Trouble(401, "authentication_error")
    async with making(tmp_path, away, by_path, by_path) as place:
        assert await place.maker.round() == Round(0, "away")
        assert (await place.map(""))[1]["hives"].startswith("Queens, Said, Told. ")
        assert await place.maker.round() == Round(2)


async def test_one_answer_that_cannot_be_used_costs_that_line_and_no_other(tmp_path: Path) -> None:
    async with making(tmp_path, said("no JSON"), said("nor this"), by_path) as place:
        assert await place.maker.round() == Round(1)
        assert await place.maker.round() == Round()
        assert len(place.told) == 3


async def test_one_page_that_the_model_never_answers_about_keeps_no_other_from_its_line(tmp_path: Path) -> None:
    def answered(body: Mapping[str, Any]) -> Any:
        """Refuse to read one page, as a server does that takes it for an attack."""
        if "first.md" in told_in(body):
            return Trouble(400, "invalid_request_error")
        return line("About queens.")

    pages = {f"{name}.md": f"# {name}\n\n{TABLE} {name}" for name in ("first", "second", "third")}
    pages["_index.md"] = PAGES["_index.md"]
    async with making(tmp_path, *(answered,) * 9, pages=pages) as place:
        assert await place.maker.round() == Round(0, "away")
        assert await place.maker.round() == Round(2)
        assert await place.maker.round() == Round(), "it is left alone"
        _, shown = await place.map("")
        assert shown == {"first.md": "", "second.md": "About queens.", "third.md": "About queens."}
        assert [one["page"]["path"] for one in place.told].count("first.md") == 2


async def test_a_model_that_thinks_before_it_answers_has_room_for_that(tmp_path: Path) -> None:
    def thinking(body: Mapping[str, Any]) -> Any:
        return said("", stop="length") if body["max_tokens"] < 1_000 else by_path(body)

    async with making(tmp_path, *(thinking,) * 9) as place:
        assert await place.maker.round() == Round(2)


async def test_lines_that_failed_during_an_outage_are_made_afterwards(tmp_path: Path) -> None:
    async with making(tmp_path, *[Trouble(401, "authentication_error")] * 5, by_path, by_path) as place:
        for _ in range(5):
            assert await place.maker.round() == Round(0, "away")
        assert await place.maker.round() == Round(2)


async def test_all_processes_together_make_no_more_lines_in_an_hour_than_allowed(tmp_path: Path) -> None:
    async with making(tmp_path) as place:
        assert await place.another("one", most=1).round() == Round(1, "bound")
        assert await place.another("two", most=1).round() == Round(0, "bound")
        assert await place.another("two", most_tokens=1).round() == Round(0, "bound")
        place.now += timedelta(minutes=61)
        assert await place.another("three", most=1).round() == Round(1)


async def test_one_process_makes_them_and_the_others_do_not(tmp_path: Path) -> None:
    async with making(tmp_path) as place:
        state = place.app.base.state
        held = await state.acquire_lease(LEASE, "elsewhere", now=place.now, ttl_s=60)
        assert held is not None
        assert await place.maker.round() == Round(0, "elsewhere")
        await state.release_lease(LEASE, "elsewhere")
        assert await place.maker.round() == Round(2)
        assert await place.another().round() == Round()


async def test_generated_lines_serve_the_next_process_without_asking(tmp_path: Path) -> None:
    async with making(tmp_path) as place:
        await place.maker.round()
    async with making(tmp_path, Raw(b"", 500)) as place:
        assert (await place.map(""))[1]["hives"] == "Hives and their queens."
        assert await place.maker.round() == Round()
        assert not place.model.asked


@pytest.mark.parametrize(
    ("spoken", "shown"),
    [
        ("Queens, by hive.", "Queens, by hive."),
        ("**Queens**\n\nby [hive](https://example.org/x?y=secret)", "Queens by hive"),
        ("See https://example.org/?q=1 for <b>more</b>", "See for more"),
        ("Queens\u202e, \u200bby\x07 hive", "Queens , by hive"),
        ("Queens\U000e0141\U000e0142\ufe0f by\u061c hive\u3164", "Queens by hive"),
        ("Write to mailto:me@example.org or data:text/html;base64,eA== now", "Write to or now"),
        ("", ""),
    ],
)
def test_a_line_is_plain_text(spoken: str, shown: str) -> None:
    assert line_of({"line": spoken}) == shown


def test_a_line_of_megabytes_is_short_too() -> None:
    """No timing: if all of it were searched for addresses, this would not return."""
    assert len(line_of({"line": "a.b-" * 1_000_000})) < 500


def test_a_line_is_short() -> None:
    assert len(line_of({"line": "word " * 500})) < 250


async def test_the_doctor_reports_existing_and_possible_lines(tmp_path: Path) -> None:
    async with making(tmp_path) as place:
        await place.another(most=1).round()
        finding = await map_lines(place.app.base, place.settings)
        assert finding is not None
        assert finding.found == "the model wrote 1 line of maps; up to 2 more will follow while a server runs"
        assert await map_lines(place.app.base, replace(place.settings, model_helps=())) is None
        assert await summaries_in(place.app.base.state).count() == 1


async def test_a_server_with_the_setting_makes_lines_in_the_background(tmp_path: Path) -> None:
    async with making(tmp_path) as place, anyio.create_task_group() as tasks:
        load, state = place.app.services.load_model, place.app.base.state
        tasks.start_soon(write_map_lines, place.app.base, load, "server")
        with anyio.fail_after(60):
            while (await place.map(""))[1]["hives"] != "Hives and their queens.":
                await state.changed(await state.last_event())
        tasks.cancel_scope.cancel()


async def test_a_model_that_stays_unreachable_is_asked_ever_less_often(tmp_path: Path) -> None:
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 9:
            raise TimeoutError

    async with making(tmp_path, *[Trouble(401, "authentication_error")] * 9) as place:
        with pytest.raises(TimeoutError):
            await place.maker.run(sleep)
        assert rests == [120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0, 3600.0, 3600.0]
        assert len(place.told) == len(rests)
