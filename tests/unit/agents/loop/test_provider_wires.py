"""Wire formats of language models without a network.

Requests fit each vendor, and replies are read despite each one's quirks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.loop.model.ports import (
    Echo,
    FromModel,
    FromTool,
    FromUser,
    Message,
    ModelReply,
    ModelRequest,
    ModelUsage,
    Shape,
    ToolChoice,
    ToolDefinition,
    ToolUse,
)
from agents.loop.providers.anthropic.wire import AnthropicWire
from agents.loop.providers.failures import Kind, RequestFailure, failure_of
from agents.loop.providers.history import turns_of
from agents.loop.providers.openai.chat_wire import ChatWire
from agents.loop.providers.openai.responses_wire import ResponsesWire
from agents.loop.providers.wire.reply_text import arguments_of, json_in, misfit, without_thoughts
from agents.loop.providers.wire.request import ModelRefused, UnusableReply, Wire
from agents.loop.providers.wire.strict_schema import closed
from tests.doubles import provider as double
from tests.doubles.provider_shapes import Chat, Messages, Responses
from tests.doubles.provider_turns import Call, Turn, said

MODEL = "some-model"
WIRES: Mapping[str, Wire] = {
    "anthropic": AnthropicWire(MODEL),
    "chat": ChatWire(MODEL),
    "responses": ResponsesWire(MODEL),
}
SHAPES: Mapping[str, Messages | Chat | Responses] = {"anthropic": Messages(), "chat": Chat(), "responses": Responses()}
TOOL = ToolDefinition("kb_find", "Find pages.", {"type": "object", "properties": {"query": {"type": "string"}}})
ASKED = ModelRequest("test_iter1_0a1b2c3d", (FromUser("the goal"),), tools=(TOOL,))
LENGTH = {"anthropic": "max_tokens", "chat": "length", "responses": "max_output_tokens"}
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

SPENT_UP = "contract_spend_limit_reached"
GEMINI_BUSY = "You exceeded your current quota, please check your plan and billing details.\nPlease retry in 45.5s."
"""Its words about the limit of requests a minute. Source: https://github.com/continuedev/continue/issues/9570."""

kinds = pytest.mark.parametrize("kind", WIRES)
ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def events_of(kind: str, turn: Turn) -> list[Mapping[str, Any]]:
    """Return the events' data, as the vendors' packages deliver it."""
    if kind == "chat":
        events = Chat().stream(turn, 1, MODEL, usage=True)
    else:
        events = (Messages() if kind == "anthropic" else Responses()).stream(turn, 1, MODEL)
    return [data for _name, data in events if not isinstance(data, str)]


def read(kind: str, turn: Turn, *, streamed: bool, asked: ModelRequest = ASKED) -> ModelReply:
    wire = WIRES[kind]
    if streamed:
        assembly = wire.assembly()
        for event in events_of(kind, turn):
            assembly.add(event)
        assert assembly.complete
        return wire.read(assembly.reply, asked)
    shape: Messages | Chat | Responses = SHAPES[kind]
    return wire.read(json.loads(json.dumps(shape.reply(turn, 1, MODEL))), asked)


def called(answer: ModelReply) -> list[tuple[str, Any, str]]:
    return [(use.name, dict(use.arguments), use.problem) for use in answer.uses]


# --- reading replies ------------------------------------------------------------------------------------------------------


@kinds
def test_a_streamed_answer_is_the_answer_in_one_piece(kind: str) -> None:
    calls = (Call("kb_find", {"query": 'ä "quoted"\nplan', "n": [1, {"deep": None}]}), Call("kb_map"))
    turn = Turn("Größe: 3 €\n\nand more", calls=calls, thoughts="it is long, this thought", cached=40)
    whole, streamed = read(kind, turn, streamed=False), read(kind, turn, streamed=True)
    assert streamed == replace(whole, echo=streamed.echo)
    assert [use.arguments for use in whole.uses] == [call.arguments for call in calls]
    for answer in (whole, streamed):
        assert (answer.echo is None) == (kind == "chat")
        if answer.echo:
            assert whole.echo
            assert json.loads(answer.echo.content) == json.loads(whole.echo.content)


