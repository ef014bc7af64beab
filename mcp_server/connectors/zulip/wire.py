"""Zulip's words: requests made and replies read, judged and turned into our own values. Pure; vendor words stop here.

Bodies are forms; lists and objects inside of them are JSON. Which words a server knows is told by its feature level.

Source: https://zulip.com/api/rest, https://zulip.com/api/changelog, and replies of a real server (9.0-dev, feature level 247)
in tests/samples/zulip.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from mcp_server.connectors.errors import ConnectorError, Denied, Missing, NoAnswer, ReplyLost, ServiceRefused
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest
from mcp_server.connectors.zulip.model import (
    Channel,
    Message,
    Queue,
    QueueEvents,
    Reaction,
    Topic,
    Where,
    Window,
    ZulipServer,
    ZulipUser,
)
from mcp_server.connectors.zulip.text.links import CHANNEL_WORD, DIRECT_WORD

SERVICE = "Zulip"
ADDRESS_SETTING = "ZULIP_SITE"
API = "/api/v1"
MOST_MESSAGES = 1_000
"""At most so many are asked for at once; the server refuses more than 5,000. Source: messages_too_many_400.json."""
OLDEST = 120
"""Before this feature level (Zulip 5.0) one message could not be read whole."""
ONLY_OTHERS = 155
"""From this feature level on the message that is the anchor can be left out by the server."""
DIRECT_TYPE = 174
"""From this feature level on a message between people is sent as `direct`; before it as `private`."""
CHANNEL_TYPE = 248
"""From this feature level on a message to a channel is sent as `channel`; before it as `stream`."""
DATED_ANCHOR = 445
"""From this feature level on messages can be asked for around a moment."""
LONG_POLL_S = 120.0
"""The server answers a wait for events after about a minute with an event that means nothing, so that nothing is cut."""
MEND_KEY = "set ZULIP_EMAIL and ZULIP_API_KEY to those of an active bot"
MEND_RIGHTS = "subscribe the bot to the channel, or give it the right there"
LONGEST_WHY = 110
UNICODE_EMOJI = "unicode_emoji"
"""Source: https://zulip.com/api/add-reaction (`reaction_type`), messages_search.json."""
EVERYBODY_POSTS = 1
"""Source: https://zulip.com/api/get-streams (`stream_post_policy`)."""

Anchor = int | Literal["newest", "oldest", "first_unread"] | datetime
_T = TypeVar("_T")
_KEY_CODES = frozenset({"UNAUTHORIZED", "USER_DEACTIVATED", "REALM_DEACTIVATED", "INVALID_API_KEY"})
_RIGHTS = ("Not authorized to send to ", "You don't have permission to ", "User not authorized for this query")
_NO_CHANNEL = ("unknown stream", "unknown channel")
_NO_CHANNEL_ID = ("Invalid stream ID", "Invalid channel ID")
"""Before feature level 255 and from it on. Source: Zulip's zerver/lib/streams.py."""
_EXISTS = ("REACTION_ALREADY_EXISTS", "Reaction already exists.")
_EXISTS_NOT = ("REACTION_DOES_NOT_EXIST", "Reaction doesn't exist.")


class QueueGone(ConnectorError):
    """The queue of events is not there any more, because nobody asked for long or the server began anew: register again."""

    def __init__(self) -> None:
        super().__init__(SERVICE, "Zulip has forgotten this queue of events; nothing was lost but what it held")


class TooOld(ConnectorError):
    """The server is older than what can be spoken to."""

    def __init__(self, server: ZulipServer) -> None:
        self.server = server
        found = f"Zulip {server.version[:20]} (feature level {server.level}) is too old"
        super().__init__(SERVICE, f"{found}; this needs feature level {OLDEST}, which is Zulip 5.0")


def headers_of(email: str, key: str) -> Mapping[str, str]:
    """Return the headers that sign every request: HTTP basic, for anything else is refused (err_bearer_401.json)."""
    return {"Authorization": f"Basic {_basic(email, key)}"}


def secrets_of(email: str, key: str) -> tuple[str, ...]:
    """Return what no message may hold: the key, and the form in which it travels."""
    return key, _basic(email, key)


def _basic(email: str, key: str) -> str:
    return base64.b64encode(f"{email}:{key}".encode()).decode("ascii")


# Requests


def server_settings() -> ServiceRequest:
    """Ask what the server is. Source: https://zulip.com/api/get-server-settings, server_settings.json."""
    return _asking("/server_settings")


