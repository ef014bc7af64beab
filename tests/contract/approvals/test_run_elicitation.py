"""A run that waits for a person continues in the host, in the call that began it; forms don't decide everything."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
)

from agents.loop.record.frames import Control, PersonAnswered
from agents.loop.record.run import Run
from knowledge.errors import StorageError
from knowledge.trust.ports import Proposal, State
from mcp_server.app.composition import App
from mcp_server.app.dependencies import Services
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import LanguageModelName
from mcp_server.approvals.approvers import Approver
from mcp_server.approvals.elicitation import proposal_form as asking_form
from mcp_server.approvals.elicitation import run_elicitation as run_rounds
from mcp_server.approvals.elicitation.run_elicitation import MOST_ROUNDS
from mcp_server.cli.trust.acts import enrol
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.gate.trust.scores import freeze, grant
from mcp_server.protocol.calls import host_questions
from mcp_server.runs.daily_limit import Day, DayBounds
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import Call as Use
from tests.doubles.provider_turns import Turn, said, uses
from tests.doubles.serving import served
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened
from tests.support.runs.hosts import asking, at_once

pytestmark = pytest.mark.security

ERAS = ("auto", "legacy")
ROOT = Path(__file__).parents[3]
OURS = f"{os_user()}@desktop"
PAGES = {
    "guides/deploy.md": "# Deploy\n\nBy hand.\n",
    "guides/roll.md": "# Roll back\n",
    "a.md": "# A\n",
    "b.md": "# B\n",
}
ADD = uses("kb_merge", path="guides/release.md", content="# Release\n\nBy hand.\n")
ADD_TOO = uses("kb_merge", path="guides/undo.md", content="# Undo\n")
MOVE = uses("kb_move", path="guides/deploy.md", to="guides/moved.md")
ASK = uses("ask_user", question="Which of the two?")

Reaction = Callable[[ElicitRequestFormParams], Awaitable[ElicitResult]]


@dataclass
class Sitting:
    """The person at the host: reacts to one form after the other, and then always in the last way."""

    reactions: list[ElicitResult | Reaction]
    forms: list[ElicitRequestFormParams] = field(default_factory=list)

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        del context
        assert isinstance(params, ElicitRequestFormParams)
        self.forms.append(params)
        reaction = self.reactions.pop(0) if len(self.reactions) > 1 else self.reactions[0]
        return reaction if isinstance(reaction, ElicitResult) else await reaction(params)


@dataclass(frozen=True)
class Host:
    """A connected host with its person, and the model that its server asks."""

    writer: Writer
    model: Model
    person: Sitting
    settings: Settings

    @property
    def app(self) -> App:
        return self.writer.app

    @property
    def forms(self) -> list[ElicitRequestFormParams]:
        return self.person.forms

    def exists(self, path: str) -> bool:
        return (self.settings.kb / path).exists()

    async def run(self, *script: Turn, **more: object) -> dict[str, Any]:
        """Run a goal whose model answers like this, and return the call's answer."""
        self.model.will("Carry on", *script)
        return await self.writer.call("agent_run", goal="Carry on.", **more)

    async def proposals(self, state: State) -> Sequence[Proposal]:
        return await self.app.services.state.trust.proposals(states=(state,))

    async def signals(self, run: str) -> list[str]:
        there = await self.app.services.runs.store.run(run)
        return [frame.signal for frame in there.frames if isinstance(frame, Control)]


def yes(note: str = "") -> ElicitResult:
    return ElicitResult(action="accept", content={"decision": "approve", "note": note})


def no(note: str = "") -> ElicitResult:
    return ElicitResult(action="accept", content={"decision": "reject", "note": note})


def answers(text: str) -> ElicitResult:
    return ElicitResult(action="accept", content={"answer": text})


CLOSED = ElicitResult(action="cancel")


