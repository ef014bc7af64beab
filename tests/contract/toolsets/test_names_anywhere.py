"""Acts by 500 names: exact, in other case, without accents, near, renamed, private, homonyms. None is done at a place not named.

On the doubles, and on real servers that the environment names: see tests/contract/connectors/plane/test_client.py and
tests/support/zulip/servers.py. The second person, IAGO, must be an administrator there, to rename channels.
"""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pytest

from mcp_server.app.settings.settings import Settings
from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.plane import board
from mcp_server.connectors.plane import wire as plane_wire
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.connectors.zulip.model import ChatPlace
from tests.contract.toolsets.plane.test_write_tools_anywhere import AtPlane, host_of
from tests.support.hosts.writers import Refused, Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.zulip.servers import Ground, ground

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each act come long after the previous one: Plane's names are at most ten seconds old, and tests don't wait for that."""
    monkeypatch.setattr(board, "ACT_S", 0.0)
    monkeypatch.setattr(board, "AGED_S", 0.0)


ANYWHERE = ["double", pytest.param("real", marks=pytest.mark.external)]
ACCENTS = str.maketrans("éèêëáàâäåãçíìîïñóòôöõúùûüčšž", "eeeeaaaaaaciiiinooooouuuucsz")
NAMES = (
    "finance",
    "finance-public",
    "board-minutes",
    "board-minute",
    "Café Zürich",
    "cafe zurich",
    "señor",
    "release 1",
    "release 12",
    "Plan A",
    "Plan B",
    "ops/on-call",
    "design 🚀",
    "バス案内",
    "ハス案内",
    "ไม้สัก",
    "мой отдел",
    "мои отдел",
    "2026 Q3",
    "team.north",
    "team north-east",
    "Ärzte",
)
HALF = ("finance-public", "cafe zurich", "ハス案内", "board-minute", "мои отдел", "release 12")
"""Names that do not exist in one half of the tries, so that the other of the pair has to be told from them."""


def folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def meant(asked: str, names: Collection[str]) -> str | None:
    """Return the name that is meant; None if none is, or several may be. Written apart from the product's own rules."""
    fold = folded(asked)

    def lacks_accents(name: str) -> bool:
        letters = zip(fold, folded(name), strict=False)
        return len(fold) == len(folded(name)) and all(
            one in (other, other.translate(ACCENTS)) for one, other in letters
        )

    for found in (
        [name for name in names if name == asked.strip()],
        [name for name in names if folded(name) == fold],
        [name for name in names if lacks_accents(name)],
    ):
        if found:
            return found[0] if len(found) == 1 else None
    return None