@kinds
def test_a_stream_cut_anywhere_is_complete_or_not_taken_for_it(kind: str) -> None:
    turn = Turn("It is in the plan", calls=(Call("kb_find", {"query": "what is the plan"}),))
    events, full = events_of(kind, turn), read(kind, turn, streamed=True)
    taken = 0
    for end in range(len(events)):
        assembly = WIRES[kind].assembly()
        for event in events[:end]:
            assembly.add(event)
        # Reading the usage must work from any part of it, because the usage of a broken stream is read this way.
        WIRES[kind].used(assembly.reply)
        if assembly.complete:
            taken += 1
            assert called(WIRES[kind].read(assembly.reply, ASKED)) == called(full)
    # Only Chat Completions report the usage after the end of the answer.
    assert taken == (1 if kind == "chat" else 0)


QUIRKS = ["no_ids", "same_ids", "same_index", "objects", "stop", "parts", "usage_in_all", "no_null", "no_usage"]


@ways
@pytest.mark.parametrize("quirks", [*([quirk] for quirk in QUIRKS), ["no_index"], ["no_index", "no_ids"]], ids="-".join)
def test_servers_that_follow_the_vendor_only_nearly_are_understood(quirks: list[str], *, streamed: bool) -> None:
    calls = (Call("kb_find", {"query": "ä plan"}), Call("kb_read", {"path": "a.md"}))
    answer = read("chat", Turn("I look.", calls=calls, quirks=frozenset(quirks)), streamed=streamed)
    assert (answer.text, answer.stop) == ("I look.", "tools")
    assert called(answer) == [("kb_find", {"query": "ä plan"}, ""), ("kb_read", {"path": "a.md"}, "")]
    assert len({use.id for use in answer.uses}) == len(calls)
    assert answer.usage.known == (quirks != ["no_usage"])


def test_ids_that_are_made_are_the_same_again_and_others_later_in_the_conversation() -> None:
    """Mistral's servers accept nine letters and digits."""
    turn = Turn(calls=(Call("a"), Call("b")), quirks=frozenset({"no_ids"}))
    later = replace(ASKED, messages=(*ASKED.messages, FromUser("and?")))
    first, again, other = (read("chat", turn, streamed=False, asked=asked) for asked in (ASKED, ASKED, later))
    assert first == again
    ids = [use.id for use in (*first.uses, *other.uses)]
    assert len(set(ids)) == 4
    assert all(len(use) == 9 and use.isalnum() for use in ids)


def test_the_old_way_to_call_a_function_is_understood() -> None:
    turn = Turn(calls=(Call("kb_find", {"query": "x"}),), quirks=frozenset({"legacy"}))
    assert called(read("chat", turn, streamed=False)) == [("kb_find", {"query": "x"}, "")]


def test_a_last_event_without_its_output_is_filled_from_those_before() -> None:
    turn = Turn("I look.", calls=(Call("kb_find", {"query": "x"}),), quirks=frozenset({"bare_end"}))
    answer = read("responses", turn, streamed=True)
    assert (answer.text, called(answer)) == ("I look.", [("kb_find", {"query": "x"}, "")])


@ways
@kinds
def test_the_last_use_of_an_answer_that_was_cut_off_is_never_to_be_called(kind: str, *, streamed: bool) -> None:
    """Its arguments may be valid JSON by chance, and still incomplete."""
    calls = (Call("kb_find", {"query": "a"}), Call("kb_find", {"query": "b"}))
    answer = read(kind, Turn(calls=calls, stop=LENGTH[kind]), streamed=streamed)
    assert answer.stop == "length"
    assert "cut off" in answer.uses[-1].problem
    assert dict(answer.uses[-1].arguments) == {}


@pytest.mark.parametrize(
    ("kind", "streamed"), [("anthropic", True), ("chat", False), ("chat", True), ("responses", True)]
)
def test_arguments_that_cannot_be_read_are_a_use_with_a_problem(kind: str, *, streamed: bool) -> None:
    answer = read(kind, Turn(calls=(Call("kb_find", '{"query": "cut of'),)), streamed=streamed)
    assert (dict(answer.uses[0].arguments), bool(answer.uses[0].problem), answer.stop) == ({}, True, "tools")


@pytest.mark.parametrize("written", ["{not json", '["a list"]', "NaN", '{"n": NaN}', "[" * 5_000, "3"])
def test_invalid_arguments_are_no_arguments(written: str) -> None:
    """All wires read arguments in this one way."""
    arguments, problem = arguments_of(written)
    assert (arguments, bool(problem)) == ({}, True)


@pytest.mark.parametrize("written", ["", "  ", None, "{}", {}, '"{}"', "null"])
def test_missing_arguments_have_many_forms(written: object) -> None:
    assert arguments_of(written) == ({}, "")


