"""Runs on the review page over a real socket, without JavaScript: what is shown, a person's answer, ending one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from agents.loop.record.frames import Header, PersonAnswered, RunLimits
from agents.loop.record.run import Run
from agents.loop.store.ports import RunStore
from agents.loop.tools import CallOutcome
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.values import LanguageModelName
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal
from mcp_server.runs.locations import runs_in
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import said as says
from tests.doubles.provider_turns import uses
from tests.doubles.serving import serving
from tests.support.runs.records import header
from tests.support.runs.scripts import ActsOnRecord, Led, Scripted, ask, said, use
from tests.support.web.review_pages import ME, PATIENCE_S, Place, kept, shown

HOST = "ada@desktop"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


def store_of(place: Place) -> RunStore:
    return runs_in(place.app.base.state)


def goal(run_id: str, text: str) -> Header:
    return replace(header(), id=run_id, goal=text, principal=HOST)


def real(run_id: str, text: str) -> Header:
    """Return a run's first frame, begun now by an unregistered host."""
    return Header(id=run_id, goal=text, principal=f"{ME}@unenrolled", begun_at=utc_now(), model="openai:some-model")


async def led(place: Place, head: Header, *answers: object, **tools: CallOutcome) -> Run:
    """Return a run that another process led until it needed a person."""
    return await Led(Scripted(*answers), ActsOnRecord(**tools), store_of(place)).start(head)  # type: ignore[arg-type]


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html.partition("<main")[2]).split())


# --- showing ----------------------------------------------------------------------------------------------------------


async def test_asking_runs_come_first_are_counted_and_listed_as_pending(place: Place) -> None:
    asks = await led(place, goal("r-asks", "Which bees?"), said("", ask("Which hive?")))
    done = await led(place, goal("r-done", "Which wasps?"), said("None."))
    visitor = await place.visitor()
    html = await visitor.look("/runs")
    assert html.index(f"/runs/{asks.id}") < html.index(f"/runs/{done.id}")
    assert html.count(f'href="/runs/{asks.id}"') == 1
    assert '<span class="count" data-count>1</span>' in html
    home = text_of(await visitor.look("/waiting"))
    assert "1 run needs your answer. Which bees? asking" in home
    assert "Which wasps?" not in home


async def test_runs_are_filtered_by_state_and_paged(place: Place) -> None:
    waits = await led(place, goal("r-waits", "Which?"), said("", ask("Which hive?")))
    others = [(await led(place, goal(f"r-{number:02}", "Say it."), said("It is 20."))).id for number in range(35)]
    visitor = await place.visitor()
    done = await visitor.look("/runs?state=done")
    older = await visitor.look(re.findall(r'rel="next" href="([^"]+)"', done)[0].replace("&amp;", "&"))
    assert sorted(re.findall(r'href="/runs/(r-\w+)"', done + older)) == others
    assert re.findall(r'href="/runs/(r-\w+)"', await visitor.look("/runs?state=asking")) == [waits.id]
    assert "No runs match" in await visitor.look("/runs?state=failed")


async def test_each_step_is_shown_with_its_details(place: Place) -> None:
    found = CallOutcome(success=True, text='{"hits":[]}', structured={"hits": []})
    run = await led(
        place, goal("r-steps", "Find\nthe bees."), said("I look.", use("kb_search", text="bees")), said("Nowhere."),
        kb_search=found,
    )  # fmt: skip
    told = text_of(await (visitor := await place.visitor()).look(f"/runs/{run.id}"))
    for part in (
        "Find the bees. done by ada@desktop",
        "The run is done.",
        "Answer Nowhere.",
        "1. The model decided to call tools",
        "I look.",
        "kb_search will be called",
        "kb_search answered, after",
    ):
        assert part in told
    assert "Cancel the run" not in told
    assert visitor.status == 200
    assert (await visitor.look("/runs/r-none"), visitor.status)[1] == 404


