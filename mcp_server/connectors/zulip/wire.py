"""Zulip's REST API as pure values: makes requests and reads replies. Zulip's old words (`stream`, `subject`) stop here.

Bodies are forms; lists and objects in them are JSON. A server's feature level says which words it knows.

Source: https://zulip.com/api/rest, https://zulip.com/api/changelog, and replies of a real server (9.0-dev, feature level 247)
in tests/samples/zulip.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from mcp_server.connectors.errors import (
    ConnectorError,
    Denied,
    Missing,
    NoAnswer,
    ReplyLost,
    ServiceRefused,
    one_line,
)
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest, UploadedFile
from mcp_server.connectors.zulip.model import (
    Channel,
    ChatPlace,
    Message,
    MessageWindow,
    Queue,
    QueueEvents,
    Reaction,
    ScheduledMessage,
    Topic,
    UnreadMessages,
    ZulipGroup,
    ZulipServer,
    ZulipUser,
)
from mcp_server.connectors.zulip.text.links import DIRECT_WORD, channel_term, direct_term

SERVICE = "Zulip"
ADDRESS_SETTING = "ZULIP_SITE"
API = "/api/v1"
MOST_MESSAGES = 1_000
"""Per request, as Zulip recommends; it refuses more than 5,000. Source: messages_too_many_400.json."""
OLDEST = 120
"""The oldest supported feature level (Zulip 5.0): before it a single message could not be read in full."""
ONLY_OTHERS = 155
"""From this feature level on the server can leave out the message that is the anchor."""
DIRECT_TYPE = 174
"""From this feature level on a message between people is sent as `direct`; before it as `private`."""
READ_BY_SENDER = 236
"""From this feature level on a message can be sent as read by its sender."""
CHANNEL_TYPE = 248
"""From this feature level on a message to a channel is sent as `channel`; before it as `stream`."""
SCHEDULING = 179
"""From this feature level (Zulip 7.0) on, there is a separate request for scheduling a message."""
EDIT_GUARD = 379
"""From this feature level on an edit can name the hash of the text that it replaces, and is refused if that changed."""
DATED_ANCHOR = 445
"""From this feature level on messages can be requested around a point in time."""
MESSAGES_BY_ID = 300
"""From this feature level on several messages can be requested by their ids."""
LONG_POLL_S = 120.0
"""The server answers a wait for events after about a minute, with a heartbeat if nothing happened."""
SET_KEY = "set ZULIP_EMAIL and ZULIP_API_KEY to those of an active bot"
GIVE_RIGHTS = "subscribe the bot to the channel, or give it the right there"
LONGEST_REASON = 110
UNICODE_EMOJI = "unicode_emoji"
"""Source: https://zulip.com/api/add-reaction (`reaction_type`), messages_search.json."""
EVERYBODY_POSTS = 1
"""Source: https://zulip.com/api/get-streams (`stream_post_policy`)."""

_ROLES: Mapping[object, str] = {
    100: "owner",
    200: "administrator",
    300: "moderator",
    400: "member",
    600: "guest",
}
"""Source: https://zulip.com/api/get-users (`role`)."""
Anchor = int | Literal["newest", "oldest", "first_unread"] | datetime
_T = TypeVar("_T")
_KEY_CODES = frozenset({"UNAUTHORIZED", "USER_DEACTIVATED", "REALM_DEACTIVATED", "INVALID_API_KEY"})
_NO_RIGHT = ("Not authorized to send to ", "You don't have permission to ", "User not authorized for this query")
_NO_CHANNEL = ("unknown stream", "unknown channel")
_NO_CHANNEL_ID = ("Invalid stream ID", "Invalid channel ID")
"""The error of an unknown channel id, before feature level 255 and from it on. Source: Zulip's zerver/lib/streams.py."""
_EXISTS = ("REACTION_ALREADY_EXISTS", "Reaction already exists.")
_DOES_NOT_EXIST = ("REACTION_DOES_NOT_EXIST", "Reaction doesn't exist.")
"""For two errors, the code, and the sentence of servers below feature level 193, which send no code for it."""


