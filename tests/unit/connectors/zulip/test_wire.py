"""Every recorded reply of Zulip is read, and every request uses the names that a server of that level knows."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mcp_server.connectors.errors import ConnectorError, Denied, Missing, NoAnswer, ReplyLost, ServiceRefused
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest
from mcp_server.connectors.zulip import wire
from mcp_server.connectors.zulip.model import (
    Channel,
    ChatPlace,
    Message,
    MessageWindow,
    Queue,
    QueueEvents,
    Reaction,
    ZulipServer,
    ZulipUser,
)
from tests.doubles.zulip_world import SAMPLES

OLD, NEW = ZulipServer("", "9.0", 247), ZulipServer("", "12.0", 469)
KB_TEST = Channel(25, "kb-test", "Знания", private=False)
HAMLET = ZulipUser(28, "King Hamlet", "user28@zulipdev.com", delivery_email="hamlet@zulip.com", role="member")
QUEUE = Queue("8f1b50b3-dabf-4a8e-bb7d-48f13b8b6116", -1)
BOT_TEXT = "Hello **from** bot ссылка [doc](https://example.com)\n\n```python\nprint(1)\n```"
READ = ServiceRequest("GET", "/api/v1/x", repeatable=True)
WRITE = ServiceRequest("POST", "/api/v1/x")
REACT = wire.react(104, "eyes")


def _ids(window: MessageWindow) -> list[int]:
    return [message.id for message in window.messages]


def _message(message: Message) -> bool:
    return (message.id, message.text, message.channel_id, message.channel, message.topic, message.at) == (
        103,
        BOT_TEXT,
        25,
        "kb-test",
        "indexing",
        datetime(2026, 11, 20, 21, 29, 57, tzinfo=UTC),
    )


def _heard(heard: QueueEvents) -> bool:
    direct = heard.messages[2]
    return (
        [message.id for message in heard.messages] == [103, 104, 105, 107]
        and heard.last_event_id == 3
        and direct.channel_id is None
        and [person.id for person in direct.people] == [28, 34]
        and heard.messages[3].text.endswith("\n[message truncated]")
        and len(heard.messages[3].text) == OLD.longest_message
        and len(heard.messages[3].topic) == OLD.longest_topic
    )


def _searched(window: MessageWindow) -> bool:
    return _ids(window) == [15, 53] and Reaction("eyes", 26, "1f440") in window.messages[0].reactions


READS: dict[str, tuple[Callable[[ServiceRequest, ServiceReply], Any], Callable[[Any], bool]]] = {
    "server_settings": (wire.read_server, lambda read: read == ZulipServer("Zulip Dev", "9.0-dev+git", 247)),
    "users_me": (
        wire.read_user,
        lambda read: (read.id, read.bot, read.delivery_email) == (29, False, "iago@zulip.com"),
    ),
    "users_me_bot": (
        wire.read_user,
        lambda read: (read.id, read.bot, read.email) == (34, True, "default-bot@zulip.com"),
    ),
    "users_list": (wire.read_users, lambda read: len(read) == 16 and HAMLET in read),
    "users_list_custom": (wire.read_users, lambda read: len(read) == 16 and HAMLET in read),
    "streams_list": (wire.read_channels, lambda read: [c.name for c in read][:2] == ["announce", "Denmark"]),
    "streams_list_bot": (wire.read_channels, lambda read: {c.name for c in read if c.restricted} == {"announce"}),
    "register_bot": (wire.read_queue, lambda read: read == QUEUE),
    "register_full_fetch": (wire.read_limits, lambda read: "longest_message" not in read[1]),
    "message_send_stream_bot": (wire.read_sent, lambda read: read == 103),
    "message_send_stream_mention_bot": (wire.read_sent, lambda read: read == 104),
    "message_send_direct": (wire.read_sent, lambda read: read == 105),
    "message_send_too_long": (wire.read_sent, lambda read: read == 107),
    "events_first": (wire.read_events, _heard),
    "events_dont_block": (wire.read_events, _heard),
    "events_longpoll_woken": (wire.read_events, lambda read: (read.messages[0].id, read.last_event_id) == (108, 4)),
    "messages_get_newest": (wire.read_messages, lambda read: _ids(read) == [104, 107, 108] and not read.found_oldest),
    "messages_get_narrow_topic": (wire.read_messages, lambda read: _message(read.messages[0]) and read.found_newest),
    "messages_search": (wire.read_messages, _searched),
    "messages_search_russian": (wire.read_messages, lambda read: _ids(read) == [104]),
    "messages_search_russian_other_form": (wire.read_messages, lambda read: read == MessageWindow([], True, True)),  # noqa: FBT003 - both ends
    "messages_bot_search_public": (wire.read_messages, lambda read: _ids(read) == [103]),
    "messages_private_stream_other_user": (wire.read_messages, lambda read: not read.messages),
    "message_by_id": (wire.read_message, _message),
    "topics": (wire.read_topics, lambda read: [t.last_message_id for t in read] == [108, 107, 101]),
    "reaction_add": (lambda _, reply: wire.read_reaction_change(REACT, reply), lambda read: read is True),
    "reaction_dup_400": (lambda _, reply: wire.read_reaction_change(REACT, reply), lambda read: read is False),
    "queue_delete": (wire.read_dropped, lambda read: read is None),
}
"""The replies that are read, with their reader and a check of its result."""
UNREAD = {
    "bots_list",
    "create_stream_by_guest_or_admin_only",
    "err_not_admin_400",
    "flags_update",
    "get_stream_id",
    "message_history",
    "message_update",
    "messages_render",
    "stream_by_id",
    "stream_members",
    "stream_private_create",
    "subscribe_bot",
    "subscribe_create",
    "subscribe_hamlet",
    "subscriptions_list",
    "user_by_id",
    "user_presence",
}
"""Successes whose contents we don't need."""
ERRORS: dict[str, tuple[type[ConnectorError], str]] = {
    "err_404": (ServiceRefused, "ZULIP_SITE"),
    "err_405": (ServiceRefused, "Method Not Allowed"),
    "err_bad_key_401": (Denied, "Malformed API key); set ZULIP_EMAIL and ZULIP_API_KEY"),
    "err_bad_key_valid_shape_401": (Denied, "Invalid API key); set ZULIP_EMAIL and ZULIP_API_KEY"),
    "err_bearer_401": (ServiceRefused, "HTTP basic"),
    "err_no_auth_401": (Denied, "set ZULIP_EMAIL and ZULIP_API_KEY"),
    "err_unknown_email_401": (Denied, "set ZULIP_EMAIL and ZULIP_API_KEY"),
    "err_429": (ServiceRefused, "rate limit"),
    "events_after_delete_400": (wire.QueueGone, "dropped this queue"),
    "events_bad_queue_400": (wire.QueueGone, "dropped this queue"),
    "events_queue_of_other_user": (wire.QueueGone, "dropped this queue"),
    "get_stream_id_404": (ServiceRefused, "Invalid stream name"),
    "message_by_id_no_access_400": (ServiceRefused, "Invalid message(s)"),
    "message_send_empty_400": (ServiceRefused, "must not be empty"),
    "message_send_json_body": (ServiceRefused, "Missing 'type' argument"),
    "message_send_missing_content_400": (ServiceRefused, "Missing 'content' argument"),
    "message_send_no_stream_400": (Missing, "channel nope-stream"),
    "message_send_no_topic": (ServiceRefused, "Missing topic"),
    "message_send_private_stream_not_subscribed_400": (Denied, "subscribe the bot"),
    "message_send_private_type_alias": (ServiceRefused, "Invalid email"),
    "message_send_stream_channel_type": (ServiceRefused, "Invalid type"),
    "message_update_other_400": (Denied, "permission to edit"),
    "messages_get_channel_operator": (ServiceRefused, "unknown operator channel"),
    "messages_missing_params_400": (ServiceRefused, "num_before"),
    "messages_narrow_unknown_stream_400": (Missing, "channel nope that"),
    "messages_too_many_400": (ServiceRefused, "maximum 5000"),
    "user_404": (ServiceRefused, "No such user"),
    "user_by_email": (ServiceRefused, "No such user"),
}