def test_arguments_may_be_json_within_json_or_contain_raw_line_breaks() -> None:
    assert arguments_of(json.dumps('{"a": 1}')) == ({"a": 1}, "")
    assert arguments_of('{"text": "one\ntwo"}') == ({"text": "one\ntwo"}, "")


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_a_filtered_answer_is_a_refusal(kind: str) -> None:
    with pytest.raises(ModelRefused, match="content_filter"):
        read(kind, said("half of", stop="content_filter"), streamed=False)


def test_an_answer_of_blank_lines_is_read_in_steps_that_are_few() -> None:
    """No timing: models that are to write JSON may write line breaks until they are cut off.

    If each were parsed as a whole, no test would end.
    """
    assert json_in("```json\n" + "\n" * 100_000) is None
    assert json_in("```" + " \n" * 100_000 + "x") is None
    assert json_in('```json \n\n\n{"a": 1}\n\n   ```') == {"a": 1}


def test_thoughts_that_small_models_write_into_their_text_are_left_out() -> None:
    assert without_thoughts("<think>\nlong\n</think>\n\nIt is so.") == "It is so."
    assert without_thoughts("He wrote <think>x</think>.") == "He wrote <think>x</think>."
    assert without_thoughts("long\nand short\n</think>\n\nIt is so.\n") == "It is so.\n"
    assert without_thoughts("It ends\n</think> is a tag.") == "It ends\n</think> is a tag."
    assert without_thoughts("long\n" * 100_000) == "long\n" * 100_000


def test_a_word_for_the_end_that_nobody_knows_is_no_end() -> None:
    assert read("anthropic", said("…", stop="pause_turn"), streamed=False).stop == "other"
    assert read("chat", said("…", stop="tired"), streamed=True).stop == "other"


@pytest.mark.parametrize(
    "text", ['{"a": {"b": 1}}', 'So:\n```json\n{"a": {"b": 1}}\n```\nOK?', 'It is {"a": {"b": 1}}, I think']
)
def test_json_is_found_in_a_models_text(text: str) -> None:
    assert json_in(text) == {"a": {"b": 1}}


@pytest.mark.parametrize("text", ["", "no", "[1]", "{", '{"a": Infinity}'])
def test_text_without_a_json_object_gives_none(text: str) -> None:
    assert json_in(text) is None


def test_a_misfit_says_where_and_by_which_rule() -> None:
    shape = Shape("x", {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}, "required": ["n"]})
    assert misfit({"n": 5}, shape) == ""
    assert misfit({"n": 9}, shape) == "n: maximum is 5"
    assert misfit({}, shape).startswith("the whole: required")
    assert misfit(None, shape) == "it is not a JSON object"


def test_a_schema_is_closed_all_the_way_down_and_keeps_its_own_names() -> None:
    """A property may have a keyword's name."""
    schema = {
        "type": "object",
        "properties": {
            "maximum": {"type": "integer", "maximum": 5},
            "items": {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {}}},
            "one": {"oneOf": [{"type": "string", "minLength": 1}, {"type": "null"}]},
        },
        "required": ["maximum"],
    }
    assert closed(schema) == {
        "type": "object",
        "properties": {
            "maximum": {"type": "integer"},
            "items": {"type": "array", "items": {"type": "object", "properties": {}, "additionalProperties": False}},
            "one": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["maximum"],
        "additionalProperties": False,
    }


# --- requests -------------------------------------------------------------------------------------------------------------

texts = st.sampled_from(["", "  ", "\n", "Hello", "Größe\n", '{"a": 1}'])
names = st.sampled_from(["kb_find", "functions.kb find", "", "näme" * 30])
some_arguments = st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=5), max_size=2)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Message, ...]:
    """Draw a history that a loop could have, over several vendors, with the last turn from the user or a tool."""
    messages: list[Message] = [FromUser("the goal")]
    for number in range(draw(st.integers(0, 4))):
        count = draw(st.integers(0, 3))
        ids = [f"{draw(st.sampled_from(['toolu_', 'call.', 'x:']))}{number}_{place}" for place in range(count)]
        uses = tuple(ToolUse(use, draw(names), draw(some_arguments)) for use in ids)
        echo = draw(st.sampled_from([None, Echo("elsewhere", MODEL, "sealed"), Echo("openai", "another", "[1]")]))
        messages.append(FromModel(draw(texts), uses, echo))
        messages.extend(FromTool(use, draw(texts), draw(st.booleans())) for use in draw(st.permutations(ids)))
        messages.extend(FromUser(text) for text in draw(st.lists(texts, max_size=2)))
    if isinstance(messages[-1], FromModel) or not getattr(messages[-1], "text", "").strip():
        messages.append(FromUser("Go on."))
    return tuple(messages)