class QueueGone(ConnectorError):
    """The queue of events expired, because nobody asked for long, or the server restarted. Register a new one."""

    def __init__(self) -> None:
        super().__init__(SERVICE, "Zulip dropped this queue of events; only the events in it are lost")


class TooOld(ConnectorError):
    """The server lacks a feature that we need."""

    def __init__(self, server: ZulipServer) -> None:
        self.server = server
        found = f"Zulip {server.version[:20]} (feature level {server.level}) is too old"
        super().__init__(SERVICE, f"{found}; this needs feature level {OLDEST}, which is Zulip 5.0")


def headers_of(email: str, key: str) -> Mapping[str, str]:
    """Return the headers that sign every request: HTTP basic; Zulip refuses anything else (err_bearer_401.json)."""
    return {"Authorization": f"Basic {_basic(email, key)}"}


def secrets_of(email: str, key: str) -> tuple[str, ...]:
    """Return the texts that no message may hold: the key, and the form in which it travels."""
    return key, _basic(email, key)


def _basic(email: str, key: str) -> str:
    return base64.b64encode(f"{email}:{key}".encode()).decode("ascii")


# Requests


def server_settings() -> ServiceRequest:
    """Ask for the server's version and name. Source: https://zulip.com/api/get-server-settings, server_settings.json."""
    return _get("/server_settings")


def own_user() -> ServiceRequest:
    """Ask who owns the key. Source: https://zulip.com/api/get-own-user, users_me_bot.json."""
    return _get("/users/me")


def users() -> ServiceRequest:
    """Ask for all users. Source: https://zulip.com/api/get-users, users_list.json."""
    return _get("/users")


def channels() -> ServiceRequest:
    """Ask for the channels that the key sees. Source: https://zulip.com/api/get-streams, streams_list_bot.json."""
    return _get("/streams")


def topics(channel: Channel) -> ServiceRequest:
    """Ask for the topics of a channel. Source: https://zulip.com/api/get-stream-topics, topics.json."""
    return _get(f"/users/me/{channel.id}/topics")


def messages(
    server: ZulipServer,
    where: ChatPlace,
    *,
    anchor: Anchor,
    before: int,
    after: int,
    search: str = "",
    sender: ZulipUser | None = None,
    with_anchor: bool = True,
) -> ServiceRequest:
    """Ask for messages before and after one, as their writers typed them. Older servers always include the anchor.

    Source: https://zulip.com/api/get-messages, https://zulip.com/api/construct-narrow, messages_get_narrow_topic.json.
    """
    before = min(before, MOST_MESSAGES)
    query = {
        "num_before": str(before),
        "num_after": str(min(after, MOST_MESSAGES - before)),
        "narrow": _json(_narrow(server, where, search, sender)),
        "apply_markdown": "false",
    }
    if isinstance(anchor, datetime):
        query |= {"anchor": "date", "anchor_date": anchor.astimezone(UTC).isoformat()}
    else:
        query["anchor"] = str(anchor)
    if not with_anchor and server.level >= ONLY_OTHERS:
        query["include_anchor"] = "false"
    return _get("/messages", query)


def messages_by_id(message_ids: Sequence[int]) -> ServiceRequest:
    """Ask for these messages, at most `MOST_MESSAGES`. Source: https://zulip.com/api/get-messages#parameter-message_ids."""
    return _get("/messages", {"message_ids": _json(list(message_ids)), "apply_markdown": "false"})


def message(message_id: int) -> ServiceRequest:
    """Ask for one message. Source: https://zulip.com/api/get-message, message_by_id.json."""
    return _get(f"/messages/{message_id}", {"apply_markdown": "false"})


def send(
    server: ZulipServer, where: ChatPlace, text: str, *, queue: Queue | None = None, local_id: str = ""
) -> ServiceRequest:
    """Send a message. A second one would be another message, so it is not repeatable.

    With a queue, its event comes back there with our `local_id`.
    Source: https://zulip.com/api/send-message, message_send_stream_bot.json, message_send_direct.json.
    """
    form = {"content": text, **_destination(server, where)}
    if queue is not None:
        form |= {"queue_id": queue.id, "local_id": local_id}
    return ServiceRequest("POST", f"{API}/messages", form=form)


