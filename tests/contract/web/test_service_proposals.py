"""A person sees on the review page exactly what would go to Plane or Zulip, and it goes only after they approved."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

from tests.doubles.plane import ADA, WORKSPACE, Plane, plane_served
from tests.doubles.serving import Served, served
from tests.doubles.zulip import Zulip
from tests.doubles.zulip_world import RECORDED_LEVEL
from tests.support.web.review_pages import Place, Visitor, shown
from tests.support.zulip.hosts import BOT, Clock, furnished

HOSTILE = "Ship it <img src=x onerror=alert(1)>\u202e \x1b[31m\n--- a/nothing\n+++ b/nothing\n@@ -1 +1 @@"


@dataclass(frozen=True)
class Elsewhere:
    """A served page, and the service it leads to."""

    place: Place
    plane: Plane
    zulip: Zulip
    plane_at: Served
    zulip_at: Served

    async def proposed(self, tool: str, **arguments: object) -> tuple[str, Visitor]:
        """Have the host propose it; return the proposal's id and a person who opens its page."""
        answer = await self.place.call(tool, **arguments)
        assert answer["status"] == "proposed", answer
        number = str(answer["proposal"]["id"])
        visitor = await self.place.visitor()
        await visitor.look(f"/proposals/{number}?layout=inline&whole=1")
        return number, visitor


@asynccontextmanager
async def elsewhere(folder: Path) -> AsyncIterator[Elsewhere]:
    zulip = furnished(RECORDED_LEVEL, Clock())
    bot = zulip.world.user(BOT)
    async with plane_served() as (plane_at, plane), served(zulip) as zulip_at:
        named: dict[str, Any] = {
            "plane_base_url": plane_at.address,
            "plane_api_key": ADA.key,
            "plane_workspace": WORKSPACE,
        }
        named |= {"zulip_site": zulip_at.address, "zulip_email": bot.email, "zulip_api_key": bot.key}
        async with shown(folder, **named) as place:
            yield Elsewhere(place, plane, zulip, plane_at, zulip_at)


def rows(html: str, kind: str) -> list[str]:
    """Return the lines that the page's diff adds (`added`) or removes (`removed`), as a person reads them."""
    found = re.findall(
        rf'<div class="row {kind}".*?<span class="foreign" role="cell">(.*?)</span></div>', html, re.DOTALL
    )
    return [unescape(re.sub(r"<[^>]+>", "", row)) for row in found]


async def test_a_message_is_shown_completely_before_it_is_sent(tmp_path: Path) -> None:
    async with elsewhere(tmp_path) as there:
        text = "We agreed:\n\n- **merge** on Monday\n- tell everybody"
        number, visitor = await there.proposed("zulip_send_message", channel="drawing", topic="merge", text=text)
        assert "Message to send" in visitor.html
        assert "What would change" not in visitor.html
        assert "A page that changes" not in visitor.html
        assert rows(visitor.html, "added") == text.split("\n")
        assert visitor.html.count("tell everybody") == 2, "as it would go out, and in the exact call"
        assert there.zulip_at.count("POST", "/messages") == 0
        await visitor.send(f"/proposals/{number}/approve")
        assert there.zulip.world.texts("drawing", "merge")[-1] == text
        assert (await there.place.proposal(number)).state == "executed"


async def test_a_person_may_change_the_words_before_they_go_out(tmp_path: Path) -> None:
    async with elsewhere(tmp_path) as there:
        number, visitor = await there.proposed(
            "zulip_send_message", channel="drawing", topic="merge", text="We agree!!"
        )
        await visitor.look(f"/proposals/{number}/edit")
        await visitor.send(f"/proposals/{number}/edit", **{"value.0.text": "We agree."})
        edited = _path(visitor)
        assert edited != f"/proposals/{number}"
        assert rows((await visitor.look(f"{edited}?layout=inline")), "added") == ["We agree."]
        await visitor.send(f"{edited}/approve")
        assert there.zulip.world.texts("drawing", "merge") == ["We agree."]
        assert (await there.place.proposal(number)).state == "superseded"


async def test_a_task_is_shown_with_its_resolved_names(tmp_path: Path) -> None:
    async with elsewhere(tmp_path) as there:
        asked = {"project": "kb", "name": "Rotate the keys", "description": "# Why\n\nThey are old.", "labels": ["Bug"]}
        number, visitor = await there.proposed("plane_create_task", **asked)
        lines = rows(visitor.html, "added")
        assert "They are old." in lines
        assert any("Rotate the keys" in line for line in lines)
        assert any("bug" in line for line in lines)
        assert not [task for task in there.plane.tasks("KB") if task["name"] == "Rotate the keys"]
        await visitor.send(f"/proposals/{number}/approve")
        assert [task["name"] for task in there.plane.tasks("KB")].count("Rotate the keys") == 1


async def test_a_task_change_shows_old_and_new_values(tmp_path: Path) -> None:
    async with elsewhere(tmp_path) as there:
        number, visitor = await there.proposed("plane_update_task", task="KB-1", priority="low", name="Stale rows")
        assert any("Search returns stale rows" in line for line in rows(visitor.html, "removed"))
        assert any("Stale rows" in line for line in rows(visitor.html, "added"))
        await visitor.send(f"/proposals/{number}/reject", note="not now")
        assert there.plane.task("KB-1")["name"] == "Search returns stale rows"


async def test_hostile_text_that_would_be_sent_does_nothing_on_the_page(tmp_path: Path) -> None:
    async with elsewhere(tmp_path) as there:
        _, visitor = await there.proposed("plane_comment_task", task="KB-1", text=HOSTILE)
        for layout in ("inline", "split"):
            html = await visitor.look(f"{_path(visitor)}?layout={layout}&whole=1")
            assert visitor.status == 200
            assert "<img" not in html
            assert not {"\u202e", "\x1b"} & set(html)
            assert "⟦U+202E⟧" in html
        assert "They are marked" in visitor.html


async def test_the_list_of_proposals_says_in_a_sentence_where_something_would_go(tmp_path: Path) -> None:
    async with elsewhere(tmp_path) as there:
        await there.proposed("zulip_react", message_id=_message(there), emoji="eyes")
        visitor = await there.place.visitor()
        (sentence,) = re.findall(r'<a href="/proposals/[^"]+"><bdi>(.*?)</bdi>', await visitor.look("/waiting"))
        assert "eyes" in sentence
        assert "drawing" in sentence


def _message(there: Elsewhere) -> int:
    return there.zulip.world.say("King Hamlet", "drawing", "merge", "hello")


def _path(visitor: Visitor) -> str:
    found = re.search(r'data-proposal="([^"]+)"', visitor.html)
    assert found is not None
    return f"/proposals/{found[1]}"