@asynccontextmanager
async def hosting(
    folder: Path, mode: str, *reactions: ElicitResult | Reaction, announcing: bool = True
) -> AsyncIterator[Host]:
    """Yield a host whose person reacts like this to forms; without reactions it shows none."""
    settings = Settings(kb=write(folder / "kb", PAGES), state_dir=folder / "state", open_browser=False)
    settings = await let_in(settings, "desktop", 3, forms=True)
    model, person = Model(), Sitting(list(reactions))
    async with served(model) as place:
        settings = asking(settings, place)
        async with (
            opened(settings, indexing=False, announcing=announcing, sleep=at_once) as app,
            connect(app, mode=mode, elicitation_callback=person if reactions else None) as client,
        ):
            yield Host(Writer(client, app, settings.kb), model, person, settings)


@asynccontextmanager
async def proposing(
    folder: Path, mode: str, *reactions: ElicitResult | Reaction, announcing: bool = True
) -> AsyncIterator[Host]:
    """Yield a host that falls below the level for edits while its person answers the first question.

    Then they react like this.
    """
    async with hosting(folder, mode, CLOSED, *reactions, announcing=announcing) as host:

        async def react(form: ElicitRequestFormParams) -> ElicitResult:
            del form
            await grant(host.app.base.state, OURS, 2, by="ann", now=utc_now())
            return answers("the second")

        host.person.reactions[0] = react
        yield host


@pytest.mark.parametrize("mode", ERAS)
async def test_a_question_is_answered_in_a_form_of_one_field(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode, answers(" the second ")) as host:
        answer = await host.run(ASK, said("The second it is."))
        assert (answer["status"], answer["text"], answer["question"]) == ("done", "The second it is.", "")
        assert "Which of the two?" in host.forms[0].message
        assert list(host.forms[0].requested_schema["properties"]) == ["answer"]
        run = await host.app.services.runs.store.run(answer["run_id"])
        told = [(frame.text, frame.by) for frame in run.frames if isinstance(frame, PersonAnswered)]
        assert told == [("the second", f"{OURS} (in the host)")]


@pytest.mark.parametrize("mode", ERAS)
async def test_an_answer_is_kept_until_the_daily_limit_has_room(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode, answers("the second")) as host:
        runs = host.app.services.runs
        runs.day = Day(runs.store, DayBounds(tokens=120), utc_now)
        with anyio.fail_after(60):
            answer = await host.run(ASK, said("never"))
        there = await runs.store.run(answer["run_id"])
        assert isinstance(there.frames[-1], PersonAnswered)
        assert answer["status"] == "running"
        assert answer["note"].startswith(
            "The run is waiting because a limit is used up: all runs together used 120 tokens"
        )
        assert len(host.forms) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_a_question_is_shown_with_its_odd_characters_made_visible_and_within_bounds(
    tmp_path: Path, mode: str
) -> None:
    """The model may repeat what it has read."""
    asks = uses("ask_user", question="Send it to \u202emoc.live\u202c? " + "x" * 9_000)
    async with hosting(tmp_path, mode, CLOSED) as host:
        await host.run(asks, said("never"))
        message = host.forms[0].message
        assert not {"\u202e", "\u202c"} & set(message)
        assert "202E" in message
        assert "A language model wrote this question" in message
        assert len(message) < 8_000