@given(histories(), st.sampled_from(["free", "some", "none"]), st.sampled_from(["", "kb_find"]))
def test_every_history_makes_requests_that_every_vendor_accepts(
    history: tuple[Message, ...], tool_choice: ToolChoice, only: str
) -> None:
    asked = replace(ASKED, messages=history, tool_choice=tool_choice, only=only, most_tokens=5)
    for kind, wire in WIRES.items():
        body = json.loads(json.dumps(wire.request(asked, frozenset(), None, streamed=False).body))
        if kind == "anthropic":
            double._check_messages(body, "2023-06-01")
        else:
            first = double._check_chat(body) if kind == "chat" else double._check_responses(body)
            assert first.startswith("the goal")


@kinds
def test_nothing_that_was_said_is_left_out_of_the_history(kind: str) -> None:
    use = ToolUse("call_1", "kb_find", {"query": "needle-1"})
    history = (
        FromUser("needle-2"),
        FromUser("needle-3"),
        FromModel("needle-4", (use,)),
        FromTool("call_1", "needle-5", failed=True),
        FromUser("needle-6"),
    )
    asked = replace(ASKED, messages=history, system="needle-7")
    sent = json.dumps(WIRES[kind].request(asked, frozenset(), None, streamed=False).body)
    assert [f"needle-{number}" in sent for number in range(1, 8)] == [True] * 7


@pytest.mark.parametrize(
    "history",
    [
        (),
        (FromUser("  "),),
        (FromModel("I begin"), FromUser("hello")),
        (FromUser("hello"), FromModel("bye")),
        (FromUser("hello"), FromModel("", (ToolUse("a", "x", {}),))),
        (FromUser("hello"), FromModel("", (ToolUse("a", "x", {}),)), FromUser("well?")),
        (FromUser("hello"), FromModel("", (ToolUse("a", "x", {}),)), FromTool("b", "?")),
        (FromUser("hello"), FromTool("a", "?")),
    ],
)
def test_a_history_that_no_vendor_accepts_is_the_callers_mistake(history: tuple[Message, ...]) -> None:
    with pytest.raises(ValueError, match=r"user|use"):
        turns_of(replace(ASKED, messages=history))


def test_thoughts_go_back_only_to_the_model_that_had_them() -> None:
    for kind in ("anthropic", "responses"):
        answer = read(kind, Turn("I look.", calls=(Call("kb_find"),), thoughts="hm"), streamed=False)
        asked = replace(ASKED, messages=(*ASKED.messages, answer.as_message(), FromTool(answer.uses[0].id, "found")))
        other: Wire = AnthropicWire("other") if kind == "anthropic" else ResponsesWire("other")
        sealed = "signed-1" if kind == "anthropic" else "sealed-1"
        assert sealed in json.dumps(WIRES[kind].request(asked, frozenset(), None, streamed=False).body)
        assert sealed not in json.dumps(other.request(asked, frozenset(), None, streamed=False).body)


@pytest.mark.parametrize("kind", ["anthropic", "responses"])
def test_thoughts_go_back_under_the_ids_that_a_caller_has_for_the_uses(kind: str) -> None:
    """A loop may have its own ids; a call with unreadable arguments is sent with empty ones."""
    turn = Turn("I look.", calls=(Call("kb_find", {"query": "a"}), Call("kb_find", "{not")), thoughts="hm")
    answer = read(kind, turn, streamed=True)
    uses = tuple(replace(use, id=f"mine-{number}") for number, use in enumerate(answer.uses))
    results = tuple(FromTool(use.id, "found") for use in uses)
    said_before = FromModel(answer.text, uses, answer.echo)
    asked = replace(ASKED, messages=(*ASKED.messages, said_before, *results))
    body = json.loads(json.dumps(WIRES[kind].request(asked, frozenset(), None, streamed=False).body))
    if kind == "anthropic":
        double._check_messages(body, "2023-06-01")
    else:
        double._check_responses(body)
    assert ("signed-1" if kind == "anthropic" else "sealed-1") in json.dumps(body)
    fewer = replace(asked, messages=(*ASKED.messages, replace(said_before, uses=uses[:1]), results[0]))
    assert "ed-1" not in json.dumps(WIRES[kind].request(fewer, frozenset(), None, streamed=False).body)


