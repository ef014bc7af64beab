"""The memory of the double of Zulip, without any HTTP: users, channels, messages, queues of events.

Every rule here is shown by tests/samples/zulip or cited from the vendor's pages.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[1] / "samples" / "zulip"
RECORDED_LEVEL = 247
NEWER_LEVEL = 469
LATE_S = 0.03
LONGEST_MESSAGE = 10_000
LONGEST_TOPIC = 60
CUT = "\n[message truncated]"
GENERAL_CHAT = "general chat"
BEYOND = 10_000_000_000_000_000
EMPTY_TOPICS = 334
NO_USER_IN_REACTIONS = 328
MOVES_APART = 365
"""From this feature level on `last_edit_timestamp` covers edits of the text only; a move has `last_moved_timestamp`.

Resolving a topic is not such a move. Before this level one time covered both. Source: https://zulip.com/api/changelog.
"""
TAKEN_BACK_S = 60
"""A topic that is taken back to what it was within this time loses Zulip's notice instead of getting another one."""
SCHEDULING = 179
EDIT_GUARD = 379
NAMED_CHANNEL = 255
"""From this feature level on, errors say "channel" instead of "stream". Source: https://zulip.com/api/changelog."""
CODES = {
    "eyes": "1f440",
    "+1": "1f44d",
    "thumbs_up": "1f44d",
    "like": "1f44d",
    "-1": "1f44e",
    "thumbs_down": "1f44e",
    "check": "2705",
    "check_mark": "2714",
    "approved": "2705",
    "cross_mark": "274c",
    "wrong": "274c",
    "tada": "1f389",
    "heart": "2764",
    "working_on_it": "1f6e0",
    "octopus": "1f419",
}


class Refusal(Exception):
    """The request is answered with this error."""

    def __init__(
        self, msg: str, code: str = "BAD_REQUEST", status: int = 400, *, page: bool = False, **more: Any
    ) -> None:
        self.page = page
        self.status, self.body = status, {"result": "error", "msg": msg, **more, "code": code}
        super().__init__(msg)


@dataclass
class User:
    """A person or bot."""

    id: int
    name: str
    email: str
    key: str
    record: dict[str, Any]
    profile: dict[str, Any] = field(default_factory=dict)
    bot: bool = False
    active: bool = True
    owner: int | None = None
    subscribed: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)


@dataclass
class Room:
    """A channel."""

    id: int
    name: str
    record: dict[str, Any]
    private: bool = False
    members: set[int] = field(default_factory=set)


@dataclass
class Said:
    """A message as its writer typed it. `received` are the users whose own history contains it."""

    id: int
    sender: int
    text: str
    at: float
    room: int | None = None
    topic: str = ""
    people: tuple[int, ...] = ()
    received: set[int] = field(default_factory=set)
    reactions: list[tuple[int, str]] = field(default_factory=list)
    versions: list[tuple[str, float]] = field(default_factory=list)
    moved_at: float | None = None
    resolved_at: float | None = None


@dataclass(frozen=True)
class Waiting:
    """A message that is to be sent later, at `at` in seconds since 1970."""

    id: int
    sender: int
    text: str
    at: int
    room: int | None
    topic: str
    people: tuple[int, ...]


@dataclass
class EventQueue:
    """Events that a client subscribed to.

    As on a real server, an event comes after the reply to the request that caused it: a queue that is read at once may be empty.
    """

    id: str
    user: int
    kinds: Sequence[str]
    narrow: Sequence[Sequence[str]]
    public: bool
    markdown: bool
    next_id: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)

    late: list[dict[str, Any]] = field(default_factory=list)

    def push(self, event: Mapping[str, Any]) -> None:
        """Append an event, which is there LATE_S from now."""
        self.late.append({**event, "id": self.next_id, "due": time.monotonic() + LATE_S})
        self.next_id += 1

    def after(self, number: int) -> Sequence[Mapping[str, Any]]:
        """Return the events that are there and forget those up to `number`."""
        while self.late and self.late[0]["due"] <= time.monotonic():
            event = self.late.pop(0)
            del event["due"]
            self.events.append(event)
        self.events[:] = [event for event in self.events if event["id"] > number]
        return self.events


