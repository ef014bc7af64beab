"""A scripted agent with a shell, under the person's own account.

No effect of level 4 or above once a passkey is registered.

It has everything that the account has: the command line, a pseudo-terminal, the page with a login link, and another
host's secret. It lacks only the device. Editing `state.db` by hand is out of reach (kb/guides/trust.md), and `audit
verify` shows it (test_trust_cli.py).
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.client.stdio import stdio_client
from mcp_types import ElicitRequestParams, ElicitResult, TextContent

from knowledge.history.audit.chain import fields_of
from knowledge.history.audit.inspection import records_of
from knowledge.state.ports import StateStore
from mcp_server.app.knowledge_base import open_state
from tests.support.hosts.persons import ME, Person
from tests.support.knowledge_bases.folders import write
from tests.support.web.passkeys import SoftPasskey
from tests.support.web.review_pages import Visitor, forms

ONBOARDING, DEPLOY = "guides/onboarding.md", "guides/deploy.md"
LINK = re.compile(r"(http://localhost:\d+)(/login/\S+)")
SIGN = re.compile(r"sign (p-\w+) ")

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")


@dataclass(frozen=True)
class Effects:
    """Everything that an act of level 4 or an act on trust could leave behind."""

    files: Mapping[str, bytes]
    acts: list[tuple[str, str]]
    trust_records: Mapping[str, tuple[float, float, bool]]
    hosts: Mapping[str, tuple[bytes, bool]]
    passkeys: list[bytes]


@dataclass(frozen=True)
class Agent:
    """A program with a shell. `stolen` is the secret of a host of level 3, from that host's configuration."""

    person: Person
    stolen: str
    page: Visitor

    async def effects(self) -> Effects:
        async with open_state(self.person.settings) as state:
            return Effects(
                {str(f.relative_to(self.person.kb)): f.read_bytes() for f in self.person.kb.rglob("*") if f.is_file()},
                await _acts(state),
                {s.principal: (s.floor, s.ceiling, s.frozen) for s in await state.trust_records()},
                {e.host: (e.secret_digest, e.forms) for e in await state.enrolments()},
                [key.id for key in await state.trust.passkeys()],
            )

    async def hash_of(self, proposal_id: str) -> str:
        async with open_state(self.person.settings) as state:
            found = await state.trust.proposal(proposal_id)
            assert found is not None
            return found.hash

    async def states(self) -> Mapping[str, str]:
        async with open_state(self.person.settings) as state:
            return {one.id: one.state for one in await state.trust.proposals()}

    @asynccontextmanager
    async def host(self, *, obliging: bool = False) -> AsyncIterator[Client]:
        """Pose as the other host: a real server process with its secret. `obliging` accepts every form by itself."""
        env = {**self.person.env, "FORGE_ENROLMENT": self.stolen}
        words = ["-m", "mcp_server", *self.person.words("serve")]
        server = StdioServerParameters(command=sys.executable, args=words, env=env)
        callback = _yes if obliging else None
        async with Client(stdio_client(server), elicitation_callback=callback) as client:
            yield client

    async def delete(self, path: str, *, obliging: bool = False) -> dict[str, Any]:
        async with self.host(obliging=obliging) as client:
            read = await called(client, "kb_read", path=path)
            return await called(client, "kb_delete", path=path, base_revision=read["revision"])


