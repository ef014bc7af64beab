"""A real MCP client makes a task of a page, comments on it, moves it and announces it.

Each through the gate, each once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcp import Client

from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from tests.doubles.plane import ADA, WORKSPACE, plane_served
from tests.doubles.serving import served
from tests.support.hosts.reviewers import Reviewer
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.plane.hosts import reviewing
from tests.support.zulip.hosts import BOT, LEVELS, Clock, at_once, furnished

PAGE = "# Deploying\n\nThe keys are rotated each month. Nobody does it yet.\n"


async def decided(host: Writer, person: Reviewer, tool: str, **arguments: object) -> dict[str, Any]:
    """Return the answer of a call that a person was asked about and approved."""
    waits = await host.call(tool, **arguments)
    assert waits["status"] == "proposed"
    proposal = await person.only()
    assert proposal.id == waits["proposal"]["id"]
    assert json.loads(proposal.preview)["files"]
    assert (await person.approve(proposal.id)).state == "executed"
    told = await host.call("proposal_status", proposal_id=proposal.id)
    result: dict[str, Any] = told["proposal"]["result"]
    assert result["status"] == "done"
    return result


async def test_a_task_is_made_of_a_page_commented_moved_and_announced_as_a_person_agrees(tmp_path: Path) -> None:
    """The project's design, section 3: plane_create_task, plane_comment_task, plane_update_task, zulip_send_message."""
    zulip = furnished(LEVELS[0], Clock())
    bot = zulip.world.user(BOT)
    async with plane_served() as (tasks, plane), served(zulip) as chat:
        settings = await let_in(
            Settings(
                kb=write(tmp_path / "kb", {"deploy.md": PAGE}),
                state_dir=tmp_path / "state",
                plane_base_url=tasks.address,
                plane_api_key=ADA.key,
                plane_workspace=WORKSPACE,
                zulip_site=chat.address,
                zulip_email=bot.email,
                zulip_api_key=bot.key,
            ),
            level=2,
        )
        async with (
            open_app(settings, sleep=at_once, announcing=False) as app,
            Client(app.server) as client,
            reviewing(settings) as person,
        ):
            host = Writer(client, app, settings.kb)
            page = await host.call("kb_read", path="deploy.md", view="full")
            assert "Nobody does it yet" in page["text"]
            made = await decided(
                host,
                person,
                "plane_create_task",
                project="knowledge base",
                name="Rotate the keys",
                description="Nobody does it yet: see kb:deploy.md.",
                assignees=["mel"],
            )
            await decided(host, person, "plane_comment_task", task=made["key"], text="I **begin** today.")
            await decided(host, person, "plane_update_task", task=made["key"], state="in progress")
            told = await decided(
                host,
                person,
                "zulip_send_message",
                channel="drawing",
                topic="keys",
                text=f"The keys of kb:deploy.md are rotated: [{made['key']}]({made['url']}).",
            )
            task = plane.task(made["key"])
            assert task["name"] == "Rotate the keys"
            assert [row["comment_html"] for row in plane.comments(made["key"])] == [
                "<p>I <strong>begin</strong> today.</p>"
            ]
            assert (await host.call("plane_get_task", task=made["key"]))["state"] == "In Progress"
            assert zulip.world.texts("drawing", "keys") == [
                f"The keys of kb:deploy.md are rotated: [{made['key']}]({made['url']})."
            ]
            assert told["url"].endswith(f"/topic/keys/near/{told['message_ids'][0]}")
            cited = (await host.call("kb_read", path="deploy.md"))["cited_by"]
            assert {one["origin"] for one in cited} == {f"plane:{made['key']}", "zulip:drawing"}
            assert (tasks.count("POST", "/work-items/"), chat.count("POST", "/api/v1/messages")) == (1, 1)