def _destination(server: ZulipServer, where: ChatPlace) -> Mapping[str, str]:
    # Otherwise a message that a program sends is unread for its sender.
    read = {"read_by_sender": "true"} if server.level >= READ_BY_SENDER else {}
    if where.channel is None:
        kind = "direct" if server.level >= DIRECT_TYPE else "private"
        return {"type": kind, "to": _json([person.id for person in where.people]), **read}
    kind = "channel" if server.level >= CHANNEL_TYPE else "stream"
    return {"type": kind, "to": _json(where.channel.id), "topic": where.topic or "", **read}


def upload(file: UploadedFile) -> ServiceRequest:
    """Upload a file. Nobody else can see it until a message has its address, so a second one does no harm.

    Source: https://zulip.com/api/upload-file, Zulip's zerver/views/upload.py.
    """
    return ServiceRequest("POST", f"{API}/user_uploads", file=file, repeatable=True)


def schedule(server: ZulipServer, where: ChatPlace, text: str, at: datetime) -> ServiceRequest:
    """Have a message sent at a time, to the second. A second one would be another message, so it is not repeatable.

    Source: https://zulip.com/api/create-scheduled-message, Zulip's zerver/views/scheduled_messages.py.
    """
    form = {"content": text, **_destination(server, where), "scheduled_delivery_timestamp": _json(int(at.timestamp()))}
    return ServiceRequest("POST", f"{API}/scheduled_messages", form=form)


def scheduled() -> ServiceRequest:
    """Ask for the bot's messages that are not sent yet. Source: https://zulip.com/api/get-scheduled-messages."""
    return _get("/scheduled_messages")


def unschedule(scheduled_id: int) -> ServiceRequest:
    """Delete a scheduled message. Source: https://zulip.com/api/delete-scheduled-message."""
    return ServiceRequest("DELETE", f"{API}/scheduled_messages/{scheduled_id}")


def edit(message_id: int, text: str, *, instead_of: str | None = None, repeatable: bool = True) -> ServiceRequest:
    """Change the text of one of the bot's messages; with `instead_of` only if it has that text now.

    Source: https://zulip.com/api/update-message, message_update.json, and Zulip's zerver/actions/message_edit.py.
    """
    form = {"content": text}
    if instead_of is not None:
        form["prev_content_sha256"] = hashlib.sha256(instead_of.encode()).hexdigest()
    return ServiceRequest("PATCH", f"{API}/messages/{message_id}", form=form, repeatable=repeatable)


def delete(message_id: int) -> ServiceRequest:
    """Delete a message. Source: https://zulip.com/api/delete-message."""
    return ServiceRequest("DELETE", f"{API}/messages/{message_id}")


def move(message_id: int, topic: str, channel: Channel | None = None) -> ServiceRequest:
    """Move all messages of a message's topic to another topic, and to another channel if one is given.

    Notification Bot reports it in the new topic only: a message in the old one would create that topic again. Source:
    https://zulip.com/api/update-message (`propagate_mode`), Zulip's zerver/actions/message_edit.py.
    """
    form = {
        "topic": topic,
        "propagate_mode": "change_all",
        "send_notification_to_old_thread": "false",
        "send_notification_to_new_thread": "true",
    }
    if channel is not None:
        form["stream_id"] = _json(channel.id)
    return ServiceRequest("PATCH", f"{API}/messages/{message_id}", form=form)


def mark_read(message_ids: Sequence[int], *, read: bool) -> ServiceRequest:
    """Mark messages as read or unread. Source: https://zulip.com/api/update-message-flags, flags_update.json."""
    form = {"messages": _json(list(message_ids)), "op": "add" if read else "remove", "flag": "read"}
    return ServiceRequest("POST", f"{API}/messages/flags", form=form, repeatable=True)