async def _yes(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    del context, params
    return ElicitResult(action="accept", content={"decision": "approve"})


async def _acts(state: StateStore) -> list[tuple[str, str]]:
    fields = [fields_of(record) or {} async for record in records_of(state.ledger)]
    return [(str(f["tool"]), str(f["outcome"])) for f in fields if f.get("changes")]


async def called(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, dict(arguments))
    assert isinstance(result.content[0], TextContent)
    assert not result.is_error, result.content[0].text
    return dict(result.structured_content or {})


@contextmanager
def page_of(person: Person) -> Iterator[tuple[str, str]]:
    """Serve the page in a process, and yield its address and a login link as the terminal prints it."""
    with person.start("review", "--web") as process:
        try:
            assert process.stdout is not None
            found = next(found for line in process.stdout if (found := LINK.search(line)))
            yield found.group(1), found.group(2)
        finally:
            process.kill()
            process.communicate()


@asynccontextmanager
async def shell(folder: Path) -> AsyncIterator[Agent]:
    """Give a program the account of a person with a host of level 3, a frozen host, and no passkey yet."""
    person = Person(folder)
    write(person.kb)
    stolen = json.loads(person.run("enroll", "cursor", "--allow-forms", "--json").stdout)["FORGE_ENROLMENT"]
    assert person.run("trust", "grant", "cursor", "3").returncode == 0
    assert person.run("enroll", "rogue").returncode == 0
    assert person.run("trust", "freeze", "rogue").returncode == 0
    with page_of(person) as (address, link):
        async with httpx.AsyncClient(base_url=address, follow_redirects=True, timeout=60) as http:
            page = Visitor(http, address)
            await page.look(link)
            await page.send("/login")
            assert page.status == 200
            yield Agent(person, stolen, page)


async def enrol(page: Visitor, key: SoftPasskey) -> None:
    """Do what the browser of someone with this device does on the passkey page."""
    await page.look("/passkeys")
    await page.send("/passkeys/new", name=key.name)
    challenge = forms(page.html)["/passkeys"]["challenge"]
    made = key.registration(base64.urlsafe_b64decode(challenge + "=" * (-len(challenge) % 4)), page.address)
    await page.send("/passkeys", credential=json.dumps(made))


async def approve(page: Visitor, proposal_id: str, assertion: object = None) -> int:
    """Send the page's form; without an assertion, as a browser without the device would."""
    await page.look(f"/proposals/{proposal_id}")
    signed = "" if assertion is None else json.dumps(assertion)
    await page.send(f"/proposals/{proposal_id}/approve", assertion=signed)
    return page.status


def here(page: Visitor) -> str:
    """Return the proposal shown on the page."""
    found = re.search(r'data-proposal="(p-\w+)"', page.html)
    assert found is not None, page.html
    return found.group(1)


@pytest.mark.external
async def test_a_program_of_the_same_account_has_no_effect_of_level_4_once_a_passkey_is_enrolled(
    tmp_path: Path,
) -> None:
    owner = SoftPasskey()
    async with shell(tmp_path) as agent:
        await enrol(agent.page, owner)
        wanted, other = (await agent.delete(ONBOARDING), await agent.delete(DEPLOY))
        assert (wanted["status"], other["status"]) == ("proposed", "proposed")
        waiting, signed = wanted["proposal"]["id"], other["proposal"]["id"]
        before, decided = await agent.effects(), await agent.states()
        assert before.passkeys == [owner.id]

        await with_the_secret_of_another_host(agent)
        by_the_command_line(agent.person, waiting, await agent.hash_of(waiting))
        by_typing_into_a_terminal(agent.person, waiting, await agent.hash_of(waiting))
        await on_the_page_without_the_device(agent, waiting, signed, owner)
        assert await agent.effects() == before
        after = await agent.states()
        assert {state for one, state in after.items() if decided.get(one) != state} <= {
            "pending",
            "withdrawn",
            "superseded",
        }

        assertion = owner.assertion(bytes.fromhex(await agent.hash_of(waiting)), agent.page.address)
        assert await approve(agent.page, waiting, assertion) == 200
        done = await agent.effects()
        assert done.acts == [*before.acts, ("kb_delete", "done")], "the owner's finger is all that was missing"
        assert done.files.keys() == before.files.keys() - {ONBOARDING}


@pytest.mark.external
async def test_a_signature_counts_for_one_proposal_even_if_the_same_is_proposed_again(tmp_path: Path) -> None:
    """Someone may have kept it, and many passkeys don't count their uses, so a counter proves nothing."""
    owner = SoftPasskey(counts=False)
    async with shell(tmp_path) as agent:
        await enrol(agent.page, owner)
        text = (agent.person.kb / ONBOARDING).read_bytes()
        first = (await agent.delete(ONBOARDING))["proposal"]["id"]
        assertion = owner.assertion(bytes.fromhex(await agent.hash_of(first)), agent.page.address)
        assert await approve(agent.page, first, assertion) == 200
        (agent.person.kb / ONBOARDING).write_bytes(text)
        second = (await agent.delete(ONBOARDING))["proposal"]["id"]
        assert await approve(agent.page, second, assertion) == 409
        assert (agent.person.kb / ONBOARDING).read_bytes() == text
        assertion = owner.assertion(bytes.fromhex(await agent.hash_of(second)), agent.page.address)
        assert await approve(agent.page, second, assertion) == 200


@pytest.mark.external
async def test_without_a_passkey_the_same_program_may_do_all_that(tmp_path: Path) -> None:
    """The acts that the test above rules out are possible, and called advisory, without a passkey."""
    async with shell(tmp_path) as agent:
        wanted, other = (await agent.delete(ONBOARDING), await agent.delete(DEPLOY))
        assert await approve(agent.page, wanted["proposal"]["id"]) == 200
        digest = await agent.hash_of(other["proposal"]["id"])
        with agent.person.at("review", "--approve", other["proposal"]["id"], "--hash", digest) as screen:
            screen.until("to approve type")
            screen.type(f"{digest[:6]}\n")
            assert screen.left() == 0
        assert agent.person.run("trust", "grant", "cursor", "4").returncode == 0
        done = await agent.effects()
        assert done.acts == [("kb_delete", "done")] * 2
        assert done.trust_records[f"{ME}@cursor"][0] == 4
        assert (await agent.delete("long.md"))["status"] == "done"


async def with_the_secret_of_another_host(agent: Agent) -> None:
    """Call the tool again, from a host that accepts every form by itself: the same call waits once."""
    again = await agent.delete(ONBOARDING, obliging=True)
    assert again["status"] == "proposed"


def by_the_command_line(person: Person, waiting: str, digest: str) -> None:
    """Run every verb that decides or that acts on trust, without and with a terminal."""
    assert person.run("review", "--approve", waiting, "--hash", digest).returncode == 1
    verbs = (
        ["trust", "grant", "cursor", "5"],
        ["trust", "grant", f"{ME}@*", "5"],
        ["trust", "thaw", "rogue"],
        ["enroll", "cursor"],
        ["enroll", "fresh"],
        ["install", "cursor", "--yes-edit"],
    )
    for words in verbs:
        with person.start(words[0], *words[1:]) as process:
            assert process.stderr is not None
            assert SIGN.search(process.stderr.readline())
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
            assert (process.returncode, out) == (130, "")
    with person.at(*verbs[0]) as screen:
        screen.until("sign p-")
        screen.type(f"y\n{digest[:6]}\n")
    assert not (person.folder / ".cursor").exists()


def by_typing_into_a_terminal(person: Person, waiting: str, digest: str) -> None:
    """Use `review` as a person would.

    Open everything that waits, read it to its end, and approve it as far as possible.
    """
    with person.at("review", "--approve", waiting, "--hash", digest) as screen:
        screen.until("not approved: this needs a passkey")
        assert screen.left() == 1
    with person.at("review") as screen:
        found = re.search(r"(\d+) waiting", screen.until(" waiting for a person"))
        assert found is not None
        screen.type("\r")
        for number in range(1, int(found.group(1)) + 1):
            screen.until(f"{number} of {found.group(1)}")
            screen.type("a")
            screen.until("not approved: this needs a passkey")
            # Nothing asks for the hash, so its letters would be keys, such as c for a request for changes.
            screen.type("".join(sign for sign in digest[:6] if sign.isdecimal()) + "\n")
            screen.type("n")
        screen.type("q")
        assert screen.left() == 0


async def on_the_page_without_the_device(agent: Agent, waiting: str, signed: str, owner: SoftPasskey) -> None:
    """With a session: approve unsigned and with forged signatures, and try to become a signer."""
    page, challenge = agent.page, bytes.fromhex(await agent.hash_of(waiting))
    own = SoftPasskey("mine")
    forged: list[object] = [
        None,
        {},
        own.assertion(challenge, page.address),
        replace(own, id=owner.id).assertion(challenge, page.address),
        owner.assertion(bytes.fromhex(await agent.hash_of(signed)), page.address),
        owner.assertion(challenge, "http://localhost:1"),
        owner.assertion(challenge, page.address, rp_id="evil.example"),
    ]
    assert {await approve(page, waiting, one) for one in forged} == {409}

    await page.look(f"/trust/host?principal={ME}@cursor")
    await page.send("/trust/grant", level="5")
    assert await approve(page, here(page)) == 409
    await page.look(f"/trust/host?principal={ME}@rogue")
    await page.send("/trust/thaw")
    assert await approve(page, here(page)) == 409
    await enrol(page, own)
    adding = here(page)
    mine = own.assertion(bytes.fromhex(await agent.hash_of(adding)), page.address)
    assert await approve(page, adding, mine) == 409
    await page.look("/passkeys")
    await page.send("/passkeys/remove")
    assert await approve(page, here(page)) == 409
    await page.look(f"/proposals/{signed}/edit")
    await page.send(f"/proposals/{signed}/edit")
    assert await approve(page, here(page)) == 409
