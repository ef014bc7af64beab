"""Permissions of unregistered hosts, callers over HTTP without a token, and clients that answer forms by themselves.

The handbook has the table; each of its rows is driven here through real clients of every kind that has a column.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitResult,
    Implementation,
    InputRequiredResult,
    InputResponses,
    PromptReference,
    ResourceTemplateReference,
)

from knowledge.state.sqlite.database import load_schema
from knowledge.state.sqlite.store import APPLICATION_ID
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from mcp_server.gate.host_registration import TOKENLESS, UNENROLLED, Principal, os_user
from mcp_server.gate.trust.scores import BadGrant, freeze, grant
from mcp_server.protocol.calls.host_questions import QUESTION
from tests.contract.gate.test_trust_gradient import ERAS, ROOT, Forms, serving
from tests.doubles.provider_turns import said
from tests.support.agents.small_agents import Only, noting
from tests.support.hosts.reviewers import reviewing
from tests.support.hosts.task_clients import accepting
from tests.support.hosts.task_servers import NOTE, UNKNOWN, asks, place
from tests.support.hosts.writers import Refused, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.runs.hosts import run_host
from tests.support.webhook.hosts import sending
from tests.support.zulip.hosts import at_once

HANDBOOK = ROOT / "kb" / "concepts" / "principals-and-enrolment.md"
ME = os_user()
PAGES = {"page.md": "# Page\n\nFirst.\n"}
ANN = Approver("ann", "page")
TWO = {"notes": [{"id": "1", "text": "first"}, {"id": "2", "text": "second"}]}
STDIO, HTTP, REGISTERED, ALLOWED = "Not registered, stdio", "HTTP, no token", "Registered", "Registered, forms allowed"
COLUMNS = (STDIO, HTTP, REGISTERED, ALLOWED)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state", open_browser=False)


@asynccontextmanager
async def stranger(settings: Settings, transport: str, era: str, forms: Forms | None = None) -> AsyncIterator[Client]:
    """Connect without a secret: to a separate server process over stdio, or to one over HTTP."""
    if transport == "http":
        async with serving(settings) as address, tokenless(str(address), era, forms) as client:
            yield client
        return
    words = ["-m", "mcp_server", "serve", "--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("FORGE_")}
    server = StdioServerParameters(command=sys.executable, args=words, env={**env, "FORGE_OPEN_BROWSER": "0"}, cwd=ROOT)
    async with Client(stdio_client(server), mode=era, elicitation_callback=forms) as client:
        yield client


@asynccontextmanager
async def tokenless(
    address: str, era: str = "auto", forms: Forms | None = None, name: str = "client"
) -> AsyncIterator[Client]:
    async with create_mcp_http_client() as http:
        wire = streamable_http_client(f"http://{address}/mcp", http_client=http)
        about = Implementation(name=name, version="1")
        async with Client(wire, mode=era, elicitation_callback=forms, client_info=about) as client:
            yield client


async def call(client: Client, tool: str, /, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, dict(arguments))
    text = result.content[0].model_dump()["text"]
    if result.is_error:
        raise Refused(text)
    return dict(result.structured_content or {})


@pytest.mark.parametrize(
    ("transport", "era"),
    [
        ("stdio", "auto"),
        ("http", "auto"),
        ("http", "legacy"),
        pytest.param("stdio", "legacy", marks=pytest.mark.external),
    ],
)
async def test_an_unregistered_client_approves_nothing_by_its_own_form(
    settings: Settings, transport: str, era: str
) -> None:
    """The exploit: declare elicitation, call a tool of level 3, accept the returned form."""
    forms = Forms()
    async with stranger(settings, transport, era, forms) as client:
        answer = await call(client, "kb_merge", path="own.md", content="# Mine\n")
        read = await call(client, "kb_read", path="page.md")
        more = await call(
            client, "kb_merge", path="page.md", content="# Page\n\nGone.\n", base_revision=read["revision"]
        )
        journey = await call(client, "journey_start", agent="research", brief="bees")
    assert (answer["status"], more["status"]) == ("proposed", "proposed")
    assert not forms.seen
    assert {file.name: file.read_text(encoding="utf-8") for file in settings.kb.glob("*.md")} == PAGES
    assert len(journey["journey_id"].rpartition("-")[2]) == 20  # 80 bits: nobody guesses a handle
    async with open_state(settings) as state:
        waiting = await state.trust.proposals(states=("pending",))
        assert [one.verdict for one in waiting] == [None, None]
        assert {one.principal for one in waiting} == {f"{ME}@{UNENROLLED if transport == 'stdio' else TOKENLESS}"}


@pytest.mark.parametrize("era", ERAS)
async def test_two_clients_without_a_token_share_trust_and_neither_advice_nor_repeated_calls(
    tmp_path: Path, era: str
) -> None:
    """Decision 85: before, the second was told that its call was done, and got no advice about a map that the first had seen."""
    event = {"target": "releases", "event": "release.published", "text": "Version 2 is out."}
    async with (
        sending(tmp_path) as host,
        reviewing(host.settings) as person,
        serving(replace(host.settings, enrolment=None), sleep=at_once, announcing=False) as address,
        tokenless(str(address), era, name="one") as one,
        # Sessions tell two clients of one name apart.
        tokenless(str(address), era, name="one" if era == "legacy" else "two") as two,
    ):
        await call(one, "kb_map", path="")
        nudged = [(await call(client, "kb_search", query="guide"))["nudge"] for client in (one, two)]
        assert (nudged[0], "kb_map('')" in (nudged[1] or "")) == (None, True)

        assert (await call(one, "webhook_send", **event))["status"] == "proposed"
        first = await person.only()
        await person.approve(first.id)
        again, other = [await call(client, "webhook_send", **event) for client in (one, two)]
        assert (again["status"], "was approved on" in again["note"]) == ("unchanged", True)
        assert other["status"] == "proposed"
        second = await person.only()
        assert second.principal == first.principal == f"{ME}@{TOKENLESS}"

        # A caller can change its session and its name at will: a freeze reaches it under every one.
        await freeze(person.app.base.state, second.principal, by=ME, reason="no", now=utc_now())
        for client in (one, two):
            with pytest.raises(Refused, match="frozen"):
                await call(client, "kb_read", path="guide.md")


@pytest.mark.parametrize("era", ERAS)
async def test_a_registered_host_is_asked_in_forms_only_once_a_person_allowed_that(
    settings: Settings, era: str
) -> None:
    forms = Forms()
    for number, allowed in enumerate((False, True, False)):  # a new secret begins without
        connected = await let_in(settings, "cursor", 2, forms=allowed)
        async with (
            open_app(connected, indexing=False, announcing=False) as app,
            Client(app.server, mode=era, elicitation_callback=forms) as client,
        ):
            answer = await call(client, "kb_merge", path=f"{number}.md", content="# New\n")
        assert answer["status"] == ("done" if allowed else "proposed")
        assert (settings.kb / f"{number}.md").exists() == allowed
    assert len(forms.seen) == 1


async def test_a_run_asks_no_form_that_does_not_count_and_an_answer_to_one_that_did_decides_nothing(
    tmp_path: Path,
) -> None:
    answer: InputResponses = {QUESTION: ElicitResult(action="accept", content={"answer": "Two."})}
    forms, goal = Forms(), {"goal": "Goal of a run."}
    async with (
        run_host(tmp_path) as host,
        Client(host.app.server, elicitation_callback=forms) as client,
        Client(host.app.server, mode="legacy", elicitation_callback=forms) as older,
    ):
        for words in ("Goal of a run.", "Goal of another.", "Goal of a third."):
            host.will(words, asks("How many hives?"), said("never"))
        shown = await client.session.call_tool("agent_run", goal, allow_input_required=True)
        assert isinstance(shown, InputRequiredResult)
        await host.app.approvals.forbid_forms("desktop", ANN)
        told = await client.session.call_tool(
            "agent_run", goal, input_responses=answer, request_state=shown.request_state
        )
        assert (told.structured_content or {})["status"] == "asking"
        for one, words in ((client, "Goal of another."), (older, "Goal of a third.")):
            assert (await call(one, "agent_run", goal=words))["status"] == "asking"
    assert not forms.seen


@pytest.mark.parametrize("what", ["proposal", "journey", "task"])
async def test_a_form_that_is_no_longer_allowed_decides_nothing(tmp_path: Path, what: str) -> None:
    yes: InputResponses = {QUESTION: ElicitResult(action="accept", content={"decision": "approve"})}
    if what == "task":
        async with place(tmp_path, level=2) as at:
            task = (await at.wire.tool("kb_merge", **NOTE))["taskId"]
            assert (await at.forms.ask("tasks/get", taskId=task))["status"] == "input_required"
            await at.host.app.approvals.forbid_forms("desktop", ANN)
            await at.forms.ask("tasks/update", taskId=task, inputResponses={task: accepting(decision="approve")})
            assert (await at.forms.ask("tasks/get", taskId=task))["status"] == "working"
            assert ((await at.proposal(task)).state, at.written()) == ("pending", False)
        return
    settings = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state", open_browser=False)
    connected = await let_in(settings, "cursor", 2, forms=True)
    async with (
        open_app(connected, indexing=False, announcing=False, agents=Only(noting())) as app,
        Client(app.server, elicitation_callback=Forms()) as client,
    ):
        if what == "journey":
            begun = await call(client, "journey_start", agent="noting", brief="bees")
            arguments = {"journey_id": begun["journey_id"], "version": 1, "work": TWO}
        else:
            arguments = {"path": "new.md", "content": "# New\n"}
        tool = "journey_submit" if what == "journey" else "kb_merge"
        asked = await client.session.call_tool(tool, arguments, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        await app.approvals.forbid_forms("cursor", ANN)
        result = await client.session.call_tool(tool, arguments, input_responses=yes, request_state=asked.request_state)
        told = dict(result.structured_content or {})
        assert (told.get("state"), told.get("status")) == (
            ("waiting", None) if what == "journey" else (None, "proposed")
        )
        assert not (settings.kb / "new.md").exists()


BEFORE_FORMS = 10
"""The last version of the state database without a record of whose forms count."""


async def test_a_host_that_was_registered_before_forms_were_asked_for_has_none_that_count(settings: Settings) -> None:
    connected = await let_in(settings, "cursor", 2)
    file = next((settings.state_dir or settings.kb).rglob("state.db"))
    with closing(sqlite3.connect(file)) as database:
        hosts = database.execute("SELECT * FROM enrolment").fetchall()
    for left in file.parent.glob("state.db*"):
        left.unlink()
    older = load_schema("state", APPLICATION_ID, durable=True).migrations[:BEFORE_FORMS]
    with closing(sqlite3.connect(file)) as database, database:
        database.executescript(";".join(older))
        database.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {BEFORE_FORMS};")
        database.executemany("INSERT INTO enrolment VALUES (?, ?, ?)", hosts)
    forms = Forms()
    async with (
        open_app(connected, indexing=False, announcing=False) as app,
        Client(app.server, elicitation_callback=forms) as client,
    ):
        assert (await call(client, "kb_merge", path="new.md", content="# New\n"))["status"] == "proposed"
        assert [(one.host, one.forms) for one in await app.base.state.enrolments()] == [("cursor", False)]
    assert not forms.seen


def test_with_a_wrong_secret_a_server_does_not_start_as_a_host_without_one(settings: Settings) -> None:
    words = ["-m", "mcp_server", "serve", "--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
    env = {**os.environ, "FORGE_ENROLMENT": "guessed", "FORGE_OPEN_BROWSER": "0"}
    done = subprocess.run(
        [sys.executable, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=env,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "belongs to no registered host" in done.stderr
    assert "guessed" not in done.stderr
    assert "Traceback" not in done.stderr


async def test_callers_without_a_token_are_handed_nothing_that_another_one_began(settings: Settings) -> None:
    """They are one principal, and nothing tells them apart: neither a repeated call, nor a list, nor a completion is a way in."""
    note = {"path": "new.md", "content": "# New\n"}
    start = {"agent": "research", "brief": "bees"}
    async with serving(settings) as address, tokenless(str(address)) as one, tokenless(str(address)) as two:
        first, second = [await call(client, "kb_merge", **note) for client in (one, two)]
        assert first["proposal"]["id"] != second["proposal"]["id"]
        told = await call(one, "proposal_status", proposal_id=first["proposal"]["id"])
        assert (told["proposal"]["state"], told["pending"]) == ("pending", [])
        begun = [await call(client, "journey_start", **start) for client in (one, two)]
        assert begun[0]["journey_id"] != begun[1]["journey_id"]
        seen: list[Any] = [await call(two, tool) for tool in ("trust_status", "proposal_status", "journey_list")]
        seen += [await read(two, "audit://recent")]
        for ref, name in (
            (PromptReference(name="continue"), "journey_id"),
            (ResourceTemplateReference(uri="journey://{journey_id}"), "journey_id"),
        ):
            seen += [(await two.complete(ref, {"name": name, "value": ""})).completion.values]
        for handle in (first["proposal"]["id"], begun[0]["journey_id"]):
            assert handle not in json.dumps(seen)
        assert "not listed over HTTP without a token" in seen[2]["note"]


async def test_without_a_token_no_journey_is_reachable_by_a_guessable_id(settings: Settings) -> None:
    """Ids of journeys once had four random bytes, and imported ones kept their names."""
    async with serving(settings) as address, tokenless(str(address)) as client:
        short = "research-0badcafe"
        for tool, arguments in (
            ("journey_status", {}),
            ("journey_submit", {"version": 1, "work": {}}),
            ("journey_decide", {"version": 1, "decision": "cancel"}),
            ("kb_search", {"query": "first"}),
        ):
            with pytest.raises(Refused, match="short enough to guess"):
                await call(client, tool, journey_id=short, **arguments)
        with pytest.raises(Refused, match="short enough to guess"):
            await call(client, "journey_start", agent="research", brief="x", inputs={"fork_of": short})
        for uri in ("", "/events", "/report"):
            with pytest.raises(MCPError, match="short enough to guess"):
                await client.read_resource(f"journey://{short}{uri}")
        with pytest.raises(MCPError, match="short enough to guess"):
            await client.get_prompt("continue", {"journey_id": short})


async def test_a_caller_without_a_token_reaches_no_task_of_another_host(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_merge", **NOTE))["taskId"]
        nobody = replace(at.wire, secret="", forms=True)
        for method, more in (
            ("get", {}),
            ("cancel", {}),
            ("update", {"inputResponses": {task: accepting(decision="approve")}}),
        ):
            assert (await nobody.error(f"tasks/{method}", taskId=task, **more))["code"] == UNKNOWN
        assert ((await at.proposal(task)).state, at.written()) == ("pending", False)


async def test_taking_trust_from_hosts_without_a_secret_takes_it_from_callers_without_a_token(
    settings: Settings,
) -> None:
    """They were the same once: if strangers were frozen then, an update doesn't let them in again."""
    async with serving(settings) as address, tokenless(str(address)) as client, open_state(settings) as state:
        unenrolled = Principal(ME, UNENROLLED).id
        await grant(state, unenrolled, 1, by="ann", now=utc_now())
        with pytest.raises(Refused, match="kb_merge is refused: it needs trust level 3"):
            await call(client, "kb_merge", path="new.md", content="# New\n")
        await freeze(state, unenrolled, by="ann", now=utc_now(), reason="no strangers")
        with pytest.raises(Refused, match="frozen"):
            await call(client, "kb_read", path="page.md")