def own_user() -> ServiceRequest:
    """Ask who the key belongs to. Source: https://zulip.com/api/get-own-user, users_me_bot.json."""
    return _asking("/users/me")


def users() -> ServiceRequest:
    """Ask for all users. Source: https://zulip.com/api/get-users, users_list.json."""
    return _asking("/users")


def channels() -> ServiceRequest:
    """Ask for the channels that the key sees, without those that are archived.

    Source: https://zulip.com/api/get-streams, streams_list_bot.json.
    """
    return _asking("/streams")


def topics(channel: Channel) -> ServiceRequest:
    """Ask for the topics of a channel. Source: https://zulip.com/api/get-stream-topics, topics.json."""
    return _asking(f"/users/me/{channel.id}/topics")


def messages(
    server: ZulipServer,
    where: Where,
    *,
    anchor: Anchor,
    before: int,
    after: int,
    search: str = "",
    sender: ZulipUser | None = None,
    with_anchor: bool = True,
) -> ServiceRequest:
    """Ask for messages before and after one, as their writers typed them; older servers give the anchor in any case.

    Source: https://zulip.com/api/get-messages, https://zulip.com/api/construct-narrow, messages_get_narrow_topic.json.
    """
    before = min(before, MOST_MESSAGES)
    query = {
        "num_before": str(before),
        "num_after": str(min(after, MOST_MESSAGES - before)),
        "narrow": _packed(_narrow(server, where, search, sender)),
        "apply_markdown": "false",
    }
    if not with_anchor and server.level >= ONLY_OTHERS:
        query["include_anchor"] = "false"
    return _asking("/messages", query | _anchored(anchor))


def message(message_id: int) -> ServiceRequest:
    """Ask for one message. Source: https://zulip.com/api/get-message, message_by_id.json."""
    return _asking(f"/messages/{message_id}", {"apply_markdown": "false"})


def send(
    server: ZulipServer, where: Where, text: str, *, queue: Queue | None = None, local_id: str = ""
) -> ServiceRequest:
    """Send a message. With a queue, its event comes back there with our `local_id`. It is not repeatable.

    Source: https://zulip.com/api/send-message, message_send_stream_bot.json, message_send_direct.json.
    """
    form = {"content": text}
    if where.channel is None:
        form["type"] = "direct" if server.level >= DIRECT_TYPE else "private"
        form["to"] = _packed([person.id for person in where.people])
    else:
        form["type"] = "channel" if server.level >= CHANNEL_TYPE else "stream"
        form["to"] = _packed(where.channel.id)
        form["topic"] = where.topic or ""
    if queue is not None:
        form |= {"queue_id": queue.id, "local_id": local_id}
    return ServiceRequest("POST", f"{API}/messages", form=form)


def edit(message_id: int, text: str) -> ServiceRequest:
    """Give a message of our own another text. Source: https://zulip.com/api/update-message, message_update.json."""
    return ServiceRequest("PATCH", f"{API}/messages/{message_id}", form={"content": text}, repeatable=True)


def react(message_id: int, emoji: str) -> ServiceRequest:
    """Add an emoji. Source: https://zulip.com/api/add-reaction, reaction_add.json."""
    return ServiceRequest("POST", f"{API}/messages/{message_id}/reactions", form={"emoji_name": emoji}, repeatable=True)


def unreact(message_id: int, emoji: str) -> ServiceRequest:
    """Take an emoji back. Source: https://zulip.com/api/remove-reaction."""
    return ServiceRequest(
        "DELETE", f"{API}/messages/{message_id}/reactions", form={"emoji_name": emoji}, repeatable=True
    )


def register(
    server: ZulipServer, where: Where | None = None, *, reactions: bool = False, public: bool = False
) -> ServiceRequest:
    """Ask for a queue of events: messages, of one place where one is given, and reactions if asked.

    `public`: also of public channels that the bot did not subscribe to, in which its own messages would else not come back.
    Said twice it makes two queues; the one that nobody asks is dropped by the server after some minutes.

    Source: https://zulip.com/api/register-queue, register_bot.json.
    """
    word = "channel" if server.level >= CHANNEL_WORD else "stream"
    narrow: list[list[str]] = []
    if where is not None and where.channel is not None:
        narrow.append([word, where.channel.name])
        narrow += [["topic", where.topic]] if where.topic else []
    form = {
        "event_types": _packed(["message", "reaction"] if reactions else ["message"]),
        "fetch_event_types": _packed(["message"]),
        "narrow": _packed(narrow),
        "all_public_streams": _packed(public),
        "apply_markdown": "false",
    }
    return ServiceRequest("POST", f"{API}/register", form=form, repeatable=True)


