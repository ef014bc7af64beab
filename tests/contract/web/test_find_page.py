"""The page that searches: the ranking of hosts, marked words, filters, reasons, and hostile questions and pages."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import anyio
import pytest

from knowledge.search.use.store import USE_FILE
from mcp_server.web import application
from mcp_server.web.find import people_search
from mcp_server.web.find.people_search import PeopleSearch
from tests.contract.web.test_runs_page import text_of as plain
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write
from tests.support.web.review_pages import ME, PATIENCE_S, Place, Visitor, kept

PAGES = {
    "hives/feeding.md": "---\ntags: [autumn, food]\nkind: guide\n---\n# Feeding\n\nA hive gets two kilograms of sugar syrup.\n",
    "hives/queens.md": "---\ntags: [spring]\nkind: note\n---\n# Queens\n\nA young queen lays two thousand eggs a day.\n",
    "tools/smoker.md": "---\ntags: [food]\nkind: guide\n---\n# Smoker\n\nThe smoker calms a hive before the syrup is poured.\n",
}
HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">[x](javascript:alert(3))\u202egnp'


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    monkeypatch.setattr(people_search, "WAIT_S", PATIENCE_S)
    monkeypatch.setattr(people_search, "TRUSTED_S", 0.0)
    async with kept(tmp_path, PAGES) as opened:
        yield opened


@pytest.fixture
async def visitor(place: Place) -> Visitor:
    return await place.visitor()


async def look(visitor: Visitor, **asked: str) -> str:
    return await visitor.look(f"/find?{urlencode(asked)}")


def hits(html: str) -> list[str]:
    """Return the path of each hit, in order."""
    found = re.findall(r'<h2><a href="/page\?path=([^"#]+)#line-\d+" data-hit>', html)
    return [unescape(path) for path in found]


async def test_hits_are_those_of_kb_search_in_the_same_order(place: Place, visitor: Visitor) -> None:
    html = await look(visitor, q="syrup for a hive")
    answer = await place.call("kb_search", query="syrup for a hive", limit=10)
    assert hits(html) == [hit["path"] for hit in answer["hits"]]
    assert answer["scent"]["reason"].split(";")[0].lower() in plain(html).lower()


async def test_words_of_the_question_are_marked_in_any_inflection(visitor: Visitor) -> None:
    html = await look(visitor, q="queens laying eggs")
    assert {"queen", "lays", "eggs"} >= set(re.findall(r"<mark>(.*?)</mark>", html)) >= {"eggs", "queen"}


async def test_a_passage_is_shown_as_words_without_marks_of_markdown(place: Place, visitor: Visitor) -> None:
    text = (
        "# Wax\n\n## Melting\n\n- **Wax** melts at `62` degrees\n\n| when | how |\n| --- | --- |\n| winter | slowly |\n"
    )
    write(place.settings.kb, {"tools/wax.md": text})
    html = await look(visitor, q="melting wax")
    shown, *_ = re.findall(r'<p class="snippet" dir="auto">(.*?)</p>', html)
    assert unescape(re.sub("<[^>]+>", "", shown)) == "Wax melts at 62 degrees when how winter slowly"


async def test_a_page_written_a_moment_ago_is_found(place: Place, visitor: Visitor) -> None:
    """As `knowledge-forge search` does: the index is brought up to date first."""
    assert "hives/mites.md" not in hits(await look(visitor, q="varroa mites"))
    write(place.settings.kb, {"hives/mites.md": "# Mites\n\nVarroa mites are treated in August.\n"})
    assert hits(await look(visitor, q="varroa mites"))[0] == "hives/mites.md"


async def test_the_page_says_what_is_missing_while_another_process_indexes(
    place: Place, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await look(visitor, q="queen")
    monkeypatch.setattr(people_search, "WAIT_S", 0.0)
    await look(visitor, q="queen")  # waits for the comparison after the first answer, which would index the page
    write(place.settings.kb, {"hives/mites.md": "# Mites\n\nVarroa mites are treated in August.\n"})
    html = await look(visitor, q="queen")
    assert "1 page changed and is not in the index yet, so hits may be missing." in plain(html)
    assert hits(html)[0] == "hives/queens.md", "what is indexed is found meanwhile"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"path": "tools"}, {"tools/smoker.md"}),
        ({"path": "hives/"}, {"hives/feeding.md", "hives/queens.md"}),
        ({"tag": "#food"}, {"hives/feeding.md", "tools/smoker.md"}),
        ({"tag": "food autumn"}, {"hives/feeding.md"}),
        ({"kind": "guide"}, {"hives/feeding.md", "tools/smoker.md"}),
        ({"since": "2h"}, {"hives/feeding.md", "hives/queens.md", "tools/smoker.md"}),
        ({"since": "2999-01-01"}, set[str]()),
        ({"source": "zulip"}, set[str]()),
    ],
)
async def test_filters_admit_only_their_pages(visitor: Visitor, asked: dict[str, str], expected: set[str]) -> None:
    html = await look(visitor, q="hive queen syrup", **asked)
    assert set(hits(html)) <= expected
    assert bool(hits(html)) == bool(expected)
    assert "Clear all filters" in html


async def test_the_filter_for_a_host_or_person_admits_what_they_changed(place: Place, visitor: Visitor) -> None:
    async with writing(place.settings, host="laptop") as host:
        await host.merge("hives/winter.md", "# Winter\n\nA hive needs honey in winter.\n", intent="note it")
    queens = place.settings.kb / "hives/queens.md"
    assert hits(await look(visitor, q="hive in winter", who="laptop")) == ["hives/winter.md"]
    assert hits(await look(visitor, q="hive in winter", who=f"{ME}@laptop")) == ["hives/winter.md"]
    assert hits(await look(visitor, q="hive in winter", who="nobody")) == []
    queens.write_text(queens.read_text(encoding="utf-8") + "\nShe stays in the hive.\n", encoding="utf-8")
    await visitor.look("/history")  # brings changes of editors on record
    assert "hives/queens.md" in hits(await look(visitor, q="queen", who="outside"))
    assert "hives/winter.md" not in hits(await look(visitor, q="hive in winter", who="outside"))


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"path": "nowhere"}, "nowhere"), ({"path": "../etc"}, ".."), ({"since": "yesterweek"}, "yesterweek")],
)
async def test_a_filter_that_cannot_be_used_is_said_in_words(
    visitor: Visitor, asked: dict[str, str], said: str
) -> None:
    html = await look(visitor, q="hive", **asked)
    assert visitor.status == 422
    assert said in re.search(r'role="alert".*?>(.*?)</p>', html, re.DOTALL)[1]  # type: ignore[index]  # it is there


async def test_a_typing_error_is_named_with_a_search_for_the_other_word(visitor: Visitor) -> None:
    html = await look(visitor, q="smokre")
    assert hits(html)[0] == "tools/smoker.md"
    assert "Searched for <strong><bdi>smoker</bdi></strong>, too." in html
    assert 'href="/find?q=smoker">Search only for that</a>' in html


async def test_each_hit_says_why_in_words_and_numbers_that_add_up(visitor: Visitor) -> None:
    html = await look(visitor, q="sugar syrup")
    reasons = re.findall(r'<details class="why"[^>]*>(.*?)</details>', html, re.DOTALL)
    assert len(reasons) == len(hits(html)) > 1
    for reason in reasons:
        total = float(re.search(r"Rank score ([\d.]+)", reason)[1])  # type: ignore[index]  # each has one
        parts = [float(one) for one in re.findall(r"<td>(-?[\d.]+)", reason)]
        assert sum(parts) == pytest.approx(total, abs=0.01)
    assert "Words in the passage" in reasons[0]
    assert "Searched words" in plain(html)


async def test_the_results_alone_are_the_same_list_without_reasons_until_they_are_asked_for(visitor: Visitor) -> None:
    """`find.js` fetches these while somebody types."""
    whole = await look(visitor, q="hive syrup")
    part = await look(visitor, q="hive syrup", part="results")
    assert hits(part) == hits(whole)
    assert "<html" not in part
    assert "Explain these hits" in part
    assert "Rank score" not in part
    assert "Rank score" in await look(visitor, q="hive syrup", part="results", why="1")
    assert 'data-said="3 passages on 3 pages"' in part


async def test_a_question_about_a_place_lists_the_place(visitor: Visitor) -> None:
    html = await look(visitor, q="hives folder")
    places = re.search(r'aria-label="Places">(.*?)</ul>', html, re.DOTALL)
    assert places is not None
    assert 'href="/pages?path=hives"' in places[1]


async def test_more_hits_continue_without_repeating(place: Place, visitor: Visitor) -> None:
    write(
        place.settings.kb, {f"log/day{n}.md": f"# Day {n}\n\nThe swarm number {n} left hive {n}.\n" for n in range(25)}
    )
    first = await look(visitor, q="swarm left")
    more = re.search(r'<a rel="next" href="([^"]+)">More hits', first)
    assert more is not None
    second = await visitor.look(unescape(more[1]))
    assert len(hits(first)) == people_search.MOST_HITS
    assert hits(second)
    assert not set(hits(first)) & set(hits(second))


@pytest.mark.parametrize("part", ["", "results"])
async def test_hostile_questions_and_pages_stay_text(place: Place, visitor: Visitor, part: str) -> None:
    name = 'a"b<i>.md'
    write(place.settings.kb, {name: f"---\ntitle: '{HOSTILE}'\n---\n# Wasps {HOSTILE}\n\nWasps {HOSTILE} nest.\n"})
    await look(visitor, q="wasps")
    for question in ("wasps", f"wasps {HOSTILE}", HOSTILE, "\x00", "\ud83d", "%", "'\"><script>alert(9)</script>"):
        html = await visitor.look("/find?" + urlencode({"q": question, "part": part}, errors="replace"))
        assert visitor.status in (200, 422), question
        assert "<script>alert" not in html
        assert "<img" not in html
        assert 'href="javascript' not in html
        # The field keeps what was typed, as every form here; the results mark it.
        assert "\u202e" not in html.rpartition("data-results")[2]
    assert hits(await look(visitor, q="wasps nest", part=part))


async def test_a_search_of_a_person_is_not_counted_as_use_by_a_host(place: Place, visitor: Visitor) -> None:
    """A host's questions teach the ranking; a person who looks around does not, as in the terminal."""
    await look(visitor, q="hive syrup")
    await look(visitor, q="hive syrup", part="results")
    assert await anyio.Path(place.app.base.state_dir / USE_FILE).exists() is False
    await place.call("kb_search", query="hive syrup")
    with anyio.fail_after(PATIENCE_S):
        while not await anyio.Path(place.app.base.state_dir / USE_FILE).exists():  # noqa: ASYNC110 - written by a thread
            await anyio.sleep(0.05)


