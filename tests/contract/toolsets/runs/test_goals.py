"""Scripted goals, carried out end to end: a real client, the real server and gate, a model on a socket.

By default each goal runs over one vendor's interface; with `-m external` over each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_server.app.settings.values import prices
from tests.doubles.plane import ADA, WORKSPACE, plane_served
from tests.doubles.provider_turns import Call, Trouble, Turn, said, uses
from tests.doubles.serving import delayed, served
from tests.support.hosts.reviewers import ANN
from tests.support.plane.hosts import named, reviewing
from tests.support.runs.hosts import RunHost, run_host
from tests.support.zulip.hosts import BOT, LEVELS, Clock, furnished

VENDORS = ("anthropic", "openai", "openai-responses")


def with_vendors(first: int) -> pytest.MarkDecorator:
    """Run the goal over one vendor by default, and over the others among the external tests."""
    usual = VENDORS[first % len(VENDORS)]
    return pytest.mark.parametrize(
        "vendor", [pytest.param(v, marks=() if v == usual else pytest.mark.external) for v in VENDORS]
    )


def outputs(asked: Mapping[str, Any]) -> list[str]:
    """Return the results sent to the model so far, oldest first, from a request in any vendor's form."""
    if "input" in asked:
        return [str(item["output"]) for item in asked["input"] if item.get("type") == "function_call_output"]
    found: list[str] = []
    for message in asked["messages"]:
        if message["role"] == "tool":
            found.append(str(message["content"]))
        elif isinstance(message["content"], list):
            results = [block for block in message["content"] if block.get("type") == "tool_result"]
            found += ["".join(part["text"] for part in _parts(block["content"])) for block in results]
    return found


def _parts(content: Any) -> list[Mapping[str, Any]]:
    return [{"text": content}] if isinstance(content, str) else list(content)


def newest(asked: Mapping[str, Any]) -> Any:
    """Return a tool's newest answer."""
    return json.loads(outputs(asked)[-1])


async def ended(host: RunHost, run: str) -> dict[str, Any]:
    """Return how a run in the background ended."""
    with anyio.fail_after(60):
        while (there := await host.app.services.runs.store.run(run)).state in ("suspended", "running"):
            seen = await host.app.services.state.last_event()
            if (await host.app.services.runs.store.run(run)).count == there.count:
                await host.app.services.state.changed(seen)
    return await host.call("agent_trace", run_id=run)


@pytest.mark.parametrize("answer_tokens", [8_192, 16_384], ids=["in one piece", "streamed"])
@with_vendors(0)
async def test_a_question_is_answered_from_the_knowledge_base_with_citations_that_hold(
    vendor: str, answer_tokens: int, tmp_path: Path
) -> None:
    def cites(asked: Mapping[str, Any]) -> Turn:
        page = newest(asked)
        assert "forty seconds" in page["text"]
        return said(f"It takes forty seconds ({page['path']}, Rolling back, revision {page['revision']}).")

    async with run_host(tmp_path, vendor=vendor, run_answer_tokens=answer_tokens) as host:
        host.will(
            "How long",
            uses("kb_map", path=""),
            uses("kb_read", path="guides/deploy.md", view="outline"),
            Turn("There it is.", calls=(Call("kb_read", {"path": "guides/deploy.md", "section": "Rolling back"}),)),
            cites,
        )
        answer = await host.call("agent_run", goal="How long does it take to roll back?")
        assert (answer["status"], answer["goal_achieved"], answer["iterations"]) == ("done", True, 4)
        assert answer["tools_called"] == ["kb_map", "kb_read"]
        assert await host.writer.revision("guides/deploy.md") in answer["text"]
        assert host.model.left == 0
        assert {bool(asked.get("stream")) for asked in host.model.asked} == {answer_tokens > 8_192}


@with_vendors(1)
async def test_a_task_in_plane_is_made_of_a_document(vendor: str, tmp_path: Path) -> None:
    def makes(asked: Mapping[str, Any]) -> Turn:
        page = json.loads(outputs(asked)[0])
        return uses(
            "plane_create_task",
            project=newest(asked)["projects"][0]["key"],
            name="Automate the rotation of secrets",
            description=f"The page says that they rotate every week: see kb:{page['path']}.",
        )

    def reports(asked: Mapping[str, Any]) -> Turn:
        task = newest(asked)
        return said(f"{task['key']} was made of guides/deploy.md.")

    async with plane_served() as (place, plane):
        told = {"plane_base_url": place.address, "plane_api_key": ADA.key, "plane_workspace": WORKSPACE}
        async with run_host(tmp_path, level=4, vendor=vendor, **told) as host:
            host.will(
                "Make a task",
                uses("kb_read", path="guides/deploy.md", section="Secrets"),
                uses("plane_list_projects"),
                makes,
                reports,
            )
            answer = await host.call("agent_run", goal="Make a task in Plane of what guides/deploy.md leaves to do.")
            assert answer["status"] == "done", answer
            assert len(named(plane, "Automate the rotation of secrets")) == 1
            assert answer["tools_called"] == ["kb_read", "plane_list_projects", "plane_create_task"]