# --- the table of the handbook ------------------------------------------------------------------------------------------


@dataclass
class World:
    """A knowledge base, a registered host that began things there, and a client for each column of the table."""

    settings: Settings
    other: Client
    app: App
    clients: dict[str, Client] = field(default_factory=dict)
    numbers: Any = field(default_factory=itertools.count)

    def page(self) -> str:
        return f"page-{next(self.numbers)}.md"

    async def journey(self, client: Client) -> str:
        """Return a new journey of that client."""
        begun = await call(client, "journey_start", agent="noting", brief=f"bees {next(self.numbers)}")
        return str(begun["journey_id"])

    async def waiting(self, client: Client) -> str:
        """Return a journey of that client that waits for a person."""
        journey = await self.journey(client)
        told = await call(client, "journey_submit", journey_id=journey, version=1, work=TWO)
        return journey if told["state"] == "waiting" else ""

    async def proposed(self, client: Client) -> str:
        """Return a proposal of that client."""
        answer = await call(client, "kb_move", path="page.md", to=self.page())
        return str(answer["proposal"]["id"])


async def read(client: Client, uri: str) -> str:
    return json.dumps([one.model_dump(mode="json") for one in (await client.read_resource(uri)).contents])


async def reads(world: World, column: str) -> bool:
    client = world.clients[column]
    page = await call(client, "kb_read", path="page.md")
    return "First." in page["text"] and bool((await call(client, "kb_search", query="first"))["hits"])