async def test_without_a_question_the_page_says_what_to_do(visitor: Visitor) -> None:
    html = await visitor.look("/find")
    assert "Type a question or words." in html
    assert hits(html) == []
    assert html.count("data-find>") + html.count("data-find autofocus>") == 1, "the header has no second field here"


async def test_filters_are_named_where_they_are_folded_away(visitor: Visitor) -> None:
    html = await look(visitor, q="syrup", path="hives", tag="food")
    assert '<details class="filters">' in html
    assert "Filters : hives, food" in " ".join(plain(html).split())
    assert '<details class="filters" open>' in await look(visitor, path="hives")
    assert '<details class="filters" open>' in await look(visitor, q="syrup", path="hives", since="no time")


def board(*cards: str) -> str:
    nodes = [{"id": str(number), "type": "text", "text": text, "y": number} for number, text in enumerate(cards)]
    return json.dumps({"nodes": nodes, "edges": []})


async def test_a_canvas_is_found_by_its_name_and_its_cards_and_is_no_page(place: Place, visitor: Visitor) -> None:
    kb = place.settings.kb
    for folder in (".obsidian", "boards", "hives"):
        (kb / folder).mkdir(exist_ok=True)
    (kb / "boards/Swarm year.canvas").write_text(board("Nothing yet", f"Count the drones in **May** {HOSTILE}"))
    (kb / "hives/plain.canvas").write_text(board("A hive in winter"))
    html = await look(visitor, q="counting drones")
    assert '<a href="#canvases.head">1 canvas has these words, too</a>' in html
    section = html[html.index('id="canvases.head"') :]
    assert re.findall(r'href="/page\?path=([^"]+)" data-hit', section) == ["boards/Swarm%20year.canvas"]
    assert "<mark>Count</mark> the <mark>drones</mark> in May" in section
    assert "<script>alert" not in html
    assert "boards/Swarm%20year.canvas" in await look(visitor, q="swarm year")
    answer = await place.call("kb_search", query="swarm year")
    assert "also on canvases, which are read by their paths: 'boards/Swarm year.canvas'" in answer["note"]
    assert "plain.canvas" in await look(visitor, q="hive in winter", path="hives")
    for other in ({"q": "drones", "path": "hives"}, {"q": "drones", "kind": "guide"}, {"q": "aeroplane"}):
        assert "canvases.head" not in await look(visitor, **other), other
    assert (await place.app.services.index.progress()).total == len(PAGES)
    assert await place.app.services.index.named("Swarm year", limit=5) == []