def limits() -> ServiceRequest:
    """Ask how long messages may be, which only the state of the organisation says. It makes a queue, too, to be dropped.

    Source: https://zulip.com/api/register-queue (`max_message_length`, feature level 53).
    """
    form = {"event_types": _packed(["restart"]), "fetch_event_types": _packed(["realm"])}
    return ServiceRequest("POST", f"{API}/register", form=form, repeatable=True)


def events(queue: Queue, after: int, *, block: bool) -> ServiceRequest:
    """Ask what a queue heard after an event; `block` waits for something to hear.

    Source: https://zulip.com/api/get-events, events_dont_block.json, events_longpoll_woken.json.
    """
    query = {"queue_id": queue.id, "last_event_id": str(after)}
    if block:
        return ServiceRequest("GET", f"{API}/events", query, repeatable=True, patience_s=LONG_POLL_S)
    return _asking("/events", query | {"dont_block": "true"})


def drop(queue: Queue) -> ServiceRequest:
    """Have a queue forgotten. Source: https://zulip.com/api/delete-queue, queue_delete.json."""
    return ServiceRequest("DELETE", f"{API}/events", form={"queue_id": queue.id}, repeatable=True)


def _asking(path: str, query: Mapping[str, str] | None = None) -> ServiceRequest:
    return ServiceRequest("GET", f"{API}{path}", query or {}, repeatable=True)


def _anchored(anchor: Anchor) -> dict[str, str]:
    if isinstance(anchor, datetime):
        return {"anchor": "date", "anchor_date": anchor.astimezone(UTC).isoformat()}
    return {"anchor": str(anchor)}


def _narrow(server: ZulipServer, where: Where, search: str, sender: ZulipUser | None) -> list[dict[str, Any]]:
    terms: list[tuple[str, Any]] = []
    if where.channel is not None:
        terms.append(("channel" if server.level >= CHANNEL_WORD else "stream", where.channel.id))
    if where.topic is not None:
        terms.append(("topic", where.topic))
    if where.public:
        terms.append(("channels" if server.level >= CHANNEL_WORD else "streams", "public"))
    if where.direct:
        terms.append(("is", "dm" if server.level >= DIRECT_WORD else "private"))
    if where.people:
        terms.append(("dm" if server.level >= DIRECT_WORD else "pm-with", [person.id for person in where.people]))
    if sender is not None:
        terms.append(("sender", sender.id))
    if search:
        terms.append(("search", search))
    return [{"operator": operator, "operand": operand} for operator, operand in terms]


