"""People, groups and files in Zulip: what is shown of them, and what never is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.serving import body, for_requests, redirected
from tests.support.zulip.hosts import BOT, HAMLET, LEVELS, ZulipHost, chatting, held, until_dropped

FIND, READ, SEARCH = "zulip_find_people", "zulip_read_messages", "zulip_search_messages"


@pytest.fixture(params=LEVELS)
async def here(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ZulipHost]:
    """Yield a host that may read, at two feature levels."""
    async with held(chatting(tmp_path, level=1, feature_level=request.param)) as found:
        yield found


def names(answer: dict[str, Any]) -> list[str]:
    return [line["name"] for line in answer["people"]]


async def test_people_are_found_by_parts_of_their_names_and_groups_with_their_members(here: ZulipHost) -> None:
    here.world.person("Hamlet's Ghost", "ghost@zulip.com", active=False)
    here.world.user("Iago").record["delivery_email"] = None
    here.world.group("backend", "Iago", HAMLET)
    here.world.group("everybody here", "Zoe", within=["backend"])
    found = await here.call(FIND, query="hamlet")
    assert found["people"][0] == {
        "id": here.world.user(HAMLET).id,
        "name": HAMLET,
        "email": "hamlet@zulip.com",
        "role": "member",
        "bot": False,
        "active": True,
    }
    assert [(line["name"], line["active"]) for line in found["people"]] == [(HAMLET, True), ("Hamlet's Ghost", False)]
    by_address = await here.call(FIND, query="hamlet@zulip.com")
    assert names(by_address) == [HAMLET]
    hidden, bot = (await here.call(FIND, query="iago"))["people"], (await here.call(FIND, query=BOT))["people"]
    assert (hidden[0]["email"], hidden[0]["role"], bot[0]["bot"]) == ("", "administrator", True)
    group = await here.call(FIND, query="@*everybody here*")
    assert (sorted(names(group)), group["groups"]) == (["Iago", HAMLET, "Zoe"], ["everybody here: 3 members"])
    assert group["note"] == "the people are the members of everybody here"
    everything = await here.call(FIND)
    assert everything["groups"] == ["backend: 2 members", "everybody here: 3 members"]
    nobody = await here.call(FIND, query="Yorick")
    assert (nobody["people"], nobody["note"]) == ([], "nobody has that name")
    await until_dropped(here)


@pytest.mark.security
async def test_addresses_are_not_shown_where_direct_messages_are_not_allowed(tmp_path: Path) -> None:
    async with chatting(tmp_path, level=1, zulip_channels=("drawing",)) as fenced:
        assert (await fenced.call(FIND, query=HAMLET))["people"][0]["email"] == ""


async def test_a_text_file_is_read_where_a_message_has_it_and_its_text_counts_as_that_messages(here: ZulipHost) -> None:
    whole = "# Plän\r\n" + "Zeile\n" * 10_000
    address = here.world.upload("Plän.md", b"\xef\xbb\xbf" + whole.encode())
    shared = here.said(f"[Plan]({address})")
    asked = {"channel": "drawing", "topic": "merge", "anchor": f"{here.served.address}{address}"}
    first = await here.call(READ, **asked)
    assert [(line["id"], line["place"]) for line in first["messages"]] == [(shared, "drawing/merge")]
    assert (len(first["file"]), first["tainted"]) == (40_000, True)
    assert first["note"] == f"Plän.md: characters 1 to 40,000 of {len(whole):,}; next_cursor continues the text"
    second = await here.call(READ, **asked, cursor=first["next_cursor"])
    assert first["file"] + second["file"] == whole
    assert (second["next_cursor"], second["note"]) == (
        None,
        f"Plän.md: characters 40,001 to {len(whole):,} of {len(whole):,}",
    )
    assert "belongs to another call" in await here.refused(READ, channel="drawing", cursor=first["next_cursor"])
    assert (await here.call(READ, channel="drawing", topic="merge"))["file"] is None


async def test_files_that_cannot_be_read_are_refused_with_the_reason(here: ZulipHost) -> None:
    picture = here.world.upload("x.png", b"\x89PNG\r\n\x1a\n")
    control = here.world.upload("y.txt", b"text\x00more")
    large = here.world.upload("z.txt", b"x" * 2_000_001)
    huge = here.world.upload("huge.txt", b"x" * 8_500_000)
    gone = here.world.upload("gone.txt", b"text")
    for address in (picture, control, large, huge, gone):
        here.said(f"[file]({address})")
    elsewhere = here.world.upload("other.txt", b"text")
    here.said(f"[file]({elsewhere})", channel="secret")
    del here.world.files[gone.removeprefix("/user_uploads/")]
    table = [
        (picture, "'x.png' (8 bytes) is not UTF-8 text"),
        (control, "'y.txt' (9 bytes) is not UTF-8 text"),
        (large, "'z.txt' is larger than 2,000,000 bytes"),
        (huge, "'huge.txt' is larger than 2,000,000 bytes"),
        (gone, "has no such file"),
        (elsewhere, "none of the newest 1,000 messages with files there has 'other.txt'"),
        ("/user_uploads/2/../../etc/passwd", "anchor is newest, oldest"),
        (f"https://elsewhere.example{picture}", "not the address of a message or topic"),
    ]
    for address, why in table:
        assert why in await here.refused(READ, channel="drawing", anchor=address), address
    assert "name the channel" in await here.refused(READ, anchor=picture)


@pytest.mark.security
async def test_a_file_kept_elsewhere_is_not_fetched_there(here: ZulipHost) -> None:
    address = here.world.upload("a.txt", b"text")
    here.said(f"[file]({address})")
    asked = {"channel": "drawing", "anchor": address}
    told = '{"result": "success", "msg": "", "url": "https://bucket.example/a.txt?token=secret"}'
    here.served.plan = for_requests("GET", "a.txt", body(told, acts=False))
    why = await here.refused(READ, **asked)
    assert "Zulip keeps files at https://bucket.example" in why
    assert "secret" not in why
    here.served.plan = for_requests("GET", "a.txt", None, redirected("https://bucket.example/a.txt"))
    assert "Zulip keeps files at https://bucket.example" in await here.refused(READ, **asked)
    here.served.plan = for_requests("GET", "a.txt")
    assert (await here.call(READ, **asked))["file"] == "text"


@pytest.mark.parametrize("finds_inside", [False, True])
async def test_a_search_says_if_this_zulip_finds_no_words_inside_text_without_spaces(
    here: ZulipHost, *, finds_inside: bool
) -> None:
    here.world.finds_inside = finds_inside
    unknown = await here.call(SEARCH, query="会議", channel="drawing")
    assert "Zulip's search usually finds no words inside" in unknown["note"]
    here.said("明日の会議は東京駅で行います")
    here.clock.at = here.app.services.now().timestamp() - timedelta(days=1).total_seconds()
    here.said("พรุ่งนี้เราจะประชุมที่กรุงเทพ")
    answer = await here.call(SEARCH, query="会議", channel="drawing")
    assert len(answer["messages"]) == finds_inside
    assert ("this Zulip's search finds no words inside" in answer["note"]) is not finds_inside
    assert "inside" not in (await here.call(SEARCH, query="Plan", channel="drawing"))["note"]
