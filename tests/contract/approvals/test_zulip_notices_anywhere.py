"""Proposals announced in Zulip and decided by reactions, on the double and on a real server.

Everything is read and written over the API, with the keys of the bot and of two people: see tests/support/zulip/servers.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_server.app.settings.services import ZulipAccess
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.zulip.notices import Pace
from mcp_server.connectors.request.wire import ServiceRequest
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.connectors.zulip.model import ChatPlace, Message
from tests.support.hosts.reviewers import Reviewer, reviewing
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.zulip.reviews import HAMLET, IAGO, PAGE, TEXT, soon, told_by
from tests.support.zulip.servers import ALL, Ground, ground

PACE = Pace(start=0.0, lease=60.0, renew=0.5, ask=0.1, retry=0.2, longest_retry=1.0, look=1.0, rest=0.05)
"""Seldom enough for a server that allows an account 200 requests a minute."""
RARELY_S = 0.2


@dataclass(frozen=True)
class Scene:
    """A host that may only propose, the person who decides, and the place of the announcements."""

    place: Ground
    host: Writer
    person: Reviewer
    access: ZulipAccess

    async def propose(self, word: str, path: str = PAGE) -> str:
        """Have the host propose a change and return the proposal's id."""
        base = await self.host.revision(path) if (self.host.root / path).exists() else None
        answer = await self.host.merge(path, TEXT.replace("canary", word), base_revision=base)
        assert answer["status"] == "proposed"
        return str(answer["proposal"]["id"])

    async def notices(self, count: int, *starts: str) -> list[Message]:
        """Return the notices once there are `count` of them and they begin with these words."""
        found: list[Message] = []

        async def there() -> bool:
            where = ChatPlace(self.place.channel, self.place.topic)
            found[:] = (await self.place.client.messages(where, before=50)).messages
            begun = zip(found, starts, strict=False)
            return len(found) >= count and all(one.text.startswith(start) for one, start in begun)

        await soon(there, RARELY_S)
        return found

    def react(self, name: str) -> ZulipClient:
        """Return the client of one of the people."""
        return self.place.people[name]

    async def ends(self, proposal_id: str) -> str:
        """Return the state of a proposal once it is decided and carried out."""

        async def ended() -> bool:
            return (await self.person.proposal(proposal_id)).state not in ("pending", "approved")

        await soon(ended)
        return (await self.person.proposal(proposal_id)).state


@asynccontextmanager
async def scene(
    kind: str, root: Path, *, listed: tuple[str, ...] = (HAMLET,), telling: bool = True
) -> AsyncIterator[Scene]:
    """Yield a host that proposes and, if `telling`, a server that announces it."""
    async with ground(kind) as place:
        if set(place.people) < {HAMLET, IAGO}:
            pytest.skip(
                "no people: FORGE_TEST_ZULIP_HAMLET_EMAIL and _KEY, FORGE_TEST_ZULIP_IAGO_EMAIL and _KEY are not set"
            )
        ids = {name: (await client.me()).id for name, client in place.people.items()}
        # As the bot sees them, which may be other addresses than those with which people sign in.
        addresses = {one.id: one.email for one in await place.client.people()}
        settings = Settings(
            kb=write(root / "kb", {PAGE: TEXT}),
            state_dir=root / "s",
            zulip_site=place.site,
            zulip_email=place.email,
            zulip_api_key=place.key,
        )
        async with (
            writing(settings, level=2) as host,
            reviewing(settings) as person,
            anyio.create_task_group() as tasks,
        ):
            known = settings.zulip
            assert known is not None
            reviewers = tuple(addresses[ids[name]] for name in listed)
            access = replace(known, reviews=(place.channel.name, place.topic), reviewers=reviewers)
            if telling:
                tasks.start_soon(told_by(person.app, access, PACE))
            yield Scene(place, host, person, access)
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("kind", ALL)
async def test_listed_people_decide_by_reactions_and_the_notice_says_how_it_ended(kind: str, tmp_path: Path) -> None:
    """Strangers, the bot itself and other emoji decide nothing; a rejection outweighs an approval."""
    async with scene(kind, tmp_path) as here:
        first = await here.propose("first", "notes/1.md")
        (notice,) = await here.notices(1)
        assert f"`{first}`" in notice.text
        assert "canary" not in notice.text
        await here.react(IAGO).react(notice.id, "check")
        await here.place.client.react(notice.id, "check")
        await here.react(HAMLET).react(notice.id, "eyes")
        second = await here.propose("second", "notes/2.md")
        _, notice = await here.notices(2)
        await here.react(HAMLET).react(notice.id, "thumbs_up")
        assert await here.ends(second) == "executed"
        assert (await here.person.proposal(first)).state == "pending"
        third = await here.propose("third", "notes/3.md")
        *_, notice = await here.notices(3)
        await here.react(HAMLET).react(notice.id, "cross_mark")
        assert await here.ends(third) == "rejected"
        starts = ("**Waiting for approval**", "**Approved and applied**", "**Rejected**")
        shown = await here.notices(3, *starts)
        assert [f"`{one}`" in said.text for one, said in zip((first, second, third), shown, strict=True)] == [True] * 3