def subscriptions() -> ServiceRequest:
    """Ask which channels the bot is subscribed to. Source: https://zulip.com/api/get-subscriptions."""
    return _get("/users/me/subscriptions")


def subscribe(channel: Channel) -> ServiceRequest:
    """Subscribe the bot. Zulip takes only the name, and creates a channel if none has it.

    Source: https://zulip.com/api/subscribe, subscribe_create.json, subscribe_bot.json.
    """
    form = {"subscriptions": _json([{"name": channel.name}])}
    return ServiceRequest("POST", f"{API}/users/me/subscriptions", form=form)


def unsubscribe(channel: Channel) -> ServiceRequest:
    """Unsubscribe the bot. Source: https://zulip.com/api/unsubscribe."""
    return ServiceRequest("DELETE", f"{API}/users/me/subscriptions", form={"subscriptions": _json([channel.name])})


def react(message_id: int, emoji: str) -> ServiceRequest:
    """Add an emoji. Source: https://zulip.com/api/add-reaction, reaction_add.json."""
    return ServiceRequest("POST", f"{API}/messages/{message_id}/reactions", form={"emoji_name": emoji}, repeatable=True)


def unreact(message_id: int, emoji: str) -> ServiceRequest:
    """Remove an own emoji. Source: https://zulip.com/api/remove-reaction."""
    return ServiceRequest(
        "DELETE", f"{API}/messages/{message_id}/reactions", form={"emoji_name": emoji}, repeatable=True
    )


def register(
    server: ZulipServer, where: ChatPlace | None = None, *, reactions: bool = False, public: bool = False
) -> ServiceRequest:
    """Ask for a queue of events: messages, of one place if it is given, and reactions if asked.

    `public`: also of public channels that the bot is not subscribed to; its own messages there would not come back otherwise.
    Asking twice makes two queues; the server drops the one that nobody reads after some minutes.

    Source: https://zulip.com/api/register-queue, register_bot.json.
    """
    narrow: list[list[str]] = []
    if where is not None and where.channel is not None:
        narrow.append([channel_term(server), where.channel.name])
        narrow += [["topic", where.topic]] if where.topic else []
    form = {
        "event_types": _json(["message", "reaction"] if reactions else ["message"]),
        "fetch_event_types": _json(["message"]),
        "narrow": _json(narrow),
        "all_public_streams": _json(public),
        "apply_markdown": "false",
    }
    return ServiceRequest("POST", f"{API}/register", form=form, repeatable=True)


def limits() -> ServiceRequest:
    """Ask for the organisation's limits. Only a register request returns them; it makes a queue, too, to be dropped.

    Source: https://zulip.com/api/register-queue (`max_message_length`, feature level 53).
    """
    form = {"event_types": _json(["restart"]), "fetch_event_types": _json(["realm"])}
    return ServiceRequest("POST", f"{API}/register", form=form, repeatable=True)


def groups() -> ServiceRequest:
    """Ask for the groups of users. `GET /user_groups` refuses bots; a register request doesn't, and makes a queue to be dropped.

    Source: https://zulip.com/api/register-queue (`realm_user_groups`), zerver/views/user_groups.py of github.com/zulip/zulip.
    """
    form = {"event_types": _json(["restart"]), "fetch_event_types": _json(["realm_user_groups"])}
    return ServiceRequest("POST", f"{API}/register", form=form, repeatable=True)


def file_url(path: str) -> ServiceRequest:
    """Ask for a short-lived address of an uploaded file; `path` follows `/user_uploads/`.

    Source: https://zulip.com/api/get-file-temporary-url.
    """
    return _get(f"/user_uploads/{path}")


def file(url: str) -> ServiceRequest:
    """Ask for a file by the address that `file_url` returns, a path on the server. Its reply is the file."""
    return ServiceRequest("GET", url, repeatable=True, raw=True)


