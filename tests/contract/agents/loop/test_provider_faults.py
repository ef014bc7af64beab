"""Faults of a model's server and the network, and what becomes of each: a retry or one sentence."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agents.loop.model.errors import (
    BadAddress,
    BadKey,
    BadSurroundings,
    ContextTooLong,
    Malformed,
    NoProvider,
    NotInstalled,
    Overloaded,
    ProviderAway,
    ProviderError,
    ProviderLimited,
    Refusal,
    Rejected,
    SpentUp,
)
from agents.loop.model.ports import (
    FromModel,
    FromTool,
    FromUser,
    ModelRequest,
    ModelUsage,
    Shape,
    ToolDefinition,
    ToolUse,
)
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.anthropic.provider import anthropic_provider
from agents.loop.providers.openai.provider import openai_provider
from agents.loop.providers.request_loop import LONGEST_JSON
from agents.loop.providers.vendor_client import trusted
from tests.doubles import serving
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import Call, Raw, Trouble, Turn, said, uses
from tests.support.runs.providers import IN_ONE, IN_PIECES, KINDS, Place, double_of

TOOL = ToolDefinition("kb_find", "Find pages.", {"type": "object", "properties": {"query": {"type": "string"}}})
SHAPE = Shape("verdict", {"type": "object", "properties": {"sure": {"type": "integer"}}, "required": ["sure"]})
GOAL = "the goal"
SECRET = "the text of a page that is nobody's business"  # noqa: S105 - no password
FIVE = 5


@pytest.fixture(scope="module", params=KINDS)
def opened(request: pytest.FixtureRequest) -> Iterator[Place]:
    with double_of(request.param) as place:
        yield place


@pytest.fixture
def place(opened: Place) -> Iterator[Place]:
    """Forget the state of the last test."""
    yield opened
    opened.net.plan = serving.no_fault
    opened.net.forget()
    opened.slept.clear()
    opened.double.asked.clear()
    opened.double.refuses, opened.double.streams = frozenset(), True


@pytest.fixture(params=[IN_ONE, IN_PIECES], ids=["whole", "streamed"])
def patience(request: pytest.FixtureRequest) -> RequestPatience:
    chosen: RequestPatience = request.param
    return chosen


def asked(*more: FromUser | FromModel | FromTool, **changes: object) -> ModelRequest:
    return replace(ModelRequest("test_iter1_0a1b2c3d", (FromUser(f"{GOAL} {SECRET}"), *more)), **changes)  # type: ignore[arg-type]


def limited(kind: str, **headers: str) -> Trouble:
    kinds = {"anthropic": "rate_limit_error"}
    return Trouble(
        429,
        kinds.get(kind, "requests"),
        "slow down",
        None if kind == "anthropic" else "rate_limit_exceeded",
        headers=headers,
    )


# --- tried again ----------------------------------------------------------------------------------------------------------


async def test_after_a_429_it_waits_for_the_requested_time(place: Place) -> None:
    """RFC 9110, 10.2.3: seconds, fractions of them as both vendors send, or a date. An unusable value is ignored."""

    def dated(_body: object) -> Trouble:
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
        return limited(place.kind, **{"retry-after": date})

    first, second, last = (limited(place.kind, **{"retry-after": value}) for value in ("2", "0.25", "soon"))
    place.will(GOAL, first, second, dated, last, said("done"))
    async with place.provider() as provider:
        assert (await provider.complete(asked())).text == "done"
    seconds, fraction, until, own = place.slept
    assert 2 <= seconds <= 2.2
    assert 0.25 <= fraction <= 0.275
    assert 27 <= until <= 31
    assert 2 <= own <= 4


async def test_milliseconds_go_before_seconds(place: Place) -> None:
    place.will(GOAL, limited(place.kind, **{"retry-after-ms": "1500", "retry-after": "2"}), said("done"))
    async with place.provider() as provider:
        await provider.complete(asked())
    assert 1.5 <= place.slept[0] < 2


@pytest.mark.parametrize("status", [500, 529])
async def test_transient_errors_are_retried_with_growing_waits(place: Place, status: int) -> None:
    trouble = Trouble(status, "overloaded_error" if status == 529 else "api_error")
    place.will(GOAL, trouble, trouble, trouble, said("done"))
    async with place.provider() as provider:
        assert (await provider.complete(asked())).text == "done"
    first, second, third = place.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0 <= third <= 2.0


async def test_a_permanently_overloaded_server_is_reported_after_five_tries(place: Place) -> None:
    place.will(GOAL, *[Trouble(529, "overloaded_error", SECRET)] * 9)
    async with place.provider() as provider:
        with pytest.raises(Overloaded, match="529, tried 5 times") as caught:
            await provider.complete(asked())
    assert place.net.count("POST") == FIVE
    assert SECRET not in str(caught.value)


async def test_a_wait_that_is_too_long_is_left_to_the_caller(place: Place) -> None:
    place.will(GOAL, limited(place.kind, **{"retry-after": "600"}))
    async with place.provider() as provider:
        with pytest.raises(ProviderLimited) as caught:
            await provider.complete(asked())
    assert (caught.value.wait_s, place.slept) == (600.0, [])


async def test_all_waits_together_are_bounded(place: Place) -> None:
    place.will(GOAL, *[limited(place.kind, **{"retry-after": "50"})] * 9)
    async with place.provider(RequestPatience(tries=9, waits_s=120)) as provider:
        with pytest.raises(ProviderLimited):
            await provider.complete(asked())
    assert sum(place.slept) <= 120


async def test_the_servers_own_retry_hint_wins(place: Place) -> None:
    """Both vendors' own packages follow this header."""
    place.will(GOAL, Trouble(503, "api_error", headers={"x-should-retry": "false"}))
    async with place.provider() as provider:
        with pytest.raises(Overloaded, match="tried once"):
            await provider.complete(asked())


