"""History on the page: what happened by day, who wrote which line, and any two revisions word by word."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mcp_server.web.history import pages
from tests.support.hosts.writers import writing
from tests.support.web.review_pages import ME, PAGE, Place, forms, kept

TEA = "# Tea\n\nIt takes four minutes.\n\nThe pot is blue.\n"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


async def days_work(place: Place) -> None:
    """Have a host write and move a page and change another one, and somebody edit it outside the server."""
    async with writing(place.settings, host="laptop") as host:
        await host.merge("notes/tea.md", TEA, intent="note the <i>tea</i>")
        changed = TEA.replace("four", "five") + "\nThe lid is lost.\n"
        await host.merge("notes/tea.md", changed, base_revision=await host.revision("notes/tea.md"))
        await host.call("kb_move", path="notes/tea.md", to="kitchen/tea.md")
        deploy = place.text().replace("forty", "sixty")
        await host.merge(PAGE, deploy, base_revision=await host.revision(PAGE))
    tea = place.settings.kb / "kitchen/tea.md"
    tea.write_text(tea.read_text(encoding="utf-8").replace("blue", "green"), encoding="utf-8")


def told(html: str) -> list[str]:
    """Return what the timeline's entries say, without markup."""
    entries = re.findall(r"<li id=.*?</li>", html, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", entry).split()) for entry in entries]


def diffs(html: str) -> list[str]:
    return [link.replace("&amp;", "&") for link in re.findall(r'href="(/diff\?[^"]+)"', html)]


async def test_the_timeline_tells_by_day_who_changed_what_also_in_an_editor(place: Place) -> None:
    await days_work(place)
    visitor = await place.visitor()
    html = await visitor.look("/history")
    assert re.search(r'<h2 id="d(\d{4}-\d\d-\d\d)"><time datetime="\1">', html)
    outside, deploy, seen, moved, edited, created = told(html)
    assert outside.startswith("Outside the server")
    assert "edited kitchen/tea.md +1 \N{MINUS SIGN}1" in outside
    assert f"edited {PAGE} +1" in deploy
    assert "moved kitchen/tea.md from notes/tea.md" in moved
    assert "edited notes/tea.md +3 \N{MINUS SIGN}1" in edited
    assert f"{ME}@laptop" in created
    assert "note the &lt;i&gt;tea&lt;/i&gt; created notes/tea.md +5" in created
    assert f"first seen: {PAGE}" in seen, "as it was before the first change"


async def test_the_timeline_is_filtered_by_host_editor_folder_page_and_time(place: Place) -> None:
    today = place.app.services.now().date()
    await days_work(place)
    visitor = await place.visitor()

    async def count(**asked: str) -> int:
        return len(told(await visitor.look(f"/history?{urlencode(asked)}")))

    assert await count(who="laptop") == await count(who=f"{ME}@laptop") == 4
    assert await count(who="editor") == 2
    assert await count(path="guides") == 2
    assert await count(path="kitchen/tea.md") == await count(path="kitchen/tea.md", since=str(today)) == 4
    assert await count(until=str(today - timedelta(days=1))) == 0
    assert "No matching changes" in visitor.html
    assert forms(await visitor.look("/history?who=laptop&path=guides"))["/history"].items() >= {
        ("who", "laptop"),
        ("path", "guides"),
    }


async def test_older_changes_are_one_click_further_under_the_same_filters(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await days_work(place)
    monkeypatch.setattr(pages, "PAGE", 3)
    visitor = await place.visitor()
    first = told(await visitor.look("/history?who=laptop"))
    older = re.search(r'rel="next" href="([^"]+)"', visitor.html)
    assert older is not None
    second = told(await visitor.look(older.group(1).replace("&amp;", "&")))
    assert (len(first), len(second)) == (3, 1)
    assert "created notes/tea.md" in second[0]


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"path": "nothing/here"}, 404, "nothing/here"),
        ({"since": "yesterday"}, 422, "is not a date or time"),
        ({"cursor": "made up"}, 422, "cursor"),
        ({"path": "../etc"}, 404, "../etc"),
    ],
)
async def test_a_question_without_an_answer_is_said_in_words(
    place: Place, asked: dict[str, str], status: int, says: str
) -> None:
    visitor = await place.visitor()
    html = await visitor.look(f"/history?{urlencode(asked)}")
    assert visitor.status == status
    assert says in html
    assert 'role="alert"' in html


async def test_each_change_leads_to_its_diff_and_its_record(place: Place) -> None:
    await days_work(place)
    visitor = await place.visitor()
    html = await visitor.look("/history")
    (edited,) = [link for link in diffs(html) if "notes%2Ftea" in link and "from=none" not in link]
    shown = await visitor.look(edited)
    assert "<del>four</del>" in shown
    assert "<ins>five</ins>" in shown
    created = next(link for link in diffs(html) if "from=none" in link)
    assert "It takes four minutes." in await visitor.look(created)
    record = re.search(r'href="(/audit/\d+)"', html)
    assert record is not None
    assert PAGE in await visitor.look(record.group(1))