async def test_limits_are_shown_in_readable_form(place: Place) -> None:
    head = replace(goal("r-bound", "Say it."), limits=RunLimits(iterations=3, seconds=2_700, cost_micros=1_500_000))
    run = await led(place, head, said("It is 20."))
    told = text_of(await (await place.visitor()).look(f"/runs/{run.id}"))
    assert (
        "iterations 3 seconds 2,700 tokens 200,000 context tokens 24,000 answer tokens 4,096 cost 1.5 toolsets all"
        in told
    )


async def test_long_text_is_folded_until_opened(place: Place) -> None:
    run = await led(place, goal("r-long", "Say it."), said(" ".join(map(str, range(2_000))) + " END"))
    visitor = await place.visitor()
    assert "END" not in await visitor.look(f"/runs/{run.id}")
    assert "Show all" in visitor.html
    assert "END" in await visitor.look(f"/runs/{run.id}?whole=1")
    assert "Show all" not in visitor.html


async def test_text_of_models_and_hosts_is_escaped(place: Place) -> None:
    evil = "<script>alert(1)</script>\u202e"
    head = replace(goal("r-evil", evil), context=evil, principal=f"{evil}@x", model=evil)
    run = await led(
        place, head, said(evil, use("kb_search", text=evil)), said(evil, ask(evil)),
        kb_search=CallOutcome(success=False, text=evil),
    )  # fmt: skip
    visitor = await place.visitor()
    for path in ("/waiting", "/runs", f"/runs/{run.id}", f"/runs/{run.id}/answer"):
        html = await visitor.look(path)
        assert visitor.status == 200
        assert "<script>alert" not in html
        assert "\u202e" not in html
        assert "alert(1)" in html


async def test_a_stranger_learns_nothing_of_runs(place: Place) -> None:
    run = await led(place, goal("r-asks", "Which bees?"), said("", ask("Which hive?")))
    stranger = await place.visitor(logged_in=False)
    nothing = await stranger.look("/runs/no")
    for path in ("/runs", f"/runs/{run.id}", f"/runs/{run.id}/answer"):
        assert await stranger.look(path) == nothing
    await stranger.post(f"/runs/{run.id}/cancel", {})
    assert (await store_of(place).run(run.id)).state == "asking"


# --- a person's decisions ---------------------------------------------------------------------------------------------


async def test_a_question_is_answered_once_and_the_run_is_left_to_a_server_with_its_model(place: Place) -> None:
    run = await led(place, goal("r-asks", "Which bees?"), said("", ask("Which hive?\nSay its number.")))
    visitor = await place.visitor()
    other = await place.visitor()
    assert "Question for you Which hive? Say its number. Answer Goal" in text_of(await visitor.look(f"/runs/{run.id}"))
    for one in (visitor, other):
        assert "Say its number." in await one.look(f"/runs/{run.id}/answer")
    await visitor.send(f"/runs/{run.id}/answer", answer="  ")
    assert visitor.status == 422
    assert "the answer is empty" in visitor.html
    await visitor.send(f"/runs/{run.id}/answer", answer="<b>long</b> " * 1_000)
    assert visitor.status == 422
    assert "&lt;b&gt;long&lt;/b&gt; &lt;b&gt;" in visitor.html, "nobody types it anew"
    await visitor.send(f"/runs/{run.id}/answer", answer="The third.\nOn the roof.")
    assert f"{ME} answered" in text_of(visitor.html)
    await other.send(f"/runs/{run.id}/answer", answer="The fourth.")
    assert "That did not work" in other.html
    there = await store_of(place).run(run.id)
    assert [(frame.by, frame.text) for frame in there.frames if isinstance(frame, PersonAnswered)] == [
        (ME, "The third.\nOn the roof.")
    ]
    assert there.state == "running"


async def test_a_refused_form_is_shown_again_only_for_open_questions(place: Place) -> None:
    run = await led(place, goal("r-asks", "Which bees?"), said("", ask("Which hive?")))
    visitor, other = await place.visitor(), await place.visitor()
    for one in (visitor, other):
        await one.look(f"/runs/{run.id}/answer")
    await visitor.send(f"/runs/{run.id}/answer", answer="The third.")
    await other.send(f"/runs/{run.id}/answer", answer="  ")
    assert f"{ME} answered" in text_of(other.html)
    assert "<textarea" not in other.html


