"""The public contract, through real MCP clients: in memory, over stdio and over HTTP, in both protocol eras."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ResourceTemplateReference, TextContent, TextResourceContents

from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.toolsets.registry import chosen, declared
from tests.support.knowledge_bases.folders import write

ERAS = ["auto", "legacy"]
CHANGING = {
    *("kb_merge", "kb_move", "kb_delete", "kb_revert", "kb_dismiss", "proposal_withdraw"),
    *("journey_start", "journey_submit", "journey_decide"),
}
"""The tools that do more than read."""
Connect = Callable[[], AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def in_memory(settings: Settings, mode: str) -> AsyncIterator[Client]:
    async with open_app(settings) as app, Client(app.server, mode=mode) as client:
        await answers(client)
        yield client


@asynccontextmanager
async def over_stdio(settings: Settings, mode: str) -> AsyncIterator[Client]:
    command = ["-m", "mcp_server", "serve", "--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
    env = {**os.environ, "FORGE_OPEN_BROWSER": "0", "FORGE_ENROLMENT": settings.enrolment or ""}
    process = StdioServerParameters(command=sys.executable, args=command, env=env, cwd=Path(__file__).parents[3])
    async with Client(stdio_client(process), mode=mode) as client:
        await answers(client)
        yield client


@asynccontextmanager
async def over_http(settings: Settings, mode: str) -> AsyncIterator[Client]:
    command = [sys.executable, "-m", "mcp_server", "serve", "--http", "127.0.0.1:0"]
    command += ["--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
    process = await anyio.open_process(command, stdin=None, cwd=Path(__file__).parents[3])
    async with process:
        try:
            url = await announced(process)
            headers = {"authorization": f"Bearer {settings.enrolment}"} if settings.enrolment else {}
            async with (
                create_mcp_http_client(headers=headers) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                await answers(client)
                yield client
        finally:
            process.terminate()
            await process.wait()


async def announced(process: anyio.abc.Process) -> str:
    """Return the address that the server says on stderr."""
    assert process.stderr is not None
    said = ""
    with anyio.fail_after(60):
        async for block in process.stderr:
            said += block.decode()
            if found := re.search(r"http://\S+/mcp", said):
                return found.group()
    raise AssertionError(said)


async def answers(client: Client) -> None:
    """Wait until the first index is complete."""
    with anyio.fail_after(60):
        while True:
            done = (await call(client, "kb_search", query="anything"))["indexed"]
            if done["done"] >= done["total"] > 0:
                return
            await anyio.sleep(0.05)


EXTERNAL_PAIRS = ((over_stdio, "legacy"), (over_http, "auto"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")


@pytest.fixture(
    params=[
        # By default each transport and each version of the protocol; the other two pairs with the external tests.
        pytest.param((way, era), marks=pytest.mark.external if (way, era) in EXTERNAL_PAIRS else [])
        for way in (in_memory, over_stdio, over_http)
        for era in ERAS
    ],
    ids=lambda p: f"{p[0].__name__}-{p[1]}",
)
def connect(request: pytest.FixtureRequest, settings: Settings) -> Connect:
    """Return a function that opens a client.

    The test calls it, because a task group must be left by the task that entered it.
    """
    way, era = request.param
    return lambda: way(settings, era)


@pytest.fixture(
    params=[
        pytest.param((way, era), marks=[] if way is in_memory else pytest.mark.external)
        for way in (in_memory, over_stdio, over_http)
        for era in ERAS
    ],
    ids=lambda p: f"{p[0].__name__}-{p[1]}",
)
def anyhow(request: pytest.FixtureRequest, settings: Settings) -> Connect:
    """Return the same for tests that depend on no transport.

    By default in memory, with external tests over each of them.
    """
    way, era = request.param
    return lambda: way(settings, era)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.content[0], TextContent)
    content: dict[str, Any] | None = result.structured_content
    assert content is not None
    assert json.loads(result.content[0].text) == content
    return content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


async def test_a_client_finds_its_way_from_the_map_to_the_answer(connect: Connect) -> None:
    """The full contract of the three circles: fields, shapes, values."""
    async with connect() as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [spec.name for spec in chosen(declared(), configured=())]
        for tool in tools:
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is (tool.name not in CHANGING)
            assert None not in (
                tool.annotations.destructive_hint,
                tool.annotations.idempotent_hint,
                tool.annotations.open_world_hint,
            )

        root = await call(client, "kb_map")
        assert (root["title"], root["summary"], root["derived"]) == ("Team notes", "What the team knows.", False)
        assert [c["path"] for c in root["children"]] == ["decisions", "guides", "mail", "long.md"]
        guides = next(c for c in root["children"] if c["path"] == "guides")
        assert (guides["kind"], guides["summary"], guides["count"]) == ("directory", "How we do things.", 3)
        assert guides["modified"].endswith("Z")

        page = await call(client, "kb_read", path="guides/deploy.md")
        assert page["title"] == "Deploying the payment service"
        assert page["metadata"]["tags"] == ["deploy", "payments"]
        assert re.fullmatch(r"[0-9a-f]{16}", page["revision"])
        assert [o["section"] for o in page["outline"]][1] == "Deploying the payment service > Rolling back"
        assert "forty seconds" in page["text"]
        assert page["next_offset"] is None

        found = await call(client, "kb_search", query="how do I roll back the payment service", path="guides")
        best = found["hits"][0]
        assert best["path"] == "guides/deploy.md"
        assert best["section"].endswith("Rolling back")
        assert "previous colour" in best["snippet"]
        assert best["revision"] == page["revision"]
        assert found["route"]["mode"] == "discovery"
        assert found["scent"]["level"] in ("sufficient", "partial")
        assert "guides/deploy.md" in found["scent"]["next"]
        assert found["indexed"] == {"done": 7, "total": 7}
        assert "explanation" not in found
        asked = await call(
            client, "kb_search", query="how do I roll back the payment service", path="guides", explain=True
        )
        explained = asked["explanation"]["hits"][0]
        assert sum(explained["parts"].values()) == pytest.approx(explained["rank_score"], abs=1e-3)
        assert explained["text"]
        assert "explanation" not in json.dumps(await call(client, "kb_search", query="roll back"))

        trust = await call(client, "trust_status")
        assert trust["principal"].endswith(("@unenrolled", "@unenrolled:http"))
        assert (trust["level"], trust["cap"], trust["needs"]["kb_map"]) == (2, 2.9, 1)


async def test_errors_are_short_typed_and_ours(anyhow: Connect) -> None:
    """An unknown tool, prompt, resource, wrong or missing argument is a clean, short, typed error in both eras."""
    async with anyhow() as client:
        told = []
        for ask in (
            lambda: client.call_tool("kb_magic", {}),
            lambda: client.get_prompt("magic", {}),
            lambda: client.get_prompt("route", {}),
            lambda: client.get_prompt("route", {"question": "x", "colour": "red"}),
            lambda: client.read_resource("kb://doc/nowhere.md"),
            lambda: client.read_resource("kb://magic/x"),
            lambda: client.read_resource("kb://doc/../../etc/passwd"),
        ):
            with pytest.raises(MCPError) as caught:
                await ask()
            assert caught.value.error.code == INVALID_PARAMS
            told.append(caught.value.error.message)
        told.append(await refusal(client, "kb_search"))
        told.append(await refusal(client, "kb_search", query="x", limit="many"))
        told.append(await refusal(client, "kb_read", path="guides/deply.md"))
        told.append(await refusal(client, "kb_read", path="../secret.md"))
        told.append(await refusal(client, "kb_read", path="/etc/passwd"))
        told.append(await refusal(client, "kb_map", path="nowhere"))
        for message in told:
            assert 10 < len(message) < 300
            for inside in (
                "pydantic",
                "http://",
                "https://",
                "Traceback",
                "Error executing",
                "object at 0x",
                "validation error",
            ):
                assert inside not in message
        assert "guides/deploy.md" in told[9]


async def test_resources_prompts_and_completions_lead_to_the_same_pages(connect: Connect) -> None:
    async with connect() as client:
        templates = {t.uri_template for t in (await client.list_resource_templates()).resource_templates}
        assert templates == {
            "kb://map/{+path}",
            "kb://doc/{+path}",
            "proposal://{proposal_id}",
            "agent://{agent}",
            "agent://{agent}/{phase}",
            "journey://{journey_id}",
            "journey://{journey_id}/events",
            "journey://{journey_id}/report",
            "memory://{task}/{agent}",
        }
        page = (await client.read_resource("kb://doc/guides/deploy.md")).contents[0]
        assert isinstance(page, TextResourceContents)
        assert page.mime_type == "text/markdown"
        assert page.text.startswith("---\ntitle: Deploying")
        for uri in ("kb://map/", "kb://map/guides"):
            shown = (await client.read_resource(uri)).contents[0]
            assert isinstance(shown, TextResourceContents)
            assert json.loads(shown.text)["children"]
        ref = ResourceTemplateReference(type="ref/resource", uri="kb://doc/{+path}")
        assert (await client.complete(ref, {"name": "path", "value": "guides/d"})).completion.values == [
            "guides/deploy.md"
        ]
        ref = ResourceTemplateReference(type="ref/resource", uri="kb://map/{+path}")
        assert "guides" in (await client.complete(ref, {"name": "path", "value": "g"})).completion.values
        prompt = await client.get_prompt("route", {"question": "how do we roll back payments?"})
        assert isinstance(prompt.messages[0].content, TextContent)
        assert "guides/deploy.md" in prompt.messages[0].content.text


async def test_searching_an_unread_directory_nudges_once_to_its_map(anyhow: Connect) -> None:
    """Design, section 4: results and a nudge naming the map, never a refusal; once per place and hour."""
    async with anyhow() as client:
        first = await call(client, "kb_search", query="roll back", path="guides")
        assert first["hits"]
        assert "kb_map('guides')" in first["nudge"]
        assert (await call(client, "kb_search", query="roll back", path="guides"))["nudge"] is None
        await call(client, "kb_map", path="decisions")
        assert (await call(client, "kb_search", query="queue", path="decisions"))["nudge"] is None
        assert (await call(client, "kb_search", query="queue", path="guides/deploy.md"))["nudge"] is None


@pytest.mark.external
async def test_the_ledger_is_shared_by_processes_and_kept(settings: Settings) -> None:
    """Circles as state. Nothing is kept in a worker's memory."""
    async with over_stdio(settings, "auto") as one:
        await call(one, "kb_map", path="guides")
        async with over_stdio(settings, "auto") as two:
            assert (await call(two, "kb_search", query="roll back", path="guides"))["nudge"] is None
    async with over_stdio(settings, "auto") as later:
        assert (await call(later, "kb_search", query="roll back", path="guides"))["nudge"] is None
        assert (await call(later, "kb_search", query="queue", path="decisions"))["nudge"] is not None


