"""The Zulip of the tests answers as the recorded one did.

Each recorded request is made again, in the recorded order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.doubles import zulip_world
from tests.doubles.zulip import Zulip
from tests.doubles.zulip_world import SAMPLES

NAMES = [line.split()[1] for line in (SAMPLES / "INDEX.txt").read_text(encoding="utf-8").splitlines()]
PEOPLE = {"iago": "Iago", "bot": "Zulip Default Bot", "hamlet": "King Hamlet", "cordelia": "Cordelia, Lear's daughter"}
OTHER_KEYS = {
    "err_bad_key_401": ("user29@zulipdev.com", "no-key"),
    "err_bad_key_valid_shape_401": ("user29@zulipdev.com", "a" * 32),
    "err_unknown_email_401": ("nobody@zulip.com", "a" * 32),
}
"""The samples lack the requests' bodies for these."""
WORLDLY = {"alert_words", "streams", "subscriptions", "never_subscribed", "members", "events"}
"""Lists that were longer in the recording; each entry of ours has the form of one of theirs."""
LONG_POLL = "events_longpoll_woken"


async def test_every_recorded_request_gets_its_recorded_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared are the status, the words of errors, and the form of everything."""
    # The recorder waited between its requests.
    monkeypatch.setattr(zulip_world, "LATE_S", 0.0)
    zulip = Zulip()
    replayed = _Replay(zulip)
    for name in NAMES:
        sample = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))
        if name == "err_429":
            zulip.world.exhausted[zulip.world.user(PEOPLE["cordelia"]).id] = 45.382803201675415
        asking = asyncio.create_task(replayed.reply(name, sample["request"]))
        if name == LONG_POLL:
            for _ in range(1_000):
                await asyncio.sleep(0)
                if zulip.waiting:
                    break
            zulip.world.say("King Hamlet", "kb-test", "indexing", "wake up long poll @**Zulip Default Bot**")
        reply = await asking
        recorded = sample["response"]
        assert reply.status_code == recorded["status"], f"{name}: {reply.text[:300]}"
        _same_headers(name, reply, recorded["headers"])
        if isinstance(recorded["body"], str):
            assert reply.text.startswith("<!DOCTYPE html>"), name
            continue
        _same(name, replayed.meant(reply.json()), recorded["body"])


class _Replay:
    """Makes recorded requests again, with the current ids."""

    def __init__(self, zulip: Zulip) -> None:
        self.zulip = zulip
        self.ids: dict[str, str] = {}
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app=zulip), base_url="http://zulip.test")

    async def reply(self, name: str, request: Mapping[str, Any]) -> httpx.Response:
        url, form = request["url"], request["form"]
        for then, now in self.ids.items():
            url = url.replace(then, now)
            form = json.loads(json.dumps(form).replace(then, now))
        headers = self._signed(name, request["as"])
        if name == "message_send_json_body":
            return await self.client.request(request["method"], url, headers=headers, json=form)
        sent = None if request["method"] == "GET" or form is None else {k: _field(v) for k, v in form.items()}
        if sent is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        content = urlencode(sent) if sent is not None else None
        reply = await self.client.request(request["method"], url, headers=headers, content=content)
        if name == "register_bot":
            then = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))["response"]["body"]["queue_id"]
            self.ids[then] = reply.json()["queue_id"]
        return reply

    def meant(self, body: Any) -> Any:
        """Return a body with the recorded queue's id."""
        text = json.dumps(body)
        for then, now in self.ids.items():
            text = text.replace(now, then)
        return json.loads(text)

    def _signed(self, name: str, who: str | None) -> dict[str, str]:
        if who is None:
            return {}
        if name == "err_bearer_401":
            return {"Authorization": "Bearer " + "a" * 32}
        user = self.zulip.world.user(PEOPLE[who])
        return {"Authorization": httpx.BasicAuth(*OTHER_KEYS.get(name, (user.email, user.key)))._auth_header}