async def test_any_two_revisions_are_compared_word_by_word_in_both_layouts(place: Place) -> None:
    await days_work(place)
    visitor = await place.visitor()
    await visitor.look("/history?path=kitchen/tea.md")
    revisions = re.findall(r'<option value="([0-9a-f]{16})"', visitor.html.partition('name="to"')[0])
    newest, changed, first = revisions
    between = {"path": "kitchen/tea.md", "from": first, "to": newest}
    for layout in ("split", "inline"):
        html = await visitor.look(f"/diff?{urlencode({**between, 'layout': layout})}")
        assert re.findall(r"<del>(\w+)</del>", html) == ["four", "blue"]
        assert re.findall(r"<ins>(\w+)</ins>", html) == ["five", "green"]
        assert f'<option value="{first}" selected>' in html
    back = await visitor.look(f"/diff?{urlencode({**between, 'from': newest, 'to': changed})}")
    assert re.findall(r"<del>(\w+)</del>", back) == ["green"]
    same = await visitor.look(f"/diff?{urlencode({**between, 'from': newest, 'to': 'now'})}")
    assert "The two revisions are the same." in same
    assert "<del>blue</del>" in await visitor.look("/diff?path=kitchen/tea.md"), "with what was before"
    text = await visitor.look(f"/diff?{urlencode({**between, 'as': 'text'})}")
    assert "-It takes four minutes.\n+It takes five minutes." in text


async def test_a_former_name_of_a_page_and_a_removed_page_can_be_compared_too(place: Place) -> None:
    await days_work(place)
    visitor = await place.visitor()
    gone = await visitor.look("/diff?path=notes/tea.md")
    assert "It takes five minutes." in gone
    assert '<span class="plus">+0</span>' in gone, "there is no page at that path now"
    await visitor.look("/history")
    (place.settings.kb / "kitchen/tea.md").unlink()
    html = await visitor.look("/history?path=kitchen/tea.md")
    assert "removed kitchen/tea.md" in told(html)[0]
    assert "/history/lines" not in html
    assert "The pot is green." in await visitor.look(diffs(html)[0])
    assert "This page was removed" in await visitor.look("/history/lines?path=kitchen/tea.md")


@pytest.mark.parametrize("revision", ["0" * 16, "x", "<script>", "\u00b2"])
async def test_a_revision_that_the_page_never_had_is_not_shown(place: Place, revision: str) -> None:
    visitor = await place.visitor()
    html = await visitor.look(f"/diff?{urlencode({'path': PAGE, 'from': revision})}")
    assert visitor.status == 404
    assert "No such revision" in html
    assert "<script>" not in html


async def test_each_line_of_a_page_says_who_wrote_it_from_which_source(place: Place) -> None:
    async with writing(place.settings, host="laptop") as host:
        await host.merge("notes/tea.md", TEA, source="plane:KB-7")
    async with writing(place.settings, host="phone") as host:
        more = TEA + "\nThe lid is <b>lost</b>.\n"
        await host.merge("notes/tea.md", more, base_revision=await host.revision("notes/tea.md"))
    visitor = await place.visitor()
    html = await visitor.look("/history/lines?path=notes/tea.md")
    runs = [" ".join(re.sub(r"<[^>]*>", " ", run).split()) for run in re.findall(r"<li>\s*<p.*?</li>", html, re.DOTALL)]
    assert any(f"{ME}@laptop source plane:KB-7" in run and "It takes four minutes." in run for run in runs)
    (last,) = [run for run in runs if "&lt;b&gt;lost&lt;/b&gt;" in run]
    assert f"line 11 {ME}@phone source user" in last
    assert "lost" in await visitor.look(diffs(html)[-1])


async def test_a_long_page_is_shown_in_parts_that_are_the_whole(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_CHARACTERS", 2_000)
    visitor = await place.visitor()
    html, texts = await visitor.look("/history/lines?path=long.md"), list[str]()
    while True:
        texts += re.findall(r'<pre class="foreign" dir="ltr">(.*?)</pre>', html, re.DOTALL)
        more = re.search(r'rel="next" href="([^"]+)"', html)
        if more is None:
            break
        html = await visitor.look(more.group(1).replace("&amp;", "&"))
    assert len(texts) > 3
    assert "".join("".join(texts).split()) == "".join(place.text("long.md").split())


async def test_a_stranger_sees_no_history(place: Place) -> None:
    await days_work(place)
    stranger = await place.visitor(logged_in=False)
    for path in ("/history", f"/history?path={PAGE}", f"/history/lines?path={PAGE}", f"/diff?path={PAGE}"):
        html = await stranger.look(path)
        assert stranger.status == 404
        assert PAGE not in html