async def test_a_canvas_is_shown_as_its_cards_with_its_links(place: Place, visitor: Visitor) -> None:
    kb = place.settings.kb
    (kb / ".obsidian").mkdir()
    (kb / "year.canvas").write_text(board("## Spring", f"See [[queens]] {HOSTILE}", "z" * 20_000))
    (kb / "tools/plan.md").write_text("# Plan\n\nSee [[year.canvas]].\n")
    await place.indexed()
    html = await visitor.look("/page?path=year.canvas")
    assert visitor.status == 200
    assert '<a href="/page?path=hives/queens.md">queens</a>' in html
    assert "<script>alert" not in html
    assert "Linked from 1 Plan" in " ".join(plain(html).split())
    following = re.search(r'rel="next" href="([^"]+)"', html)
    assert following is not None
    assert "Back to the first cards" in await visitor.look(unescape(following[1]))
    assert re.search(
        r"<a[^>]* href=\"/page\?path=year.canvas\"[^>]*>year.canvas", await visitor.look("/page?path=tools/plan.md")
    )
    await visitor.look("/page?path=gone.canvas")
    assert visitor.status == 404


async def test_after_a_login_the_search_of_a_large_knowledge_base_is_loaded(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first question would wait for it otherwise."""
    loaded, prepare = anyio.Event(), PeopleSearch.prepare

    async def prepared(search: PeopleSearch) -> None:
        await prepare(search)
        loaded.set()

    monkeypatch.setattr(PeopleSearch, "prepare", prepared)
    monkeypatch.setattr(application, "LOADED_ABOVE", -1)
    monkeypatch.setattr(application, "LOADED_AFTER_S", 0)
    await place.visitor()
    with anyio.fail_after(PATIENCE_S):
        await loaded.wait()