def _field(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _same_headers(name: str, reply: httpx.Response, recorded: Mapping[str, str]) -> None:
    ours = {key.lower() for key in reply.headers}
    wanted = {key.lower(): value for key, value in recorded.items()}
    for key in ("www-authenticate", "retry-after", "allow"):
        assert (key in ours) == (key in wanted), f"{name}: {key}"
        assert reply.headers.get(key) == wanted.get(key), name
    if wanted.get("x-ratelimit-limit"):
        assert reply.headers["x-ratelimit-limit"] == wanted["x-ratelimit-limit"]
    assert reply.headers["content-type"].split(";")[0] == wanted["content-type"].split(";")[0], name


def _same(name: str, ours: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
    if recorded.get("result") == "error":
        assert ours == recorded, name
        return
    if name in EXACTLY:
        assert ours == recorded, name
    _same_form(name, ours, recorded)


EXACTLY = {
    "users_list",
    "streams_list",
    "users_me_bot",
    "user_by_id",
    "get_stream_id",
    "message_send_stream_bot",
    "message_send_stream_mention_bot",
    "message_send_direct",
    "message_send_too_long",
    "topics",
    "subscribe_create",
    "subscribe_bot",
    "stream_members",
    "reaction_add",
    "message_update",
    "messages_search_russian_other_form",
    "messages_private_stream_other_user",
    "queue_delete",
    "flags_update",
    "messages_render",
}
"""Replies that depend on nothing else."""
IDS_OF_MESSAGES = {"messages_get_newest", "messages_get_narrow_topic", "messages_search", "messages_search_russian"}


def _same_form(where: str, ours: Any, recorded: Any) -> None:
    if isinstance(recorded, Mapping):
        assert isinstance(ours, Mapping), where
        assert _names(where, ours) == _names(where, recorded), where
        for key, value in recorded.items():
            if key != "profile_data":
                _same_form(f"{where}.{key}", ours[key], value)
    elif isinstance(recorded, list):
        assert isinstance(ours, list), where
        assert bool(ours) == bool(recorded) or where.rsplit(".", 1)[-1] in ("flags", "reactions"), where
        if where in (f"{name}.messages" for name in IDS_OF_MESSAGES):
            assert [message["id"] for message in ours] == [message["id"] for message in recorded], where
            assert [message["subject"] for message in ours] == [message["subject"] for message in recorded], where
        for one in ours:
            _same_as_one(where, one, recorded)
    elif recorded is not None and ours is not None:
        assert type(ours) is type(recorded), f"{where}: {ours!r}, not {recorded!r}"


def _names(where: str, value: Mapping[str, Any]) -> set[str]:
    """Return the names in an object, without those that only tell the history of the recorded messages."""
    return set(value) - (
        {"last_edit_timestamp", "edit_history"} if ".messages" in where or ".message" in where else set()
    )


def _same_as_one(where: str, ours: Any, recorded: list[Any]) -> None:
    problems = []
    for one in recorded:
        try:
            _same_form(where, ours, one)
        except AssertionError as problem:
            problems.append(str(problem).splitlines()[0])
        else:
            return
    assert not recorded or not problems, f"{where}: {ours!r} is like none: {problems[:3]}"


@pytest.mark.parametrize("word", ["stream", "private"])
async def test_a_server_that_gave_up_the_old_words_refuses_them(word: str) -> None:
    """Nothing of ours may depend on names that newer servers call deprecated."""
    zulip = Zulip(469, modern=True)
    hamlet = zulip.world.user("King Hamlet")
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=zulip), base_url="http://zulip.test")
    auth = (hamlet.email, hamlet.key)
    sent = await client.post(
        "/api/v1/messages", data={"type": word, "to": "[7]", "topic": "a", "content": "b"}, auth=auth
    )
    assert (sent.status_code, sent.json()["msg"]) == (400, "Invalid type")