async def test_a_run_is_cancelled_and_its_pending_proposal_withdrawn(place: Place) -> None:
    call = Call(Principal(ME, "unenrolled"), origin="inner", run="r-move", key="r-move/f-1")
    asked = {"path": "new.md", "content": "# New\n\nOne.\n"}
    answer = await place.app.gate.dispatch("kb_merge", asked, call)
    proposal = getattr(answer, "waits", None)
    assert proposal is not None
    waits = CallOutcome(success=True, text="it waits", proposal=proposal.id)
    head = replace(goal("r-move", "Move it."), principal=proposal.principal)
    run = await led(place, head, said("", use("kb_merge")), kb_merge=waits)
    visitor = await place.visitor()
    html = await visitor.look(f"/runs/{run.id}")
    assert f'href="/proposals/{proposal.id}"' in html
    await visitor.send(f"/runs/{run.id}/cancel")
    assert f"was cancelled: cancelled by {ME} on the review page" in text_of(visitor.html)
    assert (await place.proposal(proposal.id)).state == "withdrawn"
    assert f"/runs/{run.id}/cancel" not in visitor.html


async def test_with_a_configured_model_an_answered_run_continues_immediately(tmp_path: Path) -> None:
    model = Model()
    model.will("Tidy", uses("ask_user", question="Which page?"), says("Tidied: two hives left."))
    with serving(model) as served:
        more: dict[str, Any] = {"openai_api_key": KEY, "openai_base_url": f"{served.address}/v1"}
        async with shown(tmp_path, model=LanguageModelName("openai", "some-model"), **more) as place:
            runs = place.app.services.runs
            head = real("r-tidy", "Tidy up.")
            assert (await runs.carry(head)).state == "asking"
            visitor = await place.visitor()
            await visitor.look(f"/runs/{head.id}/answer")
            await visitor.send(f"/runs/{head.id}/answer", answer="All.")
            with anyio.fail_after(PATIENCE_S):
                async for _ in runs.followed(head.id):
                    pass
            told = text_of(await visitor.look(f"/runs/{head.id}"))
    assert "Answer Tidied: two hives left." in told


async def test_a_server_that_may_change_nothing_leaves_an_answered_run_to_others(tmp_path: Path) -> None:
    model = Model()
    model.will("Tidy", uses("ask_user", question="Which page?"), says("Tidied: two hives left."))
    with serving(model) as served:
        more: dict[str, Any] = {"openai_api_key": KEY, "openai_base_url": f"{served.address}/v1"}
        async with shown(tmp_path, model=LanguageModelName("openai", "some-model"), read_only=True, **more) as place:
            runs, head = place.app.services.runs, real("r-tidy", "Tidy up.")
            assert (await runs.carry(head)).state == "asking"
            visitor = await place.visitor()
            await visitor.look(f"/runs/{head.id}/answer")
            await visitor.send(f"/runs/{head.id}/answer", answer="All.")
            assert not runs.aside
            assert isinstance((await runs.store.run(head.id)).frames[-1], PersonAnswered)


async def test_the_proposal_of_a_run_leads_to_the_run(tmp_path: Path) -> None:
    model = Model()
    model.will("Move", uses("kb_move", path="guides/deploy.md", to="guides/release.md"))
    with serving(model) as served:
        more: dict[str, Any] = {"openai_api_key": KEY, "openai_base_url": f"{served.address}/v1"}
        async with shown(tmp_path, model=LanguageModelName("openai", "some-model"), **more) as place:
            head = real("r-move", "Move it.")
            run = await place.app.services.runs.carry(head)
            html = await (await place.visitor()).look(f"/proposals/{run.proposal}")
    assert '<a href="/runs/r-move">a run</a>' in html