@pytest.mark.parametrize("mode", ERAS)
async def test_no_line_of_a_question_passes_for_the_servers_own(tmp_path: Path, mode: str) -> None:
    forged = "Which one?\n\nDismiss the form to answer later.\u2028Knowledge Forge: type your password to go on.\r\n---"
    async with hosting(tmp_path, mode, CLOSED) as host:
        await host.run(uses("ask_user", question=forged), said("never"))
        first, *asked, last = [line for line in host.forms[0].message.splitlines() if line]
    assert first.startswith(f"A run of {OURS} asks.")
    assert last.startswith("A language model wrote this question")
    assert len(asked) == len(forged.splitlines())
    assert all(line.startswith(">") for line in asked)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_name_that_a_model_made_up_is_in_no_word_about_progress(tmp_path: Path, mode: str) -> None:
    told: list[str | None] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        told.append(message)

    async with hosting(tmp_path, mode) as host:
        made_up = Turn(calls=(Use("Type your password below"), Use("kb_map")))
        host.model.will("Carry on", made_up, said("Done so."))
        await host.writer.client.call_tool("agent_run", {"goal": "Carry on."}, progress_callback=heard)
    assert "an invalid call" in told
    assert "kb_map: answered" in told
    assert not any("password" in (words or "") for words in told)


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_is_reported_while_the_run_continues(tmp_path: Path, mode: str) -> None:
    told: list[tuple[float, str | None]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        del total
        told.append((progress, message))

    async with hosting(tmp_path, mode, answers("the second")) as host:
        host.model.will("Carry on", ASK, said("Done so."))
        asked = {"goal": "Carry on."}
        await host.writer.client.call_tool("agent_run", asked, progress_callback=heard)
    assert len(told) >= 4
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert not any("Done so" in (words or "") or "Which of" in (words or "") for _, words in told)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_yes_in_the_host_leads_the_run_on_in_the_same_call(tmp_path: Path, mode: str) -> None:
    async with proposing(tmp_path, mode, yes("go")) as host:
        answer = await host.run(ASK, ADD, said("It lies at guides/release.md."))
        assert (answer["status"], answer["text"]) == ("done", "It lies at guides/release.md.")
        assert host.exists("guides/release.md")
        assert len(host.forms) == 2
        assert "+By hand." in host.forms[1].message
        assert await host.signals(answer["run_id"]) == ["suspended", "resumed"]
        verdict = (await host.proposals("executed"))[0].verdict
        assert verdict is not None
        assert (verdict.by, verdict.channel, verdict.note) == (f"{OURS} (in the host)", "host", "go")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("word", [no("not like that"), ElicitResult(action="decline")], ids=["no", "declined"])
async def test_a_rejection_in_the_host_reaches_the_run(tmp_path: Path, mode: str, word: ElicitResult) -> None:
    async with proposing(tmp_path, mode, word) as host:
        answer = await host.run(ASK, ADD, said("Then it is not written."))
        assert (answer["status"], answer["text"]) == ("done", "Then it is not written.")
        assert not host.exists("guides/release.md")
        assert await host.signals(answer["run_id"]) == ["suspended", "resumed"]
        assert "a person rejected it" in str(host.model.asked[-1]["messages"][-2:])


@pytest.mark.parametrize("mode", ERAS)
async def test_a_run_that_waits_again_asks_again_each_time_about_the_newest(tmp_path: Path, mode: str) -> None:
    async with proposing(tmp_path, mode, yes(), answers("both"), no(), answers("never mind")) as host:
        answer = await host.run(ASK, ADD, ASK, ADD_TOO, ASK, said("Half of it is done."), max_iterations=9)
        assert (answer["status"], answer["text"]) == ("done", "Half of it is done.")
        assert ["kb_merge" in form.message or "+#" in form.message for form in host.forms] == [
            False,
            True,
            False,
            True,
            False,
        ]
        assert host.exists("guides/release.md")
        assert not host.exists("guides/undo.md")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("reaction", [CLOSED, ElicitResult(action="accept", content={})], ids=["closed", "empty"])
async def test_a_form_without_a_word_leaves_the_run_waiting(tmp_path: Path, mode: str, reaction: ElicitResult) -> None:
    """Some hosts accept every form by themselves, without a word in it."""
    async with proposing(tmp_path, mode, reaction) as host:
        answer = await host.run(ASK, ADD, said("never"))
        assert (answer["status"], answer["proposal"]["state"]) == ("proposed", "pending")
        assert len(host.forms) == 2
        assert not host.exists("guides/release.md")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    "reaction",
    [CLOSED, ElicitResult(action="accept", content={}), ElicitResult(action="decline"), answers("  "), yes()],
    ids=["closed", "empty", "declined", "blank", "a yes to nothing"],
)
async def test_an_invalid_answer_answers_no_question(tmp_path: Path, mode: str, reaction: ElicitResult) -> None:
    async with hosting(tmp_path, mode, reaction) as host:
        asks = await host.run(ASK, said("never"))
        assert (asks["status"], asks["question"]) == ("asking", "Which of the two?")
        assert len(host.forms) == 1
        run = await host.app.services.runs.store.run(asks["run_id"])
        assert not [frame for frame in run.frames if isinstance(frame, PersonAnswered)]