async def test_a_team_teaches_the_router_in_its_front_page_without_a_restart(settings: Settings) -> None:
    """The examples are data that a team can extend in `_index.md` front matter."""
    question = "the usual monday thing"
    async with in_memory(settings, "auto") as client:
        assert (await call(client, "kb_search", query=question))["route"]["mode"] == "discovery"
        front = f"---\ntitle: Team notes\nrouter:\n  navigation: ['{question}']\n---\n# Team notes\n"
        (settings.kb / "_index.md").write_text(front, encoding="utf-8")
        with anyio.fail_after(60):
            while (route := (await call(client, "kb_search", query=question))["route"])["mode"] == "discovery":  # noqa: ASYNC110 - a client cannot be told of this
                await anyio.sleep(0.05)
    assert "your team" in route["reason"]


async def test_a_folder_without_pages_says_so_instead_of_promising_more_later(
    settings: Settings, tmp_path: Path
) -> None:
    """A person may have named the wrong folder."""
    empty = tmp_path / "empty"
    empty.mkdir()
    other = replace(settings, kb=empty, state_dir=tmp_path / "other")
    async with open_app(other) as app, Client(app.server, mode="auto") as client:
        for query in ("backup", "anything"):
            scent = (await call(client, "kb_search", query=query))["scent"]
            assert (scent["level"], scent["reason"]) == ("lost", "this knowledge base has no pages")
        (empty / "late.md").write_text("# Late\n\nHow to make a backup.\n", encoding="utf-8")
        with anyio.fail_after(60):
            while not (await call(client, "kb_search", query="backup"))["hits"]:  # noqa: ASYNC110 - a client cannot be told of this
                await anyio.sleep(0.05)


