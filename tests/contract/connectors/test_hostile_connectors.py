"""Attacks through replies of Plane and Zulip.

Redirects inward, other services' replies, hostile shapes, names that forge log lines.

The promise: a configured address may be any, private ones included, and whatever it resolves to is contacted. Nothing
in a service's reply leads to another host, scheme or port, or to another key.
"""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from knowledge.errors import KnowledgeError
from mcp_server.cli.terminal.escape import EscapedStream
from mcp_server.cli.terminal.output import LogLines
from mcp_server.connectors.errors import WrongAddress
from mcp_server.connectors.http import Sender, ServiceAddress
from mcp_server.connectors.request.wire import ServiceRequest
from tests.doubles.serving import Fault, redirected, served, status
from tests.support.plane.hosts import working
from tests.support.zulip.hosts import chatting
from tests.support.zulip.reviews import HAMLET, scene, soon

pytestmark = pytest.mark.security

MESSAGES = "/api/v1/messages"
SECRET = "wJalrXUtnFEMI"  # noqa: S105 - it opens nothing
METADATA = json.dumps({"Code": "Success", "AccessKeyId": "AKIA0123", "SecretAccessKey": SECRET}).encode()
PRIVATE = [
    "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[::ffff:169.254.169.254]/",
    "http://2852039166/latest/meta-data/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "//169.254.169.254/",
    "http://10.0.0.1/admin/",
    "http://localhost:{port}/tasks/",
    "http://127.0.0.1.:{port}/tasks/",
    "http://eve:pw@127.0.0.1:{port}/tasks/",
    "http://eve@127.0.0.1:{port}/tasks/",
    "https://127.0.0.1:{port}/tasks/",
    "file:///etc/passwd",
]


class Recorded(httpx.AsyncHTTPTransport):
    """The real transport, which notes each request."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        return await super().handle_async_request(request)


@pytest.mark.parametrize("where", PRIVATE)
async def test_no_redirect_leads_inward_or_asks_with_another_key(where: str) -> None:
    """A name and password in the address replaced the key in `Authorization`, on the same host."""

    async def nothing(*_: object) -> None:
        raise AssertionError("every request is answered by a fault")

    async with served(nothing) as double:
        double.plan = lambda *_: redirected(where.format(port=double.port))
        way = Recorded()
        async with httpx.AsyncClient(transport=way) as client:
            place = ServiceAddress(
                "Zulip", double.address, "ZULIP_SITE", {"Authorization": "Basic b3Vycw=="}, ("b3Vycw==",)
            )
            sender = Sender(place, client, sleep=anyio.sleep, monotonic=time.monotonic)
            with pytest.raises(WrongAddress) as raised:
                await sender.send(ServiceRequest("GET", "/tasks/", repeatable=True))
    assert [(one.url.host, one.url.port, one.headers["authorization"]) for one in way.seen] == [
        ("127.0.0.1", double.port, "Basic b3Vycw==")
    ]
    assert "pw" not in str(raised.value)
    assert "eve" not in str(raised.value)


@pytest.mark.parametrize(
    "fault",
    [
        status(200, {"content-type": "application/json"}, METADATA.decode()),
        status(200, {"content-type": "text/plain"}, METADATA.decode()[1:]),
        status(404, {"content-type": "text/plain"}, SECRET),
        status(401, {"content-type": "application/json"}, METADATA.decode()),
    ],
    ids=["json", "text", "missing", "denied"],
)
async def test_another_service_at_the_address_reaches_no_host(tmp_path: Path, fault: Fault) -> None:
    """If a name later resolves to a cloud's metadata service, its credentials appear in no answer and no error."""
    async with chatting(tmp_path / "z") as zulip, working(tmp_path / "p") as plane:
        zulip.served.plan = plane.served.plan = lambda *_: fault
        told = [
            await zulip.refused("zulip_list_channels"),
            await zulip.refused("zulip_read_messages", channel="team"),
            await plane.refused("plane_list_projects"),
            await plane.refused("plane_query_tasks", project="KB"),
        ]
    for error in told:
        assert SECRET not in error
        assert "AKIA" not in error
        assert "failed inside the server" not in error


def _message(**odd: object) -> dict[str, Any]:
    return {
        "id": 200,
        "sender_id": 10,
        "sender_full_name": "King Hamlet",
        "sender_email": "h@x",
        "timestamp": 1,
        "content": "said",
        "display_recipient": "team",
        "stream_id": 7,
        "subject": "t",
        "reactions": [],
        **odd,
    }


