"""Runs by address, and their change notices, through real clients in both eras: only the caller's own runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceTemplateReference, ResourceUpdatedNotification, TextResourceContents

from agents.loop.record.frames import frame_text
from mcp_server.gate.taint import TAINTED
from mcp_server.toolsets.runs import record_texts
from tests.doubles.provider_turns import said, uses
from tests.support.hosts.writers import Writer, let_in
from tests.support.roads.road import connect, opened
from tests.support.runs.hosts import RunHost, run_host

pytestmark = [
    pytest.mark.filterwarnings("ignore:resources/(un)?subscribe:Warning"),  # the SDK's client warns of the old era
]

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
TEMPLATES = ["run://{run_id}", "run://{run_id}/frames"]
SHUT = "```\n![seen](https://example.org/seen.png)\n````\n# Not a heading"


async def read(client: Client, uri: str) -> TextResourceContents:
    content = (await client.read_resource(uri)).contents[0]
    assert isinstance(content, TextResourceContents)
    return content


async def frames_at(client: Client, run: str) -> dict[str, Any]:
    content = await read(client, f"run://{run}/frames")
    assert content.mime_type == "application/json"
    told: dict[str, Any] = json.loads(content.text)
    return told


async def complete(client: Client, template: str, typed: str, name: str = "run_id") -> list[str]:
    ref = ResourceTemplateReference(type="ref/resource", uri=template)
    return list((await client.complete(ref, {"name": name, "value": typed})).completion.values)


@asynccontextmanager
async def beside(host: RunHost, name: str) -> AsyncIterator[Writer]:
    """Connect another host to another server of the same knowledge base."""
    settings = await let_in(replace(host.settings, enrolment=None), name, level=3)
    async with opened(settings, indexing=False) as app, connect(app) as client:
        yield Writer(client, app, settings.kb)


async def answered(host: RunHost, goal: str, *, reads: str = "guides/deploy.md", text: str = "On the roof.") -> str:
    """Let a run read a page and answer; return its id."""
    host.will(goal, uses("kb_read", path=reads), said(text))
    return str((await host.call("agent_run", goal=goal))["run_id"])


@ERAS
async def test_a_run_is_read_in_words_and_as_its_frames(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, mode=mode) as host:
        run = await answered(host, "Where is it told?", text="In guides/deploy.md.")
        words, told = await read(host.writer.client, f"run://{run}"), await frames_at(host.writer.client, run)
        record = await host.app.services.runs.store.run(run)
    assert words.mime_type == "text/markdown"
    assert words.text.startswith(f"# Run {run}\n\n```text\nRun {run} of ")
    assert words.text.endswith("## Answer\n\n```text\nIn guides/deploy.md.\n```\n")
    assert "kb_read" in words.text
    assert (told["run_id"], told["status"], told["left_out"], told["note"]) == (run, "done", 0, None)
    assert told["header"]["goal"] == "Where is it told?"
    assert told["frames"] == [json.loads(frame_text(frame)) for frame in record.frames]


@ERAS
async def test_a_models_text_cannot_leave_its_quote_block(tmp_path: Path, mode: str) -> None:
    """A client may show Markdown: it would fetch a picture, and tell someone what was read."""
    async with run_host(tmp_path, mode=mode) as host:
        run = await answered(host, "Break out.", text=SHUT)
        words = (await read(host.writer.client, f"run://{run}")).text
    assert words.endswith(f"## Answer\n\n`````text\n{SHUT}\n`````\n")


async def test_a_run_that_asks_shows_its_question_and_no_answer(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        host.will("Sum up", uses("ask_user", question="Which page?"))
        asks = await host.call("agent_run", goal="Sum up a page.")
        words = (await read(host.writer.client, f"run://{asks['run_id']}")).text
    assert "## It asks\n\n```text\nWhich page?\n```" in words
    assert "## Answer" not in words


@pytest.mark.security
@ERAS
async def test_nobody_reads_or_finds_someone_elses_run(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, mode=mode) as host, beside(host, "stranger") as stranger:
        run = await answered(host, "Where is it told?")
        for uri in (f"run://{run}", f"run://{run}/frames"):
            with pytest.raises(MCPError, match="there is no run") as theirs:
                await stranger.client.read_resource(uri)
            with pytest.raises(MCPError) as nobodys:
                await stranger.client.read_resource(uri.replace(run, f"{run[:-1]}~"))
            assert str(theirs.value) == str(nobodys.value).replace(f"{run[:-1]}~", run)
        assert await stranger.refused("agent_trace", run_id=run) == f"agent_trace: there is no run {run!r}"
        assert await stranger.refused("agent_run", run_id=run, answer="Yes.") == f"agent_run: there is no run {run!r}"
        assert await complete(stranger.client, TEMPLATES[0], "") == []


@ERAS
async def test_ids_complete_to_the_callers_own_runs_by_id_and_by_words_of_the_goal(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, mode=mode) as host:
        bees, wasps = await answered(host, "Count bees on the roof."), await answered(host, "Count wasps.")
        for template in TEMPLATES:
            assert await complete(host.writer.client, template, "") == [wasps, bees]
            assert await complete(host.writer.client, template, bees) == [bees]
            assert await complete(host.writer.client, template, "roof BEE") == [bees]
            assert await complete(host.writer.client, template, "hornets") == []
            assert await complete(host.writer.client, template, "", "path") == []


@ERAS
@pytest.mark.parametrize("look", ["run://{run}", "run://{run}/frames", "agent_trace", "agent_run"])
async def test_viewing_a_run_counts_as_reading_what_it_read(
    look: str, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run can be read and resumed days later, when the taint of its host is forgotten."""
    async with run_host(tmp_path, mode=mode) as host:
        host.will(
            "Read the mail",
            uses("kb_read", path="mail/outside.md"),
            uses("ask_user", question="And?"),
            said("It is a mail."),
        )
        run = (await host.call("agent_run", goal="Read the mail."))["run_id"]
        services = host.app.services
        who = (await services.runs.store.run(run)).header.principal
        monkeypatch.setattr(services.taints, "_now", lambda: services.now() + 2 * TAINTED)
        assert not await services.taints.of(who, "")
        if look.startswith("run:"):
            await host.writer.client.read_resource(look.format(run=run))
        else:
            more = {"answer": "Nothing."} if look == "agent_run" else {}
            assert (await host.call(look, run_id=run, **more))["tainted"] is True
        assert [*await services.taints.of(who, "")] == ["url:example.org/mail"]