@with_vendors(2)
async def test_the_person_is_asked_and_their_answer_is_used(vendor: str, tmp_path: Path) -> None:
    def obeys(asked: Mapping[str, Any]) -> Turn:
        return uses("kb_read", path=outputs(asked)[-1])

    async with run_host(tmp_path, vendor=vendor) as host:
        host.will(
            "Sum up a page",
            Turn(calls=(Call("ask_user", {"question": "Which page?"}),)),
            obeys,
            said("A new colleague gets a laptop, a mentor and a task."),
        )
        asks = await host.call("agent_run", goal="Sum up a page.")
        assert (asks["status"], asks["question"]) == ("asking", "Which page?")
        answer = await host.call("agent_run", run_id=asks["run_id"], answer="guides/onboarding.md")
        assert (answer["status"], answer["tools_called"]) == ("done", ["kb_read"])


@with_vendors(0)
async def test_an_act_that_needs_a_person_is_proposed_and_the_run_continues_after_approval(
    vendor: str, tmp_path: Path
) -> None:
    async with run_host(tmp_path, vendor=vendor) as host, reviewing(host.settings) as person:
        host.will(
            "Rename",
            uses("kb_move", path="guides/deploy.md", to="guides/release.md"),
            uses("kb_read", path="guides/release.md"),
            said("It lies at guides/release.md now."),
        )
        waits = await host.call("agent_run", goal="Rename the page on deploying.")
        assert waits["status"] == "proposed"
        assert (host.settings.kb / "guides/deploy.md").exists()
        proposal = await person.only()
        assert proposal.id == waits["proposal"]["id"]
        assert (await person.approve(proposal.id)).state == "executed"
        trace = await ended(host, waits["run_id"])
    assert trace["status"] == "done", trace["text"]
    assert not (host.settings.kb / "guides/deploy.md").exists()


@with_vendors(1)
async def test_a_rejection_is_passed_on_with_the_persons_words_and_the_run_gives_up(
    vendor: str, tmp_path: Path
) -> None:
    heard: list[str] = []

    def gives_up(asked: Mapping[str, Any]) -> Turn:
        heard.append(json.dumps(asked))
        return Turn(calls=(Call("give_up", {"reason": "A person does not want the page moved."}),))

    async with run_host(tmp_path, vendor=vendor) as host, reviewing(host.settings) as person:
        host.will("Rename", uses("kb_move", path="guides/deploy.md", to="guides/release.md"), gives_up)
        waits = await host.call("agent_run", goal="Rename the page on deploying.")
        await person.reject((await person.only()).id, ANN, note="the links outside would break")
        trace = await ended(host, waits["run_id"])
    assert trace["status"] == "done"
    assert "A person does not want" in trace["text"]
    assert "the links outside would break" in heard[0]
    assert (host.settings.kb / "guides/deploy.md").exists()


@with_vendors(2)
async def test_knowledge_is_merged_into_a_page_that_changed_meanwhile(vendor: str, tmp_path: Path) -> None:
    async with run_host(tmp_path, vendor=vendor) as host:
        page = host.settings.kb / "guides/deploy.md"

        def merges(asked: Mapping[str, Any]) -> Turn:
            seen = newest(asked)
            page.write_text(page.read_text().replace("canary first", "canary and a smoke test first"))
            changed = seen["text"].replace("rotate every week", "rotate every day")
            return uses("kb_merge", path=seen["path"], content=changed, base_revision=seen["revision"], source="user")

        host.will(
            "Secrets rotate",
            uses("kb_read", path="guides/deploy.md", view="full"),
            merges,
            said("The page says laptop now."),
        )
        answer = await host.call("agent_run", goal="Secrets rotate every day: put that on record.")
        text = page.read_text()
    assert answer["status"] == "done", answer
    assert "rotate every day" in text
    assert "canary and a smoke test first" in text


@with_vendors(0)
async def test_a_decision_on_a_page_is_announced_in_a_channel(vendor: str, tmp_path: Path) -> None:
    zulip = furnished(LEVELS[0], Clock())
    bot = zulip.world.user(BOT)
    async with served(zulip) as place:
        told = {"zulip_site": place.address, "zulip_email": bot.email, "zulip_api_key": bot.key}
        async with run_host(tmp_path, level=4, vendor=vendor, **told) as host:
            host.will(
                "Tell the channel",
                uses("kb_search", query="why a message queue", path="decisions"),
                uses(
                    "zulip_send_message",
                    channel="drawing",
                    topic="decisions",
                    text="We use a queue between checkout and billing: kb:decisions/0001-queue.md",
                ),
                said("#drawing knows."),
            )
            answer = await host.call("agent_run", goal="Tell the channel drawing why we use a queue.")
            assert answer["status"] == "done", answer
            assert place.count("POST", "/api/v1/messages") == 1