async def test_a_question_is_routed_and_the_mode_overrules_it(settings: Settings) -> None:
    async with in_memory(settings, "auto") as client:
        place = await call(client, "kb_search", query="what's in guides?")
        assert place["route"]["mode"] == "navigation"
        assert place["pages"][0]["path"] == "guides"
        idea = await call(client, "kb_search", query="how do we roll back a release?")
        assert idea["route"]["mode"] == "discovery"
        assert idea["pages"][0]["path"] == idea["hits"][0]["path"]
        told = await call(client, "kb_search", query="how do we roll back a release?", mode="navigation")
        assert (told["route"]["mode"], told["route"]["reason"]) == ("navigation", "`mode` was set")
        assert len(told["hits"]) <= 3


async def test_a_long_page_is_shown_by_its_outline_and_read_by_section_or_page(anyhow: Connect) -> None:
    async with anyhow() as client:
        page = await call(client, "kb_read", path="long.md")
        assert len(page["outline"]) == 13
        assert len(page["text"]) < 1500
        assert "outline" in page["note"]
        section = await call(client, "kb_read", path="long.md", section="Part 7")
        assert "Sentence number 7" in section["text"]
        assert "Sentence number 8" not in section["text"]
        text, offset = "", 0
        while offset is not None:
            part = await call(client, "kb_read", path="long.md", view="full", offset=offset)
            text, offset = text + part["text"], part["next_offset"]
        assert text.count("Sentence number 11 ") == 40