@pytest.mark.parametrize(
    "fault",
    [serving.after(), serving.truncated(), serving.body('{"half": "of')],
    ids=["cut", "truncated", "half-json"],
)
async def test_a_broken_connection_is_tried_again(
    place: Place, patience: RequestPatience, fault: serving.Fault
) -> None:
    place.will(GOAL, said("done"), said("done"))
    place.net.plan = serving.in_turn(fault)
    async with place.provider(patience) as provider:
        answer = await provider.complete(asked())
    assert (answer.text, len(place.slept)) == ("done", 1)
    # Nobody knows whether the first one was billed.
    assert not answer.usage.known


async def test_a_broken_stream_is_never_taken_for_an_answer(place: Place) -> None:
    """The text so far would be incomplete, and a tool use half a command.

    Tests without a network try every place to break.
    """
    turn = Turn("It is in the plan", calls=(Call("kb_find", {"query": "what is the plan"}),), cut=7)
    place.will(GOAL, turn, said("done"))
    async with place.provider(IN_PIECES) as provider:
        answer = await provider.complete(asked(tools=(TOOL,)))
    assert (answer.text, answer.uses, len(place.slept)) == ("done", (), 1)


async def test_an_error_inside_a_stream_is_retried_and_its_usage_counted(place: Place) -> None:
    """It comes after a 200. Source: https://platform.claude.com/docs/en/build-with-claude/streaming."""
    code = None if place.kind == "anthropic" else "server_error"
    place.will(GOAL, Trouble(529, "overloaded_error", code=code, inside=True), said("done", input=100, output=20))
    async with place.provider(IN_PIECES) as provider:
        answer = await provider.complete(asked())
    assert answer.text == "done"
    if place.kind == "anthropic":
        assert answer.usage == ModelUsage(200, 21)


async def test_an_unreachable_server_is_reported_with_its_address_in_bounded_time(place: Place) -> None:
    access = replace(place.access, address="http://127.0.0.1:9")
    async with place.provider(access=access) as provider:
        with pytest.raises(
            ProviderAway, match=r"http://127\.0\.0\.1:9 gave no answer \(no connection, tried 5 times\).*A_URL"
        ) as caught:
            await provider.complete(asked())
    assert caught.value.usage == ModelUsage()