def _packed(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Replies


def judged(request: ServiceRequest, reply: ServiceReply) -> Mapping[str, Any]:
    """Return the body of a reply that says success.

    Raises:
        Denied: the key is not accepted or lacks a right.
        Missing: the channel, message or person that was named is not there for this key.
        QueueGone: the queue of events is forgotten.
        Refused: anything else that the server finds wrong, in its own words, shortened.
        ReplyLost: it is no reply of Zulip to something that writes.
        NoAnswer: the same to something that only reads.
    """
    body = reply.body
    if isinstance(body, Mapping) and body.get("result") == "success" and reply.status < _FAILED:
        return body
    if reply.status < _FAILED:
        raise _no_reply(request, "it is not what Zulip answers")
    raise _error(reply.status, body if isinstance(body, Mapping) else {})


_FAILED = 400
_NO_ROUTE = (404, 405)
_KEY_STATUS = 401
_RIGHT_STATUS = 403


def _error(status: int, body: Mapping[str, Any]) -> ConnectorError:
    """Return what an error means. Sources: err_*.json, message_send_*_400.json, messages_*_400.json."""
    code, why = str(body.get("code", "")), _shortened(body.get("msg"))
    if code == "BAD_EVENT_QUEUE_ID":
        return QueueGone()
    if status == _KEY_STATUS or code in _KEY_CODES:
        return Denied(SERVICE, status, why, MEND_KEY)
    if (channel := _unknown_channel(code, body)) is not None:
        return Missing(SERVICE, f"channel {channel}", "zulip_list_channels says which there are")
    if status == _RIGHT_STATUS or why.startswith(_RIGHTS):
        return Denied(SERVICE, status, why, MEND_RIGHTS)
    if not body and status in _NO_ROUTE:
        return ServiceRefused(SERVICE, status, f"this is no address of its API; see whether {ADDRESS_SETTING} is right")
    return ServiceRefused(SERVICE, status, why)


def _unknown_channel(code: str, body: Mapping[str, Any]) -> str | None:
    """Return what the channel was called that is not there.

    Sources: message_send_no_stream_400.json and, for narrows, messages_narrow_unknown_stream_400.json.
    """
    if code == "STREAM_DOES_NOT_EXIST":
        return _shortened(body.get("stream", body.get("stream_id", "")))
    if body.get("msg") in _NO_CHANNEL_ID:
        return "of that id"
    desc = str(body.get("desc", ""))
    word = next((word for word in _NO_CHANNEL if desc.startswith(word)), None)
    return _shortened(desc.removeprefix(word)) if code == "BAD_NARROW" and word else None


def _no_reply(request: ServiceRequest, why: str) -> ConnectorError:
    return ReplyLost(SERVICE, why) if request.writes else NoAnswer(SERVICE, why)


def _shortened(text: object) -> str:
    line = " ".join(str(text).split()).rstrip(".") if isinstance(text, str | int) else ""
    line = line or "it does not say why"
    return line if len(line) <= LONGEST_WHY else f"{line[: LONGEST_WHY - 3]}..."


def reaction_judged(request: ServiceRequest, reply: ServiceReply) -> bool:
    """Return whether the reaction is another now: False where it was there already, or was not there to be taken back.

    Servers below feature level 193 say so in words only. Source: reaction_dup_400.json.

    Raises:
        ConnectorError: as `judged`.
    """
    body = reply.body
    told = (str(body.get("code", "")), str(body.get("msg", ""))) if isinstance(body, Mapping) else ("", "")
    if any(word in (_EXISTS if request.method == "POST" else _EXISTS_NOT) for word in told):
        return False
    judged(request, reply)
    return True


def dropped(request: ServiceRequest, reply: ServiceReply) -> None:
    """Find that the queue is gone, whoever did it.

    Raises:
        ConnectorError: as `judged`, but for `QueueGone`.
    """
    try:
        judged(request, reply)
    except QueueGone:
        return


def _reading(read: Callable[[ServiceRequest, Mapping[str, Any]], _T]) -> Callable[[ServiceRequest, ServiceReply], _T]:
    """Make a reader of judged bodies; a body of another form than documented is told as such."""

    def reader(request: ServiceRequest, reply: ServiceReply) -> _T:
        body = judged(request, reply)
        try:
            return read(request, body)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError):
            raise _no_reply(request, "its form is not the documented one") from None

    reader.__doc__ = read.__doc__
    return reader


@_reading
def server_read(_request: ServiceRequest, body: Mapping[str, Any]) -> ZulipServer:
    """Return what the server is; its limits are those of any server until `limits_read`.

    Raises:
        TooOld: it does not know what is asked here. Servers before Zulip 3.0 tell no feature level at all.
    """
    level = int(body.get("zulip_feature_level", 0))
    server = ZulipServer(str(body.get("realm_name", "")), str(body["zulip_version"]), level)
    if level < OLDEST:
        raise TooOld(server)
    return server


@_reading
def limits_read(_request: ServiceRequest, body: Mapping[str, Any]) -> tuple[Queue, int | None, int | None]:
    """Return the queue that was made, the longest message and the longest topic, where the server says."""
    return _queue(body), _length(body, "max_message_length"), _length(body, "max_topic_length")