@pytest.mark.parametrize("kind", ALL)
async def test_a_rejection_outweighs_an_approval_that_waited_for_it(kind: str, tmp_path: Path) -> None:
    """Both are there when a server looks."""
    async with scene(kind, tmp_path, listed=(HAMLET, IAGO), telling=False) as here:
        proposal_id = await here.propose("word")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told_by(here.person.app, here.access, PACE))
            (notice,) = await here.notices(1)
            tasks.cancel_scope.cancel()
        await here.react(IAGO).react(notice.id, "check")
        await here.react(HAMLET).react(notice.id, "cross_mark")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told_by(here.host.app, here.access, PACE))
            assert await here.ends(proposal_id) == "rejected"
            await here.notices(1, "**Rejected**")
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("kind", ALL)
async def test_several_servers_and_their_successors_tell_each_proposal_once(kind: str, tmp_path: Path) -> None:
    """One of them at a time, by lease; what arrives in between is told by the next one."""
    async with scene(kind, tmp_path, telling=False) as here:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told_by(here.person.app, here.access, PACE))
            tasks.start_soon(told_by(here.host.app, here.access, PACE))
            ids = [await here.propose(f"word {number}", f"notes/{number}.md") for number in range(3)]
            await here.notices(3)
            tasks.cancel_scope.cancel()
        ids.append(await here.propose("later", "notes/later.md"))
        await here.person.reject(ids[0])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told_by(here.host.app, here.access, PACE))
            shown = await here.notices(4, "**Rejected**")
            tasks.cancel_scope.cancel()
        assert [f"`{one}`" in said.text for one, said in zip(ids, shown, strict=True)] == [True] * 4


@pytest.mark.parametrize("kind", ALL)
async def test_a_notice_that_somebody_moved_is_no_longer_decided_by_reactions(kind: str, tmp_path: Path) -> None:
    """Somebody might have made it look like another one."""
    async with scene(kind, tmp_path) as here:
        proposal_id = await here.propose("word")
        (notice,) = await here.notices(1)
        moved: dict[str, Any] = {"topic": f"{here.place.topic} elsewhere"}
        await patched(here.place.client, notice.id, moved)
        await here.react(HAMLET).react(notice.id, "check")

        async def told() -> bool:
            return "no longer decide it" in (await here.place.client.message(notice.id)).text

        await soon(told, RARELY_S)
        assert (await here.person.proposal(proposal_id)).state == "pending"


async def patched(client: ZulipClient, message_id: int, form: dict[str, Any]) -> None:
    """Change a message as our client never does."""
    request = ServiceRequest("PATCH", f"/api/v1/messages/{message_id}", form=form)
    await client._sender.send(request)