# A place of its own for each: a request that was given up may still arrive, and would take the next one's answer.
@pytest.mark.parametrize("fault", [serving.delayed(5), serving.dripping(0.01)], ids=["silent", "dripping"])
async def test_a_server_that_is_silent_or_drips_is_left(
    place: Place, patience: RequestPatience, fault: serving.Fault
) -> None:
    bounds = replace(patience, tries=1, whole_s=0.03, silence_s=0.03, streamed_s=0.05)
    place.will(GOAL, said("late"))
    place.net.plan = serving.in_turn(fault)
    async with place.provider(bounds) as provider:
        with pytest.raises((ProviderAway, Malformed)):  # whoever waits is told "late"
            await provider.complete(asked())


async def test_a_slow_stream_may_continue_while_data_arrives() -> None:
    """It takes longer than the allowed silence."""
    words = "slowly but surely it comes, piece by piece, and is all there in the end"
    with double_of("anthropic", Model(between_s=0.15)) as place:
        place.will(GOAL, said(words))
        began = time.monotonic()
        async with place.provider(replace(IN_PIECES, silence_s=1.5)) as provider:
            assert (await provider.complete(asked())).text == words
    assert time.monotonic() - began > 1.5


async def test_concurrent_questions_each_get_their_own_answer(place: Place, patience: RequestPatience) -> None:
    for number in range(6):
        place.will(f"question {number}.", said(f"answer {number}"))
    answers: dict[int, str] = {}
    async with place.provider(patience) as provider, anyio.create_task_group() as tasks:

        async def ask(number: int) -> None:
            answer = await provider.complete(
                ModelRequest(f"test_iter{number}_0a1b2c3d", (FromUser(f"question {number}."),))
            )
            answers[number] = answer.text

        for number in range(6):
            tasks.start_soon(ask, number)
    assert answers == {number: f"answer {number}" for number in range(6)}


async def test_cancelling_ends_the_request_immediately(place: Place, patience: RequestPatience) -> None:
    place.will(GOAL, said("late"))
    place.net.plan = serving.in_turn(serving.delayed(3_600))
    with anyio.fail_after(60):
        async with place.provider(patience) as provider:
            with anyio.move_on_after(0.02) as scope:
                await provider.complete(asked())
    assert scope.cancelled_caught


# --- errors that are reported at once -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    ["prompt is too long: 208310 tokens > 200000 maximum", "This model's maximum context length is 200000 tokens."],
)
async def test_a_history_that_is_too_long_is_reported_with_the_limit(place: Place, message: str) -> None:
    place.will(GOAL, Trouble(400, "invalid_request_error", message))
    async with place.provider() as provider:
        with pytest.raises(ContextTooLong, match="context window of 200,000 tokens") as caught:
            await provider.complete(asked())
    assert (caught.value.limit, place.slept) == (200_000, [])


async def test_llama_cpp_says_too_long_in_its_own_way() -> None:
    """Source: https://github.com/ggml-org/llama.cpp/pull/15780; the error may come with status 200, textgen issue 7257."""
    error = {
        "code": 400,
        "message": "the request exceeds the available context size",
        "type": "exceed_context_size_error",
        "n_ctx": 8192,
    }
    with double_of("chat", Model(key=None)) as place:
        for status in (200, 400, 500):
            place.will(GOAL, Raw(json.dumps({"error": error}).encode(), status))
            async with place.provider() as provider:
                with pytest.raises(ContextTooLong) as caught:
                    await provider.complete(asked())
            assert caught.value.limit == 8192


async def test_an_answer_without_room_is_reported_as_too_long() -> None:
    """VLLM reserves room for the longest answer. Source: https://github.com/vllm-project/vllm/issues/42474."""
    words = (
        "This model's maximum context length is 8192 tokens. However, you requested 8192 output tokens and your prompt contains "
        "at least 1 input tokens, for a total of at least 8193 tokens."
    )
    with double_of("chat", Model(key=None)) as place:
        place.will(GOAL, Raw(json.dumps({"object": "error", "message": words, "code": 400}).encode(), 400))
        async with place.provider() as provider:
            with pytest.raises(ContextTooLong, match=r"context window of 8,192 tokens.*allow a shorter answer"):
                await provider.complete(asked())


