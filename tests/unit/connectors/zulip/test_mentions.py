"""Whom a message notifies is known before it is sent: not those in code or quotes, and nobody who is not there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mcp_server.connectors.zulip.model import ZulipUser
from mcp_server.connectors.zulip.text.mentions import mentions_in

HAMLET = ZulipUser(10, "King Hamlet", "hamlet@example.com")
ANN, OTHER = ZulipUser(11, "Ann", "ann@example.com"), ZulipUser(12, "Ann", "other@example.com")
GONE = ZulipUser(13, "Gone", "gone@example.com", active=False)
EVERYBODY = (HAMLET, ANN, OTHER, GONE)


def said(*texts: str) -> Sequence[str]:
    return mentions_in(texts).sentences(EVERYBODY)


@pytest.mark.parametrize(
    ("text", "notified"),
    [
        ("@**all** look", ["notifies everybody in the channel by @**all**"]),
        ("(@**channel**, @**everyone**)", ["notifies everybody in the channel by @**channel**, @**everyone**"]),
        ("@**topic** look", ["notifies, by @**topic**, everybody who wrote in the topic"]),
        ("@*support* and @*ops*", ["notifies the groups support, ops"]),
        ("@**king hamlet** and @**King Hamlet|10**", ["mentions King Hamlet, King Hamlet"]),
        ("@**|10**", ["mentions King Hamlet"]),
        ("@**Ann**", ["mentions one of 2 people called Ann"]),
        ("@**Ann|12**", ["mentions Ann"]),
        ("@**Ann|10**", ["mentions nobody by 'Ann|10': no active account has that name"]),
        ("@**Gone**, @**Bob**", ["mentions nobody by 'Gone', 'Bob': no active account has that name"]),
        ("```spoiler Result\n@**Ann|11**\n```", ["mentions Ann"]),
        ("```\ncode\n```\n@**Ann|11**", ["mentions Ann"]),
        ("a ` here, @**all** and ``there", ["notifies everybody in the channel by @**all**"]),
    ],
)
def test_a_mention_is_announced(text: str, notified: list[str]) -> None:
    assert said(text) == notified


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        "`@**all**` is how you call everybody",
        "``use `@**all**` ``",
        "```\n@**all**\n```",
        "~~~ python\n@**King Hamlet**\n```\n@*support*\n~~~",
        "```quote\n@**all**\n\n``` text\n@**all**\n```\n```",
        "> @**all** said",
        "  > @*support*",
        "@_**King Hamlet** and @_*support*",
        "me@**all**",
        "@** all",
        "```\nnever closed\n@**all**",
    ],
)
def test_in_code_and_quotes_and_silently_nobody_is_called(text: str) -> None:
    assert said(text) == []


def test_each_message_of_a_long_text_is_read_by_itself() -> None:
    assert said("```\ncode", "@**all**") == ["notifies everybody in the channel by @**all**"]


def test_of_many_people_the_first_are_named() -> None:
    text = " ".join(f"@**Nobody {number}**" for number in range(9))
    assert said(text)[0].count("'Nobody") == 5
    assert "and 4 more" in said(text)[0]