def _reply(name: str) -> ServiceReply:
    told = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))["response"]
    body = None if isinstance(told["body"], str) else told["body"]
    return ServiceReply(told["status"], {key.lower(): value for key, value in told["headers"].items()}, body)


def test_every_sample_is_read_or_judged_here() -> None:
    """A sample that no test replays would be a reply that no code can read."""
    assert {path.stem for path in SAMPLES.glob("*.json")} == {*READS, *UNREAD, *ERRORS}


@pytest.mark.parametrize("name", READS)
def test_a_recorded_reply_is_read_as_our_own_values(name: str) -> None:
    """Vendor names stop here."""
    read, right = READS[name]
    found = read(READ, _reply(name))
    assert right(found), found


@pytest.mark.parametrize("name", sorted(UNREAD))
def test_a_recorded_success_is_judged_as_one(name: str) -> None:
    """Also for requests that we don't make."""
    assert wire.require_success(READ, _reply(name))["result"] == "success"


@pytest.mark.parametrize("name", ERRORS)
def test_a_recorded_error_says_what_to_do(name: str) -> None:
    """In at most 280 characters."""
    kind, said = ERRORS[name]
    with pytest.raises(ConnectorError) as raised:
        wire.require_success(WRITE, _reply(name))
    assert type(raised.value) is kind
    assert said in str(raised.value)
    assert ".;" not in str(raised.value)
    assert len(str(raised.value)) <= 280