async def test_of_a_very_long_record_the_newest_frames_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_host(tmp_path) as host:
        run = await answered(host, "Where is it told?")
        whole = await frames_at(host.writer.client, run)
        sizes = [len(json.dumps(frame, ensure_ascii=False)) for frame in whole["frames"]]
        monkeypatch.setattr(record_texts, "MOST_FRAMES", sizes[-1] + sizes[-2])
        told = await frames_at(host.writer.client, run)
    assert told["frames"] == whole["frames"][-2:]
    assert told["left_out"] == len(sizes) - 2
    assert f"`knowledge-forge runs show {run} --frames`" in told["note"]


async def test_runs_have_addresses_only_where_their_tools_are_listed(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host, beside(replace_model(host), "plain") as plain:
        with_runs = await host.writer.client.list_resource_templates()
        without = await plain.client.list_resource_templates()
        assert await complete(plain.client, TEMPLATES[0], "") == []
    listed = [str(one.uri_template) for one in with_runs.resource_templates]
    assert [uri for uri in listed if uri.startswith("run://")] == TEMPLATES
    assert not [one for one in without.resource_templates if str(one.uri_template).startswith("run://")]


def replace_model(host: RunHost) -> RunHost:
    """Return the host with settings that name no model."""
    return replace(host, settings=replace(host.settings, model=None))


async def test_each_step_is_news_to_both_kinds_of_subscribers_also_of_another_server(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host, beside(host, "listener") as listener:
        host.will("Sum up", uses("ask_user", question="Which page?"), said("Twenty."))
        run = (await host.call("agent_run", goal="Sum up a page."))["run_id"]
        addresses = {f"run://{run}", f"run://{run}/frames"}
        heard, bell = set[str](), anyio.Event()

        async def on_message(message: Any) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                heard.add(str(message.params.uri))
                if heard >= addresses:
                    bell.set()

        async with (
            connect(listener.app, mode="legacy", message_handler=on_message) as older,
            listener.client.listen(resource_subscriptions=sorted(addresses)) as news,
        ):
            for uri in addresses:
                await older.session.subscribe_resource(uri)
            await host.call("agent_run", run_id=run, answer="guides/deploy.md")
            seen = set[str]()
            with anyio.fail_after(60):
                async for event in news:
                    assert isinstance(event, ResourceUpdated)
                    seen.add(event.uri)
                    if seen == addresses:
                        break
                await bell.wait()
        assert heard == addresses