def test_a_messages_purpose_is_sent_back_with_it_if_there_was_no_thought() -> None:
    """Without it newer models do worse: openai/types/responses/response_output_message.py."""
    answer = read("responses", Turn("I look.", (Call("kb_find"),), quirks=frozenset({"phase"})), streamed=True)
    asked = replace(ASKED, messages=(*ASKED.messages, answer.as_message(), FromTool(answer.uses[0].id, "found")))
    body = json.loads(json.dumps(WIRES["responses"].request(asked, frozenset(), None, streamed=False).body))
    double._check_responses(body)
    assert [item.get("phase") for item in body["input"]] == [None, "commentary", None, None]


@pytest.mark.parametrize("tools", [(), (TOOL,)])
def test_only_a_history_that_continues_is_cached(tools: tuple[ToolDefinition, ...]) -> None:
    """Cache writes cost a quarter more: https://platform.claude.com/docs/en/build-with-claude/prompt-caching."""
    request = WIRES["anthropic"].request(replace(ASKED, tools=tools), frozenset(), None, streamed=False)
    assert ("cache_control" in request.body, "cache_control" in request.parts) == (bool(tools), bool(tools))


@pytest.mark.parametrize(("told", "whole"), [(1_000, 1_000), (3, 903)])
def test_cached_tokens_are_part_of_the_usage_in_any_form(told: int, whole: int) -> None:
    """Counted in addition, a run would cost less than nothing."""
    details = {"cached_tokens": 700, "cache_write_tokens": 200}
    usage = {"prompt_tokens": told, "completion_tokens": 5, "prompt_tokens_details": details}
    assert WIRES["chat"].used({"usage": usage}) == ModelUsage(whole, 5, 700, 200)
    usage = {"input_tokens": told, "output_tokens": 5, "input_tokens_details": details}
    assert WIRES["responses"].used({"usage": usage}) == ModelUsage(whole, 5, 700, 200)


@pytest.mark.parametrize("text", ["\n\n", "I look."])
def test_thoughts_go_back_without_the_blank_text_that_came_between_them_and_the_use(text: str) -> None:
    """Models write it, and the API refuses it: https://github.com/anthropics/claude-code/issues/23440."""
    answer = read("anthropic", Turn(text, calls=(Call("kb_find"),), thoughts="hm"), streamed=True)
    asked = replace(ASKED, messages=(*ASKED.messages, answer.as_message(), FromTool(answer.uses[0].id, "found")))
    body = json.loads(json.dumps(WIRES["anthropic"].request(asked, frozenset(), None, streamed=False).body))
    double._check_messages(body, "2023-06-01")
    kinds = [block["type"] for block in body["messages"][1]["content"]]
    assert kinds == (["thinking", "text", "tool_use"] if text.strip() else ["thinking", "tool_use"])


