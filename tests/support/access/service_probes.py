"""Random requests of a host to Plane, Zulip, a webhook and runs, for servers that share one double of each.

What they would send is only rehearsed or proposed, so the doubles stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp_server.app.settings.services import WebhookTarget
from mcp_server.app.settings.values import LanguageModelName
from tests.doubles.plane import ADA, WORKSPACE, plane_served
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import Call, Turn
from tests.doubles.receiver import Receiver
from tests.doubles.serving import served
from tests.doubles.zulip_world import RECORDED_LEVEL
from tests.support.access.probes import REVISION, TOOL_PROBES, Probe, Prober
from tests.support.webhook.hosts import SECRET
from tests.support.zulip.hosts import BOT, HAMLET, Clock, furnished

PAGES: Final = "See people/ann/diary.md, [[Diary zanderplum]], kb:people/eve/wombatsky-launch.md and plans/q3.md."
TASKS: Final = ("KB-1", "KB-5", "KB-6")
MESSAGES: Final = (105, 106)
"""The ids that the double gives to the first messages."""
MOST_STEPS: Final = 50_000
PLACES: Final = ("drawing/merge", "team/pages")


@asynccontextmanager
async def services() -> AsyncIterator[Mapping[str, Any]]:
    """Yield the settings of servers that use one Plane, one Zulip, one receiver and one model, in which pages are named."""
    zulip, model = furnished(RECORDED_LEVEL, Clock()), Model()
    model.will("{", *[obeys] * MOST_STEPS)
    zulip.world.say(HAMLET, "drawing", "merge", f"The hall costs 900 euros. {PAGES}")
    zulip.world.say(HAMLET, "team", "pages", f"Flowers were ordered. {PAGES}")
    bot = zulip.world.user(BOT)
    async with (
        plane_served() as (plane_there, plane),
        served(zulip) as zulip_there,
        served(Receiver(SECRET)) as receiver_there,
        served(model) as model_there,
    ):
        plane.add_task("KB", "Write it down", description_html=f"<p>{PAGES}</p>")
        plane.add_task("KB", "Diary quokkafern", description_html="<p>The budget for travel is 5,000 euros.</p>")
        yield {
            "plane_base_url": plane_there.address,
            "plane_api_key": ADA.key,
            "plane_workspace": WORKSPACE,
            "zulip_site": zulip_there.address,
            "zulip_email": bot.email,
            "zulip_api_key": bot.key,
            "webhooks": (WebhookTarget("releases", f"{receiver_there.address}/hook", (SECRET,)),),
            "model": LanguageModelName("openai", "some-model"),
            "openai_api_key": KEY,
            "openai_base_url": f"{model_there.address}/v1",
        }


def obeys(asked: Mapping[str, Any]) -> Turn:
    """Call the tool that the goal names as JSON, and then answer with what it answered."""
    last = asked["messages"][-1]
    if last["role"] == "tool":
        return Turn(text=str(last["content"])[:8_000])
    goal = next(message["content"] for message in asked["messages"] if message["role"] == "user")
    wanted = json.loads(goal[goal.index("{") : goal.rindex("}") + 1])
    return Turn(calls=(Call(wanted["tool"], wanted["arguments"]),))


def _text(p: Prober) -> str:
    return p.any(PAGES, p.content(), f"Look at kb:{p.path()}", p.query())


def _source(p: Prober) -> str:
    place = p.any(*PLACES)
    return p.any(f"plane:{p.any(*TASKS)}", f"zulip:{place}", f"zulip:{place}/{p.any(*MESSAGES)}", "plane:KB-99")


def _goal(p: Prober) -> str:
    """Return a goal: a call that the model makes and whose answer it repeats."""
    name = p.any("kb_search", "kb_read", "kb_map", "kb_merge", "kb_history", "plane_get_task", "zulip_send_message")
    probe = {**TOOL_PROBES, **SERVICE_PROBES}[name](p)
    return json.dumps({"tool": name, "arguments": dict(probe.arguments)}, ensure_ascii=False)


def _tool(name: str, arguments: Callable[[Prober], Mapping[str, Any]]) -> Callable[[Prober], Probe]:
    return lambda prober: Probe("tool", name, arguments(prober))


SERVICE_PROBES: Final[Mapping[str, Callable[[Prober], Probe]]] = {
    "plane_list_projects": _tool("plane_list_projects", lambda p: p.any({}, {"project": "KB"})),
    "plane_query_tasks": _tool("plane_query_tasks", lambda p: {"project": "KB", **p.any({}, {"text": p.query()})}),
    "plane_get_task": _tool("plane_get_task", lambda p: {"task": p.any(*TASKS)}),
    "plane_create_task": _tool(
        "plane_create_task",
        lambda p: {"project": "KB", "name": p.name(), "description": _text(p), "dry_run": p.odds(2)},
    ),
    "plane_update_task": _tool(
        "plane_update_task", lambda p: {"task": p.any(*TASKS), "name": p.name(), "dry_run": p.odds(2)}
    ),
    "plane_comment_task": _tool(
        "plane_comment_task", lambda p: {"task": p.any(*TASKS), "text": _text(p), "dry_run": p.odds(2)}
    ),
    "plane_change_tasks": _tool(
        "plane_change_tasks",
        lambda p: {"changes": [{"task": p.any(*TASKS), "text": _text(p)}], "dry_run": p.odds(2)},
    ),
    "zulip_list_channels": _tool("zulip_list_channels", lambda p: p.any({}, {"channel": "drawing"})),
    "zulip_read_messages": _tool(
        "zulip_read_messages", lambda p: p.any({"channel": "drawing", "topic": "merge"}, {"channel": "team"})
    ),
    "zulip_find_people": _tool("zulip_find_people", lambda p: {"query": p.any("", "Hamlet", p.name())}),
    "zulip_search_messages": _tool("zulip_search_messages", lambda p: {"query": p.query()}),
    "zulip_send_message": _tool(
        "zulip_send_message",
        lambda p: {
            "channel": "drawing",
            "topic": "merge",
            "text": _text(p),
            "dry_run": p.odds(2),
            **p.any({}, {"file": f"kb:{p.path()}"}, {"file": f"kb:{p.name()}"}),
        },
    ),
    "zulip_react": _tool("zulip_react", lambda p: {"message_id": p.any(*MESSAGES), "emoji": "eyes", "dry_run": True}),
    "zulip_update": _tool(
        "zulip_update", lambda p: {"message_id": p.any(*MESSAGES), "text": _text(p), "dry_run": True}
    ),
    "webhook_send": _tool(
        "webhook_send", lambda p: {"target": "releases", "event": "page.named", "text": _text(p), "dry_run": p.odds(2)}
    ),
    "agent_run": _tool("agent_run", lambda p: {"goal": _goal(p)}),
    "agent_trace": _tool("agent_trace", lambda _: {"run_id": "r-" + "0" * 20}),
    "kb_merge": _tool(
        "kb_merge",
        lambda p: {
            "path": p.any(p.path(), p.folder() or "plans", p.name()),
            "source": _source(p),
            "dry_run": p.odds(2),
            **p.any({}, {"content": p.content()}, {"corroboration": [_source(p)]}, {"base_revision": REVISION}),
        },
    ),
}
"""A probe for each tool of another service, and merges of what is written there."""