async def proposes(world: World, column: str) -> bool:
    return (await call(world.clients[column], "kb_merge", path=world.page(), content="# New\n"))["proposal"] is not None


async def approves(world: World, column: str) -> bool:
    path = world.page()
    await call(world.clients[column], "kb_merge", path=path, content="# New\n")
    return (world.settings.kb / path).exists()


async def answers(world: World, column: str) -> bool:
    return not await world.waiting(world.clients[column])


async def approves_high(world: World, column: str) -> bool:
    path = world.page()
    await call(world.clients[column], "kb_move", path="page.md", to=path)
    return (world.settings.kb / path).exists()


async def lists_journeys(world: World, column: str) -> bool:
    journey = await world.journey(world.other)
    listed = (await call(world.clients[column], "journey_list"))["journeys"]
    return journey in [one["journey_id"] for one in listed]


async def continues(world: World, column: str) -> bool:
    journey, client = await world.journey(world.other), world.clients[column]
    there = await call(client, "journey_status", journey_id=journey)
    await call(client, "journey_submit", journey_id=journey, version=there["version"], work={"notes": TWO["notes"][:1]})
    return bool((await call(world.other, "journey_status", journey_id=journey))["version"] > there["version"])


async def decides_own(world: World, column: str) -> bool:
    client = world.clients[column]
    journey = await world.journey(client)
    await call(client, "journey_decide", journey_id=journey, version=1, decision="cancel")
    return bool((await call(world.other, "journey_status", journey_id=journey))["state"] == "cancelled")