def _recorded(name: str) -> tuple[str, str, dict[str, str]]:
    """Return method, path, and what was sent, as text."""
    request = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))["request"]
    parts = urlsplit(request["url"])
    form = {k: v if isinstance(v, str) else json.dumps(v) for k, v in (request["form"] or {}).items()}
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return request["method"], parts.path, form | query


MADE = {
    "server_settings": wire.server_settings(),
    "users_me": wire.own_user(),
    "users_list": wire.users(),
    "streams_list": wire.channels(),
    "topics": wire.topics(KB_TEST),
    "message_by_id": wire.message(103),
    "message_update": wire.edit(103, "edited by bot"),
    "reaction_add": wire.react(104, "eyes"),
    "queue_delete": wire.drop(QUEUE),
    "events_first": wire.events(QUEUE, -1, block=True),
    "events_dont_block": wire.events(QUEUE, -1, block=False),
    "message_send_direct": wire.send(OLD, ChatPlace(people=(HAMLET,)), "DM from bot"),
}


@pytest.mark.parametrize("name", MADE)
def test_our_requests_are_those_that_were_answered(name: str) -> None:
    """The recorded method, path and every field."""
    made, (method, path, sent) = MADE[name], _recorded(name)
    assert (made.method, made.path) == (method, path)
    ours = dict(made.query) | dict(made.form or {})
    assert {key: _parsed(ours[key]) for key in sent} == {key: _parsed(value) for key, value in sent.items()}
    assert set(ours) - set(sent) <= {"apply_markdown", "read_by_sender"}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@pytest.mark.parametrize(
    ("server", "sent_type", "narrow"),
    [(ZulipServer("", "6.0", 156), "stream", "stream"), (OLD, "stream", "stream"), (NEW, "channel", "channel")],
)
def test_a_channel_is_called_as_the_server_knows_it(server: ZulipServer, sent_type: str, narrow: str) -> None:
    """Feature levels 248 and 250. Sources: message_send_stream_channel_type.json, messages_get_channel_operator.json."""
    where = ChatPlace(KB_TEST, "indexing")
    form = wire.send(server, where, "hi", queue=QUEUE, local_id="7").form
    assert form == {
        "type": sent_type,
        "to": "25",
        "topic": "indexing",
        "content": "hi",
        "queue_id": QUEUE.id,
        "local_id": "7",
        **({"read_by_sender": "true"} if server.level >= 236 else {}),
    }
    query = wire.messages(server, where, anchor="newest", before=5, after=0).query
    assert json.loads(query["narrow"]) == [
        {"operator": narrow, "operand": 25},
        {"operator": "topic", "operand": "indexing"},
    ]
    assert query["apply_markdown"] == "false"
    registered = wire.register(server, where, public=True).form or {}
    assert json.loads(registered["narrow"]) == [[narrow, "kb-test"], ["topic", "indexing"]]
    assert registered["all_public_streams"] == "true"