@pytest.mark.parametrize(
    ("kind", "trouble"),
    [
        ("anthropic", Trouble(429, "rate_limit_error", code="enforced_spend_limit_reached")),
        ("anthropic", Trouble(402, "billing_error")),
        ("anthropic", Trouble(400, "invalid_request_error", "Your credit balance is too low to access the API.")),
        ("chat", Trouble(429, "insufficient_quota", code="insufficient_quota")),
        ("responses", Trouble(429, "insufficient_quota", code="insufficient_quota")),
    ],
)
async def test_an_empty_account_is_not_asked_again(kind: str, trouble: Trouble) -> None:
    """Three of them look like limits that will pass. Source: https://platform.claude.com/docs/en/api/errors."""
    with double_of(kind) as place:
        place.will(GOAL, trouble)
        async with place.provider() as provider:
            with pytest.raises(SpentUp, match="billing"):
                await provider.complete(asked())
        assert place.net.count("POST") == 1


async def test_a_refusal_is_no_answer_and_is_paid_for(place: Place, patience: RequestPatience) -> None:
    place.will(GOAL, Turn("I think", refusal="cyber", input=50, output=5))
    async with place.provider(patience) as provider:
        with pytest.raises(Refusal) as caught:
            await provider.complete(asked())
    assert (caught.value.usage.input, caught.value.usage.output) == (50, 5)
    assert caught.value.category == ("cyber" if place.kind == "anthropic" else "")


async def test_a_redirect_is_not_followed_with_the_key(place: Place) -> None:
    """Both packages follow redirects by themselves, and would send along headers other than `Authorization`."""
    with double_of(place.kind) as elsewhere:
        place.net.plan = serving.in_turn(serving.redirected(f"{elsewhere.net.address}/v1/messages", 307))
        async with place.provider() as provider:
            with pytest.raises(Rejected, match=r"redirects elsewhere.*A_URL"):
                await provider.complete(asked())
        assert elsewhere.net.seen == []


async def test_a_model_that_is_not_there_names_the_settings(place: Place) -> None:
    place.will(GOAL, Trouble(404, "not_found_error", f"no model {SECRET}"))
    async with place.provider() as provider:
        with pytest.raises(Rejected, match=r"404: not_found_error\); check A_MODEL .* A_URL"):
            await provider.complete(asked())


async def test_a_model_that_the_key_may_not_ask_is_no_wrong_key() -> None:
    """OpenAI sends this for projects without the model."""
    with double_of("chat") as place:
        no_access = "Project `proj_1` does not have access to model `some-model`"
        place.will(GOAL, Trouble(403, "invalid_request_error", no_access, code="model_not_found"))
        async with place.provider() as provider:
            with pytest.raises(Rejected, match=r"403: model_not_found\); check A_MODEL"):
                await provider.complete(asked())


@pytest.mark.parametrize(
    "content",
    [b"<html>Sign in</html>", b"{}", b"[" * 100_000],
    ids=["html", "empty", "deep"],
)
async def test_a_malformed_reply_is_requested_again_once_and_then_reported(place: Place, content: bytes) -> None:
    place.will(GOAL, Raw(content), Raw(content))
    async with place.provider() as provider:
        with pytest.raises(Malformed, match="cannot be used"):
            await provider.complete(asked())
    assert place.net.count("POST") == 2


@pytest.mark.parametrize(
    "data", ["[]", "null", '{"type": 5, "choices": 3}', '{"type": "message_start", "message": []}', "\xff"]
)
async def test_a_stream_of_odd_events_is_reported_without_a_crash(place: Place, data: str) -> None:
    """The packages turn events into objects before our code can check them."""
    content = f"event: message_start\ndata: {data}\n\nevent: response.completed\ndata: {data}\n\ndata: {data}\n\n"
    place.will(GOAL, *[Raw(content.encode("latin-1"), content_type="text/event-stream")] * 2)
    async with place.provider(replace(IN_PIECES, tries=2)) as provider:
        with pytest.raises((ProviderAway, Malformed)):
            await provider.complete(asked())