async def decides_others(world: World, column: str) -> bool:
    done = set()
    for decision in ("cancel", "approve", "reject", "answer", "modify"):
        journey = await world.waiting(world.other)
        asked = {"journey_id": journey, "version": 2, "decision": decision, "note": "so it is"}
        if column in (STDIO, HTTP):
            with pytest.raises(Refused, match="was started by"):
                await call(world.clients[column], "journey_decide", **asked)
        else:
            await call(world.clients[column], "journey_decide", **asked)
        there = await call(world.other, "journey_status", journey_id=journey)
        done.add((there["state"], there["version"]) != ("waiting", 2))
    assert len(done) == 1
    return done.pop()


async def asks_about_own(world: World, column: str) -> bool:
    client = world.clients[column]
    proposal = await world.proposed(client)
    told = await call(client, "proposal_status", proposal_id=proposal)
    withdrawn = await call(client, "proposal_withdraw", proposal_id=proposal)
    return (told["proposal"]["state"], withdrawn["proposal"]["state"]) == ("pending", "withdrawn")


async def lists_own(world: World, column: str) -> bool:
    client = world.clients[column]
    proposal = await world.proposed(client)
    told = [await call(client, tool) for tool in ("trust_status", "proposal_status")]
    found = [proposal in [one["id"] for one in answer["pending"]] for answer in told]
    assert len(set(found)) == 1
    return found[0]