def unread() -> ServiceRequest:
    """Ask for the ids of all unread messages. Only a register request returns them; it makes a queue, too, to be dropped.

    Source: https://zulip.com/api/register-queue (`unread_msgs`; it needs both of these types).
    """
    fetched = ["message", "update_message_flags"]
    form = {"event_types": _json(["restart"]), "fetch_event_types": _json(fetched)}
    return ServiceRequest("POST", f"{API}/register", form=form, repeatable=True)


def events(queue: Queue, after: int, *, block: bool) -> ServiceRequest:
    """Ask for the events of a queue after one; `block` waits until there are some.

    Source: https://zulip.com/api/get-events, events_dont_block.json, events_longpoll_woken.json.
    """
    query = {"queue_id": queue.id, "last_event_id": str(after)}
    if block:
        return ServiceRequest("GET", f"{API}/events", query, repeatable=True, patience_s=LONG_POLL_S)
    return _get("/events", query | {"dont_block": "true"})


def drop(queue: Queue) -> ServiceRequest:
    """Delete a queue. Source: https://zulip.com/api/delete-queue, queue_delete.json."""
    return ServiceRequest("DELETE", f"{API}/events", form={"queue_id": queue.id}, repeatable=True)


def _get(path: str, query: Mapping[str, str] | None = None) -> ServiceRequest:
    return ServiceRequest("GET", f"{API}{path}", query or {}, repeatable=True)


def _narrow(server: ZulipServer, where: ChatPlace, search: str, sender: ZulipUser | None) -> list[dict[str, Any]]:
    terms: list[tuple[str, Any]] = []
    if where.channel is not None:
        terms.append((channel_term(server), where.channel.id))
    if where.topic is not None:
        terms.append(("topic", where.topic))
    if where.public:
        terms.append((f"{channel_term(server)}s", "public"))
    if where.with_files:
        terms.append(("has", "attachment"))
    if where.unread:
        terms.append(("is", "unread"))
    if where.direct:
        terms.append(("is", "dm" if server.level >= DIRECT_WORD else "private"))
    if where.people:
        terms.append((direct_term(server), [person.id for person in where.people]))
    if sender is not None:
        terms.append(("sender", sender.id))
    if search:
        terms.append(("search", search))
    return [{"operator": operator, "operand": operand} for operator, operand in terms]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Replies


def require_success(request: ServiceRequest, reply: ServiceReply) -> Mapping[str, Any]:
    """Return the body of a reply that says success.

    Raises:
        Denied: the key is not accepted, or lacks a right.
        Missing: the channel does not exist, or not for this key.
        QueueGone: the queue of events expired.
        ServiceRefused: anything else that the server finds wrong, in its own words, shortened.
        ReplyLost, NoAnswer: it is not a reply of Zulip, to a write and to a read.
    """
    status = reply.status
    body: Mapping[str, Any] = reply.body if isinstance(reply.body, Mapping) else {}
    if status < 400:
        if body.get("result") == "success":
            return body
        raise _no_usable_reply(request, "it is not a reply of Zulip's API")
    # Sources: err_*.json, message_send_*_400.json, messages_*_400.json.
    code, why = str(body.get("code", "")), _reason(body.get("msg"))
    if code == "BAD_EVENT_QUEUE_ID":
        raise QueueGone
    if status == 401 or code in _KEY_CODES:
        raise Denied(SERVICE, status, why, SET_KEY)
    if (channel := _unknown_channel(code, body)) is not None:
        raise Missing(SERVICE, f"channel {channel}", "zulip_list_channels says which there are")
    if status == 403 or why.startswith(_NO_RIGHT):
        raise Denied(SERVICE, status, why, GIVE_RIGHTS)
    if not body and status in (404, 405):
        why = f"this is not an address of its API; check whether {ADDRESS_SETTING} is right"
    raise ServiceRefused(SERVICE, status, why)