@with_vendors(1)
async def test_the_bound_on_iterations_ends_a_run_that_never_ends(vendor: str, tmp_path: Path) -> None:
    async with run_host(tmp_path, vendor=vendor) as host:
        host.will("Look", *[uses("kb_map", path="")] * 9)
        answer = await host.call("agent_run", goal="Look for ever.", max_iterations=3)
    assert (answer["status"], answer["iterations"]) == ("failed", 3)
    assert "3 iterations" in answer["text"]
    assert host.model.left == 6


@with_vendors(2)
async def test_the_time_limit_ends_a_run_whose_model_is_slow(vendor: str, tmp_path: Path) -> None:
    async with run_host(tmp_path, vendor=vendor) as host:
        host.will("Hurry", said("too late"))
        host.served.plan = lambda _method, _path, _number: delayed(20)
        answer = await host.call("agent_run", goal="Hurry.", timeout_seconds=1)
    assert (answer["status"], answer["iterations"]) == ("failed", 0)
    assert "1 seconds" in answer["text"]


@with_vendors(0)
async def test_the_bound_on_tokens_ends_a_run_before_it_is_crossed(vendor: str, tmp_path: Path) -> None:
    async with run_host(tmp_path, vendor=vendor, run_tokens=5_000) as host:
        host.will("Look", *[Turn(calls=(Call("kb_map", {"path": ""}),), input=2_000, output=20)] * 9)
        answer = await host.call("agent_run", goal="Look for ever.", max_iterations=9)
    assert answer["status"] == "failed"
    assert "5000 tokens" in answer["text"]
    assert answer["tokens_in"] + answer["tokens_out"] <= 5_000
    assert host.model.left == 7


@with_vendors(1)
async def test_the_cost_limit_ends_a_run_as_soon_as_it_is_reached(vendor: str, tmp_path: Path) -> None:
    priced: dict[str, Any] = {"model_prices": prices("some-*=10/50"), "run_cost": Decimal("0.03")}
    async with run_host(tmp_path, vendor=vendor, **priced) as host:
        host.will("Look", *[Turn(calls=(Call("kb_map", {"path": ""}),), input=1_000, output=100)] * 9)
        answer = await host.call("agent_run", goal="Look for ever.", max_iterations=9)
    assert (answer["status"], answer["iterations"]) == ("failed", 2)
    assert answer["cost"] == pytest.approx(0.03)
    assert host.model.left == 7


@with_vendors(2)
async def test_a_server_that_is_overloaded_for_a_while_is_waited_for(vendor: str, tmp_path: Path) -> None:
    kind = "overloaded_error" if vendor == "anthropic" else "server_error"
    async with run_host(tmp_path, vendor=vendor) as host:
        host.will(
            "Try",
            Trouble(429, "rate_limit_error", headers={"retry-after": "2"}),
            Trouble(529, kind),
            Trouble(503, kind),
            said("At last: 20 laptops."),
        )
        answer = await host.call("agent_run", goal="Try.")
    assert (answer["status"], answer["text"], answer["iterations"]) == ("done", "At last: 20 laptops.", 1)


@with_vendors(0)
async def test_an_answer_that_makes_no_sense_is_corrected_once_and_the_second_ends_the_run(
    vendor: str, tmp_path: Path
) -> None:
    nonsense = Turn(calls=(Call("kb_reed", "{no json"),))
    async with run_host(tmp_path, vendor=vendor) as host:
        host.will("Be sensible", nonsense, uses("kb_map", path=""), said("It is a small one."))
        host.will("Be silly", nonsense, Turn(" "), said("never asked for"))
        corrected = await host.call("agent_run", goal="Be sensible.")
        failed = await host.call("agent_run", goal="Be silly.")
    assert (corrected["status"], corrected["tools_called"]) == ("done", ["kb_map"])
    assert (failed["status"], failed["iterations"]) == ("failed", 2)
    assert host.model.left == 1


@with_vendors(1)
async def test_a_key_that_is_not_let_in_ends_the_run_with_the_variable_to_look_at(vendor: str, tmp_path: Path) -> None:
    async with run_host(tmp_path, vendor=vendor) as host:
        host.model.key = "sk-another-0123456789abcdef"
        answer = await host.call("agent_run", goal="Say hello.")
        trace = await host.call("agent_trace", run_id=answer["run_id"])
    assert answer["status"] == "failed"
    assert ("ANTHROPIC_API_KEY" if vendor == "anthropic" else "OPENAI_API_KEY") in answer["text"]
    assert "sk-" not in answer["text"] + trace["text"]