class World:
    """One organisation, as it was when the samples were recorded; `level` is its feature level.

    `modern` makes it refuse names that newer ones replaced, as servers without the old ones would. Tests add users and
    channels with `person` and `channel`; `key_of` returns a user's key.
    """

    def __init__(
        self, level: int = RECORDED_LEVEL, *, modern: bool = False, now: Callable[[], float] = time.time
    ) -> None:
        self.level, self.modern, self.now = level, modern, now
        self.longest_message, self.longest_topic = LONGEST_MESSAGE, LONGEST_TOPIC
        self.users: dict[int, User] = {}
        self.rooms: dict[int, Room] = {}
        self.said: dict[int, Said] = {}
        self.queues: dict[str, EventQueue] = {}
        self.exhausted: dict[int, float] = {}
        self.own_emoji: dict[str, str] = {}
        """Custom emoji of the organisation, by name: a number each.

        They take precedence over Zulip's emoji of that name.
        """
        self.edit_limit_s: float | None = None
        self.files: dict[str, bytes] = {}
        """Uploaded files by their path after `/user_uploads/`."""
        self.groups: list[dict[str, Any]] = [_group(1, "role:everyone", (), system=True)]
        self.finds_inside = False
        """Whether the search finds words inside text without spaces, as with PGroonga."""
        self.delete_limit_s: float | None = None
        self.scheduled: dict[int, Waiting] = {}
        self._next_scheduled = 1
        self._next_message = 101
        self._seed()

    # What a test does and asks for

    def key_of(self, name: str) -> str:
        """Return the API key of the user with that full name."""
        return self.user(name).key

    def user(self, name: str) -> User:
        """Return the user with that full name."""
        return next(user for user in self.users.values() if user.name == name)

    def room(self, name: str) -> Room:
        """Return the channel with that name, ignoring case."""
        found = next((room for room in self.rooms.values() if room.name.casefold() == name.casefold()), None)
        if found is None:
            raise KeyError(name)
        return found

    def person(self, name: str, email: str, *, bot: bool = False, active: bool = True) -> User:
        """Add a user."""
        number = max(self.users) + 1
        record = dict(self.user("King Hamlet").record) | {
            "email": email,
            "user_id": number,
            "full_name": name,
            "is_bot": bot,
            "is_active": active,
            "delivery_email": email,
        }
        made = User(number, name, email, _key(number), record, bot=bot, active=active)
        self.users[number] = made
        return made

    def channel(self, name: str, *members: str, private: bool = False, description: str = "") -> Room:
        """Add a channel with these members, by full name."""
        return self.create(name, description, private=private, members=[self.user(member).id for member in members])

    def group(self, name: str, *members: str, within: Sequence[str] = ()) -> int:
        """Add a group of users with these members, by full name, and these subgroups; return its id."""
        number = len(self.groups) + 1
        below = [group["id"] for group in self.groups if group["name"] in within]
        self.groups.append(_group(number, name, [self.user(member).id for member in members], below))
        return number

    def upload(self, name: str, content: bytes) -> str:
        """Add a file and return its address, as a message has it."""
        path = f"2/ab/{len(self.files):024d}/{name}"
        self.files[path] = content
        return f"/user_uploads/{path}"

    def archive(self, name: str) -> None:
        """Remove a channel and its messages; its name is free again."""
        gone = self.rooms.pop(self.room(name).id)
        self.said = {number: said for number, said in self.said.items() if said.room != gone.id}

    def rename(self, name: str, new: str) -> None:
        """Give a channel another name."""
        room = self.room(name)
        room.name = room.record["name"] = new

    def say(self, sender: str, channel: str, topic: str, text: str) -> int:
        """Let a user write to a channel; return the id of the message."""
        return self.send(self.user(sender), self.room(channel), topic, (), text).id

    def tell(self, sender: str, people: Sequence[str], text: str) -> int:
        """Let a user write to people; return the id of the message."""
        return self.send(self.user(sender), None, "", [self.user(name).id for name in people], text).id

    def react(self, name: str, message_id: int, emoji: str) -> None:
        """Add a user's reaction."""
        self.reacted(self.user(name), self.said[message_id], emoji)

    def unreact(self, name: str, message_id: int, emoji: str) -> None:
        """Remove a user's reaction."""
        self.reacted(self.user(name), self.said[message_id], emoji, remove=True)

    def move(self, message_id: int, *, channel: str = "", topic: str = "") -> None:
        """Move a message to another channel, another topic, or both. Its id and its reactions stay.

        Source: https://zulip.com/api/update-message (`stream_id`, `topic`).
        """
        said = self.said[message_id]
        before = said.topic
        said.room = self.room(channel).id if channel else said.room
        said.topic = topic or said.topic
        if not channel and said.topic.removeprefix("✔ ") == before.removeprefix("✔ "):
            said.resolved_at = self.now()
        else:
            said.moved_at = self.now()

    def texts(self, channel: str, topic: str) -> list[str]:
        """Return the messages of a topic, oldest first."""
        room = self.room(channel).id
        return [said.text for said in self.said.values() if said.room == room and said.topic == topic]

    def deactivate(self, name: str) -> None:
        """Deactivate an account."""
        user = self.user(name)
        user.active = False
        user.record["is_active"] = False

    def forget_queues(self) -> None:
        """Forget every event queue, as a server that restarts does."""
        self.queues.clear()

    # What its API does

    def create(self, name: str, description: str, *, private: bool, members: Iterable[int]) -> Room:
        """Add a channel; the server posts a message about it there."""
        number = max(self.rooms, default=0) + 1
        record = dict(next(iter(self.rooms.values())).record) | {
            "name": name,
            "stream_id": number,
            "description": description,
            "rendered_description": f"<p>{html.escape(description)}</p>" if description else "",
            "invite_only": private,
            "date_created": int(self.now()),
            "first_message_id": None,
        }
        room = Room(number, name, record, private=private)
        self.rooms[number] = room
        for member in members:
            self.subscribe(self.users[member], room)
        kind = "Private" if private else "Public"
        self.send(self.user("Notification Bot"), room, "stream events", (), f"**{kind}** stream created.", allowed=True)
        return room

    def subscribe(self, user: User, room: Room) -> bool:
        """Make a user a member of a channel; return whether that is new."""
        new = user.id not in room.members
        room.members.add(user.id)
        user.subscribed.add(room.id)
        return new

    def may_read(self, user: User, said: Said) -> bool:
        """Return whether a user can see a message."""
        if said.room is None:
            return user.id in said.people
        room = self.rooms[said.room]
        return not room.private or user.id in room.members

    def send(
        self,
        sender: User,
        room: Room | None,
        topic: str,
        people: Iterable[int],
        text: str,
        *,
        allowed: bool = False,
        queue: str = "",
        local_id: str = "",
        read: bool | None = None,
    ) -> Said:
        """Write a message, normalised as the server does, and put it into the queues that may receive it."""
        text, topic = self._normalised(text), self._topic(topic) if room else ""
        if room is not None and room.private and sender.id not in room.members and not allowed:
            word = "channel" if self.level >= NAMED_CHANNEL else "stream"
            raise Refusal(f"Not authorized to send to {word} '{room.name}'")
        everyone = tuple(sorted({*people, sender.id})) if room is None else ()
        received = set(everyone) if room is None else set(room.members)
        said = Said(self._take_id(), sender.id, text, self.now(), room.id if room else None, topic, everyone, received)
        said.versions.append((text, said.at))
        self.said[said.id] = said
        # A message that a program sends is unread for its sender, too. Source: https://zulip.com/api/send-message (read_by_sender).
        if read or (read is None and not sender.bot):
            sender.read.add(said.id)
        if room is not None and room.record["first_message_id"] is None:
            room.record["first_message_id"] = said.id
        self._announce(said, queue, local_id)
        return said

    def reacted(self, user: User, said: Said, emoji: str, *, remove: bool = False) -> None:
        """Add or remove a reaction; one emoji has several names."""
        codes = CODES | self.own_emoji
        if emoji not in codes:
            raise Refusal(f"Emoji '{emoji}' does not exist")
        own = [(who, name) for who, name in said.reactions if who == user.id and codes[name] == codes[emoji]]
        if remove and not own:
            raise Refusal("Reaction doesn't exist.", "REACTION_DOES_NOT_EXIST" if self.level >= 193 else "BAD_REQUEST")
        if own and not remove:
            raise Refusal("Reaction already exists.", "REACTION_ALREADY_EXISTS" if self.level >= 193 else "BAD_REQUEST")
        if remove:
            said.reactions.remove(own[0])
        else:
            # An emoji that is there already keeps the name by which it came first. Source: Zulip's zerver/actions/reactions.py.
            emoji = next((name for _, name in said.reactions if codes[name] == codes[emoji]), emoji)
            said.reactions.append((user.id, emoji))
        event = {"type": "reaction", "op": "remove" if remove else "add", "message_id": said.id}
        event |= self.reaction_of(user.id, emoji, event=True)
        for queue in self._queues("reaction"):
            if queue.user in said.received or (said.room in self.users[queue.user].subscribed):
                queue.push(event)

    def edited(self, user: User, said: Said, text: str, *, guard: str | None = None) -> None:
        """Change a message's text; only its writer may, and with `guard` only if that is the hash of its text now."""
        if said.sender != user.id:
            raise Refusal("You don't have permission to edit this message")
        if self.edit_limit_s is not None and self.now() - said.at > self.edit_limit_s:
            raise Refusal("The time limit for editing this message has passed")
        if guard is not None and guard != hashlib.sha256(said.text.encode()).hexdigest():
            raise Refusal("'prev_content_sha256' value does not match the expected value.", "EXPECTATION_MISMATCH")
        said.text = self._normalised(text)
        said.versions.append((said.text, self.now()))

    def moved(
        self,
        user: User,
        said: Said,
        room: Room | None,
        topic: str | None,
        *,
        whole: bool,
        old_told: bool,
        new_told: bool,
    ) -> None:
        """Move a message, or its whole topic, and let Notification Bot say so.

        Source: Zulip's zerver/actions/message_edit.py (`check_update_message`, `maybe_send_resolve_topic_notifications`).
        """
        if said.room is None:
            raise Refusal("Direct messages cannot have topics.")
        old_room, old = self.rooms[said.room], said.topic
        new = self._topic(topic) if topic is not None else old
        if new == old and room is None:
            raise Refusal("Nothing to change")
        all_of_it = [
            one for one in self.said.values() if one.room == said.room and one.topic.casefold() == old.casefold()
        ]
        for one in all_of_it if whole else [said]:
            self.move(one.id, channel=room.name if room else "", topic=new)
        bot, who = self.user("Notification Bot"), f"@_**{user.name}|{user.id}**"
        target = room or old_room
        if new.removeprefix("✔ ") == old.removeprefix("✔ ") and new != old and room is None:
            last = max(
                (one for one in self.said.values() if one.room == target.id and one.topic == new),
                key=lambda one: one.id,
            )
            if last.sender == bot.id and last.text.endswith("resolved.") and self.now() - last.at <= TAKEN_BACK_S:
                del self.said[last.id]
                return
            state = "resolved" if new.startswith("✔ ") else "unresolved"
            self.send(bot, target, new, (), f"{who} has marked this topic as {state}.", allowed=True)
            return
        if new_told:
            told = f"This topic was moved here from #**{old_room.name}>{old}** by {who}."
            self.send(bot, target, new, (), told, allowed=True)
        if old_told:
            self.send(bot, old_room, old, (), f"This topic was moved by {who}.", allowed=True)

    def schedule(
        self, sender: User, room: Room | None, text: str, at: int, *, topic: str = "", people: Iterable[int] = ()
    ) -> int:
        """Keep a message for later, normalised as the server does, and return its id."""
        number, self._next_scheduled = self._next_scheduled, self._next_scheduled + 1
        others = tuple(sorted(set(people) - {sender.id})) or (() if room else (sender.id,))
        place = self._topic(topic) if room else ""
        self.scheduled[number] = Waiting(
            number, sender.id, self._normalised(text), at, room.id if room else None, place, others
        )
        return number

    def deliver(self, scheduled_id: int) -> Said:
        """Send a scheduled message, as the server does when its time has come."""
        due = self.scheduled.pop(scheduled_id)
        room = self.rooms[due.room] if due.room is not None else None
        return self.send(self.users[due.sender], room, due.topic, due.people, due.text)

    def message_of(self, said: Said, user: User | None, *, markdown: bool, flags: bool = True) -> dict[str, Any]:
        """Return a message as the API shows it."""
        sender = self.users[said.sender]
        told: dict[str, Any] = {
            "id": said.id,
            "sender_id": said.sender,
            "content": rendered(said.text) if markdown else said.text,
            "recipient_id": 47 + (said.room or 0) if said.room else 41,
            "timestamp": int(said.at),
            "client": "Python-urllib",
            "subject": self._shown_topic(said),
            "topic_links": [],
            "is_me_message": False,
            "reactions": [self.reaction_of(who, emoji) for who, emoji in said.reactions],
            "submessages": [],
            "sender_full_name": sender.name,
            "sender_email": sender.email,
            "sender_realm_str": "zulip",
            "display_recipient": self._recipient(said),
            "type": "private" if said.room is None else "stream",
            "avatar_url": None,
            "content_type": "text/html" if markdown else "text/x-markdown",
        }
        if flags and user is not None:
            told["flags"] = (["read"] if said.id in user.read else []) + self._mentioned(said, user)
        if said.room is not None:
            told["stream_id"] = said.room
        return told | self._touched(said)

    def _touched(self, said: Said) -> dict[str, Any]:
        """Return when the message's text changed, and when it moved."""
        edited = said.versions[-1][1] if len(said.versions) > 1 else None
        if self.level >= MOVES_APART:
            told = {"last_edit_timestamp": edited, "last_moved_timestamp": said.moved_at}
        else:
            times = [at for at in (edited, said.moved_at, said.resolved_at) if at is not None]
            told = {"last_edit_timestamp": max(times, default=None)}
        return {name: int(at) for name, at in told.items() if at is not None}

    def reaction_of(self, user_id: int, emoji: str, *, event: bool = False) -> dict[str, Any]:
        """Return a reaction as the API shows it; newer servers give only the user's id, except in events."""
        kind, code = ("realm_emoji", own) if (own := self.own_emoji.get(emoji)) else ("unicode_emoji", CODES[emoji])
        told: dict[str, Any] = {"emoji_name": emoji, "emoji_code": code, "reaction_type": kind}
        user = self.users[user_id]
        if self.level < NO_USER_IN_REACTIONS:
            told["user"] = {"email": user.email, "id": user.id, "full_name": user.name}
        elif event and self.level >= 339:
            told["user"] = {"email": user.email, "user_id": user.id, "full_name": user.name}
        return told | {"user_id": user_id}

    def unread_of(self, user: User) -> dict[str, Any]:
        """Return the ids of a user's unread messages by place, as a register request gets them.

        Source: aggregate_unread_data in zerver/lib/message.py of github.com/zulip/zulip.
        """
        places: dict[tuple[Any, ...], list[int]] = {}
        for said in sorted(self.said.values(), key=lambda said: said.id):
            if said.id in user.read or user.id not in said.received:
                continue
            if said.room is not None and said.room not in user.subscribed:
                continue
            topic = ("topic", said.room, self._shown_topic(said))
            places.setdefault(topic if said.room is not None else ("people", *said.people), []).append(said.id)
        told: dict[str, Any] = {"streams": [], "pms": [], "huddles": [], "mentions": [], "old_unreads_missing": False}
        for (kind, *key), ids in places.items():
            if kind == "topic":
                told["streams"].append({"stream_id": key[0], "topic": key[1], "unread_message_ids": ids})
            elif len(key) > 2:
                told["huddles"].append({"user_ids_string": ",".join(map(str, key)), "unread_message_ids": ids})
            else:
                other = next((number for number in key if number != user.id), user.id)
                told["pms"].append({"other_user_id": other, "sender_id": other, "unread_message_ids": ids})
        return told | {"count": sum(map(len, places.values()))}

    def matching(self, user: User, narrow: Sequence[Mapping[str, Any]]) -> list[Said]:
        """Return the messages of a narrow that a user may read, oldest first.

        Without a channel, that is the user's own history: it lacks messages from before a subscription.

        Source: https://zulip.com/api/construct-narrow, messages_*.json
        """
        tests = [self._term(user, term) for term in narrow]
        words = {str(term["operator"]) for term in narrow}
        shared = bool(words & {"stream", "channel", "streams", "channels"})
        found = []
        for said in sorted(self.said.values(), key=lambda said: said.id):
            there = self.may_read(user, said) if shared else user.id in said.received
            if there and all(test(said) for test in tests):
                found.append(said)
        return found

    def _term(self, user: User, term: Mapping[str, Any]) -> Callable[[Said], bool]:
        operator, operand = str(term["operator"]), term["operand"]
        self._known(f"is:{operand}" if operator == "is" else operator)
        test = self._test(user, operator, operand)
        return (lambda said: not test(said)) if term.get("negated") else test

    def _test(self, user: User, operator: str, operand: Any) -> Callable[[Said], bool]:
        match operator:
            case "stream" | "channel":
                room = self._narrowed(operand)
                return lambda said: said.room == room.id
            case "streams" | "channels":
                return lambda said: said.room is not None and not self.rooms[said.room].private
            case "has" | "is":
                return {
                    "attachment": lambda said: "/user_uploads/" in said.text,
                    "unread": lambda said: user.id in said.received and said.id not in user.read,
                }.get(str(operand), lambda said: said.room is None)
            case "topic" | "subject":
                wanted = self._empty(str(operand)).casefold()
                return lambda said: said.room is not None and said.topic.casefold() == wanted
            case "sender":
                who = self._who(operand)
                return lambda said: said.sender == who
            case "id":
                return lambda said: said.id == int(operand)
            case "dm" | "pm-with":
                people = {self._who(one) for one in (operand if isinstance(operand, list) else [operand])} | {user.id}
                return lambda said: set(said.people) == people
            case _:
                words = [word.strip() if self.finds_inside else word for word in _sought(str(operand))]
                return lambda said: all(word in f" {_plain(_read(said.text))} {_plain(said.topic)} " for word in words)

    def _known(self, operator: str) -> None:
        words = {
            "stream": 0,
            "streams": 0,
            "topic": 0,
            "subject": 0,
            "sender": 0,
            "id": 0,
            "search": 0,
            "has": 0,
            "pm-with": 0,
        }
        words |= {"dm": 177, "is:private": 0, "is:unread": 0, "is:dm": 177, "channel": 250, "channels": 250}
        old = {"stream", "streams", "pm-with", "subject", "is:private"}
        if self.level < words.get(operator, BEYOND) or (self.modern and operator in old):
            desc = f"unknown operator {operator}"
            raise Refusal(f"Invalid narrow operator: {desc}", "BAD_NARROW", desc=desc)

    def _narrowed(self, operand: Any) -> Room:
        try:
            return self.rooms[operand] if isinstance(operand, int) else self.room(str(operand))
        except KeyError:
            word = "channel" if self.level >= NAMED_CHANNEL else "stream"
            desc = f"unknown {word}" + (f" {operand}" if self.level < NAMED_CHANNEL else "")
            raise Refusal(f"Invalid narrow operator: {desc}", "BAD_NARROW", desc=desc) from None

    def _who(self, operand: Any) -> int:
        found = next((u.id for u in self.users.values() if operand in (u.id, u.email)), None)
        if found is None:
            desc = f"unknown user in {operand}"
            raise Refusal(f"Invalid narrow operator: {desc}", "BAD_NARROW", desc=desc)
        return found

    def _announce(self, said: Said, sending: str, local_id: str) -> None:
        room = self.rooms.get(said.room or 0)
        for queue in self._queues("message"):
            heard = queue.user in said.received or (queue.public and room is not None and not room.private)
            if not heard or not self._in_narrow(queue, said):
                continue
            user = self.users[queue.user]
            event: dict[str, Any] = {
                "type": "message",
                "message": self.message_of(said, None, markdown=queue.markdown, flags=False),
                "flags": ["read"] if said.id in user.read else self._mentioned(said, user),
            }
            queue.push(event | ({"local_message_id": local_id} if queue.id == sending and local_id else {}))

    def _queues(self, kind: str) -> list[EventQueue]:
        return [queue for queue in list(self.queues.values()) if kind in queue.kinds]

    def _in_narrow(self, queue: EventQueue, said: Said) -> bool:
        """Return whether a queue's narrow admits a message; it knows only names, ignoring case."""
        room = self.rooms.get(said.room or 0)
        for operator, operand in queue.narrow:
            if operator in ("stream", "channel") and (room is None or room.name.casefold() != operand.casefold()):
                return False
            if operator == "topic" and self._shown_topic(said).casefold() != operand.casefold():
                return False
        return True

    def _mentioned(self, said: Said, user: User) -> list[str]:
        return ["mentioned"] if f"@**{user.name}**" in said.text else []

    def _recipient(self, said: Said) -> str | list[dict[str, Any]]:
        if said.room is not None:
            return self.rooms[said.room].name
        people = [self.users[number] for number in said.people]
        return [{"id": p.id, "email": p.email, "full_name": p.name, "is_mirror_dummy": False} for p in people]

    def _shown_topic(self, said: Said) -> str:
        return GENERAL_CHAT if said.room is not None and not said.topic else said.topic

    def _empty(self, topic: str) -> str:
        return "" if self.level >= EMPTY_TOPICS and topic == GENERAL_CHAT else topic

    def _topic(self, topic: str) -> str:
        topic = topic.strip()
        bad = next((place for place, letter in enumerate(topic, 1) if ord(letter) < 0x20), None)
        if bad:
            raise Refusal(f"Invalid character in topic, at position {bad}!")
        if not topic and self.level < EMPTY_TOPICS:
            raise Refusal("Topic can't be empty!")
        return self._empty(_cut(topic, self.longest_topic, "..."))

    def _normalised(self, text: str) -> str:
        text = text.rstrip().lstrip("\n")
        if not text:
            raise Refusal("Message must not be empty")
        if "\x00" in text:
            raise Refusal("Message must not contain null bytes")
        return _cut(text, self.longest_message, CUT)

    def _take_id(self) -> int:
        number, self._next_message = self._next_message, self._next_message + 1
        return number

    def queue(
        self, user: User, kinds: Sequence[str], narrow: Sequence[Sequence[str]], *, public: bool, markdown: bool
    ) -> EventQueue:
        """Make an event queue."""
        made = EventQueue(str(uuid.uuid4()), user.id, kinds, narrow, public, markdown)
        self.queues[made.id] = made
        return made

    # The organisation of the samples

    def _seed(self) -> None:
        full = recorded("register_full_fetch")
        for record in full["cross_realm_bots"]:
            self._seed_user(record)
        for record in recorded("users_list")["members"]:
            self._seed_user(record)
        for record in recorded("streams_list")["streams"]:
            self.rooms[record["stream_id"]] = Room(record["stream_id"], record["name"], dict(record))
        # The next channel is the 25th: there were some that nobody sees.
        self.rooms[24] = Room(24, "core team", dict(record) | {"stream_id": 24, "name": "core team"}, private=True)
        iago, bot = self.user("Iago"), self.user("Zulip Default Bot")
        iago.profile = recorded("users_me")["profile_data"]
        bot.owner = recorded("users_me_bot")["bot_owner_id"]
        for user, subscribed in ((iago, recorded("subscriptions_list")), (bot, full)):
            for record in subscribed["subscriptions"]:
                if record["stream_id"] in self.rooms:
                    self.subscribe(user, self.rooms[record["stream_id"]])
        self._seed_messages()

    def _seed_user(self, record: Mapping[str, Any]) -> None:
        number = record["user_id"]
        self.users[number] = User(
            number, record["full_name"], record["email"], _key(number), dict(record), bot=record["is_bot"]
        )

    def _seed_messages(self) -> None:
        for told in recorded("messages_search")["messages"]:
            said = Said(
                told["id"],
                told["sender_id"],
                html.unescape(re.sub(r"<[^>]+>", "", told["content"])),
                told["timestamp"],
                told["stream_id"],
                told["subject"],
                received={user.id for user in self.users.values() if not user.bot},
                reactions=[(r["user_id"], r["emoji_name"]) for r in told["reactions"] if r["emoji_name"] in CODES],
            )
            said.versions.append((said.text, said.at))
            self.said[said.id] = said
        for name, newest in (("Zulip Default Bot", "users_me_bot"), ("Iago", "users_me")):
            number = recorded(newest)["max_message_id"]
            place = self.room("social")
            self.said[number] = Said(number, self.user("Desdemona").id, "Welcome!", 1795209992, place.id, "new here")
            self.said[number].received.add(self.user(name).id)
            self.said[number].versions.append(("Welcome!", 1795209992))


