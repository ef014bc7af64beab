"""The port's promises for every wire format, in one piece and streamed.

The same against real services if configured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from agents.loop.model.errors import BadKey
from agents.loop.model.ports import FromTool, FromUser, ModelRequest, Provider, Shape, ToolDefinition
from agents.loop.providers.access import Access, RequestPatience
from tests.doubles.provider_turns import Call, Turn, said
from tests.support.runs.providers import IN_ONE, IN_PIECES, KINDS, Place, double_of, real

WEATHER = ToolDefinition(
    "get_weather",
    "Return the weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
)
CLOCK = ToolDefinition(
    "get_time", "Return the time.", {"type": "object", "properties": {}, "additionalProperties": False}
)
VERDICT = Shape(
    "verdict",
    {
        "type": "object",
        "properties": {
            "verdict": {"type": "string", "enum": ["yes", "no"]},
            "sure": {"type": "integer", "minimum": 1, "maximum": 5},
        },
        "required": ["verdict", "sure"],
        "additionalProperties": False,
    },
)
CONVERSATION = "test_iter1_0a1b2c3d"


@pytest.fixture(
    scope="module",
    params=[
        *((kind, "double") for kind in KINDS),
        *(pytest.param((kind, "real"), marks=pytest.mark.external) for kind in KINDS),
    ],
    ids="-".join,
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    kind, where = request.param
    with double_of(kind) if where == "double" else real(kind) as opened:
        yield opened


@pytest.fixture(params=[IN_ONE, IN_PIECES], ids=["whole", "streamed"])
def patience(request: pytest.FixtureRequest) -> RequestPatience:
    chosen: RequestPatience = request.param
    return chosen


def asking(words: str, *tools: ToolDefinition) -> ModelRequest:
    return ModelRequest(CONVERSATION, (FromUser(words),), tools=tools, most_tokens=1_000)


async def test_a_question_is_answered_in_words_with_its_usage(place: Place, patience: RequestPatience) -> None:
    words = "Answer with the single word Yes."
    place.will(words, said("Yes", input=120, output=7, cached=20))
    async with place.provider(patience) as opened:
        provider: Provider = opened
        answer = await provider.complete(asking(words))
    assert "yes" in answer.text.lower()
    assert (answer.uses, answer.stop) == ((), "end")
    assert answer.usage.known
    assert answer.usage.input >= answer.usage.cached
    assert answer.usage.output > 0
    assert answer.model
    assert answer.request
    if place.model:
        assert (answer.usage.input, answer.usage.output, answer.usage.cached) == (120, 7, 20)


async def test_a_tool_is_used_its_result_is_understood_and_thoughts_go_back(
    place: Place, patience: RequestPatience
) -> None:
    """A whole turn, as the loop makes it: use, result, answer.

    Encrypted thoughts must be sent back, or the request is refused.
    """
    words = "What is the weather in Köln? Use the tool, then answer with the temperature as a number."
    use = Turn("I look.", calls=(Call("get_weather", {"city": "Köln"}),), thoughts="a city, so the weather")
    place.will(words, use, said("It is 21 degrees."))
    async with place.provider(patience) as provider:
        asked = replace(asking(words, WEATHER, CLOCK), only="get_weather")
        first = await provider.complete(asked)
        assert first.stop == "tools"
        assert [(found.name, found.problem) for found in first.uses] == [("get_weather", "")]
        assert first.uses[0].arguments["city"].startswith("K")
        told = FromTool(first.uses[0].id, '{"celsius": 21}')
        second = await provider.complete(replace(asked, only="", messages=(*asked.messages, first.as_message(), told)))
    assert "21" in second.text
    assert second.stop == "end"


async def test_several_uses_in_one_answer_keep_their_order_and_a_failure_is_reported(
    place: Place, patience: RequestPatience
) -> None:
    words = "Get the weather in Rome and the time with your tools, both at once; if one fails, say FAILED."
    calls = (Call("get_weather", {"city": "Rome"}), Call("get_time"))
    place.will(words, Turn(calls=calls), said("FAILED"))
    async with place.provider(patience) as provider:
        asked = replace(asking(words, WEATHER, CLOCK), tool_choice="some")
        first = await provider.complete(asked)
        assert len({use.id for use in first.uses}) == len(first.uses) > 0
        results = tuple(FromTool(use.id, "the service is down", failed=True) for use in reversed(first.uses))
        again = replace(asked, tool_choice="none", messages=(*asked.messages, first.as_message(), *results))
        second = await provider.complete(again)
    if place.model:
        assert [(use.name, dict(use.arguments)) for use in first.uses] == [
            ("get_weather", {"city": "Rome"}),
            ("get_time", {}),
        ]
    assert "failed" in second.text.lower()
    assert second.uses == ()


async def test_a_truncated_answer_is_marked(place: Place, patience: RequestPatience) -> None:
    words = "Count from one to five hundred, in words."
    stop = {"anthropic": "max_tokens", "chat": "length", "responses": "max_output_tokens"}[place.kind]
    place.will(words, said("one two three", stop=stop))
    async with place.provider(patience) as provider:
        answer = await provider.complete(replace(asking(words), most_tokens=16))
    assert answer.stop == "length"


async def test_json_has_the_shape_that_was_asked_for(place: Place) -> None:
    words = "Is water wet? Say how sure you are, 1 to 5."
    place.will(words, said('{"verdict": "yes", "sure": 4}'))
    async with place.provider() as provider:
        told = await provider.complete_json(asking(words), VERDICT)
    assert told.value["verdict"] in ("yes", "no")
    assert told.value["sure"] in range(1, 6)
    assert told.usage.known


async def test_json_after_a_history_with_tools_is_possible(place: Place) -> None:
    """A run's summary is requested with the whole run as history."""
    words = "Use the tool for the weather in Oslo; I ask you about it later."
    place.will(words, Turn(calls=(Call("get_weather", {"city": "Oslo"}),)), said('{"verdict": "no", "sure": 5}'))
    async with place.provider() as provider:
        asked = replace(asking(words, WEATHER), only="get_weather")
        first = await provider.complete(asked)
        results = [FromTool(use.id, '{"celsius": -3}') for use in first.uses]
        ask = FromUser("Is it warm there?")
        again = replace(asked, messages=(*asked.messages, first.as_message(), *results, ask))
        told = await provider.complete_json(again, VERDICT)
    assert told.value["verdict"] == "no"


async def test_a_wrong_key_is_named_by_its_setting_and_never_shown(place: Place) -> None:
    wrong = "sk-wrong-do-not-show-0000"
    if not place.access.key:
        pytest.skip("that server takes no key")
    access = Access(place.access.model, wrong, place.access.address, key_setting="THE_KEY")
    async with place.provider(access=access) as provider:
        with pytest.raises(BadKey, match="THE_KEY") as caught:
            await provider.complete(asking("Hello"))
        assert wrong not in repr(provider) + repr(access)
    error: BaseException | None = caught.value
    while error:
        assert wrong not in f"{error} {error.__dict__}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
