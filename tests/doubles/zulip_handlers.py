"""Handlers of the double of Zulip, one for each path and method; the caller is known.

Source: tests/samples/zulip (Zulip 9.0-dev, feature level 247), https://zulip.com/api/rest and https://zulip.com/api/changelog
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from tests.doubles.zulip_world import (
    BEYOND,
    EDIT_GUARD,
    EMPTY_TOPICS,
    NAMED_CHANNEL,
    SCHEDULING,
    Refusal,
    Room,
    Said,
    User,
    Waiting,
    World,
    moment,
    recorded,
    rendered,
)

MOST_MESSAGES = 5_000
LOOK_S = 0.005
DATED_ANCHOR = 445
READ_BY_SENDER = 236
MESSAGES_BY_ID = 300
"""Source: https://zulip.com/api/changelog."""
TEMPORARY = "/user_uploads/temporary/"
MOST_MIB = 25
FILE_NAME, FILE_TEXT = "file name", "file text"
"""Under these names the file of a request is among its parameters."""
Parameters = Mapping[str, str]
Answer = dict[str, Any]


class Handlers:
    """The answers of `world`. `heartbeat_s`: how long a request for events waits."""

    def __init__(self, world: World, heartbeat_s: float) -> None:
        self.world, self.heartbeat_s = world, heartbeat_s
        self.waiting: set[str] = set()
        """Queues that someone has waited for."""

    # The server and its users

    def _server_settings(self, _user: None, _asked: Parameters) -> Answer:
        body = recorded("server_settings") | {"zulip_feature_level": self.world.level}
        if self.world.level >= 257:
            body["realm_url"] = body["realm_uri"]
        return body

    def _me(self, user: User, _asked: Parameters) -> Answer:
        newest = max((said.id for said in self.world.said.values() if user.id in said.received), default=-1)
        more: Answer = {"bot_type": 1, "bot_owner_id": user.owner} if user.bot else {"profile_data": user.profile}
        # The caller's own picture is returned even if a list leaves it out.
        picture = user.record["avatar_url"] or _PICTURE
        return {**user.record, "avatar_url": picture, **more, "max_message_id": newest}

    def _users(self, _user: User, asked: Parameters) -> Answer:
        with_profile = asked.get("include_custom_profile_fields") == "true"
        people = [user for user in self.world.users.values() if "is_system_bot" not in user.record]
        more = [{} if user.bot or not with_profile else {"profile_data": user.profile} for user in people]
        return {"members": [{**user.record, **extra} for user, extra in zip(people, more, strict=True)]}

    def _user(self, _user: User, _asked: Parameters, who: str) -> Answer:
        found = [u for u in self.world.users.values() if who in (str(u.id), u.email)]
        if not found:
            raise Refusal("No such user")
        return {"user": found[0].record}

    def _presence(self, _user: User, _asked: Parameters, _who: str) -> Answer:
        then = int(self.world.now())
        return {
            "presence": {
                "aggregated": {"status": "offline", "timestamp": then},
                "website": {"status": "active", "timestamp": then},
            }
        }

    def _alert_words(self, _user: User, _asked: Parameters) -> Answer:
        return {"alert_words": ["robotics", "study"]}

    def _bots(self, user: User, _asked: Parameters) -> Answer:
        own = [bot for bot in self.world.users.values() if bot.owner == user.id]
        return {
            "bots": [
                {"username": bot.email, "full_name": bot.name, "api_key": bot.key, "avatar_url": "", **_BOT_DEFAULTS}
                for bot in own
            ]
        }

    def _create_bot(self, user: User, asked: Parameters) -> Answer:
        made = self.world.person(asked["full_name"], f"{asked['short_name']}-bot@zulipdev.com", bot=True)
        made.owner = user.id
        return {"user_id": made.id, "api_key": made.key, "avatar_url": "", **_BOT_DEFAULTS}

    # Channels

    def _visible(self, user: User) -> list[Room]:
        return [room for room in self.world.rooms.values() if not room.private or user.id in room.members]

    def _shown(self, room: Room) -> Answer:
        newer = {"is_archived": False, "subscriber_count": len(room.members)} if self.world.level >= 394 else {}
        return {**room.record, **newer}

    def _streams(self, user: User, _asked: Parameters) -> Answer:
        rooms = sorted(self._visible(user), key=lambda room: room.name)
        return {"streams": [self._shown(room) for room in rooms]}

    def _stream(self, user: User, _asked: Parameters, number: str) -> Answer:
        return {"stream": self._shown(self._accessible(user, int(number)))}

    def _members(self, user: User, _asked: Parameters, number: str) -> Answer:
        return {"subscribers": sorted(self._accessible(user, int(number)).members)}

    def _accessible(self, user: User, number: int) -> Room:
        found = next((room for room in self._visible(user) if room.id == number), None)
        if found is None:
            raise Refusal("Invalid channel ID" if self.world.level >= NAMED_CHANNEL else "Invalid stream ID")
        return found

    def _stream_id(self, user: User, asked: Parameters) -> Answer:
        name = _needed(asked, "stream")
        found = next((room for room in self._visible(user) if room.name.casefold() == name.casefold()), None)
        if found is None:
            word = "channel" if self.world.level >= NAMED_CHANNEL else "stream"
            raise Refusal(f"Invalid {word} name '{name}'")
        return {"stream_id": found.id}

    def _subscriptions(self, user: User, _asked: Parameters) -> Answer:
        rooms = [self.world.rooms[number] for number in sorted(user.subscribed)]
        return {"subscriptions": [self._subscription(room) for room in rooms]}

    def _subscription(self, room: Room) -> Answer:
        return {**self._shown(room), **_SUBSCRIPTION}

    def _update_stream(self, user: User, asked: Parameters, number: str) -> Answer:
        """Source: https://zulip.com/api/update-stream."""
        room = self._accessible(user, int(number))
        name = _needed(asked, "new_name").strip()
        if any(one.name.casefold() == name.casefold() for one in self.world.rooms.values() if one is not room):
            raise Refusal("Channel name already in use.")
        self.world.rename(room.name, name)
        return {}

    def _subscribe(self, user: User, asked: Parameters) -> Answer:
        whom = [self.world.users[n] for n in json.loads(asked.get("principals", "[]"))] or [user]
        done: dict[str, dict[str, list[str]]] = {"subscribed": {}, "already_subscribed": {}}
        for wanted in json.loads(_needed(asked, "subscriptions")):
            new = wanted["name"] not in {room.name for room in self.world.rooms.values()}
            room = (
                self.world.create(
                    wanted["name"],
                    wanted.get("description", ""),
                    private=asked.get("invite_only") == "true",
                    members=[one.id for one in whom],
                )
                if new
                else self.world.room(wanted["name"])
            )
            if room.private and not new and user.id not in room.members:
                raise Refusal(f"Unable to access channel ({room.name}).")
            for one in whom:
                fresh = self.world.subscribe(one, room) or new
                done["subscribed" if fresh else "already_subscribed"].setdefault(one.email, []).append(room.name)
        return dict(done)

    def _unsubscribe(self, user: User, asked: Parameters) -> Answer:
        """Source: https://zulip.com/api/unsubscribe."""
        done: dict[str, list[str]] = {"removed": [], "not_removed": []}
        for name in json.loads(_needed(asked, "subscriptions")):
            try:
                room = self.world.room(name)
            except KeyError:
                raise Refusal(f"Channel(s) ({name}) do not exist") from None
            done["removed" if user.id in room.members else "not_removed"].append(room.name)
            room.members.discard(user.id)
            user.subscribed.discard(room.id)
        return dict(done)

    def _topics(self, user: User, asked: Parameters, number: str) -> Answer:
        room = self._accessible(user, int(number))
        newest = {said.topic: said.id for said in self.world.said.values() if said.room == room.id}
        ordered = sorted(newest.items(), key=lambda item: -item[1])
        empty = "" if asked.get("allow_empty_topic_name") == "true" else "general chat"
        return {"topics": [{"name": name or empty, "max_id": last} for name, last in ordered]}

    # Messages

    def _messages(self, user: User, asked: Parameters) -> Answer:
        """Source: https://zulip.com/api/get-messages, messages_*.json."""
        if "message_ids" in asked and self.world.level >= MESSAGES_BY_ID:
            return self._messages_by_id(user, asked)
        before, after = int(_needed(asked, "num_before")), int(_needed(asked, "num_after"))
        if before + after > MOST_MESSAGES:
            raise Refusal(f"Too many messages requested (maximum {MOST_MESSAGES}).")
        narrow = json.loads(asked.get("narrow", "[]"))
        found = self.world.matching(user, narrow)
        anchor = self._anchor(user, asked, found)
        left, right = anchor == 0, anchor >= BEYOND
        rows_before = [said for said in found if said.id < anchor]
        rows_after = [said for said in found if said.id > anchor]
        exactly = [said for said in found if said.id == anchor and asked.get("include_anchor") != "false"]
        chosen = [*(rows_before[-before:] if before else []), *exactly, *rows_after[:after]]
        marked = asked.get("apply_markdown", "true") != "false"
        sought = any(term["operator"] == "search" for term in narrow)
        return {
            "messages": [self._hit(said, user, marked=marked, sought=sought) for said in chosen],
            "found_anchor": bool(exactly),
            "found_oldest": left or len(rows_before[-before:] if before else []) < before,
            "found_newest": right or len(rows_after[:after]) < after,
            "history_limited": False,
            "anchor": anchor,
        }

    def _messages_by_id(self, user: User, asked: Parameters) -> Answer:
        """Source: get_messages_backend in zerver/views/message_fetch.py of github.com/zulip/zulip."""
        if {"anchor", "num_before", "num_after"} & asked.keys():
            raise Refusal("Unsupported parameter combination: num_before, num_after, anchor, message_ids")
        found = [self.world.said[number] for number in json.loads(asked["message_ids"]) if number in self.world.said]
        marked = asked.get("apply_markdown", "true") != "false"
        told = [self.world.message_of(said, user, markdown=marked) for said in found if self.world.may_read(user, said)]
        ends = {"found_anchor": False, "found_oldest": False, "found_newest": False, "history_limited": False}
        return {"messages": told, **ends}

    def _hit(self, said: Said, user: User, *, marked: bool, sought: bool) -> Answer:
        told = self.world.message_of(said, user, markdown=marked)
        if sought:
            told |= {"match_content": rendered(said.text), "match_subject": told["subject"]}
        return told

    def _anchor(self, user: User, asked: Parameters, found: list[Said]) -> int:
        anchor = asked.get("anchor", "")
        if anchor == "newest":
            return BEYOND
        if anchor == "oldest":
            return 0
        if anchor == "first_unread":
            return next((said.id for said in found if said.id not in user.read), BEYOND)
        if anchor == "date" and self.world.level >= DATED_ANCHOR:
            then = moment(_needed(asked, "anchor_date"))
            return next((said.id for said in found if said.at >= then), BEYOND)
        if not re.fullmatch(r"\d+", anchor):
            raise Refusal("Invalid anchor" if anchor else "Missing 'anchor' argument.")
        return int(anchor)

    def _send(self, user: User, asked: Parameters) -> Answer:
        """Source: https://zulip.com/api/send-message, message_send_*.json."""
        kind, text = _needed(asked, "type"), asked.get("content")
        kinds = {"stream": 0, "private": 0, "direct": 174, "channel": 248}
        if self.world.level < kinds.get(kind, BEYOND) or (self.world.modern and kind in ("stream", "private")):
            raise Refusal("Invalid type")
        to = _needed(asked, "to")
        if text is None:
            raise Refusal("Missing 'content' argument", "REQUEST_VARIABLE_MISSING", var_name="content")
        queue, local_id = asked.get("queue_id", ""), asked.get("local_id", "")
        read = asked.get("read_by_sender") == "true" and self.world.level >= READ_BY_SENDER
        if kind in ("direct", "private"):
            return {
                "id": self.world.send(
                    user, None, "", self._people(to), text, queue=queue, local_id=local_id, read=read
                ).id
            }
        room = self._addressed(user, to)
        if "topic" not in asked and self.world.level < EMPTY_TOPICS:
            raise Refusal("Missing topic")
        return {
            "id": self.world.send(
                user, room, asked.get("topic", ""), (), text, queue=queue, local_id=local_id, read=read
            ).id
        }

    def _addressed(self, user: User, to: str) -> Room:
        wanted = _lenient(to)
        wanted = wanted[0] if isinstance(wanted, list) else wanted
        rooms = self.world.rooms.values()
        name = str(wanted)
        found = next((r for r in rooms if wanted == r.id or name.casefold() == r.name.casefold()), None)
        if found is not None:
            return found
        word = "Channel" if self.world.level >= NAMED_CHANNEL else "Stream"
        if isinstance(wanted, int):
            raise Refusal(f"{word} with ID '{wanted}' does not exist", "STREAM_DOES_NOT_EXIST", stream_id=wanted)
        if user.bot and user.owner is not None:
            # The bot's owner gets a message about it, which uses up an id.
            note = f"Your bot `{user.email}` tried to send a message to channel #**{name}**, but it does not exist."
            self.world.send(self.world.user("Notification Bot"), None, "", [user.owner], note)
        raise Refusal(f"{word} '{name}' does not exist", "STREAM_DOES_NOT_EXIST", stream=name)

    def _people(self, to: str) -> list[int]:
        wanted = _lenient(to)
        listed = wanted if isinstance(wanted, list) else [wanted]
        found = []
        for one in listed:
            user = next((u for u in self.world.users.values() if one in (u.id, u.email)), None)
            if user is None:
                raise Refusal(f"Invalid user ID {one}" if isinstance(one, int) else f"Invalid email '{one}'")
            if not user.active:
                raise Refusal(f"'{user.name}' is no longer using Zulip.")
            found.append(user.id)
        return found

    def _readable(self, user: User, number: str) -> Said:
        said = self.world.said.get(int(number))
        if said is None or not self.world.may_read(user, said):
            raise Refusal("Invalid message(s)")
        return said

    def _message(self, user: User, asked: Parameters, number: str) -> Answer:
        said = self._readable(user, number)
        marked = asked.get("apply_markdown", "true") != "false"
        return {"message": self.world.message_of(said, user, markdown=marked), "raw_content": said.text}

    def _edit(self, user: User, asked: Parameters, number: str) -> Answer:
        """Source: Zulip's zerver/actions/message_edit.py."""
        said = self._readable(user, number)
        if "content" in asked:
            guard = asked.get("prev_content_sha256") if self.world.level >= EDIT_GUARD else None
            self.world.edited(user, said, asked["content"], guard=guard)
        elif "topic" in asked or "stream_id" in asked:
            room = self._accessible(user, int(asked["stream_id"])) if "stream_id" in asked else None
            self.world.moved(
                user,
                said,
                room,
                asked.get("topic"),
                whole=asked.get("propagate_mode") == "change_all",
                old_told=asked.get("send_notification_to_old_thread") == "true",
                new_told=asked.get("send_notification_to_new_thread", "true") == "true",
            )
        else:
            raise Refusal("Nothing to change")
        return {"detached_uploads": []} if self.world.level >= 285 else {}

    def _delete(self, user: User, _asked: Parameters, number: str) -> Answer:
        said = self._readable(user, number)
        if said.sender != user.id:
            raise Refusal("You don't have permission to delete this message")
        limit = self.world.delete_limit_s
        if limit is not None and self.world.now() - said.at > limit:
            raise Refusal("The time limit for deleting this message has passed")
        del self.world.said[said.id]
        return {}

    # Scheduled messages and files

    def _scheduled(self, user: User, _asked: Parameters) -> Answer:
        """Source: https://zulip.com/api/get-scheduled-messages."""
        waiting = [one for one in self.world.scheduled.values() if one.sender == user.id]
        return {"scheduled_messages": [self._waiting(one) for one in sorted(waiting, key=lambda one: one.at)]}

    @staticmethod
    def _waiting(one: Waiting) -> Answer:
        told: Answer = {
            "scheduled_message_id": one.id,
            "type": "private" if one.room is None else "stream",
            "to": list(one.people) if one.room is None else one.room,
            "content": one.text,
            "rendered_content": rendered(one.text),
            "scheduled_delivery_timestamp": one.at,
            "failed": False,
        }
        return told | ({} if one.room is None else {"topic": one.topic})

    def _schedule(self, user: User, asked: Parameters) -> Answer:
        """Source: Zulip's zerver/views/scheduled_messages.py."""
        if self.world.level < SCHEDULING:
            raise Refusal("Invalid type")
        at = int(_needed(asked, "scheduled_delivery_timestamp"))
        if at <= self.world.now():
            raise Refusal("Scheduled delivery time must be in the future.")
        text, kind = _needed(asked, "content"), _needed(asked, "type")
        if kind in ("direct", "private"):
            return {"scheduled_message_id": self.world.schedule(user, None, text, at, people=self._people(asked["to"]))}
        room = self._addressed(user, asked["to"])
        return {"scheduled_message_id": self.world.schedule(user, room, text, at, topic=asked.get("topic", ""))}

    def _unschedule(self, user: User, _asked: Parameters, number: str) -> Answer:
        found = self.world.scheduled.get(int(number))
        if found is None or found.sender != user.id:
            raise Refusal("Scheduled message does not exist", status=404)
        del self.world.scheduled[found.id]
        return {}

    def _upload(self, _user: User, asked: Parameters) -> Answer:
        """Source: Zulip's zerver/views/upload.py."""
        if FILE_NAME not in asked:
            raise Refusal("You must specify a file to upload")
        if len(asked[FILE_TEXT].encode("utf-8", "surrogateescape")) > MOST_MIB * 1024 * 1024:
            raise Refusal(f"File is larger than the configured maximum upload size ({MOST_MIB} MiB).")
        path = self.world.upload(
            re.sub(r"[^\w.-]+", "-", asked[FILE_NAME]), asked[FILE_TEXT].encode("utf-8", "surrogateescape")
        )
        return {"uri": path} | ({"url": path, "filename": asked[FILE_NAME]} if self.world.level >= 272 else {})

    def _history(self, user: User, _asked: Parameters, number: str) -> Answer:
        said = self._readable(user, number)
        told: list[Answer] = []
        for text, at in said.versions:
            entry: Answer = {"content": text, "rendered_content": rendered(text), "timestamp": int(at)}
            entry |= {"topic": said.topic, "user_id": said.sender}
            if told:
                entry |= {
                    "prev_content": told[-1]["content"],
                    "prev_rendered_content": told[-1]["rendered_content"],
                    "content_html_diff": rendered(text),
                }
            told.append(entry)
        return {"message_history": told}

    def _react(self, user: User, asked: Parameters, number: str) -> Answer:
        self.world.reacted(user, self._readable(user, number), _needed(asked, "emoji_name"))
        return {}

    def _unreact(self, user: User, asked: Parameters, number: str) -> Answer:
        self.world.reacted(user, self._readable(user, number), _needed(asked, "emoji_name"), remove=True)
        return {}

    def _file_url(self, user: User, _asked: Parameters, path: str) -> Answer:
        """Source: serve_file in zerver/views/upload.py of github.com/zulip/zulip; both refusals are pages."""
        if path not in self.world.files:
            raise Refusal("This file does not exist or has been deleted.", status=404, page=True)
        users = (said for said in self.world.said.values() if path in said.text)
        if not any(self.world.may_read(user, said) for said in users):
            raise Refusal("You are not authorized to view this file.", status=403, page=True)
        return {"url": TEMPORARY + path}

    def _flags(self, user: User, asked: Parameters) -> Answer:
        numbers = json.loads(_needed(asked, "messages"))
        for said in (self.world.said[number] for number in numbers if number in self.world.said):
            if asked.get("flag") == "read" and asked.get("op") == "add":
                user.read.add(said.id)
            elif asked.get("flag") == "read" and (said.room is None or said.room in user.subscribed):
                # All unread messages are in channels that the user is subscribed to.
                user.read.discard(said.id)
        return {"messages": numbers}

    def _render(self, _user: User, asked: Parameters) -> Answer:
        return {"rendered": rendered(_needed(asked, "content"))}

    # Events

    def _register(self, user: User, asked: Parameters) -> Answer:
        """Source: https://zulip.com/api/register-queue, register_bot.json, register_full_fetch.json."""
        kinds = json.loads(asked.get("event_types", "[]"))
        fetched = json.loads(asked["fetch_event_types"]) if "fetch_event_types" in asked else kinds
        narrow = json.loads(asked.get("narrow", "[]"))
        for operator, _operand in narrow:
            old = self.world.modern and operator == "stream"
            if old or (operator == "channel" and self.world.level < 250):
                raise Refusal(f"Operator {operator} not supported.")
        queue = self.world.queue(
            user,
            kinds,
            narrow,
            public=asked.get("all_public_streams") == "true",
            markdown=asked.get("apply_markdown", "false") == "true",
        )
        return {
            "queue_id": queue.id,
            "zulip_version": "9.0-dev+git",
            "zulip_feature_level": self.world.level,
            "zulip_merge_base": "",
            **self._fetched(user, fetched),
            "last_event_id": -1,
        }

    def _fetched(self, user: User, kinds: list[str]) -> Answer:
        state: Answer = {}
        if "message" in kinds:
            state["max_message_id"] = self._me(user, {})["max_message_id"]
        if {"message", "update_message_flags"} <= {*kinds}:
            state["unread_msgs"] = self.world.unread_of(user)
        if "realm_user_groups" in kinds:
            state["realm_user_groups"] = self.world.groups
        if "realm" in kinds:
            state |= {"realm_name": "Zulip Dev", "max_stream_name_length": 60}
            state |= {"max_message_length": self.world.longest_message, "max_topic_length": self.world.longest_topic}
            state |= {
                "realm_allow_message_editing": True,
                "realm_message_content_edit_limit_seconds": self.world.edit_limit_s,
                "realm_message_content_delete_limit_seconds": self.world.delete_limit_s,
            }
        if "realm_user" in kinds:
            state |= self._realm_users(user)
        if "subscription" in kinds:
            rest = [room for room in self._visible(user) if user.id not in room.members]
            own = [self.world.rooms[number] for number in sorted(user.subscribed)]
            state |= {"subscriptions": [self._subscription(room) for room in own], "unsubscribed": []}
            state["never_subscribed"] = [self._shown(room) for room in rest]
        if "stream" in kinds:
            state["streams"] = [self._shown(room) for room in self._visible(user)]
        return state

    def _realm_users(self, user: User) -> Answer:
        people = list(self.world.users.values())
        system = [one.record for one in people if "is_system_bot" in one.record]
        others = [one for one in people if "is_system_bot" not in one.record]
        shown = [
            {k: v for k, v in one.record.items() if k != "is_active"}
            | ({} if one.bot else {"profile_data": one.profile})
            for one in others
        ]
        own = {name: user.record[name] for name in _OWN}
        return {
            "cross_realm_bots": system,
            "realm_users": [one for one, who in zip(shown, others, strict=True) if who.active],
            "realm_non_active_users": [one for one, who in zip(shown, others, strict=True) if not who.active],
            "is_moderator": False,
            **own,
            **_RIGHTS,
        }

    async def _events(self, user: User, asked: Parameters) -> Answer:
        """Source: https://zulip.com/api/get-events, events_*.json."""
        number = _needed(asked, "queue_id")
        after = int(asked.get("last_event_id", "-1"))
        waits = asked.get("dont_block") != "true"
        started = time.monotonic()
        waited = False
        while True:
            queue = self.world.queues.get(number)
            if queue is None or queue.user != user.id:
                raise Refusal(f"Bad event queue ID: {number}", "BAD_EVENT_QUEUE_ID", queue_id=number)
            events = list(queue.after(after))
            if events or not waits:
                # Only a reply that had to wait repeats the queue's id. Source: events_longpoll_woken.json.
                return {"events": events} | ({"queue_id": number} if waited else {})
            waited = True
            self.waiting.add(number)
            if time.monotonic() - started > self.heartbeat_s:
                queue.push({"type": "heartbeat"})
            await asyncio.sleep(LOOK_S)

    def _drop(self, user: User, asked: Parameters) -> Answer:
        number = _needed(asked, "queue_id")
        queue = self.world.queues.get(number)
        if queue is None or queue.user != user.id:
            raise Refusal(f"Bad event queue ID: {number}", "BAD_EVENT_QUEUE_ID", queue_id=number)
        del self.world.queues[number]
        return {}


