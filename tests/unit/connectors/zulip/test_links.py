"""Zulip addresses: made as its own web app makes them, and read in any form that people paste."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.connectors.zulip.model import Channel, Message, ZulipServer, ZulipUser
from mcp_server.connectors.zulip.text.links import ZulipLink, link_to, link_to_topic, read_link

SITE = "https://chat.example.com"
OLD, NEW = ZulipServer("", "9.0", 247), ZulipServer("", "12.0", 469)
AT = datetime(2026, 11, 20, tzinfo=UTC)
ANN, BOB, EVE = (
    ZulipUser(number, name, f"{name}@example.com") for number, name in ((3, "ann"), (1, "bob"), (2, "eve"))
)


def _said(number: int = 103, **where: object) -> Message:
    return Message(number, ANN.id, ANN.name, AT, "text", **where)  # type: ignore[arg-type]  # as a call has it


def test_an_address_is_encoded_as_zulip_does_it() -> None:
    """A dot is `.2E`, everything else `.` for `%`. Source: https://zulip.com/api/message-formatting."""
    message = _said(channel_id=25, channel="kb test/1.0", topic="Ж (v1.2)?")
    assert link_to(SITE, NEW, message) == (
        f"{SITE}/#narrow/channel/25-kb-test.2F1.2E0/topic/.D0.96.20.28v1.2E2.29.3F/near/103"
    )
    assert link_to(f"{SITE}/", OLD, message).startswith(f"{SITE}/#narrow/stream/25-kb-test")
    assert link_to_topic(SITE, NEW, Channel(25, "kb-test", "", private=False)) == f"{SITE}/#narrow/channel/25-kb-test"


@pytest.mark.parametrize(
    ("server", "people", "path"),
    [
        (NEW, (ANN, BOB), "dm/1,3-dm"),
        (NEW, (ANN, BOB, EVE), "dm/1,2,3-group"),
        (ZulipServer("", "6.0", 156), (ANN, BOB), "pm-with/1,3-dm"),
    ],
)
def test_a_conversation_is_addressed_by_its_people(
    server: ZulipServer, people: tuple[ZulipUser, ...], path: str
) -> None:
    """Feature level 177."""
    url = link_to(SITE, server, _said(7, people=people))
    assert url == f"{SITE}/#narrow/{path}/near/7"
    assert read_link(SITE, url) == ZulipLink(message_id=7, people_ids=tuple(sorted(person.id for person in people)))


@pytest.mark.parametrize(
    ("fragment", "link"),
    [
        ("narrow/stream/25-kb-test/topic/indexing/near/103", ZulipLink(25, None, "indexing", 103)),
        ("narrow/channel/25/topic/a.2Fb/with/9", ZulipLink(25, None, "a/b", 9)),
        ("narrow/stream/kb-test/subject/x", ZulipLink(None, "kb-test", "x")),
        ("narrow/channel/25-kb-test", ZulipLink(25)),
        ("narrow/near/103", ZulipLink(message_id=103)),
        ("narrow/id/103", ZulipLink(message_id=103)),
        ("narrow/pm-with/3,28-pm", ZulipLink(people_ids=(3, 28))),
        ("narrow/channel/25-x/topic//near/1", ZulipLink(25, None, "", 1)),
    ],
)
def test_whatever_web_app_made_an_address_it_is_read(fragment: str, link: ZulipLink) -> None:
    """Old messages keep the old names."""
    assert read_link(SITE, f" {SITE}/#{fragment} ") == link


@pytest.mark.parametrize(
    "url",
    [
        "https://other.example.com/#narrow/channel/25-kb-test",
        "http://chat.example.com/#narrow/channel/25-kb-test",
        "https://chat.example.com.evil.com/#narrow/near/1",
        "https://chat.example.com@evil.com/#narrow/near/1",
        f"{SITE}/#settings/account",
        f"{SITE}/#narrow/is/starred",
        f"{SITE}/#narrow",
        f"{SITE}/",
        "",
        "https://[",
        f"{SITE}/#narrow/near/{'9' * 40}",
        f"{SITE}/#narrow/near/١٢",
    ],
)
def test_an_address_of_nothing_here_is_none(url: str) -> None:
    """Another host's address is never taken for one of ours."""
    assert read_link(SITE, url) is None


@given(
    channel=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    topic=st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    level=st.sampled_from([247, 469]),
)
def test_every_topic_round_trips(channel: str, topic: str, level: int) -> None:
    """In any letters."""
    message = _said(channel_id=25, channel=channel, topic=topic)
    assert read_link(SITE, link_to(SITE, ZulipServer("", "", level), message)) == ZulipLink(25, None, topic, 103)