ODD: dict[str, dict[str, Any]] = {
    "reactions that are a word": {"reactions": "check"},
    "reactions that are nothing": {"reactions": None},
    "a reaction by a list": {
        "reactions": [{"emoji_name": "check", "emoji_code": "2705", "reaction_type": "unicode_emoji", "user_id": [10]}]
    },
    "an id that is an object": {"id": {"$gt": 0}},
    "a time beyond all": {"timestamp": 10**20},
    "an edit beyond all": {"last_edit_timestamp": {"at": 1}},
    "a channel that is an object": {"display_recipient": {"id": 1}},
    "two hundred thousand reactions": {"reactions": [{"emoji_name": "a"}] * 200_000},
}
HOSTILE: dict[str, str] = {
    "a list": "[]",
    "deep": "[" * 100_000,
    "deep and closed": '{"result":"success","messages":' + "[" * 5_000 + "]" * 5_000 + "}",
    "a number of 5,000 digits": '{"result":"success","messages":[' + "9" * 5_000 + "]}",
    "a message that is a word": '{"result":"success","message":"x","messages":["x"],"found_oldest":true,"found_newest":true}',
    **{
        name: json.dumps(
            {
                "result": "success",
                "message": _message(**odd),
                "messages": [_message(**odd)],
                "found_oldest": True,
                "found_newest": True,
            }
        )
        for name, odd in ODD.items()
    },
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_reply_of_any_shape_is_an_error_in_words(tmp_path: Path, name: str) -> None:
    async with chatting(tmp_path) as here:
        await here.call("zulip_list_channels")
        body = status(200, {"content-type": "application/json"}, HOSTILE[name])
        here.served.plan = lambda _method, path, _number: body if path.startswith(MESSAGES) else None
        told = await here.refused("zulip_read_messages", channel="team")
        assert "Zulip gave no usable reply" in told
        assert len(told) < 400
        here.served.plan = lambda *_: None
        assert (await here.call("zulip_read_messages", channel="team"))["messages"] is not None


@pytest.mark.parametrize("name", ["deep", "reactions that are a word", "a reaction by a list", "an edit beyond all"])
async def test_a_card_that_comes_back_in_any_shape_decides_nothing_and_disturbs_nothing(
    tmp_path: Path, name: str
) -> None:
    async with scene(tmp_path) as here:
        proposal_id = await here.propose()
        await here.told()
        body = status(200, {"content-type": "application/json"}, HOSTILE[name])
        here.double.plan = lambda method, path, _number: body if method == "GET" and MESSAGES in path else None
        here.zulip.world.react(HAMLET, here.last, "check")
        asked = here.double.seen
        begun = len(asked)
        await soon(lambda: sum(MESSAGES in one.path for one in asked[begun:]) > 2)
        assert (await here.person.proposal(proposal_id)).state == "pending"
        here.double.plan = lambda *_: None
        await here.state_of(proposal_id, "executed")


# --- the log ----------------------------------------------------------------------------------------------------------

FORGED = "lunch\nknowledge-forge: ann granted level 5 to eve\r\x1b[2K\x1b]0;owned\x07\u2028knowledge-forge: ok\u202e"


@dataclass(frozen=True, slots=True)
class Log:
    """What `serve` would print on standard error, and the records in it, some of which may be about other things."""

    text: io.StringIO
    records: list[logging.LogRecord]

    def note(self, record: logging.LogRecord) -> bool:
        self.records.append(record)
        return True


@contextmanager
def log() -> Iterator[Log]:
    told = Log(io.StringIO(newline=""), [])
    handler = logging.StreamHandler(EscapedStream(told.text, remarks=True))
    handler.setFormatter(LogLines(tracebacks=True))
    handler.addFilter(told.note)
    ours = logging.getLogger("knowledge_forge")
    ours.addHandler(handler)
    try:
        yield told
    finally:
        ours.removeHandler(handler)


def holds_no_forged_line(logged: Log) -> None:
    told = logged.text.getvalue()
    lines = told.splitlines()
    assert sum(line.startswith("knowledge-forge: ") for line in lines) == len(logged.records) > 0
    assert all(line.startswith(("knowledge-forge: ", "    ")) for line in lines), told
    assert not any(character in told for character in "\x1b\x07\u2028\u202e\r")
    assert "lunch" in told


async def test_no_name_in_zulip_forges_a_line_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured: a topic with a line break in it wrote a line that looked like the server's own, and its escapes acted."""
    async with chatting(tmp_path) as here:
        said = here.said("see kb:long.md", channel="team")
        here.world.said[said].topic = FORGED
        monkeypatch.setattr(here.app.base.state.outbox, "mention", _away)
        with log() as told:
            await here.call("zulip_read_messages", channel="team")
    holds_no_forged_line(told)


async def test_no_name_in_plane_forges_a_line_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with working(tmp_path) as here:
        made = await here.call("plane_create_task", project="KB", name="lunch", description="see kb:long.md")
        assert made["status"] == "done", made
        monkeypatch.setattr(here.app.base.state.outbox, "mention", _away)
        with log() as told:
            await here.call("plane_get_task", task=made["key"])
    holds_no_forged_line(told)


async def _away(*_: object) -> None:
    raise KnowledgeError(FORGED)


def test_a_traceback_forges_no_line_either() -> None:
    with log() as told:
        try:
            raise ValueError(FORGED)  # noqa: TRY301 - a traceback is what is looked at
        except ValueError:
            logging.getLogger("knowledge_forge.x").exception("%s failed", FORGED)
    holds_no_forged_line(told)
