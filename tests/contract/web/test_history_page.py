"""History on the page: what happened by day, who wrote which line, and any two revisions word by word."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from knowledge.trust.ports import Note
from mcp_server.app.knowledge_base import utc_now
from mcp_server.web.history import pages
from tests.support.git.repositories import alone, made
from tests.support.hosts.writers import writing
from tests.support.web.passkeys import SoftPasskey
from tests.support.web.review_pages import ME, PAGE, Place, Visitor, forms, kept

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
    assert outside.startswith("outside the server")
    assert "kitchen/tea.md +1 \N{MINUS SIGN}1" in outside
    assert f"{PAGE} +1 \N{MINUS SIGN}1" in deploy
    assert "kitchen/tea.md moved from notes/tea.md" in moved
    assert "notes/tea.md +3 \N{MINUS SIGN}1" in edited
    assert f"{ME}@laptop" in created
    assert "note the &lt;i&gt;tea&lt;/i&gt; notes/tea.md created +5" in created
    assert f"{PAGE} first seen" in seen, "as it was before the first change"


async def test_the_timeline_names_the_commit_of_a_change_and_its_author(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, tmp_path)
    kb = made(place.settings.kb, {})
    kb.git("commit", "-q", "--amend", "-m", "Begin", "--author", "B\u202eob <script> <bob@example.org>")
    async with writing(replace(place.settings, git="commit"), host="laptop") as host:
        await host.merge("notes/tea.md", TEA)
        deploy = place.text().replace("forty", "sixty")
        await host.merge(PAGE, deploy, base_revision=await host.revision(PAGE))
    html = await (await place.visitor()).look("/history")
    deployed, seen, created = told(html)
    newest, tea = [line.strip()[:9] for line in kb.log("%H")[:2]]
    assert f"commit {newest}" in deployed
    assert f"commit {tea}" in created
    assert f"commit {kb.log('%H')[2].strip()[:9]} by B" in seen
    assert "\u202e" not in html
    assert "<script>" not in seen


async def test_the_timeline_is_filtered_by_host_editor_folder_page_and_time(place: Place) -> None:
    today = place.app.services.now().date()
    await days_work(place)
    visitor = await place.visitor()

    async def count(**asked: str) -> int:
        return len(told(await visitor.look(f"/history?{urlencode(asked)}")))

    assert await count(who="laptop") == await count(who=f"{ME}@laptop") == 4
    assert await count(who="outside") == await count(who="outside", since="1h") == 2
    assert await count(path="guides") == 2
    assert await count(path="kitchen/tea.md") == await count(path="kitchen/tea.md", since=str(today)) == 4
    assert await count(who="outside", since="2 hours ago") == await count(who="outside", since="Yesterday") == 2
    assert await count(until=str(today - timedelta(days=1))) == 0
    # A day that is picked counts in place of what is typed, and is shown in the field for the text afterwards.
    picked = str(today + timedelta(days=1))
    assert await count(**{"since": "today", "since-day": picked}) == 0
    assert f'name="since" value="{picked}"' in visitor.html
    assert 'type="date" name="since-day" aria-label' in visitor.html
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
    assert "notes/tea.md created" in second[0]


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"path": "nothing/here"}, 404, "nothing/here"),
        ({"since": "sometime"}, 422, "is not a time: write today"),
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
    edited, created = [link for link in diffs(html) if "notes%2Ftea" in link]
    shown = await visitor.look(edited)
    assert "<del>four</del>" in shown
    assert "<ins>five</ins>" in shown
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
    assert "<del>blue</del>" in await visitor.look("/diff?path=kitchen/tea.md"), "the newest change"
    assert "<del>blue</del>" in await visitor.look("/diff?path=kitchen/tea.md&to=now"), "with what was before"
    assert "The pot is blue." in await visitor.look(f"/diff?path=kitchen/tea.md&from=none&to={first}")
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
    assert "kitchen/tea.md removed" in told(html)[0]
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
        base = await host.revision("notes/tea.md")
        await host.merge("notes/tea.md", more, base_revision=base, intent="the lid")
    visitor = await place.visitor()
    html = await visitor.look("/history/lines?path=notes/tea.md")
    runs = [
        " ".join(re.sub(r"<[^>]*>", " ", run).split()) for run in re.findall(r"<li>\s*<div.*?</li>", html, re.DOTALL)
    ]
    assert any(f"{ME}@laptop" in run and "source plane:KB-7" in run and "It takes four minutes." in run for run in runs)
    (last,) = [run for run in runs if "&lt;b&gt;lost&lt;/b&gt;" in run]
    assert f"line 11 {ME}@phone" in last
    assert "the lid" in last, "why"
    assert "lost" in await visitor.look(diffs(html)[-1])
    page = place.settings.kb / "notes/tea.md"
    page.write_text(
        page.read_text(encoding="utf-8").replace("The pot is blue.", "Nobody has seen the pot."), encoding="utf-8"
    )
    await visitor.look("/history")
    html = await visitor.look("/history/lines?path=notes/tea.md")
    assert re.search(r"outside the server(?:(?!</li>).)*Nobody has seen the pot", html, re.DOTALL)


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


# --- undo -------------------------------------------------------------------------------------------------------------


async def test_one_change_is_rehearsed_undone_and_taken_back_again_while_later_ones_stay(place: Place) -> None:
    await days_work(place)
    visitor = await place.visitor()
    await visitor.look("/history")
    await follow(visitor, "kitchen/tea.md", entry="notes/tea.md +3")
    assert "<del>five</del>" in visitor.html
    assert "five" in place.text("kitchen/tea.md"), "nothing has changed yet"
    html = await visitor.send("/undo")
    assert place.text("kitchen/tea.md") == TEA.replace("blue", "green"), "the later edit stays, at the later place"
    assert "<strong>Done:</strong> undo change" in html
    assert "1 page changed" in html
    again = re.search(r'href="(/undo[^"]+)">Take this back', html)
    assert again is not None
    assert "<ins>five</ins>" in await visitor.look(again.group(1))
    await visitor.send("/undo")
    assert "five minutes" in place.text("kitchen/tea.md")
    assert "The lid is lost." in place.text("kitchen/tea.md")
    assert "took back" in told(visitor.html)[0]
    record = re.search(r'href="(/audit/(\d+))"[^>]*>Record', visitor.html)
    assert record is not None
    html = await visitor.look(record.group(1))
    assert f'<dt>Took back</dt><dd><a href="/audit/{int(record.group(2)) - 1}">' in html


async def test_only_an_undo_is_reported_as_done(place: Place) -> None:
    await days_work(place)
    visitor = await place.visitor()
    for change in ("3", "e1", "999", "<b>"):
        html = await visitor.look(f"/history?{urlencode({'undone': change})}")
        assert visitor.status == 200
        assert "Take this back" not in html


async def test_an_edit_made_outside_and_a_move_are_undone_too(place: Place) -> None:
    await days_work(place)
    visitor = await place.visitor()
    await visitor.look("/history")
    await follow(visitor, "kitchen/tea.md", entry="kitchen/tea.md +1")
    await visitor.send("/undo")
    assert "blue" in place.text("kitchen/tea.md")
    await follow(visitor, "notes/tea.md", entry="moved from notes/tea.md")
    assert "This needs level 4" in visitor.html
    await visitor.send("/undo")
    assert "five" in place.text("notes/tea.md")
    assert not (place.settings.kb / "kitchen/tea.md").exists()


async def test_everything_a_host_did_is_undone_as_one_act_after_a_rehearsal(place: Place) -> None:
    today = place.app.services.now().date()
    before = place.text()
    await days_work(place)
    visitor = await place.visitor()
    html = await visitor.look(f"/history?who=laptop&since={today}")
    everything = re.search(r'href="(/undo\?[^"]+)">Undo everything by', html)
    assert everything is not None
    assert "Undo 4 changes" in await visitor.look("/undo?host=laptop&since=2h")
    html = await visitor.look(everything.group(1).replace("&amp;", "&"))
    assert "Undo 4 changes by <bdi>laptop</bdi>" in html
    assert place.text() != before
    await visitor.send("/undo")
    assert place.text() == before
    assert "green" in place.text("notes/tea.md"), "a page that somebody edited since does not go away"
    assert "the parts in conflict stayed as they were" in visitor.html
    html = await visitor.look(everything.group(1).replace("&amp;", "&"))
    assert len(re.findall("/audit/", html)) < 4, "what is undone already is left out"


async def test_where_something_changed_again_both_sides_are_offered_and_the_chosen_one_is_written(place: Place) -> None:
    await days_work(place)
    async with writing(place.settings, host="phone") as host:
        changed = place.text().replace("sixty", "ninety")
        await host.merge(PAGE, changed, base_revision=await host.revision(PAGE))
    visitor = await place.visitor()
    await visitor.look("/history?who=laptop")
    await follow(visitor, PAGE, entry=f"{PAGE} +1")
    assert "forty seconds" in visitor.html
    assert "ninety seconds" in visitor.html
    assert "Nothing: all of it has changed again since." in visitor.html
    asked = {**forms(visitor.html)["/undo"], "take-0": "before"}
    html = await visitor.look(f"/undo?{urlencode(asked)}")
    assert "<del>ninety</del>" in html
    assert "Every conflict is decided." in html
    await visitor.send("/undo")
    assert "forty seconds" in place.text()


async def test_each_conflict_takes_a_side_of_its_own(place: Place) -> None:
    page = "# Tea\n\nIt takes {} minutes.\n\nThe pot is blue.\n\nThere are {} cups.\n"
    changes: list[str] = []
    async with writing(place.settings, host="laptop") as host:
        for numbers in (("two", "six"), ("four", "seven"), ("five", "eight")):
            base = await host.revision("tea.md") if changes else None
            await host.merge("tea.md", page.format(*numbers), **({"base_revision": base} if base else {}))
            changes.append((await host.app.services.undo.of_page("tea.md"))[0].name)
    visitor = await place.visitor()
    html = await visitor.look(f"/undo?change={changes[1]}")
    assert "2 conflicts are open" in html
    assert re.findall(r"<legend>(Conflict \d of \d)", html) == ["Conflict 1 of 2", "Conflict 2 of 2"]
    html = await visitor.look(f"/undo?{urlencode({**forms(html)['/undo'], 'take-1': 'before'})}")
    assert "1 conflict is open" in html
    assert re.findall(r"<del>(\w+)</del>", html) == ["eight"], "both sides stay in view, one of them is written"
    assert "There are eight cups." in html
    await visitor.send("/undo")
    assert place.text("tea.md") == page.format("five", "six")
    html = await visitor.look(f"/undo?change={changes[1]}&take=before")
    assert "Every conflict is decided." in html
    await visitor.send("/undo")
    assert place.text("tea.md") == page.format("two", "six")


async def test_what_was_not_shown_is_not_done(place: Place) -> None:
    await days_work(place)
    visitor = await place.visitor()
    await visitor.look("/history")
    await follow(visitor, PAGE, entry=f"{PAGE} +1")
    changed = place.text().replace("every week", "every day")
    async with writing(place.settings, host="phone") as host:
        await host.merge(PAGE, changed.replace("sixty", "ninety"), base_revision=await host.revision(PAGE))
    await visitor.send("/undo")
    assert "ninety" in place.text()
    assert visitor.status == 409
    for digest in ("", "0" * 64):
        fields = {**forms(await visitor.look("/history"))["/logout"], "change": "3", "digest": digest}
        await visitor.post("/undo", fields)
        assert visitor.status == 409
    assert "ninety" in place.text()


async def test_with_a_passkey_an_undo_of_level_4_becomes_a_proposal_to_sign(place: Place) -> None:
    await days_work(place)
    key = SoftPasskey()
    await place.app.base.state.trust.add_passkey(key.enrolled, note=Note(ME, "passkey.add", key.name, utc_now()))
    visitor = await place.visitor()
    await visitor.look("/history")
    await follow(visitor, "kitchen/tea.md", entry="moved from notes/tea.md")
    assert "sign it with your passkey" in visitor.html
    await visitor.send("/undo")
    assert (place.settings.kb / "kitchen/tea.md").exists(), "nothing is done before the signature"
    (waiting,) = await place.app.base.state.trust.proposals(states=("pending",))
    assertion = key.assertion(bytes.fromhex(waiting.hash), place.address)
    await visitor.send(f"/proposals/{waiting.id}/approve", assertion=json.dumps(assertion))
    assert (await place.proposal(waiting.id)).state == "executed"
    assert (place.settings.kb / "notes/tea.md").exists()
    assert not (place.settings.kb / "kitchen/tea.md").exists()


async def test_a_form_without_the_token_of_its_session_undoes_nothing(place: Place) -> None:
    await days_work(place)
    visitor = await place.visitor()
    await visitor.look("/history")
    await follow(visitor, PAGE, entry=f"{PAGE} +1")
    fields = {**forms(visitor.html)["/undo"], "csrf": "x"}
    await visitor.post("/undo", fields)
    assert visitor.status == 403
    assert "sixty" in place.text()


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({}, 200, "Undo what a host did"),
        ({"change": "999"}, 404, "999"),
        ({"change": "<script>"}, 404, "&lt;script&gt;"),
        ({"host": "laptop", "since": "soon"}, 422, "is not a time: write today"),
        ({"host": "nobody", "since": "2026-01-01"}, 422, "No change of nobody since then is left to undo"),
    ],
)
async def test_an_undo_of_nothing_is_said_in_words(place: Place, asked: dict[str, str], status: int, says: str) -> None:
    visitor = await place.visitor()
    html = await visitor.look(f"/undo?{urlencode(asked)}")
    assert (visitor.status, "<script>" in html) == (status, False)
    assert says in html


# --- links to pages that an editor moved ----------------------------------------------------------------------------------

LINKED = {
    "notes/tea.md": "# Brewing\n\nIn [the pot](pot.md), or [nowhere](lost.md). [Here](#brewing).\n",
    "notes/pot.md": "# Pot\n\nFor [tea](tea.md).\n",
    "home.md": "# Home\n\n[[tea]], [tea](notes/tea.md#brewing), [[notes/tea|the tea]] and [pot](notes/pot.md).\n",
}


async def moved_by_an_editor(place: Place, to: str = "kitchen/green-tea.md") -> None:
    async with writing(place.settings, host="laptop") as host:
        for path, text in LINKED.items():
            await host.merge(path, text)
    await place.indexed()
    page = place.settings.kb / to
    page.parent.mkdir(exist_ok=True)
    (place.settings.kb / "notes/tea.md").rename(page)


async def test_links_to_a_page_that_an_editor_moved_are_rewritten_when_the_person_says_so(place: Place) -> None:
    await moved_by_an_editor(place)
    visitor = await place.visitor()
    html = await visitor.look("/history")
    assert "was moved to <bdi>kitchen/green-tea.md</bdi> outside the server. Links on 3 pages lead nowhere now." in html
    assert place.text("home.md") == LINKED["home.md"], "never by itself"
    link = re.search(r'href="(/history/links[^"]+)"', html)
    assert link is not None
    html = await visitor.look(link.group(1))
    assert "home.md" in html
    assert place.text("home.md") == LINKED["home.md"]
    html = await visitor.send("/history/links")
    assert (
        "<strong>Done:</strong> links follow the move of notes/tea.md to kitchen/green-tea.md. 3 pages changed" in html
    )
    assert "Rewrite links" not in html
    assert place.text("home.md") == (
        "# Home\n\n[[green-tea]], [tea](kitchen/green-tea.md#brewing), [[kitchen/green-tea|the tea]] and [pot](notes/pot.md).\n"
    )
    assert place.text("notes/pot.md") == "# Pot\n\nFor [tea](../kitchen/green-tea.md).\n"
    moved = place.text("kitchen/green-tea.md")
    assert moved == "# Brewing\n\nIn [the pot](../notes/pot.md), or [nowhere](lost.md). [Here](#brewing).\n"
    (line, *_) = await place.app.base.state.ledger.history("home.md", limit=1)
    assert (line.principal, line.tool) == (f"{ME}@page", "relink")
    again = re.search(r'href="(/undo[^"]+)">Take this back', html)
    assert again is not None
    await visitor.look(again.group(1))
    await visitor.send("/undo")
    assert place.text("home.md") == LINKED["home.md"]
    assert place.text("kitchen/green-tea.md") == LINKED["notes/tea.md"]


async def test_a_link_that_leads_to_another_page_now_and_a_path_that_is_taken_again_are_left_alone(
    place: Place,
) -> None:
    await moved_by_an_editor(place)
    (place.settings.kb / "tea.md").write_text("# Another tea\n", encoding="utf-8")
    visitor = await place.visitor()
    html = await visitor.look("/history")
    link = re.search(r'href="(/history/links[^"]+)"', html)
    assert link is not None
    await visitor.look(link.group(1))
    fields = forms(visitor.html)["/history/links"]
    await visitor.post("/history/links", {**fields, "digest": "0" * 64})
    assert visitor.status == 409
    await visitor.send("/history/links")
    assert place.text("home.md").startswith("# Home\n\n[[tea]], [tea](kitchen/green-tea.md#brewing)")
    (place.settings.kb / "notes/tea.md").write_text("# Tea again\n", encoding="utf-8")
    await visitor.look(link.group(1))
    assert visitor.status == 404
    for strange in ("1", "e1", "999", "<b>"):
        await visitor.look(f"/history/links?{urlencode({'change': strange})}")
        assert visitor.status == 404


async def follow(visitor: Visitor, path: str, *, entry: str) -> None:
    """Open the rehearsal of the newest change whose entry says this; it is about a page at `path`."""
    entries = re.findall(r"<li id=.*?</li>", visitor.html, re.DOTALL)
    (found, *_) = [one for one, words in zip(entries, told(visitor.html), strict=True) if entry in words]
    link = re.search(r'href="(/undo[^"]+)"', found)
    assert link is not None
    assert path in await visitor.look(link.group(1).replace("&amp;", "&"))


async def test_a_stranger_sees_no_history(place: Place) -> None:
    await days_work(place)
    stranger = await place.visitor(logged_in=False)
    for path in ("/history", "/undo", f"/history?path={PAGE}", f"/history/lines?path={PAGE}", f"/diff?path={PAGE}"):
        html = await stranger.look(path)
        assert stranger.status == 404
        assert PAGE not in html