def _unknown_channel(code: str, body: Mapping[str, Any]) -> str | None:
    """Return the name of the channel that does not exist.

    Sources: message_send_no_stream_400.json and, for narrows, messages_narrow_unknown_stream_400.json.
    """
    if code == "STREAM_DOES_NOT_EXIST":
        return _reason(body.get("stream", body.get("stream_id", "")))
    if body.get("msg") in _NO_CHANNEL_ID:
        return "of that id"
    desc = str(body.get("desc", ""))
    word = next((word for word in _NO_CHANNEL if desc.startswith(word)), None)
    return _reason(desc.removeprefix(word)) if code == "BAD_NARROW" and word else None


def _no_usable_reply(request: ServiceRequest, why: str) -> ConnectorError:
    return ReplyLost(SERVICE, why) if request.writes else NoAnswer(SERVICE, why)


def _reason(text: object) -> str:
    line = " ".join(str(text).split()).rstrip(".") if isinstance(text, str | int) else ""
    return one_line(line or "it does not say why", LONGEST_REASON)


def read_reaction_change(request: ServiceRequest, reply: ServiceReply) -> bool:
    """Return whether the reaction changed: False if it was there already, or was not there to be removed.

    Source: reaction_dup_400.json.

    Raises:
        ConnectorError: as `require_success`.
    """
    body = reply.body
    said = (str(body.get("code", "")), str(body.get("msg", ""))) if isinstance(body, Mapping) else ("", "")
    if any(word in (_EXISTS if request.method == "POST" else _DOES_NOT_EXIST) for word in said):
        return False
    require_success(request, reply)
    return True


def read_file(request: ServiceRequest, reply: ServiceReply) -> bytes:
    """Return the content of a file.

    Raises:
        ConnectorError: as `require_success`.
    """
    if isinstance(reply.body, bytes):
        return reply.body
    require_success(request, reply)
    raise _no_usable_reply(request, "it is not a file")


def read_dropped(request: ServiceRequest, reply: ServiceReply) -> None:
    """Check that the queue is gone, even if it was already gone.

    Raises:
        ConnectorError: as `require_success`, except `QueueGone`.
    """
    try:
        require_success(request, reply)
    except QueueGone:
        return


Reader = Callable[[ServiceRequest, ServiceReply], _T]


def _reader(read: Callable[[Mapping[str, Any]], _T]) -> Reader[_T]:
    """Return a reader of replies that requires success; a body without the documented structure is no usable reply."""

    def reader(request: ServiceRequest, reply: ServiceReply) -> _T:
        body = require_success(request, reply)
        try:
            return read(body)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError):
            # `from None`: a KeyError or ValueError quotes what came back.
            raise _no_usable_reply(request, "it does not have the documented structure") from None

    reader.__doc__ = read.__doc__
    return reader


@_reader
def read_server(body: Mapping[str, Any]) -> ZulipServer:
    """Return the server, with the default limits until `read_limits`.

    Raises:
        TooOld: it lacks a feature that we need. Servers before Zulip 3.0 report no feature level.
    """
    level = int(body.get("zulip_feature_level", 0))
    server = ZulipServer(str(body.get("realm_name", "")), str(body["zulip_version"]), level)
    if level < OLDEST:
        raise TooOld(server)
    return server


@_reader
def read_limits(body: Mapping[str, Any]) -> tuple[Queue, Mapping[str, Any]]:
    """Return the queue that was made, and the fields of `ZulipServer` that the server reports.

    Older servers report 0 for a time without a limit. Source: https://zulip.com/api/register-queue.
    """

    def seconds(name: str) -> int | None:
        value = body.get(name)
        return value if isinstance(value, int) and value > 0 else None

    longest = {"longest_message": seconds("max_message_length"), "longest_topic": seconds("max_topic_length")}
    return _queue(body), {
        **{name: value for name, value in longest.items() if value is not None},
        "editing": body.get("realm_allow_message_editing") is not False,
        "edit_limit_s": seconds("realm_message_content_edit_limit_seconds"),
        "delete_limit_s": seconds("realm_message_content_delete_limit_seconds"),
    }