async def test_a_reply_that_cannot_be_decompressed_is_reported(place: Place, patience: RequestPatience) -> None:
    fault = serving.status(200, {"content-type": "application/json", "content-encoding": "gzip"}, b"no gzip at all")
    place.net.plan = serving.in_turn(fault, fault)
    async with place.provider(replace(patience, tries=2)) as provider:
        with pytest.raises(ProviderAway):
            await provider.complete(asked())


async def test_an_untrusted_certificate_is_named_and_not_retried(place: Place, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with serving.serving(Model(), certificate=certificate) as served:
        access = replace(place.access, address=f"{served.address}/v1")
        async with place.provider(access=access) as provider:
            with pytest.raises(ProviderAway, match="certificate is not trusted, tried once"):
                await provider.complete(asked())
        assert served.seen == []


async def test_no_error_is_too_long_or_repeats_the_request_or_reply(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for status in (400, 401, 402, 403, 404, 409, 413, 418, 422, 429, 500, 529):
        place.will(
            GOAL, *[Trouble(status, f"{SECRET} {KEY}", f"{SECRET} {KEY}", code=f"{SECRET} {KEY}", param=SECRET)] * 5
        )
        async with place.provider() as provider:
            with pytest.raises(ProviderError) as caught:
                await provider.complete(asked())
        assert len(str(caught.value)) <= 280
        assert SECRET not in f"{caught.value} {caught.value.__dict__}"
        assert KEY not in f"{caught.value} {caught.value.__dict__}"
        assert caught.value.__suppress_context__
    assert SECRET not in caplog.text
    assert KEY not in caplog.text


# --- servers that lack features -------------------------------------------------------------------------------------------


async def test_a_part_that_a_server_does_not_know_is_left_out_and_not_tried_again(
    place: Place, patience: RequestPatience
) -> None:
    """Newer models accept no temperature, some servers no choice of tools: these optional parts are dropped."""
    place.double.refuses = frozenset({"temperature", "tool_choice"})
    place.will(GOAL, uses("kb_find", query="plan"), uses("kb_find", query="plan"))
    question = asked(tools=(TOOL,), temperature=0.2, only="kb_find")
    async with place.provider(patience) as provider:
        await provider.complete(question)
        await provider.complete(question)
    assert place.net.count("POST") == 4
    assert place.slept == []
    last = place.double.asked[-1]
    assert not {"temperature", "tool_choice"} & set(last)
    assert "Call the tool kb_find now." in json.dumps(last)


async def test_a_model_that_may_call_nothing_gets_no_tools_if_it_cannot_be_bound(place: Place) -> None:
    place.double.refuses = frozenset({"tool_choice"})
    place.will(GOAL, said("no"))
    async with place.provider() as provider:
        await provider.complete(asked(tools=(TOOL,), tool_choice="none"))
    last = json.dumps(place.double.asked[-1])
    assert ("kb_find" in last) == (place.kind == "anthropic")
    assert ("Call no tool now" in last) == (place.kind == "anthropic")


@pytest.mark.parametrize(
    "refuses",
    [(), ("json_schema", "output_config"), ("json_schema", "json_object", "output_config")],
    ids=["shape", "json", "words"],
)
async def test_models_with_ever_fewer_features_still_return_json(place: Place, refuses: tuple[str, ...]) -> None:
    place.double.refuses = frozenset(refuses)
    place.will(GOAL, said('Here it is:\n```json\n{"sure": 4}\n```\n'))
    async with place.provider() as provider:
        assert dict((await provider.complete_json(asked(), SHAPE)).value) == {"sure": 4}


async def test_json_that_does_not_fit_is_corrected_once(place: Place) -> None:
    place.will(GOAL, said('{"sure": "very"}', input=10, output=1), said('{"sure": 5}', input=20, output=2))
    async with place.provider() as provider:
        told = await provider.complete_json(asked(), SHAPE)
    assert (dict(told.value), told.usage) == ({"sure": 5}, ModelUsage(30, 3))
    assert "That does not fit: sure: type is" in json.dumps(place.double.asked[-1])


async def test_json_that_never_fits_is_reported_with_its_usage(place: Place) -> None:
    place.will(GOAL, said("Certainly!"), said(f'{{"sure": "{SECRET}"}}'))
    async with place.provider() as provider:
        with pytest.raises(Malformed, match="shape") as caught:
            await provider.complete_json(asked(), SHAPE)
    assert caught.value.usage == ModelUsage(200, 40)
    assert SECRET not in str(caught.value)


async def test_a_server_that_cannot_stream_is_understood(place: Place) -> None:
    place.double.streams = False
    place.will(GOAL, said("all at once"))
    async with place.provider(IN_PIECES) as provider:
        assert (await provider.complete(asked())).text == "all at once"


async def test_a_server_without_stream_options_is_asked_without_them_and_reports_no_usage() -> None:
    with double_of("chat", Model(refuses=frozenset({"stream_options"}))) as place:
        place.will(GOAL, said("done"))
        async with place.provider(IN_PIECES) as provider:
            answer = await provider.complete(asked())
    assert (answer.text, answer.usage.known) == ("done", False)


async def test_a_server_that_lists_the_wrong_parts_is_asked_without_them() -> None:
    """Mistral, for every streamed answer."""
    wrong = [{"type": "extra_forbidden", "loc": ["body", "stream_options", "include_usage"], "msg": "Extra inputs"}]
    with double_of("chat") as place:
        place.will(GOAL, Raw(json.dumps({"object": "error", "message": {"detail": wrong}}).encode(), 422), said("done"))
        async with place.provider(IN_PIECES) as provider:
            assert (await provider.complete(asked())).text == "done"


async def test_the_bound_goes_by_the_name_that_the_server_knows() -> None:
    """OpenAI's reasoning models refuse `max_tokens`; others don't know the newer name."""
    with double_of("chat", Model(refuses=frozenset({"max_tokens"}))) as place:
        place.will(GOAL, said("done"))
        async with place.provider() as provider:
            await provider.complete(asked(most_tokens=99))
        assert place.double.asked[-1]["max_completion_tokens"] == 99


async def test_a_model_that_cannot_think_beside_tools_is_asked_not_to_if_there_are_tools() -> None:
    """GPT-5.5 and newer refuse tools in Chat Completions even if the request doesn't mention thinking.

    The API's words.
    """
    with double_of("chat", Model(thinks=True)) as place:
        place.will(GOAL, *[said("done")] * 3)
        async with place.provider() as provider:
            for tools in ((TOOL,), (TOOL,), ()):
                await provider.complete(asked(tools=tools))
        assert [body.get("reasoning_effort") for body in place.double.asked] == ["none", "none", None]
        assert place.net.count("POST") == 4


async def test_a_model_that_needs_its_own_turn_between_tool_and_user_gets_one() -> None:
    """Mistral's: the last step of every run is announced right after results."""
    use = ToolUse("call00001", "kb_find", {"query": "plan"})
    history = (FromModel("I look.", (use,)), FromTool(use.id, "found"), FromUser("This is the last step."))
    with double_of("chat", Model(orders=True)) as place:
        place.will(GOAL, *[said("done")] * 2)
        async with place.provider() as provider:
            for _ in range(2):
                assert (await provider.complete(asked(*history, tools=(TOOL,)))).text == "done"
        roles = [message["role"] for message in place.double.asked[-1]["messages"]]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]
        assert place.net.count("POST") == 3


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.",
        "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for some-model",
        "`max_tokens` must be less than or equal to `4096`, the maximum value for `max_tokens` is less than the `context_window`",
    ],
)
async def test_a_limit_that_is_too_large_is_reported_and_not_dropped(message: str) -> None:
    with double_of("chat") as place:
        place.will(GOAL, Trouble(400, "invalid_request_error", message, param="max_tokens"))
        async with place.provider() as provider:
            with pytest.raises(Rejected, match="its answers are never that long; reduce A_BOUND"):
                await provider.complete(asked(most_tokens=8_192))
        assert place.net.count("POST") == 1


