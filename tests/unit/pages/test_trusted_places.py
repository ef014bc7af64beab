"""Places that a person can trust: how they are written, and which text lies in them."""

from __future__ import annotations

import pytest

from knowledge.pages.claim_source import place_to_trust, trusted_place, vouched
from mcp_server.app.settings.loader import BadSetting, load


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("plane", "plane"),
        (" Plane ", "plane"),
        ("plane:kb", "plane:KB"),
        ("zulip", "zulip"),
        ("zulip:#Design", "zulip:design"),
        ("zulip:design/Merge  plan", "zulip:design/merge plan"),
        ("zulip:direct/Ann Lee, Bob", "zulip:direct/ann lee, bob"),
        ("kb:./Inbox/", "kb:Inbox"),
    ],
)
def test_a_place_has_one_spelling(text: str, place: str) -> None:
    assert trusted_place(text) == place
    assert trusted_place(place) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "web",
        "url",
        "url:https://example.org",
        "https://example.org",
        "kb",
        "kb:",
        "kb:../x",
        "plane:",
        "zulip:#",
        "user",
        "*",
    ],
)
def test_nobody_can_trust_the_web_or_nothing_in_particular(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        trusted_place(text)


@pytest.mark.parametrize(
    ("place", "origin", "holds"),
    [
        ("plane", "plane:KB-12", True),
        ("plane", "zulip:plane/x", False),
        ("plane:KB", "plane:kb-12", True),
        ("plane:KB", "plane:KB", True),
        ("plane:KB", "plane:KBX-1", False),
        ("plane:KB", "plane:KB-X-1", False),
        ("zulip", "zulip:direct/ann, bob", True),
        ("zulip:design", "zulip:Design/merge", True),
        ("zulip:design", "zulip:designers/merge", False),
        ("zulip:design", "zulip:design%2Fother/merge", False),
        ("zulip:design", "zulip:direct/design", False),
        ("zulip:design/merge", "zulip:design/merge", True),
        ("zulip:design/merge", "zulip:design/merging", False),
        ("zulip:design/merge", "zulip:design", False),
        ("zulip:direct/ann", "zulip:direct/ann, eve", False),
        ("kb:inbox", "kb:inbox/mail.md", True),
        ("kb:inbox", "kb:inboxes/mail.md", False),
        ("kb:inbox", "url:https://x.example/inbox", False),
        ("kb:inbox", "import:j-1", False),
    ],
)
def test_a_place_holds_its_own_text_and_no_other(place: str, origin: str, holds: bool) -> None:  # noqa: FBT001 - a row
    assert vouched([place], origin) is holds
    assert not vouched([], origin)


def test_a_person_is_offered_the_project_the_channel_or_the_page() -> None:
    offered = [
        place_to_trust(one) for one in ("plane:kb-12", "zulip:#Design/merge/4711", "kb:inbox/a.md", "url:http://x")
    ]
    assert offered == ["plane:KB", "zulip:design", "kb:inbox/a.md", None]


def test_the_setting_names_places_and_refuses_invalid_ones() -> None:
    named = load({}, {"FORGE_TRUSTED_PLACES": 'plane:kb, zulip:#design , "zulip:direct/Ann, Bob"'})
    assert named.trusted_places == ("plane:KB", "zulip:design", "zulip:direct/ann, bob")
    assert load({}, {}).trusted_places == ()
    with pytest.raises(BadSetting, match="is not a place that can be trusted"):
        load({}, {"FORGE_TRUSTED_PLACES": "plane,https://example.org"})