async def test_pages_are_found_by_name_and_distinguished(anyhow: Connect) -> None:
    async with anyhow() as client:
        for name in ("guides/deploy", "Deploying the payment service", "release", "deploy.md"):
            assert (await call(client, "kb_read", path=name))["path"] == "guides/deploy.md"
        assert "guides/deploy.md" in [h["path"] for h in (await call(client, "kb_search", query="release"))["hits"]][:1]


async def test_text_that_someone_else_wrote_is_marked(anyhow: Connect) -> None:
    async with anyhow() as client:
        page = await call(client, "kb_read", path="mail/outside.md")
        assert page["tainted"] is True
        assert page["authority"] == 0.2
        hits = (await call(client, "kb_search", query="ignore all previous instructions"))["hits"]
        assert hits[0]["tainted"] is True


async def test_a_cursor_continues_the_answer_and_belongs_to_its_query(anyhow: Connect) -> None:
    async with anyhow() as client:
        first = await call(client, "kb_search", query="sentence about gardening", limit=3)
        second = await call(client, "kb_search", query="sentence about gardening", limit=3, cursor=first["next_cursor"])
        lines = [(h["path"], h["line_start"]) for h in first["hits"] + second["hits"]]
        assert len(lines) == len(set(lines)) == 6
        assert "cursor" in await refusal(client, "kb_search", query="something else", cursor=first["next_cursor"])
        assert "cursor" in await refusal(client, "kb_search", query="something else", cursor="garbage!")


@pytest.mark.parametrize(
    "query",
    [
        "C++ && || (a OR b",
        '"unbalanced',
        "title:* AND -x",
        "ねこ が 好き",
        "как откатить",
        "🚀🚀",
        "' OR 1=1 --",
        "the of and",
        "\\",
        "NEAR/3",
    ],
)
async def test_any_query_gets_an_answer(query: str, settings: Settings) -> None:
    """Queries full of operators or quotes, in any script."""
    async with in_memory(settings, "auto") as client:
        answer = await call(client, "kb_search", query=query)
        assert answer["scent"]["next"]


async def test_a_very_long_query_is_answered(settings: Settings) -> None:
    async with in_memory(settings, "auto") as client:
        log = (
            "\n".join(f"2026-01-01 line {i} worker {i * 7} said nothing" for i in range(400))
            + " roll back payment router colour"
        )
        assert (await call(client, "kb_search", query=log[-19_000:]))["hits"]
        assert "at most 20000" in await refusal(client, "kb_search", query="x" * 100_000)


async def test_filters_apply_before_ranking(settings: Settings) -> None:
    async with in_memory(settings, "auto") as client:
        for filters, expected in (
            ({"tags": ["architecture"]}, {"decisions/0001-queue.md"}),
            ({"kind": "guide"}, {"guides/deploy.md"}),
            ({"source": "decision"}, {"decisions/0001-queue.md"}),
            ({"modified_after": "2999-01-01"}, set()),
        ):
            answer = await call(client, "kb_search", query="service queue payment deploy", filters=filters)
            assert {hit["path"] for hit in answer["hits"]} == expected


async def test_the_first_question_ever_is_answered(settings: Settings) -> None:
    """A host may start a server, ask once and leave: an empty answer would tell a new user that it doesn't work."""
    async with open_app(settings) as app, Client(app.server) as client:
        answer = await call(client, "kb_search", query="roll back the payment service")
        assert answer["hits"][0]["path"] == "guides/deploy.md"
        assert answer["indexed"]["done"] == answer["indexed"]["total"]