def ways_to_write(name: str, draw: random.Random) -> Iterable[str]:
    """Yield how people write a name, rightly and nearly."""
    yield from (name, name.upper(), f"  {name} ", name.translate(ACCENTS), name.replace(" ", "  "))
    yield "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in name)
    at = draw.randrange(1, len(name))
    yield name[:at] + name[at + 1 :]
    yield name[:at] + name[at - 1] + name[at:]
    yield name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :]
    yield from (
        f"{name}s",
        f"the {name}",
        f"{name}-public",
        name[: len(name) // 2],
        name[: name.find("-")],
        name.partition(" ")[0],
    )
    yield from (name.replace("-", " "), name.replace(" ", "-"), name.replace("1", "2"), name.replace("a", "\u0430"))
    yield from (name.replace("e", "é", 1), name.replace("é", "è"), name.replace("u", "ü", 1), name.replace("バ", "パ"))
    yield from (name.replace("้", "่"), name.replace("й", "и"), name.replace("🚀", "").strip(), f"{name}\u200b")


def asked_for(names: Iterable[str], seed: int) -> list[str]:
    """Return the ways to write these names, each once."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    return list(dict.fromkeys(way for name in names for way in ways_to_write(name, draw) if way.strip()))


def test_there_are_500_names() -> None:
    """In two worlds: one without HALF of the pairs, and one with both of each."""
    few = [name for name in NAMES if name not in HALF]
    tries = [(way, meant(way, names)) for seed, names in ((1, few), (2, NAMES)) for way in asked_for(NAMES, seed)]
    assert len(tries) >= 500
    assert 150 < sum(wanted is not None for _, wanted in tries) < 350


# --- Zulip --------------------------------------------------------------------------------------------------------------


async def asked(
    client: ZulipClient, method: Literal["POST", "PATCH", "DELETE"], path: str, **form: str
) -> ServiceReply:
    """Return a reply to a request that our client never makes."""
    return await client._sender.send(ServiceRequest(method, f"/api/v1{path}", form=form))


@dataclass(frozen=True)
class Town:
    """A Zulip with channels of these tests, and a host that may act there."""

    place: Ground
    host: Writer
    admin: ZulipClient
    mark: str

    async def channel(self, name: str, *, private: bool = False) -> int:
        """Make a channel, with the bot unless it is private, and return its id."""
        me = [] if private else [(await self.place.client.me()).id]
        admin = await self.admin.me()
        reply = await asked(
            self.admin,
            "POST",
            "/users/me/subscriptions",
            subscriptions=json.dumps([{"name": name}]),
            principals=json.dumps([*me, admin.id]),
            invite_only=json.dumps(private),
            announce="false",
        )
        assert reply.status == 200, reply.body
        return next(one.id for one in await self.admin.channels() if one.name == name)

    async def newest(self) -> int:
        """Return the id of the bot's newest message anywhere."""
        window = await self.place.client.messages(ChatPlace(), before=1, sender=await self.place.client.me())
        return window.messages[-1].id if window.messages else 0

    async def send(self, **to: object) -> int | None:
        """Send a message through the tool and return its id; None if it was refused, and then nothing is anywhere."""
        before = await self.newest()
        try:
            sent = await self.host.call("zulip_send_message", text=f"to {to} {uuid4().hex}", **to)
        except Refused:
            assert await self.newest() == before, to
            return None
        (number,) = sent["message_ids"]
        assert (await self.newest(), sent["status"]) == (number, "done")
        return int(number)


@asynccontextmanager
async def town(kind: str, home: Path) -> AsyncIterator[Town]:
    """Yield a Zulip, and archive its channels of these tests afterwards."""
    async with ground("double-newer" if kind == "double" else kind) as place:
        if "Iago" not in place.people:
            pytest.skip("no people: see tests/support/zulip/servers.py")
        settings = Settings(
            kb=write(home / "kb", None),
            state_dir=home / "state",
            zulip_site=place.site,
            zulip_email=place.email,
            zulip_api_key=place.key,
        )
        mark = uuid4().hex[:6]
        admin = place.people["Iago"]
        async with writing(settings) as host:
            try:
                yield Town(place, host, admin, mark)
            finally:
                for channel in await admin.channels():
                    if mark in channel.name:
                        with suppress(ConnectorError):
                            await asked(admin, "DELETE", f"/streams/{channel.id}")


@pytest.mark.parametrize("kind", ANYWHERE)
async def test_a_message_goes_to_the_named_channel_or_nowhere(kind: str, tmp_path: Path) -> None:
    async with town(kind, tmp_path) as here:
        # All names of one test begin with its mark, so that no other channel has a similar name.
        names = {name: f"{here.mark} {name}" for name in NAMES}
        ids = {names[name]: await here.channel(names[name]) for name in NAMES if name not in HALF}
        await here.channel(f"{here.mark} board", private=True)
        done = 0
        for seed in (1, 2):
            for way in asked_for(NAMES, seed):
                wanted = meant(f"{here.mark} {way}", ids)
                number = await here.send(channel=f"{here.mark} {way}", topic=here.place.topic)
                assert (number is None) == (wanted is None), (way, wanted)
                if number is not None and wanted is not None:
                    message = await here.place.client.message(number)
                    assert (message.channel_id, message.topic) == (ids[wanted], here.place.topic), way
                    done += 1
            ids |= {names[name]: await here.channel(names[name]) for name in HALF if names[name] not in ids}
        assert done > 150


@pytest.mark.parametrize("kind", ANYWHERE)
async def test_a_renamed_channel_and_a_new_one_of_its_name_are_told_apart(kind: str, tmp_path: Path) -> None:
    """Looked up as Zulip has them at the act, although the names were read before."""
    async with town(kind, tmp_path) as here:
        for number in range(5):
            name, later = f"{here.mark} room {number}", f"{here.mark} hall {number}"
            old = await here.channel(name)
            assert await here.send(channel=name, topic=here.place.topic)
            reply = await asked(here.admin, "PATCH", f"/streams/{old}", new_name=later)
            assert reply.status == 200, reply.body
            assert await here.send(channel=name, topic=here.place.topic) is None
            new = await here.channel(name)
            for asked_name, wanted in ((name, new), (later, old), (str(old), old), (f"#**{name}**", new)):
                sent = await here.send(channel=asked_name, topic=here.place.topic)
                assert sent is not None
                assert (await here.place.client.message(sent)).channel_id == wanted


@pytest.mark.parametrize("kind", ANYWHERE)
async def test_a_message_goes_to_the_named_person_or_to_nobody(kind: str, tmp_path: Path) -> None:
    """Only the two people of the tests get any: their names, and everything near."""
    async with town(kind, tmp_path) as here:
        if here.place.zulip:
            for more in ("King Hamlet II", "Iago", "Jago", "Zoë Martin", "Zoe Martin", "バス", "ハス"):
                here.place.zulip.world.person(more, f"{uuid4().hex}@zulip.com")
        everybody = {one.id: one for one in await here.place.client.people() if one.active}
        two = [await client.me() for client in here.place.people.values()]
        done = 0
        for seed in (1, 2, 3):
            for way in asked_for([one.name for one in two], seed):
                names = [one.name for one in everybody.values()]
                wanted = meant(way, names)
                if wanted is not None and names.count(wanted) == 1 and wanted not in [one.name for one in two]:
                    continue  # by chance somebody else's name: they must not get a message from a test
                message_id = await here.send(people=[way])
                homonyms = wanted is not None and names.count(wanted) > 1
                assert (message_id is None) == (wanted is None or homonyms), (way, wanted)
                if message_id is not None:
                    message = await here.place.client.message(message_id)
                    me = await here.place.client.me()
                    (other,) = [one.id for one in message.people if one.id != me.id]
                    assert everybody[other].name == wanted
                    await asked(here.place.client, "DELETE", f"/messages/{message_id}")
                    done += 1
        assert done >= (6 if kind == "double" else 10)


@pytest.mark.parametrize("kind", ANYWHERE)
async def test_a_message_goes_to_the_topic_as_it_was_written(kind: str, tmp_path: Path) -> None:
    """A topic exists once somebody writes in it, so a near name is another topic."""
    async with town(kind, tmp_path) as here:
        channel = here.place.channel
        for way in asked_for([f"{here.place.topic} café", f"{here.place.topic} release 1"], 1):
            number = await here.send(channel=channel.name, topic=way)
            assert number is not None
            message = await here.place.client.message(number)
            assert (message.channel_id, message.topic) == (channel.id, " ".join(way.split())), way


# --- Plane --------------------------------------------------------------------------------------------------------------


async def sent(host: AtPlane, tool: str, **arguments: object) -> Mapping[str, Any] | None:
    """Return the answer of an act; None if it was refused."""
    try:
        return await host.call(tool, **arguments)
    except Refused:
        return None


@pytest.mark.parametrize("kind", ANYWHERE)
async def test_a_task_gets_the_named_state_and_label_or_none(kind: str, tmp_path: Path) -> None:
    async with host_of(kind, tmp_path) as host:
        here = host.here
        states: dict[str, str] = {}
        labels: dict[str, str] = {}

        async def make(names: Iterable[str]) -> None:
            for name in names:
                body = {"name": name, "color": "#112233"}
                states[name] = (await here.raw("/states/", {**body, "group": "started"}))["id"]
                labels[name] = (await here.raw("/labels/", body))["id"]

        await make(name for name in NAMES if name not in HALF)
        task = await here.made("Named")
        key = here.key_of(task)
        others = {one.name: one.id for one in (await here.plane.states(here.project.id)).items}
        done = 0
        for seed in (1, 2):
            for number, way in enumerate(asked_for(NAMES, seed)):
                before = await here.plane.task_by_key(key)
                if number % 2:
                    wanted = meant(way, {**others, **states})
                    answer = await sent(host, "plane_update_task", task=key, state=way)
                    after = (await here.plane.task_by_key(key)).state_id
                    expected = states[wanted] if wanted is not None else before.state_id
                else:
                    wanted = meant(way, labels)
                    answer = await sent(host, "plane_update_task", task=key, labels=[way])
                    after = ",".join((await here.plane.task_by_key(key)).label_ids)
                    expected = labels[wanted] if wanted is not None else ",".join(before.label_ids)
                assert after == expected, (way, wanted)
                assert (answer is None) == (wanted is None), (way, wanted, answer)
                done += answer is not None
            if seed == 1:
                await make(HALF)
        assert done > 150


@pytest.mark.parametrize("kind", ANYWHERE)
async def test_a_task_is_created_in_the_named_project_with_the_named_person_or_not_at_all(
    kind: str, tmp_path: Path
) -> None:
    async with host_of(kind, tmp_path) as host:
        here = host.here
        at = f"/api/v1/workspaces/{here.workspace}/projects/"
        projects = {here.project.name: here.project, here.project.key: here.project}
        mark = uuid4().hex[:6]
        made = []
        try:
            for number, name in enumerate(
                ("finance", "finance public", "Café Zürich", "バス案内", "ハス案内", "Plan A", "Plan B")
            ):
                body = {"name": f"{name} {mark}", "identifier": f"N{mark.upper()}{number}"[:9]}
                reply = await here.sender.send(ServiceRequest("POST", at, json=body))
                assert reply.status == 201, reply.body
                made.append(plane_wire.read_project(reply.body))
                projects |= {made[-1].name: made[-1], made[-1].key: made[-1]}
            total = 0
            for way in asked_for([name for name in projects if name != here.project.name], 1):
                wanted = meant(way, projects)
                answer = await sent(host, "plane_create_task", project=way, name=f"In {way} {uuid4().hex}")
                assert (answer is None) == (wanted is None), (way, wanted, answer)
                if answer is not None and wanted is not None:
                    total += 1
                    assert (await here.plane.task_by_key(answer["key"])).project_id == projects[wanted].id, way
            counts = [
                (await here.plane.tasks(one.id)).total for one in {one.id: one for one in projects.values()}.values()
            ]
            assert sum(count or 0 for count in counts) == total > 50
            # Renamed, and another one gets the old name: it was read before, and is looked up again for the act.
            first, second = made[:2]
            for own_id, name in ((first.id, f"moved {mark}"), (second.id, first.name)):
                reply = await here.sender.send(ServiceRequest("PATCH", f"{at}{own_id}/", json={"name": name}))
                assert reply.status == 200, reply.body
            renamed: dict[str, str | None] = {first.name: second.id, f"moved {mark}": first.id, second.name: None}
            for name, wanted_id in renamed.items():
                answer = await sent(host, "plane_create_task", project=name, name=f"After the change {name}")
                assert (answer and (await here.plane.task_by_key(answer["key"])).project_id) == wanted_id
            me = here.me
            for way in asked_for([me.name, me.email], 1):
                right = any(meant(way, [name]) for name in (me.name, me.full_name, me.email))
                answer = await sent(
                    host, "plane_create_task", project=here.project.key, name=f"For {uuid4().hex}", assignees=[way]
                )
                assert (answer is None) or right, (way, answer)
        finally:
            for one in made:
                await here.sender.send(ServiceRequest("DELETE", f"{at}{one.id}/"))