async def takes_from_others(world: World, column: str) -> bool:
    client, proposal = world.clients[column], await world.proposed(world.other)
    for tool in ("proposal_status", "proposal_withdraw"):
        with pytest.raises(Refused, match="you made no proposal"):
            await call(client, tool, proposal_id=proposal)
    with pytest.raises(MCPError):
        await client.read_resource(f"proposal://{proposal}")
    told = (await call(world.other, "proposal_status", proposal_id=proposal))["proposal"]
    return bool(told["state"] != "pending")


async def finds_ids(world: World, column: str) -> bool:
    client, path, journey = world.clients[column], world.page(), await world.journey(world.other)
    answer = await call(world.other, "kb_merge", path=path, content="# New\n", source=f"journey:{journey}")
    proposal = await world.app.services.state.trust.proposal(answer["proposal"]["id"])
    assert proposal is not None
    assert (await world.app.approvals.approve(proposal.id, proposal.hash, ANN)).state == "executed"
    history = json.dumps(await call(client, "kb_history", path=path))
    records = await read(client, "audit://recent")
    assert '"source": "journey' in history
    found = {handle in text for handle in (proposal.id, journey) for text in (history, records)}
    assert len(found) == 1
    return found.pop()


async def granted(world: World, column: str) -> bool:
    principal = (await call(world.clients[column], "trust_status"))["principal"]
    try:
        await grant(world.app.base.state, principal, 3, by="ann", now=utc_now())
    except BadGrant:
        return False
    await grant(world.app.base.state, principal, 2, by="ann", now=utc_now())
    return True


