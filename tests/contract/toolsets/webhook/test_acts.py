"""Webhooks: approved as exact bytes, signed, sent once or again under the same id, and no secret comes to light."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.writing.locks.page_locks import Locks
from knowledge.writing.requests import Approval
from mcp_server.app.composition import listed
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.services import WebhookAccess, WebhookTarget
from mcp_server.connectors.errors import ReplyLost
from mcp_server.connectors.http import RequestLimits, Sender, ServiceAddress, make_clients
from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher, outbox_entry_for
from mcp_server.connectors.webhook.receivers import Receivers, receivers_of
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal
from mcp_server.toolsets.webhook.handlers import plan_send, recall_send
from mcp_server.toolsets.webhook.schemas import SendWebhookArguments
from tests.contract.connectors.test_service_secrets import everything_logged, on_disk
from tests.doubles.receiver import Receiver
from tests.doubles.serving import (
    Fault,
    Plan,
    after,
    before,
    delayed,
    html,
    in_turn,
    malformed,
    oversized,
    redirected,
    served,
    status,
    truncated,
)
from tests.support.hosts.reviewers import reviewing
from tests.support.webhook.hosts import PATH, SECRET, sending
from tests.support.zulip.hosts import at_once

EVENT: dict[str, Any] = {
    "target": "releases",
    "event": "release.published",
    "text": "Version 2 is out: kb:guide.md",
    "data": {"version": 2},
}


async def test_a_webhook_arrives_signed_as_it_was_shown_and_once(tmp_path: Path) -> None:
    async with sending(tmp_path) as here:
        shown = (await here.call(**EVENT, dry_run=True))["preview"]
        assert here.served.seen == []
        answer = await here.call(**EVENT | {"target": "Releases"})
        assert (answer["status"], answer["target"], answer["note"]) == ("done", "releases", None)
        assert here.receiver.taken == {answer["webhook_id"]: shown.encode()}
        assert json.loads(shown) == {"type": "release.published", "data": {"text": EVENT["text"], "version": 2}}
        (seen,) = here.served.seen
        assert (seen.path, seen.headers["content-type"]) == (PATH.partition("?")[0], "application/json")
        again = await here.call(**EVENT)
        assert (again["status"], again["webhook_id"]) == ("unchanged", answer["webhook_id"])
        assert (await here.call(**EVENT | {"text": None}))["status"] == "done"
        assert len(here.bodies) == 2


@pytest.mark.security
async def test_below_the_level_a_person_approves_exactly_those_bytes(tmp_path: Path) -> None:
    async with sending(tmp_path, level=2) as here, reviewing(here.settings) as person:
        waits = await here.call(**EVENT)
        assert (waits["status"], here.served.seen) == ("proposed", [])
        proposal = await person.only()
        shown = json.loads(proposal.preview)
        assert shown["sentence"] == "send the webhook release.published to releases"
        diff = shown["files"][0]["diff"].splitlines()
        body = "\n".join(line[1:] for line in diff if line.startswith("+") and not line.startswith("+++"))
        done = await person.approve(proposal.id)
        assert (done.state, done.error, here.bodies) == ("executed", None, [body])
        again = await here.call(**EVENT)
        assert (again["status"], again["webhook_id"]) == ("unchanged", next(iter(here.receiver.taken)))
        assert "was approved on" in again["note"]


@pytest.mark.security
async def test_an_approval_does_not_follow_a_name_to_another_address(tmp_path: Path) -> None:
    async with sending(tmp_path, level=2) as here:
        await here.call(**EVENT)
        elsewhere = (WebhookTarget("releases", f"{here.served.address}/elsewhere", (SECRET,)),)
        async with reviewing(replace(here.settings, webhooks=elsewhere)) as person:
            ended = await person.approve((await person.only()).id)
            assert ended.state != "executed"
        assert here.served.seen == []


@pytest.mark.security
async def test_after_untrusted_text_a_webhook_needs_one_level_more(tmp_path: Path) -> None:
    async with sending(tmp_path) as here:
        await here.writer.call("kb_read", path="inbox/a.md")
        waits = await here.call(**EVENT)
        assert (waits["status"], waits["proposal"]["level_needed"], here.served.seen) == ("proposed", 5, [])


UNSENDABLE: list[tuple[dict[str, Any], str]] = [
    ({"target": "release"}, "no receiver 'release' in Webhook; there are releases"),
    ({"event": "release published"}, "event"),
    ({"text": None, "data": {}}, "there is nothing to send"),
    ({"data": {"text": "x"}}, "not both"),
    ({"text": None, "data": {"a": "x" * 300_000}}, "at most 262,144 are sent"),
]


async def test_an_impossible_webhook_is_reported_before_anything_is_sent(tmp_path: Path) -> None:
    async with sending(tmp_path) as here:
        for wrong, says in UNSENDABLE:
            assert says in await here.refused(**EVENT | wrong), wrong
        assert here.served.seen == []
        assert "webhook_send" in {spec.name for spec in listed(here.settings)}
        assert "webhook_send" not in {spec.name for spec in listed(replace(here.settings, read_only=True))}


LOST: dict[str, Callable[[], Fault]] = {
    "taken, and no reply": after,
    "not taken, and no reply": before,
    "a 500 after it was taken": lambda: status(500, acts=True),
    "a 503 before": lambda: status(503),
    "half a reply": lambda: truncated(acts=True),
    "no HTTP": malformed,
    "too large": lambda: oversized(9 * 1024 * 1024),
}


@pytest.mark.parametrize("fault", LOST)
async def test_a_lost_reply_is_followed_by_the_same_message_under_the_same_id(tmp_path: Path, fault: str) -> None:
    async with sending(tmp_path) as here:
        here.served.plan = in_turn(LOST[fault]())
        answer = await here.call(**EVENT)
        assert (answer["status"], len(here.served.seen), list(here.receiver.taken)) == (
            "done",
            2,
            [answer["webhook_id"]],
        )
        here.served.plan = in_turn(LOST[fault](), LOST[fault]())
        unsure = await here.call(**EVENT | {"text": "twice lost"})
        assert (unsure["status"], len(here.served.seen)) == ("unsure", 4)
        assert f"The same call sends it again as {unsure['webhook_id']}" in unsure["note"]
        again = await here.call(**EVENT | {"text": "twice lost"})
        assert (again["status"], again["webhook_id"]) == ("done", unsure["webhook_id"])
        assert (len(here.receiver.taken), here.receiver.refused) == (2, 0)


NOT_TAKEN: list[tuple[Fault, str]] = [
    (status(400, body=f"no, {SECRET}"), "the receiver releases refused the request (400)"),
    (status(401), "compare the secret of releases in FORGE_WEBHOOKS"),
    (status(404, {"content-type": "text/html"}, "<html>"), "(404)"),
    (status(429, {"retry-after": "30"}), "accepts no more requests for now; nothing was done. Try again in 30 s"),
    (redirected(f"https://elsewhere.example.com{PATH}"), "redirected to https://elsewhere.example.com"),
    (redirected("http://169.254.169.254/latest/meta-data", 307), "which was not followed; set FORGE_WEBHOOKS"),
]


async def test_a_webhook_that_was_certainly_not_taken_is_an_error_and_can_be_sent_again(tmp_path: Path) -> None:
    async with sending(tmp_path) as here:
        for fault, says in NOT_TAKEN:
            here.served.plan = in_turn(fault)
            assert says in await here.refused(**EVENT)
        assert len(here.served.seen) == len(NOT_TAKEN), "each was sent once, and no redirect was followed"
        here.served.plan = in_turn(html())
        assert (await here.call(**EVENT))["status"] == "done", "whatever a 200 says"
        here.served.plan = in_turn(status(410))
        asked = len(here.served.seen) + 1
        for _ in range(2):
            assert "accepts no more webhooks (410)" in await here.refused(**EVENT | {"text": "more"})
        assert len(here.served.seen) == asked, "after a 410 nothing is sent any more"
    gone = (WebhookTarget("releases", here.served.address, (SECRET,)),)
    async with sending(tmp_path, webhooks=gone) as away:
        assert "cannot be reached (nothing listens there); nothing was done" in await away.refused(
            **EVENT | {"text": "to nobody"}
        )


async def test_a_receiver_that_takes_too_long_may_have_taken_it() -> None:
    async with served(Receiver(SECRET)) as double, AsyncExitStack() as stack:
        target = WebhookTarget("slow", double.address, (SECRET,))
        clients = make_clients(None)
        stack.push_async_callback(clients.aclose)
        address = ServiceAddress("the receiver slow", double.address, "FORGE_WEBHOOKS", {}, (SECRET,))
        bounds = RequestLimits(reply_s=0.2, silence_s=0.2)
        sender = Sender(
            address, clients.kept, fresh=clients.fresh, sleep=at_once, monotonic=time.monotonic, bounds=bounds
        )
        there = Receivers(WebhookAccess((target,)), {"slow": sender}, {"slow": "/"}, now=utc_now)
        double.plan = in_turn(delayed(2.0))
        with pytest.raises(ReplyLost, match="took too long"):
            await there.deliver(target, "kf-1", b"{}")


async def test_after_a_kill_the_same_message_is_sent_under_the_same_id_however_late(tmp_path: Path) -> None:
    """Between sending and the record of it: a receiver that took it drops the copy."""
    async with sending(tmp_path) as here:
        services, passed = here.app.services, timedelta()

        def now() -> datetime:
            return utc_now() + passed

        dispatcher = OutboxDispatcher(services.state.outbox, Locks(tmp_path / "locks"), now=now, sleep=at_once)
        services = replace(services, load_dispatcher=lambda: dispatcher)
        asked = SendWebhookArguments(**EVENT)
        for number, call in enumerate(
            (
                Call(Principal("ann", "writer"), origin="inner", run="r1", key="r1/1"),
                Call(Principal("ann", "writer"), origin="approved", approval=Approval("p1", "approved by ann", "")),
            )
        ):
            passed = timedelta()
            asked = SendWebhookArguments(**EVENT | {"text": f"killed {number}"})
            plan = await plan_send(services, call, asked)
            assert plan.preview is not None
            entry = outbox_entry_for(
                call,
                tool="webhook_send",
                target="webhook:releases",
                digest=plan.preview.effect,
                arguments_hash="",
                at=now(),
            )
            await services.state.outbox.begin(entry, within=timedelta(0))
            if number == 0:  # it had been taken before the kill
                there = receivers_of(services)
                await there.deliver(there.target("releases"), entry.id, plan.preview.answer.preview.encode())
            passed = timedelta(hours=5)
            assert await recall_send(services, call, asked) is None, "nobody can tell, and it is safe to send"
            answer = await (await plan_send(services, call, asked)).execute(call)
            assert (answer.status, answer.webhook_id) == ("done", entry.id)
            recalled = await recall_send(services, call, asked)
            assert recalled is not None
            assert (recalled.status, recalled.webhook_id) == ("done", entry.id)
        assert (len(here.receiver.taken), here.receiver.copies) == (2, 1)


async def test_many_equal_concurrent_calls_send_once(tmp_path: Path) -> None:
    async with sending(tmp_path) as here:
        answers: list[str] = []

        async def call() -> None:
            answers.append((await here.call(**EVENT))["status"])

        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(call)
        assert sorted(answers) == ["done", *["unchanged"] * 5]
        assert len(here.served.seen) == 1


def always(fault: Fault) -> Plan:
    return lambda _method, _path, _number: fault


@pytest.mark.security
async def test_no_fault_brings_the_secret_or_the_private_address_to_light(tmp_path: Path) -> None:
    """The path and the query of a receiver's address are often keys themselves."""
    echo = f"you sent {SECRET} to {PATH}"
    faults = [
        status(400, {"x-echo": echo}, echo),
        status(500, {"x-echo": echo}, echo),
        redirected(f"https://elsewhere.example.com{PATH}&x={SECRET}"),
        html(400),
        malformed(),
        *(make() for make in LOST.values()),
        status(410),
    ]
    with everything_logged() as log:
        async with sending(tmp_path) as here:
            told = [str(await here.call(**EVENT))]
            for number, fault in enumerate(faults):
                here.served.plan = always(fault)
                result = await here.writer.client.call_tool("webhook_send", EVENT | {"text": f"the merger {number}"})
                told.append(result.model_dump_json())
                if result.is_error:
                    assert "the merger" not in told[-1]
            secrets = (SECRET, SECRET.removeprefix("whsec_"), "5ecr37-path", "5ecr37-query")
            assert here.settings.state_dir is not None
            stored = [content.decode("latin-1") for _, content in on_disk(here.settings.state_dir)]
        for text in (*told, *stored, log.getvalue()):
            assert not [secret for secret in secrets if secret in text], text[:2_000]
        assert not re.search("the merger", log.getvalue())