# --- failures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind", "passing"),
    [
        (429, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, "limited", True),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "overloaded", True),
        (200, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "overloaded", True),
        (200, {"error": {"code": "rate_limit_exceeded", "message": "slow"}}, "limited", True),
        (200, {"error": {"code": 502, "message": "upstream"}}, "overloaded", True),
        (200, {"type": "error", "code": "server_error", "message": "?"}, "overloaded", True),
        (429, {"message": "You exceeded your current quota", "type": "insufficient_quota"}, "spent", False),
        (400, {"error": {"message": "You have reached your specified API usage limits."}}, "spent", False),
        (429, {"error": {"type": "rate_limit_error", "details": {"error_code": SPENT_UP}}}, "spent", False),
        (429, [{"error": {"code": 429, "message": GEMINI_BUSY}}], "limited", True),
        (
            400,
            {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400},
            "long",
            False,
        ),
        (413, "request too large", "long", False),
        (400, {"error": {"code": "content_filter", "message": "filtered"}}, "refused", False),
        (401, None, "key", False),
        (403, {"detail": "no"}, "key", False),
        (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}], "key", False),
        (
            400,
            [{"error": {"code": 400, "message": "Function call is missing a thought_signature."}}],
            "rejected",
            False,
        ),
        (400, {"error": {"message": "invalid tool: api key lookup"}}, "rejected", False),
        (400, [], "rejected", False),
        (404, {"error": "model not found"}, "rejected", False),
        (501, {}, "overloaded", False),
        (307, "", "rejected", False),
    ],
)
def test_errors_in_every_shape_are_judged(status: int, body: object, kind: Kind, *, passing: bool) -> None:
    failure = failure_of(status, body, {}, NOW)
    assert (failure.kind, failure.passing) == (kind, passing)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "Fri, 02 Jan 2026 03:04:35 GMT"}, 30.0),
        ({"retry-after": "Fri, 02 Jan 2026 03:04:00 GMT"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read_in_every_form(headers: Mapping[str, str], wait_s: float | None) -> None:
    assert failure_of(429, {}, headers, NOW).wait_s == wait_s


@pytest.mark.parametrize(
    ("message", "headers", "wait_s"),
    [
        (GEMINI_BUSY, {}, 45.5),
        ("Rate limit reached. Please try again in 120ms.", {}, 0.12),
        ("Please try again in 20s.", {"retry-after": "3"}, 3.0),
        ("Please try again in 2m3s.", {}, None),
    ],
)
def test_how_long_to_wait_is_read_from_words_where_no_header_says_it(
    message: str, headers: Mapping[str, str], wait_s: float | None
) -> None:
    assert failure_of(429, {"error": {"message": message}}, headers, NOW).wait_s == wait_s


WRONG_PARTS = [
    {
        "type": "extra_forbidden",
        "loc": ["body", "stream_options", "include_usage"],
        "msg": "Extra inputs are not permitted",
        "input": "temperature",
    }
]


@pytest.mark.parametrize(
    "body",
    [
        {"object": "error", "message": {"detail": WRONG_PARTS}, "type": "invalid_request_error"},
        {"object": "Error", "message": WRONG_PARTS, "detail": WRONG_PARTS, "code": 3001},
        {"detail": WRONG_PARTS},
    ],
)
def test_a_list_of_wrong_parts_is_read_where_others_have_a_sentence(body: object) -> None:
    """Mistral's and FastAPI's. Source: https://github.com/avante-corp/avante.nvim/issues/2347."""
    message = failure_of(422, body, {}, NOW).message
    assert message == "body.stream_options.include_usage Extra inputs are not permitted"


def test_only_a_vendors_codes_are_repeated_and_no_sentences() -> None:
    """A sentence may quote the request, and a key."""
    failure = failure_of(
        400, {"error": {"type": "bad thing: the page says", "code": "sk-a b", "message": "secret"}}, {}, NOW
    )
    assert (failure.code, failure.param) == ("", "")
    assert "secret" not in repr(failure)


def test_usage_that_is_partly_unknown_is_unknown() -> None:
    assert ModelUsage(1, 2) + ModelUsage(3, 4, 1, 1) == ModelUsage(4, 6, 1, 1)
    assert not (ModelUsage(1, 2) + ModelUsage(known=False)).known
    assert RequestFailure(why="x").usage == ModelUsage()


@pytest.mark.parametrize(
    "reply", [{}, {"usage": None}, {"usage": {}}, {"usage": {"input_tokens": None}}, {"usage": [1]}]
)
@kinds
def test_missing_usage_is_not_taken_for_zero(kind: str, reply: Mapping[str, Any]) -> None:
    assert WIRES[kind].used(reply) == ModelUsage(known=False)


WORDS = [
    "choices",
    "content",
    "message",
    "output",
    "type",
    "delta",
    "tool_calls",
    "usage",
    "stop_reason",
    "error",
    "status",
]
odd_things = st.recursive(
    st.none() | st.integers() | st.sampled_from(["", "tool_use", "text", "function_call", "message"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from([*WORDS, "index", "function", "input_tokens", "prompt_tokens"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(odd_things)
def test_no_reply_or_event_however_odd_makes_it_fall_over(odd: object) -> None:
    """Anything that is no answer is reported as unusable or refused; otherwise a person would see a crash."""
    reply = odd if isinstance(odd, dict) else {"choices": odd, "content": odd, "output": odd}
    for wire in WIRES.values():
        assembly = wire.assembly()
        for event in (reply, {"type": "content_block_delta", **reply}, {"type": "message_start", "message": odd}):
            assembly.add(event)
        for candidate in (reply, assembly.reply):
            wire.error_in(candidate)
            wire.used(candidate)
            _read_or_told(wire, candidate)
    failure_of(400, odd, {}, NOW)


def _read_or_told(wire: Wire, reply: Mapping[str, Any]) -> None:
    try:
        answer = wire.read(reply, ASKED)
    except (UnusableReply, ModelRefused):
        return
    assert isinstance(answer.text, str)
