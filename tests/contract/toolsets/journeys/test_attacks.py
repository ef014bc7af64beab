"""Attempts to break the promises of journeys: by a careless model, a hostile one, and a malfunctioning host."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult, InputResponses

from agents.bounds import MOST_LABEL_CHARS, MOST_TOKENS, MOST_WORK_CHARS
from agents.catalogue import built_in, main_entries
from agents.engine.agent import Citation
from agents.engine.events import Decided, Logged, Started
from agents.engine.evidence.quote_check import quote_problem
from agents.engine.fold import fold
from agents.engine.runner import JourneyDecision, Submission
from agents.engine.state import Feedback, Word
from agents.engine.work.form import duplicate_ids
from agents.errors import BadStart, BadWork, NotToDecide
from agents.prompts.prompt import COMMON, placeholders, prompt
from knowledge.pages.document import parse
from knowledge.pages.vault import Vault
from knowledge.tokens import count_tokens
from mcp_server.app.factories.team_files import VaultFiles
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.gate.journey_hook import JourneyHook
from mcp_server.toolsets.journeys.condition_context import KnowledgeLook
from tests.contract.toolsets.journeys.test_tools import TWO, Host, approve, hosting
from tests.support.agents.small_agents import Only, noting
from tests.support.hosts.writers import Refused, let_in
from tests.support.roads.road import connect, opened

pytestmark = pytest.mark.security

PAGE = parse(
    "trust.md",
    b"""# How levels of trust work

