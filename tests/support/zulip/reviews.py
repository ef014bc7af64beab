"""A host that proposes, a person who decides, and a Zulip for tests in which proposals are announced and answered by reactions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from knowledge.trust.ports import Proposal
from mcp_server.app.composition import App
from mcp_server.app.settings.services import ZulipAccess
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.zulip.notices import Pace, run
from tests.doubles.serving import Served, served
from tests.doubles.zulip import Zulip
from tests.support.hosts.reviewers import Reviewer, reviewing
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.zulip.servers import BOT, CHANNEL, zulip_of

PAGE = "guides/deploy.md"
TEXT = "# Deploying\n\nThe payment service is deployed with a canary first.\n"
TOPIC = "reviews"
HAMLET, IAGO, CORDELIA = "King Hamlet", "Iago", "Cordelia, Lear's daughter"
LISTED = ("hamlet@zulip.com",)
# The lease outlasts any stall of a busy machine: a server that ends gives it back, and a test that kills a server sets a shorter one.
QUICK = Pace(start=0.0, lease=60.0, renew=0.1, ask=0.02, retry=0.02, longest_retry=0.1, look=0.05, rest=0.01)
MESSAGES = "/api/v1/messages"
SOON_S = 60.0


@dataclass(frozen=True)
class Scene:
    """A host that may only propose, the person who decides, and the channel of the announcements."""

    host: Writer
    person: Reviewer
    zulip: Zulip
    double: Served
    access: ZulipAccess

    @property
    def notices(self) -> list[str]:
        """Return the notices, oldest first."""
        return self.zulip.world.texts(CHANNEL, TOPIC)

    @property
    def last(self) -> int:
        """Return the newest notice's id."""
        room = self.zulip.world.room(CHANNEL).id
        return max(said.id for said in self.zulip.world.said.values() if said.room == room and said.topic == TOPIC)

    async def propose(self, word: str = "blue-green step", path: str = PAGE) -> str:
        """Have the host propose a change and return the proposal's id."""
        answer = await self.host.merge(path, TEXT.replace("canary", word), base_revision=await self._base(path))
        assert answer["status"] == "proposed"
        return str(answer["proposal"]["id"])

    async def _base(self, path: str) -> str | None:
        return await self.host.revision(path) if (self.host.root / path).exists() else None

    async def told(self, count: int = 1) -> list[str]:
        """Return the notices once there are `count` of them."""
        await soon(lambda: len(self.notices) >= count)
        return self.notices

    async def looked_at(self) -> None:
        """Return once all present reactions were checked: one check may already be in progress."""
        looks = self.double.count("GET", MESSAGES)
        await soon(lambda: self.double.count("GET", MESSAGES) > looks + 2)

    async def begins(self, number: int, words: str) -> None:
        """Return once a notice begins with these words."""
        await soon(lambda: self.notices[number].startswith(words))

    async def state_of(self, proposal_id: str, *states: str) -> Proposal:
        """Return the proposal once it is in one of these states."""

        async def there() -> bool:
            return (await self.person.proposal(proposal_id)).state in states

        await soon(there)
        return await self.person.proposal(proposal_id)


async def soon(true: Callable[[], bool | Awaitable[bool]], every_s: float = 0.01) -> None:
    """Return once the condition holds; it is looked at every `every_s` seconds."""
    deadline = anyio.current_time() + SOON_S
    while anyio.current_time() < deadline:
        so = true()
        if so if isinstance(so, bool) else await so:
            return
        await anyio.sleep(every_s)
    raise AssertionError(f"it did not come about within {SOON_S:.0f} s")


def configured(root: Path, address: str, user: str, zulip: Zulip) -> Settings:
    """Return the settings of a server that may use that user's key."""
    account = zulip.world.user(user)
    return Settings(
        kb=write(root / "kb", {PAGE: TEXT}),
        state_dir=root / "s",
        zulip_site=address,
        zulip_email=account.email,
        zulip_api_key=account.key,
        zulip_read_only=False,
    )


@asynccontextmanager
async def scene(
    root: Path,
    *,
    level: float = 2,
    reviewers: tuple[str, ...] = LISTED,
    user: str = BOT,
    telling: bool = True,
    look_s: float = 0.05,
    pace: Pace | None = None,
    kind: str = "double-newer",
) -> AsyncIterator[Scene]:
    """Yield a host that proposes and a server that announces it."""
    zulip = zulip_of(kind, heartbeat_s=0.5)
    async with served(zulip) as double:
        settings = configured(root, double.address, user, zulip)
        async with (
            writing(settings, level=level) as host,
            reviewing(settings) as person,
            anyio.create_task_group() as tasks,
        ):
            known = settings.zulip
            assert known is not None
            access = replace(known, reviews=(CHANNEL, TOPIC), reviewers=reviewers)
            if telling:
                tasks.start_soon(told_by(person.app, access, pace or replace(QUICK, look=look_s)))
            yield Scene(host, person, zulip, double, access)
            tasks.cancel_scope.cancel()


def told_by(app: App, access: ZulipAccess, pace: Pace = QUICK) -> Callable[[], Any]:
    """Return a task that announces that server's proposals."""

    async def tell() -> None:
        await run(app.services, app.approvals, access, pace=pace)

    return tell
