"""A run's frames suffice to rebuild each request to its model, byte for byte in each wire format.

The real server leads the runs; the model is a double that keeps its requests. Then each request is rebuilt from the
database, sent by a new provider to another double, and must arrive there as the first one did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from agents.loop.decision import tools_digest
from agents.loop.model.ports import ModelRequest
from agents.loop.processor import next_request
from agents.loop.record.frames import PlanFrame
from agents.loop.record.run import Run, fold
from mcp_server.app.knowledge_base import utc_now
from mcp_server.models.language_model import ConfiguredModel
from tests.doubles.provider import Model
from tests.doubles.provider_turns import Call, Turn, said, uses
from tests.doubles.serving import served
from tests.support.hosts.reviewers import ANN
from tests.support.runs.hosts import RunHost, asking, at_once, run_host

VENDORS = ("anthropic", "openai", "openai-responses")
READ = uses("kb_read", path="guides/deploy.md")
LONG = "# Long\n\n" + "Word after word after word. " * 2_000 + "\n"

LOOKS = [
    Turn("I look.", (Call("kb_map", {}), Call("kb_read", {"path": "guides/deploy.md"})), thoughts="Where could it be?"),
    uses("kb_read", path="nowhere.md"),
    uses("no_such_tool", a=1),
    uses("kb_read", path=3),
    said("It says twenty."),
]
CORRECTED = [said(" "), READ, Turn(calls=(Call("kb_read", "{no json"),)), said("It says twenty.")]
ASKS = [uses("ask_user", question="Which?"), READ, said("Blue it is.")]
PROPOSES = [uses("kb_move", path="guides/deploy.md", to="guides/release.md"), READ, said("Moved.")]
TOO_LONG = [uses("kb_read", path="long.md"), uses("kb_map"), READ, uses("kb_read", path="long.md"), said("Read.")]
SCRIPTS = {"looks": LOOKS, "is corrected": CORRECTED, "asks": ASKS, "proposes": PROPOSES, "has no room": TOO_LONG}


async def led(host: RunHost) -> Run:
    """Return a finished run, with a person's help where it needs some."""
    services = host.app.services
    answer = await host.call("agent_run", goal="Look at it.", context="Ada asked.", max_iterations=9)
    if answer["status"] == "asking":
        await host.call("agent_run", run_id=answer["run_id"], answer="Blue.")
    if answer["status"] == "proposed":
        waiting = await services.state.trust.proposal(answer["proposal"]["id"])
        assert waiting is not None
        await host.app.approvals.approve(waiting.id, waiting.hash, ANN, "go on")
    with anyio.fail_after(60):
        while not (run := await services.runs.store.run(answer["run_id"])).over:
            seen = await services.state.last_event()
            await services.state.changed(seen)
    assert run.state == "done", run.why
    return run


def questions(run: Run, tools: Sequence[Any]) -> list[ModelRequest]:
    """Return the request to the model, rebuilt from the header and the frames alone."""
    return [
        next_request(fold(run.header, run.frames[: frame.number]), tools)
        for frame in run.frames
        if isinstance(frame, PlanFrame)
    ]


async def arrived(host: RunHost, vendor: str, asked: Sequence[ModelRequest]) -> list[Mapping[str, Any]]:
    """Return the bodies that a model receives when this is sent again."""
    model = Model()
    model.will("Look", *[said("Yes.")] * len(asked))
    async with served(model) as place:
        access = asking(host.settings, place, vendor).provider
        assert access is not None
        configured = ConfiguredModel(access, now=utc_now, sleep=at_once)
        provider = await configured.provider()
        for one in asked:
            await provider.complete(one)
        await configured.aclose()
    return model.asked


def everywhere() -> list[Any]:
    """Return each script with each vendor; by default, each with one of them."""
    usual = {does: VENDORS[number % len(VENDORS)] for number, does in enumerate(SCRIPTS)}
    return [
        pytest.param(does, vendor, marks=() if usual[does] == vendor else pytest.mark.external)
        for does in SCRIPTS
        for vendor in VENDORS
    ]


@pytest.mark.parametrize(("does", "vendor"), everywhere())
async def test_each_request_to_the_model_can_be_rebuilt_from_the_record(tmp_path: Path, does: str, vendor: str) -> None:
    async with run_host(tmp_path, vendor=vendor) as host:
        (host.settings.kb / "long.md").write_text(LONG, encoding="utf-8")
        host.will("Look", *SCRIPTS[does])
        run = await led(host)
        assert host.model.left == 0
        tools = host.app.services.runs.offered(run.header)
        assert {frame.offered for frame in run.frames if isinstance(frame, PlanFrame)} == {tools_digest(tools)}
        again = await arrived(host, vendor, questions(run, tools))
    assert again == host.model.asked
    assert len(again) == len(SCRIPTS[does])