def rendered(text: str) -> str:
    """Return a text as HTML, roughly: tests look only at paragraphs, bold and code."""
    marked = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html.escape(text, quote=False))
    marked = re.sub(r"\*\*([^*\n]+)\*\*", r"<strong>\1</strong>", marked)
    return "\n".join(f"<p>{part}</p>" for part in re.split(r"\n{2,}", marked))


def moment(text: str) -> float:
    """Return a moment from ISO 8601."""
    return datetime.fromisoformat(text).timestamp()


def recorded(name: str) -> dict[str, Any]:
    """Return the body of a recorded reply."""
    reply = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))["response"]
    return dict(reply["body"])


def _group(
    number: int, name: str, members: Sequence[int], below: Sequence[int] = (), *, system: bool = False
) -> dict[str, Any]:
    """Return a group of users. Source: https://zulip.com/api/get-user-groups."""
    told = {"id": number, "name": name, "description": f"About {name}", "members": list(members)}
    return told | {"direct_subgroup_ids": list(below), "is_system_group": system}


def _key(number: int) -> str:
    return f"{number:032d}"


def _cut(text: str, longest: int, mark: str) -> str:
    return text if len(text) <= longest else text[: longest - len(mark)] + mark


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _read(text: str) -> str:
    """Return what a reader sees: without the words after a fence's mark."""
    return re.sub(r"(?m)^(```+|~~~+).*$", " ", text)


def _sought(query: str) -> list[str]:
    """Return the required words: unchanged, because only English ones are stemmed, and phrases in quotes."""
    phrases = re.findall(r'"([^"]+)"', query)
    words = re.findall(r"\w+", re.sub(r'"[^"]*"', " ", query).casefold())
    return [f" {_plain(phrase)} " for phrase in phrases] + [f" {word} " for word in words]