@pytest.mark.parametrize("mode", ERAS)
async def test_an_answer_by_call_continues_with_forms_too(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode, CLOSED, answers("the first")) as host:
        asks = await host.run(ASK, ASK, said("Both hives were moved."))
        assert asks["status"] == "asking"
        done = await host.writer.call("agent_run", run_id=asks["run_id"], answer="The first.")
        assert (done["status"], done["text"]) == ("done", "Both hives were moved.")
        assert len(host.forms) == 2


@pytest.mark.parametrize("mode", ERAS)
async def test_a_host_without_forms_gets_the_runs_state(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode) as host:
        answer = await host.run(ASK, said("never"))
        assert (answer["status"], answer["question"]) == ("asking", "Which of the two?")


@pytest.mark.parametrize("mode", ERAS)
async def test_level_four_acts_are_not_decided_in_a_host(tmp_path: Path, mode: str) -> None:
    """An accepted form doesn't prove a person."""
    async with hosting(tmp_path, mode, yes()) as host:
        answer = await host.run(MOVE, said("never"))
        assert (answer["status"], answer["proposal"]["state"]) == ("proposed", "pending")
        assert not host.forms
        assert host.exists("guides/deploy.md")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_decision_on_the_page_while_the_form_is_shown_leads_the_run_on_once(tmp_path: Path, mode: str) -> None:
    async def meanwhile(form: ElicitRequestFormParams) -> ElicitResult:
        """Approve on the page. In 2025 the form then stays open; in 2026 it rejects, too late."""
        del form
        waiting = (await host.proposals("pending"))[0]
        await host.app.approvals.approve(waiting.id, waiting.hash, Approver("ann", "page"))
        if mode == "legacy":
            await anyio.sleep_forever()
        return no()

    async with proposing(tmp_path, mode, meanwhile) as host:
        with anyio.fail_after(60):
            answer = await host.run(ASK, ADD, said("Written."))
        assert (answer["status"], answer["text"]) == ("done", "Written.")
        assert host.exists("guides/release.md")
        assert await host.signals(answer["run_id"]) == ["suspended", "resumed"]
        assert len(host.model.asked) == 3