async def test_an_error_that_dropping_a_part_did_not_fix_is_reported(place: Place) -> None:
    """A server may name a part of the request while the error is about something else."""
    trouble = Trouble(400, "invalid_request_error", "temperature of the room is too high")
    place.will(GOAL, trouble, trouble, said("done"))
    async with place.provider() as provider:
        with pytest.raises(Rejected):
            await provider.complete(asked(temperature=0.2))
        await provider.complete(asked(temperature=0.2))
    assert [body.get("temperature") for body in place.double.asked] == [0.2, None, 0.2]


async def test_a_server_of_ones_own_with_its_own_ways_is_understood(patience: RequestPatience) -> None:
    """Over the network one of them; tests/unit/agents/loop/test_provider_wires.py tries each without."""
    calls = (Call("kb_find", {"query": "ä plan"}), Call("kb_read", {"path": "a.md"}))
    ways = frozenset({"no_ids", "objects", "stop", "parts", "usage_in_all"})
    with double_of("chat", Model(key=None)) as place:
        place.will(GOAL, Turn("I look.", calls=calls, quirks=ways), said("done"))
        async with place.provider(patience) as provider:
            question = asked(tools=(TOOL,))
            answer = await provider.complete(question)
            results = [FromTool(use.id, "found") for use in answer.uses]
            again = replace(question, messages=(*question.messages, answer.as_message(), *results))
            assert (await provider.complete(again)).text == "done"
    assert [(use.name, use.problem) for use in answer.uses] == [("kb_find", ""), ("kb_read", "")]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("anthropic", "messages.1.content.0: Invalid `signature` in `thinking` block"),
        ("responses", "The encrypted content for item rs_1 could not be verified."),
    ],
)
async def test_thoughts_with_an_expired_signature_are_dropped_for_that_request_only(kind: str, message: str) -> None:
    """After the account or keys changed."""
    with double_of(kind) as place:
        thought = Turn("I look.", calls=(Call("kb_find", {"query": "x"}),), thoughts="hm")
        place.will(GOAL, thought, Trouble(400, "invalid_request_error", message), said("done"), said("again"))
        async with place.provider() as provider:
            question = asked(tools=(TOOL,))
            answer = await provider.complete(question)
            result = FromTool(answer.uses[0].id, "found")
            again = replace(question, messages=(*question.messages, answer.as_message(), result))
            assert (await provider.complete(again)).text == "done"
            await provider.complete(again)
        told = ["ed-" in json.dumps(body) for body in place.double.asked[1:]]
        assert told == [True, False, True]