@_reader
def read_unread(body: Mapping[str, Any]) -> tuple[Queue, Sequence[UnreadMessages], bool]:
    """Return the queue that was made, the unread messages by place, and whether these are all (Zulip lists the newest 50,000)."""
    found = body["unread_msgs"]
    places = [
        UnreadMessages(_ids(one), channel_id=int(one["stream_id"]), topic=str(one["topic"])) for one in found["streams"]
    ]
    places += [UnreadMessages(_ids(one), people=frozenset({int(one["other_user_id"])})) for one in found["pms"]]
    for one in found["huddles"]:
        people = frozenset(int(number) for number in str(one["user_ids_string"]).split(","))
        places.append(UnreadMessages(_ids(one), people=people))
    return _queue(body), places, not found.get("old_unreads_missing", False)


@_reader
def read_groups(body: Mapping[str, Any]) -> tuple[Queue, Sequence[ZulipGroup]]:
    """Return the queue that was made, and the groups that people made, by name; Zulip's own, such as all members, are left out."""
    found = [
        ZulipGroup(
            int(group["id"]),
            str(group["name"]),
            frozenset(map(int, group["members"])),
            frozenset(map(int, group.get("direct_subgroup_ids", ()))),
        )
        for group in body["realm_user_groups"]
        if not group.get("is_system_group", False) and not group.get("deactivated", False)
    ]
    return _queue(body), sorted(found, key=lambda group: (group.name.casefold(), group.id))


@_reader
def read_times(body: Mapping[str, Any]) -> Mapping[int, datetime]:
    """Return when each message was sent."""
    return {message.id: message.at for message in map(_message, body["messages"])}


@_reader
def read_users(body: Mapping[str, Any]) -> Sequence[ZulipUser]:
    """Return all users by name, the deactivated ones too."""
    return sorted((_user(user) for user in body["members"]), key=lambda user: (user.name.casefold(), user.id))


@_reader
def read_channels(body: Mapping[str, Any]) -> Sequence[Channel]:
    """Return the channels by name, without archived ones."""
    found = [_channel(channel) for channel in body["streams"] if not channel.get("is_archived", False)]
    return sorted(found, key=lambda channel: (channel.name.casefold(), channel.id))


@_reader
def read_topics(body: Mapping[str, Any]) -> Sequence[Topic]:
    """Return the topics, the one with the newest message first."""
    found = [Topic(str(topic["name"]), int(topic["max_id"])) for topic in body["topics"]]
    return sorted(found, key=lambda topic: -topic.last_message_id)


@_reader
def read_subscriptions(body: Mapping[str, Any]) -> frozenset[int]:
    """Return the ids of the channels that the bot is subscribed to."""
    return frozenset(int(channel["stream_id"]) for channel in body["subscriptions"])


@_reader
def read_upload(body: Mapping[str, Any]) -> str:
    """Return the path of the file on the server. `uri` is its name below feature level 272."""
    path = str(body["url"] if "url" in body else body["uri"])
    if not path.startswith("/") or any(letter.isspace() or letter in "()<>" for letter in path):
        raise ValueError("it would not be one link in a message")
    return path


@_reader
def read_scheduled(body: Mapping[str, Any]) -> Sequence[ScheduledMessage]:
    """Return the scheduled messages, the next one first."""
    return sorted((_scheduled(one) for one in body["scheduled_messages"]), key=lambda one: (one.at, one.id))


def _scheduled(one: Mapping[str, Any]) -> ScheduledMessage:
    in_channel = one["type"] in ("stream", "channel")
    return ScheduledMessage(
        int(one["scheduled_message_id"]),
        str(one["content"]),
        datetime.fromtimestamp(int(one["scheduled_delivery_timestamp"]), UTC),
        channel_id=int(one["to"]) if in_channel else None,
        topic=str(one.get("topic", "")) if in_channel else "",
        people_ids=() if in_channel else tuple(sorted(int(number) for number in one["to"])),
        failed=bool(one.get("failed", False)),
    )


@_reader
def read_messages(body: Mapping[str, Any]) -> MessageWindow:
    """Return the messages, oldest first, each once."""
    found = {message.id: message for message in map(_message, body["messages"])}
    return MessageWindow(
        [found[number] for number in sorted(found)],
        found_oldest=bool(body["found_oldest"]),
        found_newest=bool(body["found_newest"]),
        history_limited=bool(body.get("history_limited", False)),
    )