@pytest.mark.parametrize(
    ("level", "sent_type", "operator", "every"),
    [(173, "private", "pm-with", "private"), (174, "direct", "pm-with", "private"), (177, "direct", "dm", "dm")],
)
def test_direct_messages_are_called_as_the_server_knows_them(
    level: int, sent_type: str, operator: str, every: str
) -> None:
    """Feature levels 174 and 177. Source: https://zulip.com/api/changelog."""
    server, where = ZulipServer("", "", level), ChatPlace(people=(HAMLET,))
    form = wire.send(server, where, "hi").form or {}
    assert (form["type"], form["to"]) == (sent_type, "[28]")
    query = wire.messages(server, where, anchor=103, before=1, after=1, sender=HAMLET, search="a b").query
    assert json.loads(query["narrow"]) == [
        {"operator": operator, "operand": [28]},
        {"operator": "sender", "operand": 28},
        {"operator": "search", "operand": "a b"},
    ]
    everything = wire.messages(server, ChatPlace(direct=True), anchor=103, before=1, after=1).query
    assert json.loads(everything["narrow"]) == [{"operator": "is", "operand": every}]


def test_messages_are_requested_in_moderate_numbers_and_without_the_anchor_if_possible() -> None:
    """The server refuses more than 5,000 and recommends 1,000. Source: messages_too_many_400.json; feature level 155."""
    many = wire.messages(OLD, ChatPlace(KB_TEST), anchor="oldest", before=700, after=9_000).query
    assert (many["num_before"], many["num_after"], many["anchor"]) == ("700", "300", "oldest")
    without = wire.messages(OLD, ChatPlace(KB_TEST), anchor=9, before=1, after=0, with_anchor=False).query
    assert without["include_anchor"] == "false"
    older = wire.messages(
        ZulipServer("", "", 154), ChatPlace(KB_TEST), anchor=9, before=1, after=0, with_anchor=False
    ).query
    assert "include_anchor" not in older
    dated = wire.messages(NEW, ChatPlace(KB_TEST), anchor=datetime(2026, 1, 2, tzinfo=UTC), before=0, after=1).query
    assert (dated["anchor"], dated["anchor_date"]) == ("date", "2026-01-02T00:00:00+00:00")


def test_only_repeatable_requests_say_so() -> None:
    """A second send is a second message; nothing else is."""
    assert not wire.send(OLD, ChatPlace(KB_TEST, "x"), "y").repeatable
    others = [*MADE.values(), wire.register(OLD), wire.limits(), wire.unreact(1, "eyes")]
    assert all(made.repeatable for made in others if "content" not in (made.form or {}) or made.method == "PATCH")


def test_the_key_travels_as_basic_and_both_its_forms_are_secrets() -> None:
    """Source: https://zulip.com/api/http-headers, err_bearer_401.json."""
    header = wire.headers_of("bot@example.com", "k3y")["Authorization"]
    assert base64.b64decode(header.removeprefix("Basic ")).decode() == "bot@example.com:k3y"
    assert set(wire.secrets_of("bot@example.com", "k3y")) == {"k3y", header.removeprefix("Basic ")}