The cap is [20 calls](https://example.com/limits/calls) an hour.

| level | may |
|-------|-----|
| 1     | read |

## Retries wait for 2.5 seconds

Retries wait for 2.5 seconds.

---------------------------
""",
)
ONE = {"notes": [{"id": "1", "text": "first"}]}
SECTION, RETRIES = "How levels of trust work", "Retries wait for 2.5 seconds"


# --- quotes that show nothing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quote", "why"),
    [
        ("[The](https://example.com/made/up/by/a/model)", "is not in"),
        ("%%made up by a model%%cap", "is not in"),
        ("![The cap](made-up.png)", "is not in"),
        ("**********__The__**********", "too short"),
        ("|-------|-----|", "too short"),
        ("---------------------------", "too short"),
        ("How levels of trust work", "only a heading"),
        ("# How levels of trust work", "only a heading"),
        ("## Retries wait for 2.5 seconds", "only a heading"),
    ],
)
def test_a_quote_of_markup_or_a_heading_shows_nothing(quote: str, why: str) -> None:
    """The quote really exists. If it requires no reading of the page, the model's own word meets it."""
    assert why in quote_problem(PAGE, Citation("trust.md", SECTION, quote))


@pytest.mark.parametrize(
    ("section", "quote"),
    [
        (SECTION, "The cap is 20 calls an hour."),
        (SECTION, "[20 calls](https://example.com/limits/calls)"),
        (RETRIES, "Retries wait for 2.5 seconds"),
        (RETRIES, "## Retries wait for 2.5 seconds\n\nRetries wait"),
        (SECTION, "| level | may |\n|-------|-----|\n| 1 | read |"),
    ],
)
def test_a_quote_with_the_pages_words_counts_whatever_markup_is_around_them(section: str, quote: str) -> None:
    assert quote_problem(PAGE, Citation("trust.md", section, quote)) == ""


# --- attempts to bypass the person ------------------------------------------------------------------------------------


async def test_no_relayed_word_leads_past_a_checkpoint_that_asks_for_the_persons_own_hand(tmp_path: Path) -> None:
    """A person's earlier approval doesn't cover later submits."""
    async with hosting(tmp_path, own_hand=True) as host:
        journey = await host.start()
        await host.call("journey_submit", journey_id=journey, version=1, work=TWO)
        decide = host.app.services.journeys.decide
        await decide(journey, 2, JourneyDecision("approve", "page"), by="ann")
        await host.call("journey_submit", journey_id=journey, version=3, work={"text": "so", "lacks": "winter"})
        onward = {"phase": "WRITE"}
        with pytest.raises(Refused, match="takes no 'revisit' now"):  # while it is worked on
            await host.call("journey_decide", journey_id=journey, version=4, decision="revisit", changes=onward)
        swapped = {"notes": [{"id": "3", "text": "what nobody approved"}]}
        await host.call("journey_submit", journey_id=journey, version=4, work=swapped)
        for decision, changes in (("approve", {}), ("reject", {}), ("modify", {"drop": ["1"]}), ("revisit", onward)):
            with pytest.raises(Refused, match=r"only the person can decide|takes no 'revisit' now"):
                await host.call("journey_decide", journey_id=journey, version=5, decision=decision, changes=changes)
        fork = await host.call("journey_start", agent="", brief="", inputs={"fork_of": journey})
        with pytest.raises(Refused, match="only the person can decide"):
            await host.call("journey_decide", journey_id=fork["journey_id"], version=6, decision="approve")
        there = await decide(journey, 5, JourneyDecision("revisit", "page", "as it was", onward), by="ann")
        assert there.state.phase == "WRITE"


async def test_a_modification_cannot_give_two_items_one_id(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        journey = await host.start()
        await host.call("journey_submit", journey_id=journey, version=1, work=TWO)
        both = {"notes": [{"id": "1", "text": "this"}, {"id": "1", "text": "or that"}]}
        with pytest.raises(Refused, match="two items of 'notes' have the id 1"):
            await host.call("journey_decide", journey_id=journey, version=2, decision="modify", changes=both)
        assert (await host.call("journey_status", journey_id=journey))["version"] == 2


# --- too much ---------------------------------------------------------------------------------------------------------


async def test_a_steps_extra_text_is_limited(tmp_path: Path) -> None:
    """Resuming costs at most 2,500 tokens; every answer names the conversation, every report sums tokens."""
    async with hosting(tmp_path) as host:
        journey = await host.start()
        long = "x" * (MOST_LABEL_CHARS + 1)
        for wrong, named in (
            ({"usage": {"conversation": long}}, r"usage\.conversation"),
            ({"usage": {"model": long}}, r"usage\.model"),
            ({"usage": {"tokens_in": 10**400}}, r"usage\.tokens_in"),
            ({"usage": {"tokens_out": MOST_TOKENS + 1}}, r"usage\.tokens_out"),
            ({"signals": ["two_notes", long]}, r"signals\[1\]"),
            ({"work": {"notes": [{"id": "1", "text": "x" * MOST_WORK_CHARS}]}}, "at most 400000 are allowed"),
        ):
            asked = {"journey_id": journey, "version": 1, "work": ONE, **wrong}
            with pytest.raises(Refused, match=named) as refused:
                await host.call("journey_submit", **asked)
            assert "nothing was recorded" in str(refused.value)
            assert len(str(refused.value)) < 300
        most = {"tokens_in": MOST_TOKENS, "tokens_out": MOST_TOKENS, "model": "m" * 200, "conversation": "c" * 200}
        told = await host.call("journey_submit", journey_id=journey, version=1, work=ONE, usage=most)
        assert told["version"] == 2
        assert "COLLECT" in (await host.call("journey_status", journey_id=journey, view="report"))["text"]


async def test_no_number_of_submits_makes_a_work_larger_than_one_may_be(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        journey, version = await host.start(), 1
        for part in range(4):
            told = await host.call("journey_submit", journey_id=journey, version=version, work=_part(part))
            version = told["version"] if told["state"] == "active" else await _sent_back(host, journey)
        with pytest.raises(Refused, match="at most 400000 are allowed"):
            await host.call("journey_submit", journey_id=journey, version=version, work=_part(4))
        assert (await host.call("journey_status", journey_id=journey))["version"] == version


def _part(number: int) -> dict[str, Any]:
    return {"notes": [{"id": str(number), "text": str(number) * 90_000}]}


async def _sent_back(host: Host, journey: str) -> int:
    version = (await host.call("journey_status", journey_id=journey))["version"]
    again = await host.call("journey_decide", journey_id=journey, version=version, decision="reject", note="more")
    return int(again["version"])


async def test_only_a_modification_brings_changes_and_those_have_an_end(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        journey = await host.start()
        await host.call("journey_submit", journey_id=journey, version=1, work=TWO)
        smuggled: dict[str, Any] = {"notes": [{"id": "9", "text": "smuggled"}]}
        for decision in ("approve", "reject", "answer", "cancel", "revisit"):
            why = "there is no question 'notes'; nothing is asked" if decision == "answer" else "takes no such changes"
            with pytest.raises(Refused, match=why):
                await host.call(
                    "journey_decide", journey_id=journey, version=2, decision=decision, note="n", changes=smuggled
                )
        huge = {"notes": [{"id": "9", "text": "x" * MOST_WORK_CHARS}]}
        with pytest.raises(Refused, match="at most 400000 are allowed"):
            await host.call("journey_decide", journey_id=journey, version=2, decision="modify", changes=huge)
        assert (await host.call("journey_status", journey_id=journey))["version"] == 2


def nested(depth: int) -> Any:
    """Return a list nested this deep."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (float("nan"), "not plain JSON"),
        (float("inf"), "not plain JSON"),
        (10**5_000, "not plain JSON"),
        (nested(70), "nested deeper than 60"),
        (nested(900), "nested deeper than 60"),
        (nested(100_000), "nested deeper than 60"),
    ],
    ids=["nan", "inf", "long", "deep", "deeper than any stack", "deepest"],
)
async def test_a_value_that_is_not_plain_json_is_refused_by_name_and_not_recorded(
    tmp_path: Path, odd: object, why: str
) -> None:
    async with hosting(tmp_path) as host:
        journeys, journey = host.app.services.journeys, await host.start()
        value: Any = odd
        with pytest.raises(BadWork, match=why):
            await journeys.submit(journey, 1, Submission({"notes": value}), by="ann")
        with pytest.raises(NotToDecide, match=why):
            await journeys.decide(journey, 1, JourneyDecision("modify", "page", "", {"notes": value}), by="ann")
        with pytest.raises(BadStart, match=why):
            await journeys.start("noting", "bees", {"notes": value}, by="ann")
        assert (await journeys.position(journey)).state.version == 1


async def test_the_newest_events_cost_little_however_much_a_model_says(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        journey, talk = await host.start(), "so it is. " * 390
        for number in range(40):
            work = {"notes": [{"id": "1", "text": str(number)}]}
            await host.call("journey_submit", journey_id=journey, version=1 + number, work=work, reasoning=talk)
        told = await host.call("journey_status", journey_id=journey, view="events")
        assert len(told["events"]) == 40
        assert count_tokens(json.dumps(told)) <= 5_000
        assert told["events"][-2]["reasoning"].endswith("[cut]")
        log = await host.app.services.journeys.store.events(journey)
        assert log[-2].event.reasoning == talk  # type: ignore[union-attr]  # it is on record, whole


# --- text that nobody vouches for -------------------------------------------------------------------------------------

FETCHED = {"zulip:design/merge"}


async def test_omitting_the_journey_does_not_hide_its_reading(tmp_path: Path) -> None:
    """The design, section 6: one level more for that journey or hour.

    The model itself chooses which calls name the journey.
    """
    async with hosting(tmp_path) as host:
        journey, other = await host.start(), await host.start("wasps")
        me, taints = Principal(os_user(), "desktop").id, host.app.services.taints
        assert await taints.of(me, "") == {}
        await host.call("kb_read", path="fetched.md", journey_id=journey)
        assert set(await taints.of(me, "")) == FETCHED
        assert set(await taints.of(me, other)) == FETCHED
        assert await taints.of("eve@cursor", other) == {}


@pytest.mark.parametrize("act", ["start", "submit", "decide"])
async def test_no_text_is_made_clean_by_recording_it_in_a_journey(tmp_path: Path, act: str) -> None:
    """Another host, or the same one after an hour, continues with text read outside the journey and written into it."""
    async with hosting(tmp_path) as host:
        taints, journey = host.app.services.taints, await host.start()
        await host.call("kb_read", path="fetched.md")
        assert await taints.of_journey(journey) == {}
        if act == "start":
            journey = await host.start("wasps")
        elif act == "submit":
            await host.call("journey_submit", journey_id=journey, version=1, work=ONE)
        else:
            await host.call("journey_decide", journey_id=journey, version=1, decision="answer", note="send it to eve")
        assert set(await taints.of_journey(journey)) == FETCHED
        assert set(await taints.of("eve@cursor", journey)) == FETCHED
        assert await taints.of("eve@cursor", "") == {}
        with pytest.raises(Refused, match="there is no journey 'nothing-like-it'"):
            await host.call("journey_submit", journey_id="nothing-like-it", version=1, work=ONE)
        assert await taints.of_journey("nothing-like-it") == {}


# --- forms ------------------------------------------------------------------------------------------------------------

YES: InputResponses = {"decision": ElicitResult(action="accept", content={"decision": "approve"})}


async def sent(host: Host, asked: dict[str, Any], state: str | None = None) -> CallToolResult | InputRequiredResult:
    answers = YES if state else None
    return await host.client.session.call_tool(
        "journey_submit", asked, input_responses=answers, request_state=state, allow_input_required=True
    )


async def asked_about(host: Host) -> tuple[dict[str, Any], str]:
    """Return a submit that led to a form, and the state of that form."""
    asked = {"journey_id": await host.start(), "version": 1, "work": TWO}
    question = await sent(host, asked)
    assert isinstance(question, InputRequiredResult)
    assert question.request_state
    return asked, question.request_state


async def test_a_yes_counts_for_the_very_submit_that_was_shown(tmp_path: Path) -> None:
    """Not for other work, another journey, another caller, or invented; and once."""
    async with hosting(tmp_path, answer=approve, own_hand=True) as host:
        positions = host.app.services.journeys
        first, shown = await asked_about(host)
        second, other = await asked_about(host)
        others = Settings(kb=host.root, state_dir=tmp_path / "state")
        eve = await let_in(others, "cursor", level=3)
        async with (
            opened(eve, announcing=False, agents=Only(noting(own_hand=True))) as app,
            connect(app, elicitation_callback=_never) as client,
        ):
            for wrong, state, by in (
                ({**first, "work": {"notes": []}}, shown, host),
                ({**first, "version": 2}, shown, host),
                (first, other, host),
                (second, shown, host),
                (first, f"checkpoint:2:{first['journey_id']}", host),
                (first, shown, Host(client, app, host.root, [])),
            ):
                with pytest.raises(MCPError):
                    await sent(by, wrong, state)
        for asked in (first, second):
            assert (await positions.position(asked["journey_id"])).state.status == "waiting"
        journey = first["journey_id"]
        for _ in range(3):
            done = await sent(host, first, shown)
            assert isinstance(done, CallToolResult)
            assert (done.structured_content or {})["phase"] == "WRITE"
        log = await positions.store.events(journey)
        assert [entry.event.channel for entry in log if isinstance(entry.event, Decided)] == ["host"]
        assert (await positions.position(second["journey_id"])).state.status == "waiting"


async def test_approving_something_a_person_has_decided_meanwhile_changes_nothing(tmp_path: Path) -> None:
    async with hosting(tmp_path, answer=approve) as host:
        asked, shown = await asked_about(host)
        journey, positions = asked["journey_id"], host.app.services.journeys
        await positions.decide(journey, 2, JourneyDecision("reject", "page", "more notes"), by="ann")
        late = await sent(host, asked, shown)
        assert isinstance(late, CallToolResult)
        assert ((late.structured_content or {})["phase"], (late.structured_content or {})["version"]) == ("COLLECT", 3)
        assert "more notes" in (late.structured_content or {})["prompt"]


async def _never(context: Any, params: ElicitRequestParams) -> ElicitResult:
    del context
    raise AssertionError(params.message)


# --- calls ------------------------------------------------------------------------------------------------------------


async def test_a_call_that_began_in_the_phase_before_shows_nothing_in_this_one(tmp_path: Path) -> None:
    """A phase lists its tools; a slow call that began in another phase and ends in this one is not one of its calls."""
    async with hosting(tmp_path) as host:
        services, journey = host.app.services, await host.start()
        journey_hook = JourneyHook(services)
        call = Call(Principal(os_user(), "desktop"), journey=journey)
        slow = await journey_hook.begin(
            call, "kb_map", "", "", {}, position=await services.journeys.position(call.journey)
        )
        await host.call("journey_submit", journey_id=journey, version=1, work=TWO)
        await host.call("journey_decide", journey_id=journey, version=2, decision="approve")
        await journey_hook.succeeded(call, slow, {"path": ""})
        await host.call("kb_search", query="cap", journey_id=journey)
        state = await services.journeys.store.journey(journey)
        look = KnowledgeLook(services, VaultFiles(Vault.open(tmp_path)), services.journeys.store, journey, state)
        assert [called.tool for called in await look.calls()] == ["kb_search"]


async def test_a_forks_message_is_about_its_first_phase(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        journey = await host.start()
        await host.call("journey_submit", journey_id=journey, version=1, work=TWO)
        await host.call("journey_decide", journey_id=journey, version=2, decision="approve")
        earlier = {"fork_of": journey, "at_version": 1}
        fork = await host.call("journey_start", agent="noting", brief="wasps this time", inputs=earlier)
        assert fork["phase"] == "COLLECT"
        word = (await host.app.services.journeys.store.journey(fork["journey_id"])).word
        assert word is not None
        assert (word.phase, word.note) == ("COLLECT", "wasps this time")


# --- very many --------------------------------------------------------------------------------------------------------


def test_a_page_that_is_quoted_very_often_is_read_once() -> None:
    """Work contains some thousand quotes, and all of the server's callers wait while they are checked."""
    lines = "\n\n".join(f"Line {number} says that **bees** [number](x.md) {number} fly." for number in range(2_500))
    page = parse("bees.md", f"# Bees\n\n{lines}\n".encode())
    began = time.process_time()
    wrong = [
        quote_problem(page, Citation("bees.md", "Bees", f"Line {number} says that bees number {number} {verb}"))
        for number in range(250)
        for verb in ("fly", "walk")
    ]
    assert wrong.count("") == 250
    assert time.process_time() - began < 5, "it took 28 seconds when the page was read for each"


def test_ids_of_very_many_items_are_compared_in_no_time() -> None:
    began = time.process_time()
    assert duplicate_ids({"notes": [{"id": f"n{number % 13_000}"} for number in range(13_001)]}) == [
        "two items of 'notes' have the id n0; each needs its own"
    ]
    assert time.process_time() - began < 1, "it took over 2 seconds when each was looked for in all"


# --- resuming ---------------------------------------------------------------------------------------------------------

LONG = "Much was said about it. " * 400
EVERY_PHASE = [
    pytest.param(entry.name, phase.name, visit, id=f"{entry.name}-{phase.name}-{visit}")
    for entry in main_entries()
    for phase in built_in(entry.name).graph.phases
    if not phase.automatic
    for visit in (1, 2)
]


@pytest.mark.parametrize(("name", "phase", "visit"), EVERY_PHASE)
def test_resuming_costs_at_most_2500_tokens_however_long_the_record(name: str, phase: str, visit: int) -> None:
    """Texts of people and models at the greatest length that forms allow."""
    own = {value for text in built_in(name).texts.values() for value in placeholders(text) - COMMON}
    agent = replace(
        built_in(name), values=lambda _state: dict.fromkeys(own, LONG), done=lambda _state: [LONG[:200]] * 100
    )
    now = datetime(2026, 5, 31, tzinfo=UTC)
    begun = fold([Logged(1, 1, now, "ann", Started(name, LONG, agent.graph.initial, "ann"))])
    state = replace(
        begun,
        phase=phase,
        status="complete" if phase in agent.graph.complete else "active",
        phase_visits={phase: visit},
        backward_trigger="revisit" if visit > 1 else None,
        backward_trigger_detail=LONG,
        word=Word("answer", "relayed", "ann", phase, LONG[:4_000], None, now),
        feedback=(Feedback("validation", phase, LONG, 1),),
        conversation="c" * MOST_LABEL_CHARS,
    )
    told = prompt(agent, state)
    form = agent.forms.get(phase)
    # Beside prompt and schema an answer has names, numbers and an open question.
    assert count_tokens(told) + (count_tokens(json.dumps(form.schema)) if form else 0) <= 2_350
    assert "Much was said about it." in told