_PICTURE = "https://secure.gravatar.com/avatar/b295b03167190bbd05d2137538a2eb23?d=identicon&version=1"
_BOT_DEFAULTS: Answer = {
    "default_sending_stream": None,
    "default_events_register_stream": None,
    "default_all_public_streams": False,
}
_SUBSCRIPTION: Answer = {
    "audible_notifications": None,
    "color": "#bd86e5",
    "desktop_notifications": None,
    "email_notifications": None,
    "in_home_view": True,
    "is_muted": False,
    "pin_to_top": False,
    "push_notifications": None,
    "wildcard_mentions_notify": None,
}
_OWN = (
    "is_admin",
    "is_owner",
    "is_guest",
    "is_billing_admin",
    "user_id",
    "email",
    "delivery_email",
    "full_name",
    "avatar_url",
)
_RIGHTS: Answer = {
    "avatar_source": "G",
    "avatar_url_medium": "",
    "can_create_private_streams": True,
    "can_create_public_streams": True,
    "can_create_streams": True,
    "can_create_web_public_streams": False,
    "can_subscribe_other_users": True,
    "can_invite_others_to_realm": True,
}


def _needed(asked: Parameters, name: str) -> str:
    if name not in asked:
        raise Refusal(f"Missing '{name}' argument", "REQUEST_VARIABLE_MISSING", var_name=name)
    return asked[name]


def _lenient(to: str) -> Any:
    """Return the value of `to`: JSON, or a name as it is, which the server also accepts."""
    try:
        return json.loads(to)
    except ValueError:
        return to