async def test_a_history_from_another_vendor_is_taken(place: Place) -> None:
    """A run may be resumed with another model: ids, invented names and thoughts of the first one must not stop it."""
    use = ToolUse("functions.kb find:0", "kb.find!", {"query": "ü"})
    history = (FromModel("  ", (use,), None), FromTool(use.id, "", failed=True), FromModel(""), FromUser("and now?"))
    place.will(GOAL, said("done"))
    async with place.provider() as provider:
        assert (await provider.complete(asked(*history, tools=(TOOL,)))).text == "done"


async def test_an_answer_without_anything_is_an_answer(place: Place, patience: RequestPatience) -> None:
    """Models do that after tool results; the caller decides how to continue."""
    place.will(GOAL, said(""))
    async with place.provider(patience) as provider:
        answer = await provider.complete(asked())
    assert (answer.text, answer.uses, answer.stop) == ("", (), "end")


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Return the files of a self-signed certificate for this machine, and of its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nobody")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "server.pem", folder / "server.key"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return chain, secret


# --- keys and settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [anthropic_provider, openai_provider])
def test_without_a_key_the_variable_is_named(make: object) -> None:
    with pytest.raises(NoProvider, match="set FORGE_SOME_KEY"):
        make(Access("m", key_setting="FORGE_SOME_KEY"))  # type: ignore[operator]


@pytest.mark.parametrize("make", [anthropic_provider, openai_provider])
@pytest.mark.parametrize("key", ["sk-a\nb", "sk-ä", "sk a"])
def test_an_impossible_key_is_reported_without_showing_it(make: object, key: str) -> None:
    with pytest.raises(BadKey, match="characters that no key has") as caught:
        make(Access("m", key))  # type: ignore[operator]
    assert key not in str(caught.value)