def test_reactions_and_messages_of_newer_servers_are_read_despite_missing_fields() -> None:
    """No `user` in reactions from 328 on; names of channels in errors from 255 on."""
    check = {"emoji_name": "check", "emoji_code": "2705", "reaction_type": "unicode_emoji"}
    own_picture = {"emoji_name": "check", "emoji_code": "2705", "reaction_type": "realm_emoji"}
    body = {
        "result": "success",
        "events": [
            {"type": "heartbeat", "id": 4},
            {"type": "reaction", "op": "add", "message_id": 7, "user_id": 3, "id": 5} | check,
            {"type": "reaction", "op": "add", "message_id": 7, "user_id": 4, "id": 6} | own_picture,
            {"type": "reaction", "op": "remove", "message_id": 7, "user_id": 3, "id": 7} | check,
        ],
    }
    heard = wire.read_events(READ, ServiceReply(200, {}, body))
    told = {7: [Reaction("check", 3, "2705"), Reaction("check", 4, "")]}
    assert (heard.messages, heard.last_event_id, heard.reactions) == ([], 7, told)
    nothing = wire.read_events(READ, ServiceReply(200, {}, {"result": "success", "events": []}))
    assert nothing.last_event_id == -1
    denied = {"result": "error", "msg": "Not authorized to send to channel 'x'", "code": "BAD_REQUEST"}
    with pytest.raises(Denied, match="subscribe the bot"):
        wire.require_success(WRITE, ServiceReply(400, {}, denied))
    gone = {
        "result": "error",
        "msg": "Channel with ID '9' does not exist",
        "code": "STREAM_DOES_NOT_EXIST",
        "stream_id": 9,
    }
    with pytest.raises(Missing, match="channel 9"):
        wire.require_success(WRITE, ServiceReply(400, {}, gone))


@pytest.mark.parametrize("level", [{"zulip_feature_level": 119}, {}])
def test_a_server_that_is_too_old_is_reported(level: dict[str, int]) -> None:
    """Before Zulip 5.0 one message could not be read in full; before 3.0 there were no feature levels."""
    with pytest.raises(wire.TooOld, match="needs feature level 120"):
        wire.read_server(READ, ServiceReply(200, {}, {"result": "success", "zulip_version": "4.11", **level}))


@pytest.mark.parametrize("code", ["UNAUTHORIZED", "USER_DEACTIVATED", "REALM_DEACTIVATED"])
def test_a_deactivated_account_is_reported_like_a_wrong_key(code: str) -> None:
    """Source: https://zulip.com/api/rest-error-handling."""
    with pytest.raises(Denied, match="ZULIP_API_KEY"):
        wire.require_success(
            READ, ServiceReply(403, {}, {"result": "error", "msg": "Account is deactivated", "code": code})
        )


@pytest.mark.parametrize(
    "body", [None, [], {}, {"result": "success"}, {"result": "error"}, {"result": "success", "id": "x"}]
)
def test_a_reply_that_is_not_zulips_is_rejected(body: object) -> None:
    """For a writing request its outcome is then unknown."""
    with pytest.raises(ReplyLost):
        wire.read_sent(WRITE, ServiceReply(200, {}, body))
    with pytest.raises(NoAnswer):
        wire.read_messages(READ, ServiceReply(200, {}, body))


@pytest.mark.parametrize("msg", [None, 5, ["x"], "long " * 200, "two\nlines", "", " . "])
def test_any_error_becomes_one_short_line(msg: object) -> None:
    """An error is at most 280 characters long."""
    with pytest.raises(ServiceRefused) as refused:
        wire.require_success(READ, ServiceReply(400, {}, {"result": "error", "msg": msg, "code": "BAD_REQUEST"}))
    assert len(str(refused.value)) <= 280
    assert "\n" not in str(refused.value)
    assert refused.value.why.strip()
