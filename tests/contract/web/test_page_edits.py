"""Editing a page on the site: previewed without a write, merged as in a terminal, and no text of the person is ever lost."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest

from mcp_server.web import page_context
from mcp_server.web.text.site_addresses import edit_address, new_page_address, page_address
from tests.support.hosts.writers import writing
from tests.support.web.review_pages import ME, PAGE, Place, Visitor, forms, kept, shown

EDIT, NEW = "/page/edit", "/page/new"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


async def opened(place: Place, path: str = PAGE) -> Visitor:
    visitor = await place.visitor()
    await visitor.look(edit_address(path))
    return visitor


def text_in(visitor: Visitor, action: str = EDIT) -> str:
    """Return the text in the form, as a browser would send it back."""
    return forms(visitor.html)[action]["text"].replace("\r\n", "\n")


def edited(visitor: Visitor, old: str, new: str) -> str:
    text = text_in(visitor)
    assert old in text
    return text.replace(old, new).replace("\n", "\r\n")


async def others_write(place: Place, old: str, new: str, path: str = PAGE) -> None:
    """Have a host change the page."""
    async with writing(place.settings, host="laptop") as host:
        text = place.text(path).replace(old, new)
        await host.merge(path, text, base_revision=await host.revision(path))


async def test_a_preview_shows_the_difference_and_the_rendered_text_and_writes_nothing(place: Place) -> None:
    visitor = await opened(place)
    before = place.text()
    await visitor.send(EDIT, text=edited(visitor, "forty seconds", "**sixty** seconds"), do="preview")
    assert visitor.status == 200
    assert "What saving changes" in visitor.html
    assert "<strong>sixty</strong> seconds" in visitor.html
    assert "**sixty** seconds" in text_in(visitor)
    assert place.text() == before
    assert await place.app.base.state.ledger.records(limit=5) == []


async def test_a_saved_text_is_the_persons_own_change_with_an_undo_beside_it(place: Place) -> None:
    visitor = await opened(place)
    before = place.text()
    await visitor.send(EDIT, text=edited(visitor, "forty", "sixty"), reason="measured again", do="save")
    assert place.text() == before.replace("forty", "sixty")
    assert "<strong>Saved.</strong>" in visitor.html
    (newest, *_) = await place.app.base.state.ledger.history(PAGE, limit=1)
    assert (newest.principal, newest.intent) == (f"{ME}@page", "measured again")
    undo = re.search(r'href="(/undo\?change=\d+)"', visitor.html)
    assert undo is not None
    await visitor.look(undo[1])
    await visitor.send("/undo")
    assert place.text() == before


async def test_what_somebody_else_wrote_elsewhere_in_the_page_is_kept(place: Place) -> None:
    visitor = await opened(place)
    await others_write(place, "every week", "every day")
    await visitor.send(EDIT, text=edited(visitor, "forty", "sixty"), do="save")
    assert "Saved." in visitor.html
    assert "sixty seconds" in place.text()
    assert "every day" in place.text()


@pytest.mark.parametrize(
    ("take", "is_there", "is_gone"),
    [
        ("now", ["fifty seconds"], ["sixty seconds"]),
        ("yours", ["sixty seconds"], ["fifty seconds"]),
        ("both", ["fifty seconds", "sixty seconds"], []),
    ],
)
async def test_where_both_changed_the_same_text_the_person_chooses_a_side(
    place: Place, take: str, is_there: list[str], is_gone: list[str]
) -> None:
    visitor = await opened(place)
    await others_write(place, "forty", "fifty")
    between = place.text()
    mine = edited(visitor, "forty", "sixty").replace("every week", "every month")
    await visitor.send(EDIT, text=mine, do="save")
    assert visitor.status == 409
    assert "somebody changed the same text since you opened the page" in visitor.html
    assert place.text() == between, "not even the part without a conflict"
    assert text_in(visitor) == mine.replace("\r\n", "\n")
    await visitor.send(EDIT, do="take", **{"take-0": take})
    assert visitor.status == 200
    assert "Your text, rendered" in visitor.html
    await visitor.send(EDIT, do="save")
    for words in is_there:
        assert words in place.text()
    for words in is_gone:
        assert words not in place.text()
    assert "every month" in place.text()
    assert "<<<<<<<" not in place.text()


async def test_undecided_conflicts_are_marked_in_the_text_which_is_not_saved_like_that(place: Place) -> None:
    visitor = await opened(place)
    await others_write(place, "forty", "fifty")
    await visitor.send(EDIT, text=edited(visitor, "forty", "sixty"), do="save")
    await visitor.send(EDIT, do="take")
    assert "<<<<<<< the page now" in text_in(visitor)
    await visitor.send(EDIT, do="save")
    assert visitor.status == 422
    assert "still has the marks of a conflict" in visitor.html
    assert "fifty seconds" in place.text()
    settled = re.sub(r"<<<<<<<.*?>>>>>>> your text", "It takes a minute.", text_in(visitor), flags=re.DOTALL)
    await visitor.send(EDIT, text=settled, do="save")
    assert "It takes a minute." in place.text()


@pytest.mark.parametrize(
    "raw",
    [
        b"# Tea\r\n\r\nFour minutes.\r\n\r\nBlue pot.\r\n",
        "\ufeff# Tea\n\nFour minutes.\n\nZero\u200bwidth.\n".encode(),
        b"\n\n# Tea\n\nFour minutes.\n\n\n",
        b"---\ntitle: Tea\n---\nFour minutes.",
    ],
)
async def test_saving_changes_only_what_the_person_changed_whatever_the_line_ends(place: Place, raw: bytes) -> None:
    file = place.settings.kb / "tea.md"
    file.write_bytes(raw)
    visitor = await opened(place, "tea.md")
    await visitor.send(EDIT, text=edited(visitor, "Four", "Five"), do="save")
    assert visitor.status == 200, visitor.html
    assert file.read_bytes() == raw.replace(b"Four", b"Five")


@pytest.mark.parametrize(
    ("text", "says", "status"),
    [("  \r\n", "the text is empty", 422), (None, "the text is the same as the page", 200)],
)
async def test_a_text_that_says_nothing_new_is_not_saved(
    place: Place, text: str | None, says: str, status: int
) -> None:
    visitor = await opened(place)
    before = place.text()
    await visitor.send(EDIT, do="save", **({} if text is None else {"text": text}))
    assert (visitor.status, says in visitor.html) == (status, True)
    assert place.text() == before


async def test_an_edit_that_needs_more_than_a_word_becomes_a_proposal(place: Place) -> None:
    agents = place.settings.kb / "_agents"
    agents.mkdir()
    (agents / "_index.md").write_text("# Agents\n\nOurs.\n", encoding="utf-8")
    visitor = await opened(place, "_agents/_index.md")
    await visitor.send(EDIT, text="# Agents\r\n\r\nTheirs.\r\n", do="save")
    assert "/proposals/" in str(re.findall(r'action="([^"]+)"', visitor.html))
    assert "Ours." in place.text("_agents/_index.md")


async def test_a_base_that_is_not_kept_is_said_before_anything_is_replaced(place: Place) -> None:
    visitor = await opened(place)
    before = place.text()
    mine = edited(visitor, "forty", "sixty")
    await visitor.send(EDIT, text=mine, base="beefbeefbeefbeef", do="save")
    assert visitor.status == 409
    assert "no longer kept" in visitor.html
    assert place.text() == before
    assert text_in(visitor) == mine.replace("\r\n", "\n")
    await visitor.send(EDIT, do="save")
    assert "sixty" in place.text()


async def test_a_form_of_another_session_changes_nothing(place: Place) -> None:
    visitor = await opened(place)
    before = place.text()
    await visitor.send(EDIT, text=edited(visitor, "forty", "sixty"), csrf="x" * 43, do="save")
    assert visitor.status == 403
    assert place.text() == before


async def test_a_new_page_is_written_and_read(place: Place) -> None:
    visitor = await place.visitor()
    await visitor.look(page_address("Tea & <b>milk"))
    link = re.search(r'href="(/page/new\?path=[^"]+)"', visitor.html)
    assert link is not None
    await visitor.look(unescape(link[1]))
    held = forms(visitor.html)[NEW]
    assert (held["path"], held["text"]) == ("tea-b-milk.md", "# Tea & <b>milk\r\n\r\n")
    await visitor.send(NEW, path="drinks/tea", text="# Tea\r\n\r\nHot.\r\n", do="save")
    assert place.text("drinks/tea.md") == "# Tea\n\nHot.\n"
    assert "Saved." in visitor.html


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (PAGE, "exists already"),
        ("guides", "it is a folder"),
        ("../tea.md", "would leave it"),
        (".hidden.md", "is hidden"),
        ("", "give the page a path"),
    ],
)
async def test_a_path_that_can_be_no_new_page_keeps_the_text_in_the_form(place: Place, path: str, says: str) -> None:
    visitor = await place.visitor()
    await visitor.look(new_page_address())
    await visitor.send(NEW, path=path, text="My words.\r\n", do="save")
    assert visitor.status == 409
    assert says in unescape(visitor.html)
    assert text_in(visitor, NEW) == "My words.\n"


async def test_where_the_server_only_reads_the_form_says_so(tmp_path: Path) -> None:
    async with shown(tmp_path, read_only=True) as place:
        visitor = await opened(place)
        mine = edited(visitor, "forty", "sixty")
        await visitor.send(EDIT, text=mine, do="save")
        assert visitor.status == 409
        assert "this server only reads pages (FORGE_READ_ONLY" in visitor.html
        assert text_in(visitor) == mine.replace("\r\n", "\n")


HOSTILE_TEXT = "\n\n# Tea </textarea><script>alert(1)</script>\n\n\u202eemit &amp; \N{SNOWMAN}\n\n  two lines  \n"


@pytest.mark.parametrize("path", [PAGE, ""])
async def test_text_that_is_sent_after_the_session_has_expired_comes_back_after_the_login(
    place: Place, path: str
) -> None:
    """No text is lost, and none is stored or put into an address or a cookie."""
    visitor = await place.visitor()
    await visitor.look(edit_address(path) if path else new_page_address())
    action = EDIT if path else NEW
    visitor.expire()
    fields = {} if path else {"path": "new/tea.md"}
    await visitor.send(action, text=HOSTILE_TEXT.replace("\n", "\r\n"), reason="the lid is lost", do="save", **fields)
    assert visitor.status == 404
    assert "You are logged out" in visitor.html
    assert "<script>alert" not in visitor.html
    assert text_in(visitor, action) == HOSTILE_TEXT
    assert "tea" not in str(visitor.http.cookies)
    kept = forms(visitor.html)[action]
    assert not {"csrf", "do"} & set(kept)
    await visitor.look((await place.link()).removeprefix(place.address))
    await visitor.send("/login")
    await visitor.post(action, kept)
    assert "Nothing was saved: you have logged in since" in unescape(visitor.html)
    assert text_in(visitor, action) == HOSTILE_TEXT
    assert not (place.settings.kb / "new").exists()
    await visitor.send(action, do="save")
    assert visitor.status == 200
    name = path or "new/tea.md"
    assert place.text(name).lstrip("\n") == HOSTILE_TEXT.lstrip("\n")
    (change, *_) = await place.app.base.state.ledger.history(name, limit=1)
    assert change.intent == "the lid is lost"


async def test_a_form_of_an_earlier_session_saves_nothing_and_shows_its_text_again(place: Place) -> None:
    visitor = await opened(place)
    before = place.text()
    fields = forms(visitor.html)[EDIT]
    await visitor.post(EDIT, {**fields, "csrf": "0" * 64, "text": "# Another\n", "do": "save"})
    assert visitor.status == 403
    assert text_in(visitor) == "# Another\n"
    assert place.text() == before


async def test_other_forms_of_an_earlier_session_show_what_was_typed_to_be_copied(place: Place) -> None:
    waiting = await place.propose()
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waiting.id}")
    note = "Not before <b>May</b>, please."
    await visitor.post(f"/proposals/{waiting.id}/reject", {"csrf": "0", "note": note})
    assert visitor.status == 403
    assert "Not before &lt;b&gt;May&lt;/b&gt;, please." in visitor.html
    assert (await place.proposal(waiting.id)).state == "pending"
    visitor.expire()
    await visitor.post(f"/proposals/{waiting.id}/reject", {"note": note})
    assert "Not before &lt;b&gt;May&lt;/b&gt;, please." in visitor.html
    assert visitor.status == 404


@pytest.mark.parametrize("known", [True, False])
async def test_what_is_sent_without_a_session_is_answered_for_every_address_alike(place: Place, *, known: bool) -> None:
    stranger = await place.visitor(logged_in=known)
    stranger.expire()
    answers = set()
    for path in (EDIT, "/nothing/there", f"/proposals/{'0' * 20}/approve", "/health"):
        html = await stranger.post(path, {"text": "two words"})
        answers.add((stranger.status, html.replace(path, "PATH")))
    assert len(answers) == 1
    ((status, html),) = answers
    assert (status, "two words" in html) == (404, known)


async def test_of_a_form_that_is_too_large_nothing_is_returned(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = await place.visitor()
    stranger.expire()
    monkeypatch.setattr(page_context, "LARGEST_KEPT", 10)
    assert "You are logged out" in await stranger.post(EDIT, {"text": "a b"})
    assert "You are logged out" not in await stranger.post(EDIT, {"text": "two words"})
    assert stranger.status == 404