@pytest.mark.parametrize("make", [anthropic_provider, openai_provider])
@pytest.mark.parametrize(
    "address", ["localhost:8000", "ftp://host/v1", "http://", "http://host:port/v1", "http://[::1/v1"]
)
def test_an_address_that_is_none_is_named_by_its_setting(make: object, address: str) -> None:
    with pytest.raises(BadAddress, match="FORGE_SOME_URL is not a valid address"):
        make(Access("m", "sk-a", address, address_setting="FORGE_SOME_URL"))  # type: ignore[operator]


@pytest.mark.parametrize(("make", "package"), [(anthropic_provider, "anthropic"), (openai_provider, "openai")])
def test_a_missing_extra_is_reported_by_name(monkeypatch: pytest.MonkeyPatch, make: object, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotInstalled, match=rf"pip install .*\[{package}\]"):
        make(Access("m", "sk-a"))  # type: ignore[operator]


def test_nothing_of_the_vendors_is_loaded_before_a_provider_is_built() -> None:
    """Start-up has a budget, and either package takes a second to load."""
    names = ["request_loop", "access", "anthropic.provider", "openai.provider", "usage"]
    imports = "; ".join(f"import agents.loop.providers.{name}" for name in names)
    tell = (
        "import sys; print([name for name in ('anthropic', 'openai', 'httpx2', 'jsonschema') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", f"{imports}; {tell}"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


async def test_a_server_of_ones_own_gets_no_authorization_header() -> None:
    with double_of("chat", Model(key=None)) as place:
        place.will(GOAL, said("done"))
        async with place.provider() as provider:
            await provider.complete(asked())
        assert "authorization" not in place.net.seen[-1].headers


async def test_nothing_of_the_environment_goes_out(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    """Both packages read keys and addresses from the environment; ours come only from settings."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "sk-of-somebody-else")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody-else")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-of-somebody-else")
    for name in ("ANTHROPIC_CUSTOM_HEADERS", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "Authorization: Bearer sk-of-somebody-else\nX-Gateway: key-of-somebody-else")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    place.will(GOAL, said("done"))
    async with place.provider() as provider:
        assert (await provider.complete(asked())).text == "done"
    assert "of-somebody-else" not in str(place.net.seen)


async def test_megabytes_of_json_are_refused_and_little_of_them_is_repeated(place: Place) -> None:
    """Checking each of its entries would block all other callers."""
    place.will(GOAL, said(json.dumps({"sure": 4, "more": [{}] * LONGEST_JSON})), said('{"sure": 4}'))
    async with place.provider() as provider:
        assert dict((await provider.complete_json(asked(), SHAPE)).value) == {"sure": 4}
    assert len(place.net.seen[-1].body) < 2 * LONGEST_JSON


async def test_a_query_in_the_address_goes_with_every_question(place: Place) -> None:
    """Azure requires its interface version in the query; the packages would append the path after it."""
    if place.kind == "anthropic":
        pytest.skip("its address takes no query")
    place.will(GOAL, said("yes"))
    access = replace(place.access, address=f"{place.access.address}?api-version=preview&x=a%20b")
    async with place.provider(access=access) as provider:
        assert (await provider.complete(asked())).text == "yes"
    assert place.net.seen[-1].query == {"api-version": "preview", "x": "a b"}


@pytest.mark.parametrize("make", [anthropic_provider, openai_provider])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", f"socks9://somebody:{KEY}@proxy:1"),
        ("HTTPS_PROXY", f"http://{KEY}@[::1"),
        ("ALL_PROXY", f"socks5://somebody:{KEY}@proxy:1"),
        ("SSL_CERT_FILE", f"/nowhere/{KEY}"),
    ],
)
def test_an_environment_that_prevents_requests_is_reported_as_such(
    monkeypatch: pytest.MonkeyPatch, make: Any, name: str, value: str
) -> None:
    """A SOCKS proxy for all programs is common; the package that supports one is not installed."""
    monkeypatch.setenv(name, value)
    trusted.cache_clear()
    with pytest.raises(BadSurroundings, match=name) as raised:
        make(Access("m", "sk-a"))
    trusted.cache_clear()
    assert KEY not in "".join(traceback.format_exception(raised.value))


async def test_an_unreachable_proxy_is_reported_as_an_unreachable_server(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:99999")
    async with place.provider() as provider:
        with pytest.raises(ProviderAway):
            await provider.complete(asked())