@_reader
def read_events(body: Mapping[str, Any]) -> QueueEvents:
    """Return the events. Those of other kinds only move `last_event_id`; it is -1 without any.

    A message has our `local_id` if it was sent with this queue.
    """
    sent: list[Message] = []
    added: dict[int, list[Reaction]] = {}
    removed: dict[int, list[Reaction]] = {}
    for event in body["events"]:
        if event.get("type") == "message":
            sent.append(_message(event["message"], local_id=event.get("local_message_id")))
        elif event.get("type") == "reaction":
            among = added if event["op"] == "add" else removed
            among.setdefault(int(event["message_id"]), []).append(_reaction(event))
    last = max((int(event["id"]) for event in body["events"]), default=-1)
    return QueueEvents(sent, last, added, removed)


def _queue(body: Mapping[str, Any]) -> Queue:
    return Queue(str(body["queue_id"]), int(body["last_event_id"]))


def _ids(unread: Mapping[str, Any]) -> frozenset[int]:
    return frozenset(int(number) for number in unread["unread_message_ids"])


def _user(user: Mapping[str, Any]) -> ZulipUser:
    delivery = user.get("delivery_email")
    return ZulipUser(
        int(user["user_id"]),
        str(user["full_name"]),
        str(user["email"]),
        delivery_email=str(delivery) if delivery else None,
        bot=_boolean(user, "is_bot"),
        active=_boolean(user, "is_active"),
        role=_ROLES.get(user.get("role"), ""),
    )


def _boolean(user: Mapping[str, Any], name: str) -> bool:
    # Not bool(): these decide whose reactions count, and a missing or odd value must not pass for a no.
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
        # Newer servers list the groups that may post; they keep this number as an approximation.
        restricted=channel.get("stream_post_policy", EVERYBODY_POSTS) != EVERYBODY_POSTS,
    )


def _message(sent: Mapping[str, Any], *, local_id: object = None) -> Message:
    # A channel's name, or a list of people.
    shown = sent["display_recipient"]
    in_channel = isinstance(shown, str)
    people = [] if in_channel else [ZulipUser(int(p["id"]), str(p["full_name"]), str(p["email"])) for p in shown]
    return Message(
        int(sent["id"]),
        int(sent["sender_id"]),
        str(sent["sender_full_name"]),
        datetime.fromtimestamp(int(sent["timestamp"]), UTC),
        str(sent["content"]),
        channel_id=int(sent["stream_id"]) if in_channel else None,
        channel=shown if in_channel else "",
        topic=str(sent["subject"]) if in_channel else "",
        people=tuple(sorted(people, key=lambda person: person.id)),
        reactions=tuple(_reaction(reaction) for reaction in sent.get("reactions", [])),
        local_id=str(local_id) if local_id is not None else None,
        edited_s=int(sent.get("last_edit_timestamp") or 0),
        moved_s=int(sent.get("last_moved_timestamp") or 0),
    )


def _reaction(reaction: Mapping[str, Any]) -> Reaction:
    # An organisation may give its own picture the name of an emoji that decides.
    code = str(reaction["emoji_code"]) if reaction.get("reaction_type") == UNICODE_EMOJI else ""
    return Reaction(str(reaction["emoji_name"]), int(reaction["user_id"]), code)


# At the end of the file, because they are made from the functions above when the module is loaded.
read_user = _reader(_user)
read_queue = _reader(_queue)
read_message = _reader(lambda body: _message(body["message"]))
read_file_url = _reader(lambda body: str(body["url"]))
"""Reads a path, or an address elsewhere if the server keeps files elsewhere."""
read_sent = _reader(lambda body: int(body["id"]))
"""Reads the id of the message that was sent."""
read_scheduled_id = _reader(lambda body: int(body["scheduled_message_id"]))
"""Reads the id under which the message was scheduled."""