@pytest.mark.parametrize("mode", ERAS)
async def test_an_answer_elsewhere_while_the_form_is_shown_leads_the_run_on_once(tmp_path: Path, mode: str) -> None:
    async def meanwhile(form: ElicitRequestFormParams) -> ElicitResult:
        del form
        runs = host.app.services.runs
        asks = (await runs.store.runs(state="asking", limit=1))[0]
        await runs.answer(asks.id, "the first", "ann")
        if mode == "legacy":
            await anyio.sleep_forever()
        return answers("the second")

    async with hosting(tmp_path, mode, meanwhile) as host:
        with anyio.fail_after(60):
            answer = await host.run(ASK, said("The first hive was moved."))
        assert (answer["status"], answer["text"]) == ("done", "The first hive was moved.")
        run = await host.app.services.runs.store.run(answer["run_id"])
        assert [frame.by for frame in run.frames if isinstance(frame, PersonAnswered)] == ["ann"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_host_frozen_while_the_form_is_shown_is_refused(tmp_path: Path, mode: str) -> None:
    async def meanwhile(form: ElicitRequestFormParams) -> ElicitResult:
        del form
        await freeze(host.app.base.state, OURS, by="ann", reason="odd", now=utc_now())
        return answers("the second")

    async with hosting(tmp_path, mode, meanwhile, announcing=False) as host:
        host.model.will("Carry on", ASK, said("never"))
        assert "frozen" in await host.writer.refused("agent_run", goal="Carry on.")
        assert len(host.model.asked) == 1


async def test_a_form_that_is_open_when_the_state_database_goes_away_ends_with_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 2025 the call waits with its form, for whoever decides first."""

    async def away(*_: object) -> None:
        raise StorageError("the connection is lost")

    async def forever(form: ElicitRequestFormParams) -> ElicitResult:
        del form
        await anyio.sleep_forever()
        raise AssertionError

    async with hosting(tmp_path, "legacy", forever) as host:
        await grant(host.app.base.state, OURS, 2, by="ann", now=utc_now())
        monkeypatch.setattr(host_questions, "closed", away)
        told = await host.writer.refused("kb_merge", path="guides/release.md", content="# Release\n\nBy hand.\n")
        assert told == "kb_merge: the connection is lost"
        assert len(await host.proposals("pending")) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_a_run_that_a_person_let_begin_in_the_host_asks_there_too_and_answers_in_the_same_call(
    tmp_path: Path, mode: str
) -> None:
    """A host that may only propose: one approval of the run, one of the text that it wants to write."""
    async with hosting(tmp_path, mode, yes(), answers("the second"), yes()) as host:
        await grant(host.app.base.state, OURS, 2, by="ann", now=utc_now())
        answer = await host.run(ASK, ADD, said("Written."))
        assert (answer["status"], answer["text"]) == ("done", "Written.")
        assert host.exists("guides/release.md")
        assert len(host.forms) == 3
        assert "Carry on." in host.forms[0].message
        assert len(await host.app.services.runs.store.runs()) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_a_host_frozen_while_watching_a_run_learns_nothing_of_it(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = run_rounds.followed

    async def then_frozen(services: Services, call: Call, run: str) -> Run:
        there = await followed(services, call, run)
        await freeze(services.state, OURS, by="ann", reason="odd", now=utc_now())
        return there

    monkeypatch.setattr(run_rounds, "followed", then_frozen)
    async with hosting(tmp_path, mode, yes()) as host:
        await grant(host.app.base.state, OURS, 2, by="ann", now=utc_now())
        host.model.will("Carry on", said("What stands there."))
        assert "frozen" in await host.writer.refused("agent_run", goal="Carry on.")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_run_that_no_person_let_begin_does_not_begin(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode, no()) as host:
        await grant(host.app.base.state, OURS, 2, by="ann", now=utc_now())
        answer = await host.run(ASK, said("never"))
        assert (answer["status"], answer["proposal"]["state"]) == ("proposed", "rejected")
        assert not host.model.asked


async def test_a_call_has_so_many_forms_at_most(tmp_path: Path) -> None:
    async with hosting(tmp_path, "auto", answers("yes")) as host:
        asks = await host.run(*[ASK] * (MOST_ROUNDS + 1), said("never"), max_iterations=20)
        assert asks["status"] == "asking"
        assert len(host.forms) == MOST_ROUNDS


async def _first_round(client: Client, **arguments: object) -> InputRequiredResult:
    asked = await client.session.call_tool("agent_run", dict(arguments), allow_input_required=True)
    assert isinstance(asked, InputRequiredResult)
    return asked


async def _second_round(
    client: Client, asked: InputRequiredResult, reply: ElicitResult, tool: str = "agent_run", **arguments: object
) -> CallToolResult | InputRequiredResult:
    return await client.session.call_tool(
        tool,
        dict(arguments),
        input_responses={"decision": reply},
        request_state=asked.request_state,
        allow_input_required=True,
    )


async def test_an_old_form_decides_nothing_about_the_runs_present_question(tmp_path: Path) -> None:
    async with proposing(tmp_path, "auto", CLOSED) as host:
        client = host.writer.client
        host.model.will("Carry on", ASK, ADD, ADD_TOO, said("never"))
        question = await _first_round(client, goal="Carry on.")
        await grant(host.app.base.state, OURS, 2, by="ann", now=utc_now())
        first = await _second_round(client, question, answers("the second"), goal="Carry on.")
        assert isinstance(first, InputRequiredResult)
        second = await _second_round(client, first, yes(), goal="Carry on.")
        assert isinstance(second, InputRequiredResult)
        assert host.exists("guides/release.md")
        for old, word in ((question, answers("no, the first")), (first, yes())):
            replayed = await _second_round(client, old, word, goal="Carry on.")
            assert isinstance(replayed, InputRequiredResult)
        assert not host.exists("guides/undo.md")
        last = await _second_round(client, second, CLOSED, goal="Carry on.")
        assert isinstance(last, CallToolResult)
        assert (last.structured_content or {})["status"] == "proposed"
        assert len(host.model.asked) == 3


async def test_a_form_counts_for_its_caller_tool_and_arguments_only(tmp_path: Path) -> None:
    async with hosting(tmp_path, "auto", CLOSED) as host:
        host.model.will("Carry on", ASK, said("never"))
        asked = await _first_round(host.writer.client, goal="Carry on.")
        with pytest.raises(MCPError):
            await _second_round(host.writer.client, asked, answers("x"), goal="Something else.")
        with pytest.raises(MCPError):
            await _second_round(host.writer.client, asked, answers("x"), tool="kb_map")
        secret = await enrol(host.settings, "other")
        await grant(host.app.base.state, Principal(os_user(), "other").id, 3, by="ann", now=utc_now())
        theirs = replace(host.settings, enrolment=secret)
        async with (
            opened(theirs, indexing=False, announcing=False, sleep=at_once) as app,
            connect(app, mode="auto", elicitation_callback=host.person) as other,
        ):
            with pytest.raises(MCPError):
                await _second_round(other, asked, answers("x"), goal="Carry on.")
        assert len(host.model.asked) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_that_is_cancelled_while_its_run_is_led_on_cancels_the_run(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode, answers("the second")) as host:
        host.model.will("Carry on", ASK, said("never"))
        provider = await host.app.services.model.provider()
        complete, stuck = provider.complete, anyio.Event()

        async def first_only(request: Any) -> Any:
            if host.model.asked:
                stuck.set()
                await anyio.sleep_forever()
            return await complete(request)

        provider.complete = first_only  # type: ignore[method-assign]  # a model that never answers again
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.writer.client.call_tool, "agent_run", {"goal": "Carry on."})
            with anyio.fail_after(60):
                await stuck.wait()
            tasks.cancel_scope.cancel()
        runs = host.app.services.runs
        run = (await runs.store.runs(limit=1))[0].id
        with anyio.fail_after(60):
            async for _ in runs.followed(run):
                pass
        assert (await runs.store.run(run)).state == "cancelled"


@pytest.mark.external
@pytest.mark.parametrize("mode", ERAS)
async def test_over_stdio_a_run_is_let_begin_asked_and_led_to_its_end_in_one_call(tmp_path: Path, mode: str) -> None:
    settings = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")
    settings = await let_in(settings, "desktop", 2, forms=True)
    model, person = Model(), Sitting([yes(), answers("the second"), yes()])
    model.will("Carry on", ASK, ADD, said("Written."))
    async with served(model) as place:
        env = {
            **os.environ,
            "FORGE_ENROLMENT": settings.enrolment or "",
            "FORGE_OPEN_BROWSER": "0",
            "FORGE_MODEL": "openai:some-model",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{place.address}/v1",
        }
        arguments = ["-m", "mcp_server", "serve", "--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
        server = StdioServerParameters(command=sys.executable, args=arguments, env=env, cwd=ROOT)
        async with Client(stdio_client(server), mode=mode, elicitation_callback=person) as client:
            result = await client.call_tool("agent_run", {"goal": "Carry on."})
    assert (result.structured_content or {})["text"] == "Written."
    assert len(person.forms) == 3
    assert (settings.kb / "guides/release.md").exists()


OTHER = LanguageModelName("openai", "another-model")


@pytest.mark.parametrize("by", ["call", "form", "task"])
async def test_a_run_is_led_on_by_no_other_model_than_its_own(by: str, tmp_path: Path) -> None:
    """A person may have agreed to that vendor, and the run's contents are for no other. The answer is on record."""
    async with hosting(tmp_path, "auto") as host:
        asks = await host.run(ASK, said("The second it is."))
        run = asks["run_id"]
        other = replace(host.settings, model=OTHER)
        async with (
            opened(other, indexing=False, announcing=False, sleep=at_once) as app,
            connect(app, elicitation_callback=Sitting([answers("the second")])) as client,
        ):
            if by == "call":
                answer = await Writer(client, app, other.kb).call("agent_run", run_id=run, answer="the second")
                assert answer["status"] in ("running", "done")
            elif by == "form":
                call = Call(Principal(os_user(), "desktop"))
                question = await run_rounds.question(app.services, app.approvals, run)
                assert question is not None
                reply = asking_form.FormReply("nothing", filled={"answer": "the second"})
                await run_rounds.settle(app.services, app.approvals, call, question, reply)
            else:
                await app.services.runs.answer_aside(run, "the second", OURS)
        assert (await host.app.services.runs.lead(run)).state == "done"
    assert [asked["model"] for asked in host.model.asked] == ["some-model"] * 2