Probe = Callable[[World, str], Awaitable[bool]]
PROBES: Mapping[str, Probe] = {
    "Read pages and search": reads,
    "Propose a change": proposes,
    "Be granted level 3 or more": granted,
    "Approve its own call by a form, up to level 3": approves,
    "Approve its own call by a form, from level 4": approves_high,
    "Answer a journey's question by a form": answers,
    "List journeys": lists_journeys,
    "Continue any journey whose id it has": continues,
    "Relay a decision about a journey that it began, or cancel it": decides_own,
    "Relay a decision about a journey that another host began, or cancel it": decides_others,
    "Ask about its own proposal by its id, or withdraw it": asks_about_own,
    "List its own proposals": lists_own,
    "Read, decide or withdraw a proposal of another host": takes_from_others,
    "Find ids of proposals and journeys in the history and the audit log": finds_ids,
}


def table() -> dict[str, dict[str, str]]:
    """Return the handbook's table, by row and column."""
    lines = [line for line in HANDBOOK.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    (head, _, *rows) = next(cells[at:] for at, row in enumerate(cells) if row[1:] == list(COLUMNS))
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def test_every_row_of_the_handbooks_table_is_tried_and_says_yes_or_no() -> None:
    assert list(table()) == list(PROBES)
    assert {cell for row in table().values() for cell in row.values()} == {"yes", "no"}


@asynccontextmanager
async def everybody(tmp_path: Path) -> AsyncIterator[World]:
    """Yield a client of each kind, and another host, all connected to the same knowledge base."""
    settings = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state", open_browser=False)
    hosts = {
        "other": await let_in(settings, "other", 2),
        REGISTERED: await let_in(settings, "plain", 2),
        ALLOWED: await let_in(settings, "allowed", 2, forms=True),
        STDIO: settings,
    }
    async with AsyncExitStack() as stack:
        clients, apps = {}, {}
        for name, own in hosts.items():
            indexing = name == "other"
            opened = open_app(own, indexing=indexing, announcing=False, agents=Only(noting()))
            apps[name] = app = await stack.enter_async_context(opened)
            callback = None if name == "other" else Forms()
            clients[name] = await stack.enter_async_context(Client(app.server, elicitation_callback=callback))
        there = await stack.enter_async_context(serving(settings, agents=Only(noting())))
        clients[HTTP] = await stack.enter_async_context(tokenless(str(there), forms=Forms()))
        with anyio.fail_after(60):
            while not (await call(clients["other"], "kb_search", query="first"))["hits"]:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.05)
        yield World(settings, clients.pop("other"), apps["other"], clients)


async def test_each_kind_of_caller_may_do_what_the_handbook_says_and_nothing_else(tmp_path: Path) -> None:
    async with everybody(tmp_path) as world:
        found = {
            row: {column: "yes" if await probe(world, column) else "no" for column in COLUMNS}
            for row, probe in PROBES.items()
        }
    assert found == table()