def _length(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    return value if isinstance(value, int) and value > 0 else None


@_reading
def person_read(_request: ServiceRequest, body: Mapping[str, Any]) -> ZulipUser:
    """Return the user whose key it is."""
    return _person(body)


@_reading
def people_read(_request: ServiceRequest, body: Mapping[str, Any]) -> Sequence[ZulipUser]:
    """Return all users, those that are deactivated too, by name."""
    return sorted((_person(user) for user in body["members"]), key=lambda person: (person.name.casefold(), person.id))


@_reading
def channels_read(_request: ServiceRequest, body: Mapping[str, Any]) -> Sequence[Channel]:
    """Return the channels by name. One that is archived is none that could be used."""
    found = [_channel(channel) for channel in body["streams"] if not channel.get("is_archived", False)]
    return sorted(found, key=lambda channel: (channel.name.casefold(), channel.id))


@_reading
def topics_read(_request: ServiceRequest, body: Mapping[str, Any]) -> Sequence[Topic]:
    """Return the topics, the one with the newest message first."""
    found = [Topic(str(topic["name"]), int(topic["max_id"])) for topic in body["topics"]]
    return sorted(found, key=lambda topic: -topic.last_message_id)


@_reading
def window_read(_request: ServiceRequest, body: Mapping[str, Any]) -> Window:
    """Return the messages, oldest first, each once."""
    found = {message.id: message for message in map(_message, body["messages"])}
    return Window(
        [found[number] for number in sorted(found)],
        found_oldest=bool(body["found_oldest"]),
        found_newest=bool(body["found_newest"]),
        history_limited=bool(body.get("history_limited", False)),
    )


@_reading
def message_read(_request: ServiceRequest, body: Mapping[str, Any]) -> Message:
    """Return the message."""
    return _message(body["message"])


@_reading
def sent_read(_request: ServiceRequest, body: Mapping[str, Any]) -> int:
    """Return the id of the message that was sent."""
    return int(body["id"])


@_reading
def queue_read(_request: ServiceRequest, body: Mapping[str, Any]) -> Queue:
    """Return the queue that was made."""
    return _queue(body)


@_reading
def heard_read(_request: ServiceRequest, body: Mapping[str, Any]) -> QueueEvents:
    """Return what was heard. Events of other kinds only move `last_event_id`; without any it is -1.

    A message has our `local_id` when the queue is the one that was named at its sending.
    """
    said: list[Message] = []
    reacted: dict[int, list[Reaction]] = {}
    taken_back: dict[int, list[Reaction]] = {}
    for event in body["events"]:
        if event.get("type") == "message":
            said.append(_message(event["message"], local_id=event.get("local_message_id")))
        elif event.get("type") == "reaction":
            among = reacted if event["op"] == "add" else taken_back
            among.setdefault(int(event["message_id"]), []).append(_reaction(event))
    last = max((int(event["id"]) for event in body["events"]), default=-1)
    return QueueEvents(said, last, reacted, taken_back)


def _queue(body: Mapping[str, Any]) -> Queue:
    return Queue(str(body["queue_id"]), int(body["last_event_id"]), int(body.get("max_message_id", -1)))


def _person(user: Mapping[str, Any]) -> ZulipUser:
    delivery = user.get("delivery_email")
    return ZulipUser(
        int(user["user_id"]),
        str(user["full_name"]),
        str(user["email"]),
        delivery_email=str(delivery) if delivery else None,
        bot=_yes_or_no(user, "is_bot"),
        active=_yes_or_no(user, "is_active"),
    )


def _yes_or_no(user: Mapping[str, Any], name: str) -> bool:
    """Return what a reply says of a user. One that does not say it is not taken for a no: it decides whose reaction counts."""
    value = user[name]
    if not isinstance(value, bool):
        raise TypeError(name)
    return value


def _channel(channel: Mapping[str, Any]) -> Channel:
    return Channel(
        int(channel["stream_id"]),
        str(channel["name"]),
        str(channel.get("description", "")),
        private=bool(channel["invite_only"]),
        # Newer servers tell the groups that may post; this number stays as their nearest likeness.
        restricted=channel.get("stream_post_policy", EVERYBODY_POSTS) != EVERYBODY_POSTS,
    )


def _message(said: Mapping[str, Any], *, local_id: object = None) -> Message:
    shown = said["display_recipient"]
    between = [] if isinstance(shown, str) else [_recipient(person) for person in shown]
    return Message(
        int(said["id"]),
        int(said["sender_id"]),
        str(said["sender_full_name"]),
        str(said["sender_email"]),
        datetime.fromtimestamp(int(said["timestamp"]), UTC),
        str(said["content"]),
        channel_id=int(said["stream_id"]) if isinstance(shown, str) else None,
        channel=shown if isinstance(shown, str) else "",
        topic=str(said["subject"]) if isinstance(shown, str) else "",
        people=tuple(sorted(between, key=lambda person: person.id)),
        reactions=tuple(_reaction(reaction) for reaction in said.get("reactions", [])),
        local_id=str(local_id) if local_id is not None else None,
        edited_s=int(said.get("last_edit_timestamp") or 0),
        moved_s=int(said.get("last_moved_timestamp") or 0),
    )


def _recipient(person: Mapping[str, Any]) -> ZulipUser:
    return ZulipUser(int(person["id"]), str(person["full_name"]), str(person["email"]))


def _reaction(reaction: Mapping[str, Any]) -> Reaction:
    # An organisation may give its own pictures names that others have.
    code = str(reaction["emoji_code"]) if reaction.get("reaction_type") == UNICODE_EMOJI else ""
    return Reaction(str(reaction["emoji_name"]), int(reaction["user_id"]), code)
